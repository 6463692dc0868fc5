"""Processing time of a replay: its rows' arrivals, and between batches a clock that runs at the replay's speed."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.times import MIN
from .clock import ReplayClock, read_clock, write_clock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ReplayTime:
    """A `ProcessingClock` over staged arrivals, which `Replay.prepare` sets; `file` is shared with Spark's planner.

    `speed` is replay time over real time; None: there is no time between batches.
    """

    def __init__(self, file: Path, *, speed: float | None, batch_rows: int | None) -> None:
        self._file = file
        self._speed = speed
        self._batch_rows = batch_rows
        self._arrivals: NDArray[np.int64] | None = None
        self._start_ms = 0

    def begin(self, arrivals: "NDArray[np.int64]") -> None:
        """Take the sorted arrivals (ms, `MIN`: none) of all rows."""
        self._arrivals = arrivals
        self._start_ms = self._arrived_by(0)
        self._file.unlink(missing_ok=True)  # from an earlier run

    def resume(self, rows_read: int, now_ms: int | None = None) -> None:
        """Continue after `rows_read` rows, at `now_ms` (epoch ms) if known, else at the arrival of the last row read.

        The clock starts when the query first looks at the source, so that neither downtime nor Spark's start counts.
        """
        # Spark runs batch 0 at once: its rows must have arrived, or it would be empty.
        self._start_ms = self._arrived_by(rows_read or self._batch_rows or 0)
        if now_ms is not None:
            limit = self.tick_limit_ms(rows_read)
            self._start_ms = max(self._start_ms, now_ms if limit is None else min(now_ms, limit))
        if self._speed is not None:
            write_clock(self._file, ReplayClock(self._start_ms, self._speed))

    def now_ms(self) -> int:
        """The replay clock (epoch ms); without a speed: the time that `resume` set."""
        if self._speed is None or not self._file.exists():
            return self._start_ms
        return read_clock(self._file).at(time.monotonic())

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
