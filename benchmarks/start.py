"""From `wmtop demo` to the first paint and to the first data, cold, through a pseudo-terminal (goals: 0.3 s, 4 s)."""

import os
import pty
import select
import signal
import statistics
import subprocess
import sys
import time
from contextlib import suppress

from .machine import cpu_by_part

RUNS = 3
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
"""As a user has it: compiled modules are kept."""
LIMIT_S = 180.0
END_S = 30.0


def run_once() -> tuple[float, float, dict[str, float]]:
    """Seconds to the first paint of the screen and to the first picture with data, and what took CPU until then."""
    master, slave = pty.openpty()
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "wmtop.tui.cli", "demo"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env={**ENVIRONMENT, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "36"},
    )
    os.close(slave)
    seen, paint = b"", 0.0
    try:
        while time.monotonic() - began < LIMIT_S:
            if select.select([master], [], [], 0.05)[0]:
                seen += os.read(master, 65_536)
            if not paint and b"wmtop" in seen:
                paint = time.monotonic() - began
            if b"LIVE" in seen:
                return paint, time.monotonic() - began, cpu_by_part(process.pid)
        raise TimeoutError(f"no data within {LIMIT_S} s")
    finally:
        os.write(master, b"q")
        read_until_it_ends(process, master)
        os.close(master)


def read_until_it_ends(process: "subprocess.Popen[bytes]", master: int) -> None:
    """Reads the screen's output, or it would block; kills it if it does not end."""
    deadline = time.monotonic() + END_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError):  # its side is closed
            if select.select([master], [], [], 0.05)[0]:
                os.read(master, 65_536)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> None:
    """Print the table; the first run may be without the class-data archive, which it then makes."""
    print("| run | first paint | first data |\n| --- | --- | --- |")
    results: list[tuple[float, float]] = []
    parts: list[dict[str, float]] = []
    for number in range(1, RUNS + 1):
        paint, data, spent = run_once()
        results.append((paint, data))
        parts.append(spent)
        print(f"| {number} | {paint:.2f} s | {data:.1f} s |", flush=True)
    paint, data = (statistics.median(run[side] for run in results) for side in (0, 1))
    print(f"| median | {paint:.2f} s | {data:.1f} s |\n\n| CPU until the first data | median |\n| --- | --- |")
    for part in parts[-1]:
        print(f"| {part} | {statistics.median(run.get(part, 0) for run in parts):.1f} s |")


if __name__ == "__main__":
    main()
