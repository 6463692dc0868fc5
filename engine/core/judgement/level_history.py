"""The watermark over processing time within a horizon: a step function in bounded memory (ms)."""

from bisect import bisect_right
from operator import itemgetter

from msgspec import Struct

MOST_MARKS = 2_000
SLOTS = 600
"""Slots that a horizon is divided into if it has more marks; only the last mark of each slot is kept."""

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
        if len(marks) > MOST_MARKS or (len(marks) > _FEW and marks[len(marks) // 2][0] < keep_from):
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
        if len(marks) > MOST_MARKS // 2:
            slot = max(1, horizon // SLOTS)
            marks = list({time // slot: (time, level) for time, level in marks}.values())
        self.marks = marks[-MOST_MARKS // 2 :] if len(marks) > MOST_MARKS else marks
