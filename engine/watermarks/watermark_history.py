"""When the watermark advanced, batches were applied and records came, in bounded memory: what a verdict is computed
from (semantics 11.1). All times are processing time of the run (ms).
"""

from bisect import bisect_left, bisect_right
from itertools import pairwise
from operator import itemgetter
from typing import Literal, NamedTuple

from msgspec import Struct

from .settings import Session, Settings

GAPS = 50
"""Gaps between advances, and between batches, that are kept."""
MIN_GAP_MS = 10_000
"""An advance that comes sooner after the last counted one is not counted."""
MIN_GAPS = 5
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
GROUP_PATIENCE_MS = 600_000
"""The patience (ms) with a consumer group before two of its commits are known."""
SLICES, LOOKBACK = 5, 10
"""`slow` compares 5 slices of the last 10 x patience."""
MAX_MARKS, SLOTS = 2_000, 600
"""Advances kept, at most; then only the last one of each of 600 slots."""

Beat = Literal["run", "replay", "spark", "group", "sample"]
"""What a beat is: the gap between batches of an own run or a replay, between batches of an attached Spark query,
between a consumer group's commits, or between samples.
"""


class FallingBehind(NamedTuple):
    """The watermark falls further behind: by `ms` over the last `over_ms`, since `since_ms`."""

    ms: int
    over_ms: int
    since_ms: int


def cap_ms(settings: Settings) -> int:
    """The longest stall that the settings themselves allow: an hour, a window or the idle timeout."""
    spec = settings.window
    window_ms = 0 if spec is None else spec.gap_ms if isinstance(spec, Session) else spec.size_ms
    return max(HOUR_MS, window_ms, settings.idle_after_ms or 0)


class WatermarkHistory(Struct):
    """The advances of the watermark, and the beats of its source."""

    beat_of: Beat = "run"
    verdict_after_ms: int | None = None
    """`--verdict-after`; None: patience follows pace and beat."""
    began_ms: int | None = None
    """When observation last began: at the start, or when the run resumed."""
    unwatched_ms: int = 0
    """For how long (ms) since then it was not watched."""
    level: int | None = None
    """The watermark; None: none yet."""
    moved_ms: int | None = None
    """When it last advanced, also before observation last began."""
    record_ms: int | None = None
    """When a record with a usable time last came."""
    counted_ms: int | None = None
    """When the last counted advance was."""
    gaps: list[int] = []
    """The last gaps between counted advances that were at most `cap_ms` long."""
    longest_gap_ms: int = 0
    beats: list[int] = []
    """When the last batches were applied."""
    other_beats: list[int] = []
    """Those of the whole source, which count until two of its own are known."""
    marks: list[tuple[int, int]] = []
    """Times of advances, and the watermark from then on; the first is where observation began."""
    verdict: str = ""
    verdict_since_ms: int | None = None
    """The last verdict (none: empty), and since when it holds."""

    def begin(self, now: int, level: int | None = None) -> None:
        """Begin to observe at `now`, with a watermark that may have been there before (None: none)."""
        self.began_ms, self.level, self.unwatched_ms = now, level, 0
        self.marks = [] if level is None else [(now, level)]

    def see_level(self, now: int, level: int | None, settings: Settings) -> None:
        """Note the watermark (None: none yet) at `now`."""
        if self.began_ms is None:
            self.begin(now, self.level)
        if level is None or (self.level is not None and level <= self.level):
            return
        self.level, self.moved_ms = level, now
        if self.marks and self.marks[-1][0] == now:
            self.marks.pop()
        self.marks.append((now, level))
        if len(self.marks) > MAX_MARKS:
            self._forget(now - LOOKBACK * self.patience(settings))
        gap = None if self.counted_ms is None else now - self.counted_ms
        if gap is not None and gap < MIN_GAP_MS:
            return
        self.counted_ms = now
        if gap is not None:
            self.longest_gap_ms = max(self.longest_gap_ms, gap)
            if gap <= cap_ms(settings):
                self.gaps = [*self.gaps, gap][-GAPS:]

    def see_beat(self, now: int, count: int = 1) -> None:
        """Note that `count` batches (commits, samples) were seen, the last one at `now`."""
        self.beats = [*self.beats, *[now] * min(count, GAPS + 1)][-GAPS - 1 :]

    def restart(self) -> None:
        """Begin again after a time without observation, which counts as no gap."""
        self.began_ms = self.counted_ms = None
        self.marks, self.beats = [], []

    def leave_out(self, ms: int) -> None:
        """Note that it was not watched for the last `ms`: that is no gap of pace or beat, and not observed."""
        self.counted_ms = None
        self.beats = [at + ms for at in self.beats]
        self.unwatched_ms += ms

    def observed_ms(self, now: int) -> int:
        """For how long the watermark has been watched since observation began."""
        return 0 if self.began_ms is None else now - self.began_ms - self.unwatched_ms

    def has_advanced(self) -> bool:
        """Whether the watermark has advanced since observation began."""
        return self.moved_ms is not None and self.began_ms is not None and self.moved_ms >= self.began_ms

    def frozen_since(self, now: int) -> int:
        """When the watermark last advanced; when observation began if it never did."""
        return self.moved_ms if self.moved_ms is not None else now if self.began_ms is None else self.began_ms

    def pace(self) -> int | None:
        """How often the watermark usually advances (ms); None: not known yet."""
        return _percentile_90(self.gaps) if len(self.gaps) >= MIN_GAPS else None

    def patience(self, settings: Settings) -> int:
        """How long (ms) the watermark may be frozen before that is a stall."""
        if self.verdict_after_ms is not None:
            return self.verdict_after_ms
        cap, pace = cap_ms(settings), self.pace()
        beats = self.beats if len(self.beats) > 1 else self.other_beats or self.beats
        least = max(MINUTE_MS, 3 * _percentile_90([after - before for before, after in pairwise(beats)]))
        if pace is not None:
            return max(least, min(3 * pace, cap))
        if len(beats) < 2 and self.beat_of in ("spark", "group"):
            return cap if self.beat_of == "spark" else GROUP_PATIENCE_MS
        usual = {"run": 0, "replay": cap}.get(self.beat_of, min(3 * self.longest_gap_ms, cap))
        return max(least, usual)

    def gained(self, since: int) -> int | None:
        """How far (ms) the watermark has advanced since; None: it had none then."""
        before = self._at(since)
        return None if before is None or self.level is None else self.level - before

    def falling_behind(self, now: int, patience: int) -> FallingBehind | None:
        """Whether the least distance to the clock grew in each slice of the last 10 x `patience`, and by enough."""
        span = LOOKBACK * patience
        since = max(now - span, self.marks[0][0] if self.marks else now)
        part = now - since
        if 2 * part < span:
            return None
        edges = [since + part * number // SLICES for number in range(SLICES + 1)]
        least = [self._least_behind(start, end) for start, end in pairwise([*edges[:-1], now + 1])]
        lost = least[-1] - least[0]
        if any(after <= before for before, after in pairwise(least)) or SLICES * lost <= part:
            return None
        return FallingBehind(lost, part, edges[1])

    def _least_behind(self, start: int, end: int) -> int:
        """The least distance between clock and watermark from `start` until `end`."""
        first = bisect_right(self.marks, start, key=itemgetter(0))
        last = bisect_left(self.marks, end, key=itemgetter(0))
        return min([start - self.marks[first - 1][1], *(time - level for time, level in self.marks[first:last])])

    def _at(self, time: int) -> int | None:
        place = bisect_right(self.marks, time, key=itemgetter(0))
        return self.marks[place - 1][1] if place else None

    def _forget(self, keep_from: int) -> None:
        marks = self.marks[max(0, bisect_right(self.marks, keep_from, key=itemgetter(0)) - 1) :]
        if len(marks) > MAX_MARKS // 2:
            slot = max(1, (marks[-1][0] - keep_from) // SLOTS)
            marks = list({time // slot: (time, level) for time, level in marks}.values())
        self.marks = marks


def _percentile_90(values: list[int]) -> int:
    """The 90th percentile by nearest rank; 0 of nothing."""
    return sorted(values)[-(-9 * len(values) // 10) - 1] if values else 0
