"""Values whose clocks are wrong: their records arrive with others but have other event times.

Distances are relative to the records that arrived at about the same time, so that reading a backlog, or a pause of the
whole stream, is not blamed on a channel. Late delivery varies from record to record; a wrong clock affects all of its
records alike.
"""

from collections.abc import Mapping

from msgspec import Struct

from .snapshot.explain import ClockOffset

SHOWN_OFFSETS = 10
MOST_FOLLOWED = 100
"""Values of a column whose distances are followed over time, at most."""
_MOST_POINTS = 16
_REMEMBERED = 20_000
"""Distances cover this many of the latest records: a clock may be corrected."""
_LEAST_RECORDS = 100
_LEAST_OFFSET_MS = 60_000
_FARTHER = 3
"""An offset counts as a wrong clock only if it is at least this many times the spread of the distances."""
_LEAST_DRIFT_MS = 20_000
_LEAST_POINTS = 8
_STRAIGHT = 0.95
"""Share of the changes of a distance that a straight line must explain for a drift."""
_HOUR_MS = 3_600_000


class DelayPoint(Struct, frozen=True, array_like=True):
    """`records` records at about event time `time_ms`: the 5 %, 50 % and 95 % quantiles of their distances (ms).

    A distance is above 0 if the event time is behind that of the other records that arrived then.
    """

    time_ms: int
    records: int
    low: float
    middle: float
    high: float


class _Mean(Struct, array_like=True):
    """Records with the means of their times and of their middle distances (ms)."""

    records: int
    time_ms: float
    middle: float


class ClockOf(Struct, array_like=True):
    """The distances of the latest records of one value, and how they changed."""

    weight: int = 0
    low: float = 0.0
    middle: float = 0.0
    high: float = 0.0
    deviation: float = 0.0
    """Mean deviation (ms) of the points' medians: with few records per point, the spread shows between points, not in
    them.
    """
    points: list[_Mean] = []
    step_ms: int = 1
    """Records of one such step (event time, ms) form one point."""

    def add(self, point: DelayPoint) -> None:
        """Add some records."""
        self.weight = min(self.weight + point.records, _REMEMBERED)
        part = min(1.0, point.records / self.weight)
        self.low += part * (point.low - self.low)
        self.middle += part * (point.middle - self.middle)
        self.high += part * (point.high - self.high)
        self.deviation += part * (abs(point.middle - self.middle) - self.deviation)
        last = self.points[-1] if self.points else None
        new = _Mean(point.records, point.time_ms, point.middle)
        if last is not None and point.time_ms // self.step_ms <= int(last.time_ms) // self.step_ms:
            self.points[-1] = _together([last, new])
            return
        self.points.append(new)
        while len(self.points) > _MOST_POINTS:
            self.step_ms *= 2
            steps: dict[int, list[_Mean]] = {}
            for each in self.points:
                steps.setdefault(int(each.time_ms) // self.step_ms, []).append(each)
            self.points = [_together(each) for each in steps.values()]

    @property
    def spread(self) -> float:
        """The approximate width (ms) of the range that holds nine in ten distances."""
        return max(self.high - self.low, 4 * self.deviation)

    def drift(self) -> "_Line | None":
        """The line that the distances follow; None if they do not follow one."""
        least = max(point.records for point in self.points) / 20 if self.points else 0
        points = [point for point in self.points if point.records >= least]
        if len(points) < _LEAST_POINTS:
            return None
        line, half = _line(points), len(points) // 2
        halves = [_line(points[:half]), _line(points[half:])]
        if line is None or line.straight < _STRAIGHT or abs(line.change_ms) < _LEAST_DRIFT_MS:
            return None
        if any(part is None or not 0.6 < part.slope / line.slope < 1.6 for part in halves):
            return None
        return line


class _Line(Struct, frozen=True):
    """A distance that changes by `slope` ms per ms, by `change_ms` in total; the line explains the share `straight` of
    the changes.
    """

    slope: float
    change_ms: float
    straight: float


def _together(points: list[_Mean]) -> _Mean:
    records = sum(point.records for point in points)
    return _Mean(
        records,
        sum(point.time_ms * point.records for point in points) / records,
        sum(point.middle * point.records for point in points) / records,
    )


def _line(points: list[_Mean]) -> _Line | None:
    """The least squares line."""
    at = sum(point.time_ms for point in points) / len(points)
    mean = sum(point.middle for point in points) / len(points)
    xx = sum((point.time_ms - at) ** 2 for point in points)
    yy = sum((point.middle - mean) ** 2 for point in points)
    xy = sum((point.time_ms - at) * (point.middle - mean) for point in points)
    if not xx or not yy or not xy:
        return None
    slope = xy / xx
    return _Line(slope, slope * (points[-1].time_ms - points[0].time_ms), xy * xy / xx / yy)


def clock_offsets(clocks: Mapping[str, tuple[int, ClockOf]]) -> list[ClockOffset]:
    """The values (with their records) whose distances differ from most, the surest and farthest first."""
    weights = sum(clock.weight for _, clock in clocks.values())
    usual = weighted_median([(clock.spread, clock.weight) for _, clock in clocks.values()])
    middle = weighted_median([(clock.middle, clock.weight) for _, clock in clocks.values()])
    found: list[ClockOffset] = []
    for name, (records, clock) in clocks.items():
        offset, spread = clock.middle - middle, clock.spread
        few = 2 * clock.weight < weights
        line = clock.drift() if few and records >= _LEAST_RECORDS else None
        if records < _LEAST_RECORDS or (abs(offset) < _LEAST_OFFSET_MS and line is None):
            continue
        found.append(
            ClockOffset(
                name,
                records,
                round(offset),
                round(clock.low - middle),
                round(clock.high - middle),
                round(usual),
                few and (line is not None or abs(offset) >= _FARTHER * max(spread, usual, 1)),
                None if line is None else round(line.slope * _HOUR_MS),
            )
        )
    return sorted(found, key=lambda offset: (not offset.stable, -abs(offset.offset_ms), offset.value))[:SHOWN_OFFSETS]


def weighted_median(pairs: list[tuple[float, int]]) -> float:
    """The weighted median; 0 without pairs."""
    half, reached = sum(weight for _, weight in pairs) / 2, 0
    for value, weight in sorted(pairs):
        reached += weight
        if reached >= half:
            return value
    return 0.0
