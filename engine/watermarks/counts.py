"""Counts of records per channel and in total, their rates, and a bounded, repeatable sample of the records."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from heapq import nlargest
from operator import attrgetter
from random import Random
from zlib import crc32

from msgspec import Struct

from .observation import BatchObservation, Group
from .settings import Session, Settings
from .times import MIN, saturate
from .windows import last_end

RATE_OVER_S = 10.0
"""Rates are means over this time (s)."""


class Totals(Struct, frozen=True):
    """Counts of records since the start; most are not known for an attached query."""

    records: int | None = 0
    behind_watermark: int | None = 0
    late: int | None = 0
    malformed: int | None = 0
    future: int | None = 0
    no_window: int | None = 0


NOTHING_COUNTED = Totals(None, None, None, None, None, None)
"""The totals of a target whose records are not counted."""


class ChannelCounts(Struct, gc=False, omit_defaults=True):
    """Counts of one channel since the start, with the fields of `Totals`."""

    records: int = 0
    behind_watermark: int = 0
    late: int = 0
    malformed: int = 0
    future: int = 0
    no_window: int = 0


def count_groups(counts: dict[str, ChannelCounts], groups: Iterable[Group]) -> int:
    """Count the groups of a batch by channel; returns the number of rows, malformed ones included.

    The windows count `late` and `no_window`.
    """
    rows = 0
    for group in groups:
        records = group.records
        rows += records
        found = counts.get(group.channel)
        if found is None:
            found = counts[group.channel] = ChannelCounts()
        if group.start_ms is None:
            found.malformed += records
            continue
        found.records += records
        if group.behind:
            found.behind_watermark += group.behind
        if group.future:
            found.future += group.future
    return rows


def count_dropped(counts: dict[str, ChannelCounts], late: Mapping[str, int], no_window: Mapping[str, int]) -> None:
    """Count, by channel, late records and records that are in no window, after `count_groups`."""
    for channel, records in late.items():
        counts[channel].late += records
    for channel, records in no_window.items():
        counts[channel].no_window += records


def totals_of(rows: Collection[ChannelCounts]) -> Totals:
    """The sums over all channels."""
    return Totals(*(sum(map(attrgetter(name), rows)) for name in Totals.__struct_fields__))


class RateMeter:
    """Records per wall-clock second of each channel, over the last `RATE_OVER_S` seconds."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, dict[str, int]]] = deque()

    def rates(self, at_s: float, records: dict[str, int]) -> dict[str, float]:
        """The rates since the oldest mark kept; adds a mark of the counts at a monotonic time (s)."""
        self._marks.append((at_s, records))
        while len(self._marks) > 2 and at_s - self._marks[1][0] >= RATE_OVER_S:
            self._marks.popleft()
        since, before = self._marks[0]
        passed = at_s - since
        if passed <= 0:
            return {}
        return {name: (count - before.get(name, 0)) / passed for name, count in records.items()}


MAX_LATE, MAX_ON_TIME = 500, 1_500
"""Late and on-time records that a sample keeps, at most; late ones have the larger share, so that they stay visible."""
MAX_WAITING = 120
"""Sampled records that wait for the next snapshot, at most: the latest ones."""
_PER_BATCH = (20, 40)
MAX_GROUPS = 500
"""Groups of a batch that records are taken from, at most."""


class TimePoint(Struct, frozen=True, array_like=True, gc=False):
    """A real record: processing time of its batch, its event time (epoch ms), and whether its window was closed."""

    now_ms: int
    event_ms: int
    channel: str
    late: bool = False


def points_of(observation: BatchObservation, settings: Settings, level: int, now: int) -> list[TimePoint]:
    """A sample of a batch's records: the greatest event times (ms) of groups, and whether they were late when it
    started.
    """
    groups = observation.groups if observation.sample is None else observation.sample
    chance = Random(observation.batch)
    if len(groups) > MAX_GROUPS:
        groups = chance.sample(groups, MAX_GROUPS)
    found: tuple[list[TimePoint], list[TimePoint]] = ([], [])
    for group in groups:
        if group.start_ms is not None and group.max_event_ms is not None:
            late = is_late(group, group.max_event_ms, settings, level)
            found[not late].append(TimePoint(now, group.max_event_ms, group.channel, late))
    few = [chance.sample(points, min(most, len(points))) for points, most in zip(found, _PER_BATCH, strict=True)]
    return sorted([*few[0], *few[1]], key=lambda point: point.event_ms)


def is_late(group: Group, event_ms: int, settings: Settings, level: int) -> bool:
    """Whether a group's record at `event_ms` is late: its last window (for sessions its own) is closed."""
    spec = settings.spec
    assert group.start_ms is not None
    end = last_end(spec, group.start_ms, group.head)
    if end is None:
        end = event_ms + (spec.gap_ms if isinstance(spec, Session) else 1)
    return level != MIN and saturate(end - 1 + settings.allowed_lateness_ms) <= level


class PointSample:
    """A bounded random sample that is the same for the same points, whenever it is taken."""

    def __init__(self, points: Iterable[TimePoint] = ()) -> None:
        self._kept: tuple[list[TimePoint], list[TimePoint]] = ([], [])
        self.add(points)

    def add(self, points: Iterable[TimePoint], since_ms: int = MIN) -> None:
        """Add points; if space is needed, points from before processing time `since_ms` are dropped first."""
        for point in points:
            self._kept[not point.late].append(point)
        for kept, most in zip(self._kept, (MAX_LATE, MAX_ON_TIME), strict=True):
            if len(kept) > most * 5 // 4:
                recent = [point for point in kept if point.now_ms >= since_ms]
                kept[:] = sorted(nlargest(most, recent, key=_rank), key=lambda point: point.now_ms)

    @property
    def points(self) -> list[TimePoint]:
        """All kept points, the on-time ones first."""
        return [*self._kept[1], *self._kept[0]]


def _rank(point: TimePoint) -> int:
    """The point's rank: a hash, so that every sample keeps the same points."""
    return crc32(b"%d %d %s" % (point.now_ms, point.event_ms, point.channel.encode(errors="replace")))
