"""What every lateness would cost, from one pass: histograms relative to W0, and the delay of results (semantics 7).

`W0` is the watermark of a shadow run at lateness 0. A record is late at lateness L exactly when its distance
`W0 - (end - 1) - allowed_lateness` is at least L, so counts per left-closed bucket are exact for every L at an edge.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence as Seq
from fractions import Fraction
from functools import cache
from itertools import pairwise

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

MOST_PENDING_WINDOWS = 20_000
"""Windows that may wait for the largest lateness, at most; beyond, the oldest are given up and their delays are
unknown.
"""


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

    def add(self, bucket: int | None, records: int) -> None:
        """Count records in a bucket."""
        if bucket is not None:
            self.counts[bucket] += records

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
        if len(self.ends) > MOST_PENDING_WINDOWS:
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


def new_ledger(edges: list[int]) -> DelayLedger:
    """An empty ledger for those edges."""
    return DelayLedger(edges, [0] * len(edges), [0] * len(edges))


def recommended_lateness_ms(edges: Seq[int], late: Seq[int], records: int, completeness: float) -> int | None:
    """The smallest edge (ms) whose late share is at most `1 - completeness`; None: no records, or no such edge."""
    if not records:
        return None
    missing = _missing(completeness)
    allowed = missing.numerator * records // missing.denominator
    return next((edge for edge, count in zip(edges, late, strict=True) if count <= allowed), None)


@cache
def _missing(completeness: float) -> Fraction:
    """What is missing to the whole: of the decimal as written, not of the nearest float."""
    return 1 - Fraction(repr(completeness))
