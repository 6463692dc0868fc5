"""Processing time of a replay: its rows' arrivals, and between batches a clock that runs at the replay's speed."""

import time
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ...core.times import MIN

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


class ReplayTime:
    """A `ProcessingClock` over staged arrivals, which `Replay.prepare` sets.

    `speed` is replay time over real time; None: there is no time between batches.
    """

    def __init__(self, *, speed: float | None, batch_rows: int | None) -> None:
        self._speed = speed
        self._batch_rows = batch_rows
        self._arrivals: NDArray[np.int64] | None = None
        self._clock = ReplayClock(0, 0)

    def begin(self, arrivals: "NDArray[np.int64]") -> None:
        """Take the sorted arrivals (ms, `MIN`: none) of all rows."""
        self._arrivals = arrivals
        self._clock = ReplayClock(self._arrived_by(0), self._speed or 0)

    def resume(self, rows_read: int, now_ms: int | None = None) -> None:
        """Continue after `rows_read` rows, at `now_ms` (epoch ms) if known, else at the arrival of the last row read.

        The clock starts when the query first looks at the source, so that neither downtime nor Spark's start counts.
        """
        # The first batch is due at once: its rows must have arrived.
        start_ms = self._arrived_by(rows_read or self._batch_rows or 0)
        if now_ms is not None:
            limit = self.tick_limit_ms(rows_read)
            start_ms = max(start_ms, now_ms if limit is None else min(now_ms, limit))
        self._clock = ReplayClock(start_ms, self._speed or 0)

    def start(self) -> int | None:
        """Let the clock run if it has not started, and return `now_ms`; None without a speed."""
        if self._speed is None:
            return None
        self._clock = self._clock.started(time.monotonic())
        return self.now_ms()

    def now_ms(self) -> int:
        """The replay clock (epoch ms); without a speed: the time that `resume` set."""
        return self._clock.at(time.monotonic())

    def tick_limit_ms(self, rows_read: int) -> int | None:
        """The arrival (ms) of the first unread row; `MIN` if it has none, None after the last."""
        assert self._arrivals is not None
        return int(self._arrivals[rows_read]) if rows_read < len(self._arrivals) else None

    def close(self) -> None:
        """Release the arrivals, whose file is about to be deleted."""
        self._arrivals = None

    def _arrived_by(self, rows_read: int) -> int:
        """The arrival (ms) of the last row read, or of the first one with an arrival."""
        assert self._arrivals is not None
        usable = int(self._arrivals.searchsorted(MIN, side="right"))
        if usable == len(self._arrivals):
            return 0
        return int(self._arrivals[max(usable, min(rows_read, len(self._arrivals)) - 1)])
