"""The replay clock: a pure function of a small file, because another process than the driver plans batches.

It uses the machine's monotonic clock, which all processes share and which is never set; it is anchored again at every
start, so the file does not outlive a reboot.
"""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...durable_file import replace_file
from ...locks import lock_file

CLOCK = "clock.json"
"""The file's name, next to the staged rows."""


class ReplayClock(Struct, frozen=True):
    """Replay time was `anchor_ms` (epoch ms) at `anchor_s` of the monotonic clock, and runs `speed` times as fast.

    With `anchor_s` None it has not started: it waits for the query's first look at the source.
    """

    anchor_ms: int
    speed: float
    anchor_s: float | None = None

    def at(self, now_s: float) -> int:
        """Replay time (epoch ms) when the monotonic clock shows `now_s`."""
        if self.anchor_s is None:
            return self.anchor_ms
        return self.anchor_ms + int(max(0.0, now_s - self.anchor_s) * self.speed * 1_000)

    def started(self, now_s: float) -> "ReplayClock":
        """The clock, running from `now_s` on if it had not started."""
        return self if self.anchor_s is not None else replace(self, anchor_s=now_s)


def read_clock(path: Path) -> ReplayClock:
    """The clock in `path`."""
    return msgspec.json.decode(path.read_bytes(), type=ReplayClock)


def write_clock(path: Path, clock: ReplayClock) -> None:
    """Put `clock` into `path` in one step: a reader sees the old one or the new one."""
    replace_file(path, msgspec.json.encode(clock))


def change_clock(path: Path, change: Callable[[ReplayClock, float], ReplayClock]) -> ReplayClock:
    """Apply `change` (given the clock and the monotonic now) to the clock in `path`; one process at a time."""
    with path.with_suffix(".lock").open("w") as lock:
        lock_file(lock)
        old = read_clock(path)
        new = change(old, time.monotonic())
        if new != old:
            write_clock(path, new)
        return new
