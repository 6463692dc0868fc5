"""What each lateness would have cost over the last 15 min, 1 h, 24 h and since the start (semantics 11.4).

Both histograms of the what-if are also kept in slices of processing time, 60 to a horizon. A horizon H at time `now`
covers the slices that began after `now - H`, also the present one.
"""

from collections.abc import Iterable, Mapping
from math import sqrt

from msgspec import Struct

from .lateness import DAY, HOUR, MINUTE, recommended_lateness_ms

SLICES = 60
HORIZONS_MS = (15 * MINUTE, HOUR, DAY)
TARGETS = (0.977, 0.99, 0.999)
FEW_LATE = 20
"""A recommendation with fewer late records than this is marked `few`."""
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


class Recommended(Struct, frozen=True):
    """The smallest edge (ms) that would have kept the share `target` on time; None: no records, or no such edge.

    `few`: based on too few late records to rely on.
    """

    target: float
    lateness_ms: int | None
    few: bool


class RecentLateness(Struct, frozen=True):
    """The what-if of the records that came in the last `horizon_ms` (processing time; None: since the start)."""

    horizon_ms: int | None
    records: int
    rows: list[RecentRow]
    recommended: list[Recommended]


class Sample(Struct, frozen=True):
    """The records of a horizon, and for each edge how many would have been late, and behind the watermark."""

    records: int
    late: list[int]
    behind: list[int]


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

    def sample(self, now: int, edges: int) -> Sample:
        """The records of the horizon that ends at processing time `now` (ms), for `edges` edges."""
        within = self._within(now)
        return Sample(
            sum(part.records for part in within),
            _at_least([part.late for part in within], edges),
            _at_least([part.behind for part in within], edges),
        )

    def _within(self, now: int) -> list[Slice]:
        return [part for part in self.slices if part.number * self.slice_ms > now - self.horizon_ms]


class RecentSlices(Struct):
    """The slices of every horizon that is kept, shortest first."""

    horizons: list[SlicedLateness]

    def add(self, now: int, records: int, late: Mapping[int, int], behind: Mapping[int, int]) -> None:
        """Count the records of a batch that came at processing time `now` (ms), late and behind by bucket."""
        for horizon in self.horizons:
            horizon.add(now, records, late, behind)

    def view(self, now: int, edges: list[int], whole: Sample) -> list[RecentLateness]:
        """All horizons at processing time `now` (ms); `whole` is the sample since the start."""
        recent = [_view(horizon.horizon_ms, edges, horizon.sample(now, len(edges))) for horizon in self.horizons]
        return [*recent, _view(None, edges, whole)]


def new_recent_slices() -> RecentSlices:
    """No records yet."""
    return RecentSlices([SlicedLateness(horizon) for horizon in HORIZONS_MS])


def _count(counts: dict[int, int], more: Mapping[int, int]) -> None:
    for bucket, count in more.items():
        counts[bucket] = counts.get(bucket, 0) + count


def _at_least(parts: Iterable[Mapping[int, int]], edges: int) -> list[int]:
    """The number of records in each bucket or above it."""
    sums = [0] * edges
    for part in parts:
        for bucket, count in part.items():
            sums[bucket] += count
    for bucket in reversed(range(edges - 1)):
        sums[bucket] += sums[bucket + 1]
    return sums


def _view(horizon_ms: int | None, edges: list[int], sample: Sample) -> RecentLateness:
    rows: list[RecentRow] = []
    last: int | None = None
    interval: tuple[float | None, float | None] = None, None
    for edge, late, behind_watermark in zip(edges, sample.late, sample.behind, strict=True):
        if late != last:  # edges that differ by no record are many
            interval, last = wilson_interval(late, sample.records), late
        share = late / sample.records if sample.records else None
        rows.append(RecentRow(edge, late, share, *interval, behind_watermark=behind_watermark))
    return RecentLateness(horizon_ms, sample.records, rows, [_recommended(target, edges, sample) for target in TARGETS])


def _recommended(target: float, edges: list[int], sample: Sample) -> Recommended:
    lateness = recommended_lateness_ms(edges, sample.late, sample.records, target)
    late = sample.late[-1] if lateness is None else sample.late[edges.index(lateness)]
    return Recommended(target, lateness, late < FEW_LATE)


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
