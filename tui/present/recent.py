"""The last minutes: a ring of points from the header's history and the snapshots since. Viewer-side."""

from collections import deque
from collections.abc import Iterable, Sequence

from ...engine.core.history import HistoryPoint, history_point, is_overtaken
from ...engine.core.points import PointSample
from ...engine.core.snapshot import Snapshot, TimePoint
from .events import EventLog
from .holders import Hold, Holders
from .past import ChannelsPast
from .target import target_of

KEEP_MS = 900_000
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
        self._holders = Holders()
        self._has_log = log is not None
        self.log = EventLog() if log is None else log
        self.past = ChannelsPast(KEEP_MS)
        """The channels' past states."""
        for point in history:
            self._append(point)
        if not self._has_log:
            self.log.take_alerts()  # older than this screen's connection

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot; one without clocks is ignored."""
        point = history_point(snapshot)
        self.past.add(snapshot)
        if point is not None:
            self._append(point)
            self._sample.add(snapshot.points or self._greatest(snapshot), self._points[0].now_ms)
        if not self._has_log:
            self.log.add(snapshot)

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
        return self._holders.until(snapshot.wall_ms)

    @property
    def sample(self) -> list[TimePoint]:
        """A sample of the records of that time."""
        return self._sample.points

    def late_share(self) -> float | None:
        """The late share of the records of the last minute; None if none came."""
        if not self._points:
            return None
        last = self._points[-1]
        first = last
        for point in reversed(self._points):
            first = point
            if point.wall_ms <= last.wall_ms - NOW_MS:
                break
        records = last.records - first.records
        return max(last.late - first.late, 0) / records if records > 0 else None

    def lags(self, cells: int, cell_ms: int) -> list[int | None]:
        """The greatest lag (ms) in each of the last `cells` stretches of `cell_ms`.

        Behind the fastest channel; behind the clock where no channel is known.
        """
        out: list[int | None] = [None] * cells
        if not self._points:
            return out
        newest = self._points[-1].wall_ms // cell_ms
        for point in reversed(self._points):
            place = cells - 1 - (newest - point.wall_ms // cell_ms)
            if place < 0:
                break
            lag = point.behind_fastest_ms
            if lag is None and point.holder is None and point.watermark_ms is not None:
                lag = max(point.now_ms - point.watermark_ms, 0)
            if lag is not None:
                out[place] = max(lag, out[place] or 0)
        return out

    def _greatest(self, snapshot: Snapshot) -> list[TimePoint]:
        """For an attached query: the record with the greatest event time of each channel, if it is new."""
        now = snapshot.now_ms
        if not target_of(snapshot).is_attached or now is None:
            return []
        before, self._newest = self._newest, {view.channel: view.max_event_ms for view in snapshot.channels}
        new = ((name, ms) for name, ms in self._newest.items() if ms is not None and ms != before.get(name))
        return [TimePoint(now, ms, name) for name, ms in new]

    def _append(self, point: HistoryPoint) -> None:
        points = self._points
        if points and is_overtaken(point, points[-1]):
            return
        if points and point.wall_ms < points[-1].wall_ms:
            points.clear()  # another engine, or its clock was set back
        points.append(point)
        self._holders.add(point)
        if not self._has_log:
            self.log.see(point)
        while points[0].wall_ms < point.wall_ms - KEEP_MS:
            points.popleft()
