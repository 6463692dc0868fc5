"""What every lateness would cost, from one pass: since the start (semantics 7) and lately (semantics 11.4)."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from itertools import pairwise
from math import ceil, sqrt

from msgspec import Struct

from .times import MIN

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
LADDER_MS = tuple(
    step * unit
    for unit, end in ((1, SECOND), (SECOND, MINUTE), (MINUTE, HOUR), (HOUR, DAY), (DAY, 31 * DAY))
    for step in (1, 2, 3, 5, 7, 10, 20, 30, 50, 70, 100, 200, 300, 500, 700)
    if step * unit < end
)
"""The values that the tuning keys step through: 1-2-3-5-7 in each unit, from 1 ms to 30 d."""

IDLE_LADDER_MS = (10 * SECOND, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 12 * HOUR)
"""The idle timeouts (ms) tried besides `off` and the run's own."""

MAX_PENDING_WINDOWS = 20_000
"""Windows that may wait for the largest lateness, at most; beyond, the oldest are given up, their delays unknown."""


class WhatIf(Struct, frozen=True):
    """The cost of lateness `lateness_ms` from the start; `delay_ms` is a mean over the windows it closed."""

    lateness_ms: int
    late: int
    late_share: float | None
    delay_ms: float | None
    behind_watermark: int


def bucket_edges(lateness_ms: int) -> list[int]:
    """The edges (ms) of the what-if: 0, the ladder, and the run's own lateness."""
    return sorted({0, *LADDER_MS, lateness_ms})


def bucket_of(edges: Seq[int], distance: int) -> int | None:
    """The left-closed bucket that holds `distance` (ms); None below 0."""
    return None if distance < 0 else bisect_right(edges, distance) - 1


def by_bucket(at_least: Seq[int]) -> list[int]:
    """The counts by bucket of counts at or above each edge (the inverse of `Histogram.at_least`)."""
    return [here - after for here, after in pairwise([*at_least, 0])]


class Histogram(Struct):
    """Counts of records by bucket; below 0 is not counted."""

    counts: list[int]

    def add_all(self, records: Mapping[int, int]) -> None:
        """Count records by bucket."""
        for bucket, count in records.items():
            self.counts[bucket] += count

    def at_least(self) -> list[int]:
        """The number of records at or above each edge."""
        totals: list[int] = []
        total = 0
        for count in reversed(self.counts):
            total += count
            totals.append(total)
        return totals[::-1]


class DelayLedger(Struct):
    """For each edge L the windows that the watermark would have closed at L, and how long after their end (ms).

    A window ending at E fires at the first moment with `W0 >= E - 1 + L`, if a record came while it was open.
    """

    edges: list[int]
    closed: list[int]
    delay_sum_ms: list[int]
    ends: list[int] = []
    """Window ends that some edge still waits for, ascending."""
    known: int = -1
    """From this edge on (an index) windows were given up; -1: none."""
    w0: int = MIN

    def window(self, end: int) -> None:
        """Note a record in the window that ends at `end`."""
        place = bisect_left(self.ends, end)
        if self.ends[place : place + 1] == [end] or self.w0 >= end - 1 + self.edges[-1]:
            return
        self.ends.insert(place, end)
        if len(self.ends) > MAX_PENDING_WINDOWS:
            self._give_up(self.ends.pop(0))

    def advance(self, w0: int, now: int) -> None:
        """W0 has reached `w0` at processing time `now` (ms): close what each edge closes."""
        before, self.w0 = self.w0, max(self.w0, w0)
        if self.w0 == before:
            return
        for index, edge in enumerate(self.edges):
            first = bisect_right(self.ends, before + 1 - edge)
            last = bisect_right(self.ends, self.w0 + 1 - edge)
            # An edge may have closed the window before the window's first record came: then its end lies below `first`.
            self.closed[index] += last - first
            self.delay_sum_ms[index] += sum(now - end for end in self.ends[first:last])
        done = bisect_right(self.ends, self.w0 + 1 - self.edges[-1])
        del self.ends[:done]

    def mean_delay_ms(self, index: int) -> float | None:
        """The mean delay at an edge (ms); None if no window was closed or some were given up."""
        if not self.closed[index] or (self.known >= 0 and index >= self.known):
            return None
        return self.delay_sum_ms[index] / self.closed[index]

    def _give_up(self, end: int) -> None:
        lost = bisect_left(self.edges, self.w0 - end + 2)
        self.known = lost if self.known < 0 else min(self.known, lost)


SLICES = 60
HORIZONS_MS = (15 * MINUTE, HOUR, DAY)
_Z95 = 1.959963984540054


class RecentRow(Struct, frozen=True):
    """The cost of lateness `lateness_ms` from the start for the records of a horizon.

    `low` and `high` are the Wilson 95 % interval of `late_share`; None without records.
    """

    lateness_ms: int
    late: int
    late_share: float | None
    low: float | None
    high: float | None
    behind_watermark: int
    """Records behind the watermark."""


class RecentLateness(Struct, frozen=True):
    """The what-if of the records that came in the last `horizon_ms` (processing time; None: since the start)."""

    horizon_ms: int | None
    records: int
    rows: list[RecentRow]


class Slice(Struct, array_like=True):
    """The records of one slice; `late` and `behind` by bucket, without zeros."""

    number: int
    """The slice begins at `number` times its length (processing time)."""
    records: int
    late: dict[int, int]
    behind: dict[int, int]


class SlicedLateness(Struct):
    """The slices of one horizon (ms), oldest first."""

    horizon_ms: int
    slices: list[Slice] = []

    @property
    def slice_ms(self) -> int:
        """The length of a slice (ms)."""
        return -(-self.horizon_ms // SLICES)

    def add(self, now: int, records: int, late: Mapping[int, int], behind: Mapping[int, int]) -> None:
        """Count the records of a batch that came at processing time `now` (ms, never going back)."""
        number = now // self.slice_ms
        if not self.slices or self.slices[-1].number != number:
            self.slices = [*self._within(now), Slice(number, 0, {}, {})]
        last = self.slices[-1]
        last.records += records
        _count(last.late, late)
        _count(last.behind, behind)

    def view(self, now: int, edges: list[int]) -> RecentLateness:
        """The what-if of the horizon that ends at processing time `now` (ms)."""
        records, late, behind = 0, Histogram([0] * len(edges)), Histogram([0] * len(edges))
        for part in self._within(now):
            records += part.records
            late.add_all(part.late)
            behind.add_all(part.behind)
        return recent_lateness(self.horizon_ms, edges, records, late, behind)

    def _within(self, now: int) -> list[Slice]:
        return [part for part in self.slices if part.number * self.slice_ms > now - self.horizon_ms]


class RecentSlices(Struct):
    """The slices of every horizon that is kept, shortest first."""

    horizons: list[SlicedLateness]

    def add(self, now: int, records: int, late: Mapping[int, int], behind: Mapping[int, int]) -> None:
        """Count the records of a batch that came at processing time `now` (ms), late and behind by bucket."""
        for horizon in self.horizons:
            horizon.add(now, records, late, behind)


def _count(counts: dict[int, int], more: Mapping[int, int]) -> None:
    for bucket, count in more.items():
        counts[bucket] = counts.get(bucket, 0) + count


def recent_lateness(
    horizon_ms: int | None, edges: list[int], records: int, late: Histogram, behind: Histogram
) -> RecentLateness:
    """The what-if of `records` that came in a horizon (ms; None: since the start), late and behind by edge."""
    rows: list[RecentRow] = []
    last: int | None = None
    interval: tuple[float | None, float | None] = None, None
    for edge, count, behind_watermark in zip(edges, late.at_least(), behind.at_least(), strict=True):
        if count != last:  # edges that differ by no record are many
            interval, last = wilson_interval(count, records), count
        share = count / records if records else None
        rows.append(RecentRow(edge, count, share, *interval, behind_watermark=behind_watermark))
    return RecentLateness(horizon_ms, records, rows)


def wilson_interval(late: int, records: int) -> tuple[float | None, float | None]:
    """The Wilson 95 % interval of the share of `late` in `records`; None without records."""
    if not records:
        return None, None
    share, z2 = late / records, _Z95 * _Z95
    middle = share + z2 / (2 * records)
    half = _Z95 * sqrt(share * (1 - share) / records + z2 / (4 * records * records))
    low, high = (middle - half) / (1 + z2 / records), (middle + half) / (1 + z2 / records)
    # At both ends the exact result is 0 and 1; floating point misses it.
    return (max(0.0, low) if late else 0.0), (min(1.0, high) if late < records else 1.0)


def records_needed(target: float) -> int:
    """The fewest records of which none is late that bring the upper bound of the late share to `1 - target`."""
    return ceil(_Z95 * _Z95 * target / (1 - target))
