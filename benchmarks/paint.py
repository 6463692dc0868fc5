"""From the command to the first paint through a pseudo-terminal, with nothing to wait for (goals: 0.3 and 0.7 s).

`demo` is ended as soon as its start screen is painted; `attach` shows the 1,000 channels of a run whose stream exists.
"""

import fcntl
import os
import pty
import random
import select
import statistics
import struct
import subprocess
import sys
import termios
import time

from wmtop.engine.feed import run_directory
from wmtop.engine.feed.messages import Header, Reply
from wmtop.engine.feed.publisher import Publisher
from wmtop.engine.feed.run_directory import RUN_DIR_VARIABLE
from wmtop.engine.watermarks.monitor import new_monitor
from wmtop.engine.watermarks.settings import Settings

from .machine import process_cpu_s, scratch
from .screen import feed
from .start import ENVIRONMENT, read_until_it_ends

RUNS, LIMIT_S = 40, 30.0


def first_paint(arguments: list[str], mark: bytes) -> tuple[float, float]:
    """Seconds until the screen has painted `mark`, and the CPU seconds that the process has used by then."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "wmtop.tui.cli", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env={**ENVIRONMENT, RUN_DIR_VARIABLE: os.environ[RUN_DIR_VARIABLE], "TERM": "xterm-256color"},
    )
    os.close(slave)
    seen = b""
    try:
        while time.monotonic() - began < LIMIT_S:
            if select.select([master], [], [], 0.05)[0]:
                seen += os.read(master, 65_536)
            if mark in seen:
                return time.monotonic() - began, process_cpu_s(process.pid)
        raise TimeoutError(f"nothing painted within {LIMIT_S} s")
    finally:
        os.write(master, b"q")
        read_until_it_ends(process, master)
        os.close(master)


def row(name: str, arguments: list[str], mark: bytes) -> None:
    """One row of the table."""
    runs = [first_paint(arguments, mark) for _ in range(RUNS + 1)][1:]
    seconds = sorted(wall for wall, _ in runs)
    cpu = statistics.median(spent for _, spent in runs)
    middle, late = statistics.median(seconds), seconds[int(len(seconds) * 0.95)]
    print(f"| {name} | {middle:.2f} / {late:.2f} s | {seconds[0]:.2f} s | {cpu:.2f} s |", flush=True)


def main() -> None:
    """Print the table."""
    print("| first paint | p50 / p95 | least | CPU of the screen's process |\n| --- | --- | --- | --- |")
    with scratch():
        monitor = new_monitor(Settings(idle_after_ms=3_600_000))
        with run_directory.claim("bench", "benchmark", time.time_ns() // 1_000_000) as claim:
            run = claim.run
            header = Header(
                name="bench", pid=os.getpid(), started_ms=run.started_ms, id=run.id, settings=monitor.settings
            )
            with Publisher(run.socket, header, lambda command: Reply(id=command.id, ok=True)) as publisher:
                publisher.publish(feed(monitor, 0, random.Random(5), 1_000))
                row("`attach`, its table", ["attach", "bench"], b"events-")
        row("`demo`, its start screen", ["demo"], b"wmtop")


if __name__ == "__main__":
    main()
