"""A sample of the records: event time against processing time, on time or late. Bounded and repeatable."""

from collections.abc import Iterable
from heapq import nlargest
from random import Random
from zlib import crc32

from msgspec import Struct

from .observation import BatchObservation, Group
from .settings import Session, Settings
from .times import MIN, saturate
from .windows import window_count

MOST_LATE, MOST_ON_TIME = 500, 1_500
"""Late and on-time records that a sample keeps, at most; late ones have the larger share, so that they stay visible."""
_MOST_WAITING = 120
_PER_BATCH = (20, 40)
MOST_GROUPS = 500
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
    if len(groups) > MOST_GROUPS:
        groups = chance.sample(groups, MOST_GROUPS)
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
    if isinstance(spec, Session):
        end = event_ms + spec.gap_ms
    else:
        end = group.start_ms + spec.size_ms if window_count(spec, group.head) else event_ms + 1
    return level != MIN and saturate(end - 1 + settings.allowed_lateness_ms) <= level


class WaitingPoints:
    """Sampled records that wait for the next snapshot, the latest ones."""

    def __init__(self) -> None:
        self._points: list[TimePoint] = []

    def add(self, points: list[TimePoint]) -> None:
        """Add the records of a batch."""
        self._points += points
        del self._points[:-_MOST_WAITING]

    def take(self) -> list[TimePoint]:
        """Take all records since the last call."""
        points, self._points = self._points, []
        return points


class PointSample:
    """A bounded random sample that is the same for the same points, whenever it is taken."""

    def __init__(self, points: Iterable[TimePoint] = ()) -> None:
        self._kept: tuple[list[TimePoint], list[TimePoint]] = ([], [])
        self.add(points)

    def add(self, points: Iterable[TimePoint], since_ms: int = MIN) -> None:
        """Add points; if space is needed, points from before processing time `since_ms` are dropped first."""
        for point in points:
            self._kept[not point.late].append(point)
        for kept, most in zip(self._kept, (MOST_LATE, MOST_ON_TIME), strict=True):
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
