"""The cost of every lateness, as numbers to draw: how late records are, late share, result delay. Pure."""

from collections.abc import Sequence
from math import sqrt

from msgspec import Struct

from ...engine.snapshot import RecentLateness, Snapshot
from ...engine.watermarks.lateness import FEW_LATE, by_bucket, recommended_lateness_ms, wilson_interval

COMPLETENESS = (0.977, 0.99, 0.999)
"""The shares of records on time for which a lateness is recommended."""
TARGETS = tuple(f"{100 * share:g}" for share in COMPLETENESS)
"""The same in per cent, as written."""
DEVIATIONS = (2.0, 2.326, 3.09)
"""Standard deviations above the mean below which a normal distribution has these shares."""


class Curve(Struct, frozen=True):
    """By edge (ms): how many records are that late and less than the next edge, the late share, the delay (ms).

    Delays are always those since the start.
    """

    edges: Sequence[int]
    counts: Sequence[int]
    shares: Sequence[float | None]
    late: Sequence[int]
    delays: Sequence[float | None]
    records: int
    channel: str | None = None
    """The channel, if the curve is that of one: shares are then of its records behind the watermark."""
    upper_bound: bool = False
    horizon_ms: int | None = None
    """The horizon: records that came in the last `horizon_ms` of processing time; None: since the start."""

    @property
    def of_part(self) -> bool:
        """Whether it covers only a channel's records, of which only those behind the watermark are known."""
        return self.channel is not None

    @property
    def on_time(self) -> int:
        """Records that are not behind the watermark at lateness 0."""
        return max(self.records - sum(self.counts), 0)


class PartRow(Struct, frozen=True):
    """A point of the curve of a channel's records, to be saved."""

    of: str
    lateness_ms: int
    behind_watermark: int
    behind_share: float | None


def part_rows(curve: Curve) -> list[PartRow]:
    """The points of such a curve."""
    points = zip(curve.edges, curve.late, curve.shares, strict=True)
    return [PartRow(curve.channel or "", lateness_ms, behind, share) for lateness_ms, behind, share in points]


def curve_of(snapshot: Snapshot, channel: str | None = None) -> Curve | None:
    """The curve of all records, or of one channel's; None if it is not known."""
    rows = snapshot.whatif
    if not rows:
        return None
    edges, delays = [row.lateness_ms for row in rows], [row.delay_ms for row in rows]
    if channel is None:
        behind = [row.behind_watermark for row in rows]
        counts = by_bucket(behind)
        shares = [row.late_share for row in rows]
        late, records = [row.late for row in rows], snapshot.totals.records or 0
        return Curve(edges, counts, shares, late, delays, records, upper_bound=snapshot.whatif_upper_bound)
    part = next((part for part in snapshot.lateness_by_channel if part.channel == channel), None)
    if part is None:
        return None
    counts, late, known = _of_part(part.behind, len(edges), part.records)
    return Curve(edges, counts, known, late, delays, part.records, channel)


def _of_part(behind: Sequence[int], edges: int, records: int) -> tuple[list[int], list[int], list[float | None]]:
    """By edge: how many of the records are that late, how many at least that late, and their share."""
    counts = [*behind, *[0] * edges][:edges]
    late = [sum(counts[place:]) for place in range(len(counts))]
    return counts, late, [number / records if records else None for number in late]


def horizons_of(snapshot: Snapshot) -> list[int | None]:
    """The horizons (ms) for which a curve of all records is known, since the start (None) first."""
    return [None, *(part.horizon_ms for part in snapshot.whatif_recent or () if part.horizon_ms is not None)]


def recent_of(snapshot: Snapshot, horizon_ms: int | None) -> RecentLateness | None:
    """The what-if of a horizon (ms; None: since the start); None if it is not known."""
    return next((part for part in snapshot.whatif_recent or () if part.horizon_ms == horizon_ms), None)


def recent_curve_of(snapshot: Snapshot, horizon_ms: int) -> Curve | None:
    """The curve of the records that came in the last `horizon_ms`; None if it is not known."""
    recent, whole = recent_of(snapshot, horizon_ms), curve_of(snapshot)
    if recent is None or whole is None or len(recent.rows) != len(whole.edges):
        return None
    return Curve(
        edges=whole.edges,
        counts=by_bucket([row.behind_watermark for row in recent.rows]),
        shares=[row.late_share for row in recent.rows],
        late=[row.late for row in recent.rows],
        delays=whole.delays,
        records=recent.records,
        upper_bound=whole.upper_bound,
        horizon_ms=horizon_ms,
    )


def evidence(curve: Curve, lateness_ms: int) -> tuple[int, bool, tuple[float | None, float | None]]:
    """How many records are late at an edge (ms), whether that is too few for a recommendation, and the share's
    interval.
    """
    late = curve.late[place_of(curve.edges, lateness_ms)]
    return late, late < FEW_LATE, wilson_interval(late, curve.records)


def shown(curve: Curve, values: Sequence[int | None]) -> tuple[int, int]:
    """The first and the last edge worth drawing: the range of the records and of `values` (ms)."""
    filled = [place for place, count in enumerate(curve.counts) if count]
    known = [place_of(curve.edges, value) for value in values if value is not None]
    places = [*filled, *known, *(place + 1 for place in filled[-1:])]
    if not places:
        return 0, len(curve.edges) - 1
    return max(min(places) - 1, 0), min(max(places) + 1, len(curve.edges) - 1)


def place_of(edges: Sequence[int], value_ms: int) -> int:
    """The last edge at or below a lateness (ms)."""
    return max(sum(1 for edge in edges if edge <= value_ms) - 1, 0)


def recommended(curve: Curve) -> list[int | None]:
    """The smallest lateness (ms) for each of `COMPLETENESS`; None if no lateness reaches it."""
    return [recommended_lateness_ms(curve.edges, curve.late, curve.records, share) for share in COMPLETENESS]


def moments(curve: Curve) -> tuple[float, float] | None:
    """Mean and deviation (ms) of the lateness of all records (on time: 0), from the middles of the buckets.

    None: there are no records.
    """
    if not curve.records:
        return None
    ends = [*curve.edges[1:], curve.edges[-1]]
    middles = [(low + high) / 2 for low, high in zip(curve.edges, ends, strict=True)]
    mean = sum(count * middle for count, middle in zip(curve.counts, middles, strict=True)) / curve.records
    square = sum(count * middle**2 for count, middle in zip(curve.counts, middles, strict=True)) / curve.records
    return mean, sqrt(max(square - mean**2, 0.0))
