"""The screen on 1,000 and 10,000 channels through a pseudo-terminal.

Goals: a key in 50 ms at p95, under 5 % of a core at 1 Hz.

A real monitor is fed random batches here and its snapshots go through the real stream to `wmtop` in a child process.
`key` is from writing a key to the last byte of what it repaints, `path` from publishing a snapshot to the last byte.
"""

import fcntl
import os
import pty
import random
import select
import statistics
import struct
import sys
import termios
import time
from collections.abc import Callable

from wmtop.engine.feed import run_directory
from wmtop.engine.feed.messages import Header, Reply
from wmtop.engine.feed.publisher import Publisher
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.verdict.monitor_snapshot import snapshot_of
from wmtop.engine.watermarks.monitor import Monitor, new_monitor
from wmtop.engine.watermarks.observation import BatchObservation, Group
from wmtop.engine.watermarks.settings import Settings

from .machine import process_cpu_s, scratch

CHANNELS, HOUR_MS, STEP_MS = (1_000, 10_000), 3_600_000, 60_000
KEYS, SNAPSHOTS, IDLE_S, SETTLED_S = 60, 60, 15, 0.02
START_MS = 1_700_000_000_000


def feed(monitor: Monitor, number: int, rng: random.Random, channels: int) -> Snapshot:
    """Some records of half of the channels, and the picture after them."""
    now = START_MS + number * STEP_MS
    groups = [
        Group(f"events-{c}", ts - ts % HOUR_MS, False, 1 + 500 // (c + 1), max_event_ms=ts)
        for c in range(channels)
        if rng.random() < 0.5 and (ts := now - rng.randrange(20 * STEP_MS))
    ]
    monitor.apply(BatchObservation(batch=number, now_ms=now, groups=groups))
    return snapshot_of(monitor, name="bench", state="live", wall_ms=time.time_ns() // 1_000_000)


class Terminal:
    """`wmtop` with some arguments in a pseudo-terminal of a given size."""

    def __init__(self, columns: int, rows: int, *arguments: str) -> None:
        self.pid, self._fd = pty.fork()
        if not self.pid:
            os.environ["TERM"] = "xterm-256color"
            os.execv(sys.executable, [sys.executable, "-m", "wmtop.tui.cli", *arguments])
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, timeout_s: float) -> bytes:
        """What comes within the timeout."""
        return os.read(self._fd, 1 << 20) if select.select([self._fd], [], [], timeout_s)[0] else b""

    def quiet(self) -> None:
        """Wait until nothing is painted."""
        while self.read(0.05):
            pass

    def painted_ms(self, action: Callable[[], object]) -> float | None:
        """From `action` to the last byte of what it makes the screen paint (ms)."""
        began = last = time.monotonic()
        action()
        if not self.read(1.0):
            return None
        last = time.monotonic()
        while self.read(SETTLED_S):
            last = time.monotonic()
        return (last - began) * 1000

    def key(self, key: bytes) -> float | None:
        """The same for a key."""
        return self.painted_ms(lambda: os.write(self._fd, key))

    def close(self) -> None:
        """Quit the screen."""
        os.write(self._fd, b"q")
        os.waitpid(self.pid, 0)
        os.close(self._fd)


def measure(channels: int, columns: int, rows: int) -> None:
    """One row of the table."""
    rng = random.Random(5)
    monitor = new_monitor(Settings(idle_after_ms=HOUR_MS))
    with run_directory.claim("bench", "benchmark", time.time_ns() // 1_000_000) as claim:
        run = claim.run
        header = Header(name="bench", pid=os.getpid(), started_ms=run.started_ms, id=run.id, settings=monitor.settings)
        with Publisher(claim.run.socket, header, lambda command: Reply(id=command.id, ok=True)) as publisher:
            publisher.publish(feed(monitor, 0, rng, channels))
            terminal = Terminal(columns, rows)
            while b"bench" not in terminal.read(10):
                pass
            terminal.quiet()
            pictures = [feed(monitor, number, rng, channels) for number in range(1, SNAPSHOTS + IDLE_S + 1)]
            path = [terminal.painted_ms(lambda p=p: publisher.publish(p)) for p in pictures[:SNAPSHOTS]]
            keys: list[float | None] = []
            for number in range(KEYS):
                time.sleep(rng.uniform(0.02, 0.2))
                terminal.quiet()
                keys.append(terminal.key((b"+", b"-", b"\x1b[C", b"\x1b[B")[number % 4]))
            before, began = process_cpu_s(terminal.pid), time.monotonic()
            for picture in pictures[SNAPSHOTS:]:
                publisher.publish(picture)
                until = time.monotonic() + 1
                while (left := until - time.monotonic()) > 0:
                    terminal.read(left)
            share = (process_cpu_s(terminal.pid) - before) / (time.monotonic() - began)
            terminal.close()
    print(f"| {channels:,} | {columns}x{rows} | {_both(keys)} | {_both(path)} | {share:.1%} |", flush=True)


def _both(values: list[float | None]) -> str:
    known = sorted(value for value in values if value is not None)
    return f"{statistics.median(known):.0f} / {known[int(len(known) * 0.95)]:.0f} ms"


def main() -> None:
    """Print the table."""
    print("| channels | terminal | key, p50 / p95 | path, p50 / p95 | CPU at 1 Hz |\n| --- | --- | --- | --- | --- |")
    with scratch():
        for channels in CHANNELS:
            for columns, rows in ((120, 36), (200, 50)):
                measure(channels, columns, rows)


if __name__ == "__main__":
    main()
