"""The processing time of a replay: a clock that the arrivals of its records drive."""

import time

import numpy as np
from numpy.typing import NDArray

from ...watermarks.times import MIN


class ReplayTime:
    """Processing time of a replay, whose records carry it: runs `speed` times as fast as the wall clock, once started.

    `speed` is replay time over real time; None: there is no time between batches.
    """

    def __init__(self, *, speed: float | None, batch_rows: int | None) -> None:
        self._speed = speed
        self._batch_rows = batch_rows
        self.arrivals: NDArray[np.int64] | None = None
        """Those of all rows (ms, `MIN`: none), in order."""
        self._start_ms = 0
        self._started_s: float | None = None
        """When it started (monotonic); None: it waits for the query's first look at the source."""

    def begin(self, arrivals: NDArray[np.int64]) -> None:
        """Take the arrivals."""
        self.arrivals = arrivals
        self._start_ms = self._arrived_by(0)
        self._started_s = None

    def resume(self, rows_read: int, now_ms: int | None = None) -> None:
        """Continue after `rows_read` rows, at `now_ms` (epoch ms) if known, else at the arrival of the last row read:
        downtime is paused time.

        The clock starts when the query first looks at the source, so that neither downtime nor Spark's start counts.
        """
        # The first batch is due at once: its rows must have arrived.
        start_ms = self._arrived_by(rows_read or self._batch_rows or 0)
        if now_ms is not None:
            limit = self.tick_limit_ms(rows_read)
            start_ms = max(start_ms, now_ms if limit is None else min(now_ms, limit))
        self._start_ms = start_ms
        self._started_s = None

    def start(self) -> int | None:
        """Let the clock run if it has not started, and return `now_ms`; None without a speed."""
        if self._speed is None:
            return None
        if self._started_s is None:
            self._started_s = time.monotonic()
        return self.now_ms()

    def now_ms(self) -> int:
        """The replay clock (epoch ms); without a speed: the time that `resume` set."""
        if self._started_s is None:
            return self._start_ms
        return self._start_ms + int((time.monotonic() - self._started_s) * (self._speed or 0) * 1_000)

    def tick_limit_ms(self, rows_read: int) -> int | None:
        """Ticks stay below it: the arrival (ms) of the first unread row; `MIN` if it has none, None after the last."""
        assert self.arrivals is not None
        return int(self.arrivals[rows_read]) if rows_read < len(self.arrivals) else None

    def _arrived_by(self, rows_read: int) -> int:
        """The arrival (ms) of the last row read, or of the first one with an arrival."""
        assert self.arrivals is not None
        usable = int(self.arrivals.searchsorted(MIN, side="right"))
        if usable == len(self.arrivals):
            return 0
        return int(self.arrivals[max(usable, min(rows_read, len(self.arrivals)) - 1)])
