"""The last minutes: a ring of points, and the channels' watermarks and times without data in it. Viewer-side, pure."""

from array import array
from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...engine.snapshot import Snapshot, TimePoint
from ...engine.text import formatting as f
from ...engine.verdict.history import KEEP_MS, HistoryPoint, history_point, remember
from ...engine.watermarks.counts import PointSample
from .history import EventLog, Hold

SLOT_MS = 2_000
"""Length (ms of the engine's wall clock) of a slot, of which only the last entry is kept."""
MAX_VALUES = 1_500_000
"""Values kept in all, at most: with very many channels there are fewer entries."""
_UNKNOWN = -(2**63)


class Moment(Struct, frozen=True):
    """The channels of one snapshot, in its order (`places`: where each name is); times are epoch ms."""

    slot: int
    now_ms: int
    level_ms: int | None
    fastest_ms: int | None
    places: dict[str, int]
    watermarks: "array[int]"
    quiet: "array[int]"

    def watermark_ms(self, channel: str) -> int | None:
        """The watermark of a channel, under Spark's one clock its greatest event time (epoch ms)."""
        return self._value(self.watermarks, channel)

    def quiet_ms(self, channel: str) -> int | None:
        """For how long a channel had no data (ms)."""
        return self._value(self.quiet, channel)

    def lag_ms(self, channel: str) -> int | None:
        """How far the watermark of a channel was behind the fastest one (ms)."""
        watermark = self.watermark_ms(channel)
        return None if watermark is None or self.fastest_ms is None else max(self.fastest_ms - watermark, 0)

    def _value(self, values: "array[int]", channel: str) -> int | None:
        place = self.places.get(channel)
        value = _UNKNOWN if place is None else values[place]
        return None if value == _UNKNOWN else value


class ChannelsPast:
    """The moments of the last `keep_ms` of the engine's wall clock, the oldest first."""

    def __init__(self, keep_ms: int) -> None:
        self._keep = keep_ms // SLOT_MS
        self._moments: deque[Moment] = deque()

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot; one without clocks or channels is ignored."""
        wall, now, views = snapshot.wall_ms, snapshot.now_ms, snapshot.channels
        if wall is None or now is None or not views:
            return
        moments, slot = self._moments, wall // SLOT_MS
        if moments and (slot < moments[-1].slot or now < moments[-1].now_ms):
            moments.clear()  # another engine, or its clock was set back
        if moments and moments[-1].slot == slot:
            moments.pop()
        names = [view.channel for view in views]
        places = moments[-1].places if moments else {}
        if len(places) != len(names) or list(places) != names:
            places = {name: place for place, name in enumerate(names)}
        one_clock = snapshot.one_clock
        times = [view.max_event_ms if one_clock else view.watermark_ms for view in views]
        moments.append(
            Moment(
                slot, now, snapshot.level.watermark_ms,
                max((time for time in times if time is not None), default=None),
                places,
                array("q", [_UNKNOWN if time is None else time for time in times]),
                array("q", [_UNKNOWN if view.quiet_ms is None else view.quiet_ms for view in views]),
            )
        )  # fmt: skip
        most = max(min(self._keep, MAX_VALUES // len(names)), 1)
        while len(moments) > most or moments[0].slot <= slot - self._keep:
            moments.popleft()

    @property
    def last_wall_ms(self) -> int | None:
        """When the newest moment was (the engine's wall clock, epoch ms)."""
        return self._moments[-1].slot * SLOT_MS if self._moments else None

    def until(self, snapshot: Snapshot) -> Sequence[Moment]:
        """The moments up to a snapshot: the newest one, or that of a frozen picture."""
        if snapshot.wall_ms is None:
            return list(self._moments)
        last = snapshot.wall_ms // SLOT_MS
        return [moment for moment in self._moments if moment.slot <= last]


def greatest(values: Sequence[int | None], cells: int) -> list[int | None]:
    """At most `cells` of the values: the greatest known one of each stretch."""
    stretch = max(-(-len(values) // max(cells, 1)), 1)
    starts = range(0, len(values), stretch)
    return [max((v for v in values[start : start + stretch] if v is not None), default=None) for start in starts]


NOW_MS = 60_000
"""Length (ms) of "now"."""


class Recent:
    """Points by the engine's wall clock (ms), the oldest dropped after `KEEP_MS`.

    `log` has the events of a whole recording; without it the events come from the snapshots.
    """

    def __init__(
        self, history: Iterable[HistoryPoint] = (), sample: Iterable[TimePoint] = (), log: EventLog | None = None
    ) -> None:
        self._points: deque[HistoryPoint] = deque()
        self._sample = PointSample(sample)
        self._newest: dict[str, int | None] = {}
        self._seen = EventLog()
        self.log = self._seen if log is None else log
        self.past = ChannelsPast(KEEP_MS)
        """The channels' past states."""
        for point in history:
            self._append(point)
        self._seen.take_alerts()  # older than this screen's connection

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot; one without clocks is ignored, as one that is overtaken."""
        point = history_point(snapshot)
        if point is not None and self._append(point):
            self.past.add(snapshot)
            self._sample.add(snapshot.points or self._greatest(snapshot), self._points[0].now_ms)
        self._seen.add(snapshot)

    @property
    def points(self) -> Sequence[HistoryPoint]:
        """The history, the oldest first."""
        return self._points

    def until(self, snapshot: Snapshot) -> Sequence[HistoryPoint]:
        """The history up to a snapshot: the newest one, or that of a frozen picture."""
        wall_ms, points = snapshot.wall_ms, self._points
        if wall_ms is None or not points or points[-1].wall_ms <= wall_ms:
            return points
        return [point for point in points if point.wall_ms <= wall_ms]

    def holds(self, snapshot: Snapshot) -> Sequence[Hold]:
        """The holds of the watermark up to a snapshot, the oldest first; kept longer than points."""
        return self._seen.holds(snapshot.wall_ms)

    @property
    def sample(self) -> list[TimePoint]:
        """A sample of the records of that time."""
        return self._sample.points

    def late_share(self) -> float | None:
        """The late share of the records of the last minute; None if none came."""
        if not self._points:
            return None
        last = self._points[-1]
        old = (point for point in reversed(self._points) if point.wall_ms <= last.wall_ms - NOW_MS)
        first = next(old, self._points[0])
        return f.ratio(max(last.late - first.late, 0), max(last.records - first.records, 0))

    def _greatest(self, snapshot: Snapshot) -> list[TimePoint]:
        """Without a sample of records: the one with the greatest event time of each channel, if it is new."""
        now = snapshot.now_ms
        if snapshot.target.samples_records or now is None:
            return []
        before, self._newest = self._newest, {view.channel: view.max_event_ms for view in snapshot.channels}
        new = ((name, ms) for name, ms in self._newest.items() if ms is not None and ms != before.get(name))
        return [TimePoint(now, ms, name) for name, ms in new]

    def _append(self, point: HistoryPoint) -> bool:
        if not remember(self._points, point):
            return False
        self._seen.see(point)
        return True
