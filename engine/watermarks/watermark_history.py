"""When the watermark advanced and batches were applied, in bounded memory: what a verdict is computed from (ms)."""

from bisect import bisect_right
from operator import itemgetter

from msgspec import Struct, field

MAX_MARKS = 2_000
SLOTS = 600
"""Slots that a horizon is divided into if it has more marks; only the last mark of each slot is kept."""

BATCHES = 10
"""Batches that the default horizon covers, at least."""
MIN_HORIZON_MS = 60_000
"""Wall time (ms) that the default horizon covers, at least."""

_FEW = 64


class LevelHistory(Struct):
    """Marks (processing time, watermark), one for each advance; the first is where observation began."""

    began_ms: int | None = None
    marks: list[tuple[int, int]] = []

    def see(self, now: int, level: int | None, horizon: int, keep_from: int) -> None:
        """Note the watermark at `now` (None: none yet); of the marks before `keep_from` (ms) only the last is kept."""
        if self.began_ms is None:
            self.began_ms = now
        if level is None or (self.marks and level <= self.marks[-1][1]):
            return
        if self.marks and self.marks[-1][0] == now:
            self.marks[-1] = (now, level)
        else:
            self.marks.append((now, level))
        marks = self.marks
        if len(marks) > MAX_MARKS or (len(marks) > _FEW and marks[len(marks) // 2][0] < keep_from):
            self._forget(horizon, keep_from)

    def at(self, time: int) -> int | None:
        """The watermark at `time`; None before the first watermark and before observation began."""
        place = bisect_right(self.marks, time, key=itemgetter(0))
        return self.marks[place - 1][1] if place else None

    def gained(self, since: int, until: int) -> int | None:
        """How far the watermark advanced between two times (ms); None if there was none at the first."""
        before, after = self.at(since), self.at(until)
        if after is None:
            return 0
        return None if before is None else after - before

    def _forget(self, horizon: int, keep_from: int) -> None:
        first = max(0, bisect_right(self.marks, keep_from, key=itemgetter(0)) - 1)
        marks = self.marks[first:]
        if len(marks) > MAX_MARKS // 2:
            slot = max(1, horizon // SLOTS)
            marks = list({time // slot: (time, level) for time, level in marks}.values())
        self.marks = marks[-MAX_MARKS // 2 :] if len(marks) > MAX_MARKS else marks


class WatermarkHistory(Struct):
    """The advances of the watermark and the times of batches, over a horizon (processing time, ms)."""

    horizon_ms: int | None = None
    """`--verdict-after` (ms); None: the larger of `least_ms` and 10 batches."""
    least_ms: int | None = MIN_HORIZON_MS
    """1 min of wall time, in processing time; None: 10 batches alone decide (`--batch-rows`, `--speed max`)."""
    levels: LevelHistory = field(default_factory=LevelHistory)
    batches: list[int] = []
    """When the last 11 batches were applied."""

    def see_level(self, now: int, level: int | None) -> None:
        """Note the watermark (None: none yet) at processing time `now`."""
        batches = self.batches
        horizon = self.horizon() or 0
        self.levels.see(now, level, horizon, min(now - horizon, batches[0] if batches else now))

    def see_batch(self, now: int, count: int = 1) -> None:
        """Note that `count` batches were applied, the last one at processing time `now` (ms)."""
        self.batches = [*self.batches, *[now] * min(count, BATCHES + 1)][-BATCHES - 1 :]

    def restart(self) -> None:
        """Start over after a time without observation."""
        self.levels, self.batches = LevelHistory(), []

    def horizon(self) -> int | None:
        """The horizon (ms) that a verdict covers now; None before there are enough batches."""
        if self.horizon_ms is not None:
            return self.horizon_ms
        batches = self.batches
        if self.least_ms is None:
            return max(1, batches[-1] - batches[0]) if len(batches) > BATCHES else None
        # Too few batches so far: assume that they continue to take as long as usual.
        span = (batches[-1] - batches[0]) * BATCHES // (len(batches) - 1) if len(batches) > 1 else 0
        return max(self.least_ms, span)
