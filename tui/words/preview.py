"""The effect of another lateness or idle timeout from the start, as numbers, without a round trip. Pure."""

from bisect import bisect_left
from collections.abc import Sequence
from math import sqrt

from msgspec import Struct

from ...engine.snapshot import RecentLateness, RecentRow, Snapshot, WhatIf
from ...engine.watermarks.lateness import FEW_LATE, by_bucket, recommended_lateness_ms, wilson_interval
from ...engine.watermarks.settings import StrategyName
from .watermark import kind_words


class Range(Struct, frozen=True):
    """A value between two known ones; both are the same if it is exact."""

    low: float
    high: float


class LatenessPreview(Struct, frozen=True):
    """The effect of lateness `lateness_ms`; None: not known."""

    lateness_ms: int
    level_ms: int | None
    late: Range | None
    share: Range | None
    delay_change_ms: Range | None
    """How much later (or, below 0, earlier) results would come than they do now."""
    upper_bound: bool


class IdlePreview(Struct, frozen=True):
    """The effect of idle timeout `idle_after_ms` (None: off)."""

    idle_after_ms: int | None
    level_ms: int | None
    holder: str | None
    flaps: int | None
    late: int | None
    share: float | None
    about: bool
    """Whether the late count is not exact."""


_STEPS_MS = tuple(
    number * unit
    for unit, numbers in (
        (1_000, (0, 1, 2, 5, 10, 20, 30, 45)),
        (60_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000, (1, 2, 6, 12, 24)),
    )
    for number in numbers
)
"""Common values of lateness and idle timeout (ms)."""
Preview = LatenessPreview | IdlePreview


def untunable(strategy: StrategyName) -> str:
    """Why a strategy has no lateness to tune, in one line."""
    return {
        "monotonous": "monotonous: records are taken to be in order, so there is no lateness to tune",
        "punctuated": "punctuated: marker records set the watermark, so there is no lateness to tune",
        "source": "source: the source sends its own watermarks, so there is no lateness to tune",
        "none": "none: there is no watermark before the end of the stream, so there is no lateness to tune",
        "custom": "custom: the job's own generator decides, so there is no lateness to tune from here",
    }.get(strategy, f"{strategy} has no lateness to tune")


def step_lateness(snapshot: Snapshot, lateness_ms: int, direction: int) -> int | None:
    """The next lateness (ms) above (1) or below (-1) `lateness_ms` for which the answer is exact; None at the end."""
    edges = [row.lateness_ms for row in snapshot.whatif or ()] or _plain_steps(snapshot)
    if direction > 0:
        return next((edge for edge in edges if edge > lateness_ms), None)
    return next((edge for edge in reversed(edges) if edge < lateness_ms), None)


def step_idle(snapshot: Snapshot, idle_after_ms: int | None, direction: int) -> tuple[bool, int | None]:
    """The next idle timeout on the ladder (off is the longest), and whether there is one."""
    ladder = sorted((row.idle_after_ms for row in snapshot.whatif_idle or ()), key=_length)
    if not ladder:
        ladder = [step for step in _plain_steps(snapshot) if step]
        idle_after_ms = idle_after_ms or 0
    if direction < 0:
        ladder.reverse()
    here = _length(idle_after_ms)
    beyond = [step for step in ladder if (_length(step) - here) * direction > 0]
    return (True, beyond[0]) if beyond else (False, None)


def lateness(snapshot: Snapshot, lateness_ms: int) -> LatenessPreview:
    """The picture had lateness been `lateness_ms` from the start: exact at an edge, a range between two."""
    rows = snapshot.whatif or []
    zero = snapshot.level.at_zero_lateness_ms
    records = snapshot.totals.records
    late = late_at(rows, lateness_ms)
    then, now = _delay(rows, lateness_ms), _delay(rows, snapshot.settings.lateness_ms)
    return LatenessPreview(
        lateness_ms=lateness_ms,
        level_ms=None if zero is None else zero - lateness_ms,
        late=late,
        share=Range(late.low / records, late.high / records) if late and records else None,
        delay_change_ms=Range(then.low - now.high, then.high - now.low) if then and now else None,
        upper_bound=snapshot.whatif_upper_bound,
    )


def _plain_steps(snapshot: Snapshot) -> Sequence[int]:
    """The values for the keys if there is no what-if, but a line for the job."""
    return _STEPS_MS if kind_words(snapshot).previews_any_value else ()


def idle(snapshot: Snapshot, idle_after_ms: int | None) -> IdlePreview | None:
    """The effect of another idle timeout; None if the ladder does not have it."""
    row = next((row for row in snapshot.whatif_idle or () if row.idle_after_ms == idle_after_ms), None)
    if row is None:
        plain = not snapshot.whatif_idle and idle_after_ms in _plain_steps(snapshot)
        return IdlePreview(idle_after_ms, None, None, None, None, None, about=False) if plain else None
    records = snapshot.totals.records
    return IdlePreview(
        idle_after_ms=idle_after_ms,
        level_ms=row.watermark_ms,
        holder=row.holder,
        flaps=row.flaps,
        late=row.late,
        share=row.late / records if records else None,
        about=row.late_error > 0,
    )


def _length(idle_after_ms: int | None) -> float:
    return float("inf") if idle_after_ms is None else idle_after_ms


def late_at(rows: Sequence[WhatIf | RecentRow], lateness_ms: int) -> Range | None:
    """Late records at `lateness_ms`, between the counts at the edges around it, since they fall as lateness grows;
    below the first edge (ms) not known.
    """
    if not rows or lateness_ms < rows[0].lateness_ms:
        return None
    place = bisect_left(rows, lateness_ms, key=lambda row: row.lateness_ms)
    if place == len(rows):
        return Range(0, rows[-1].late)
    if rows[place].lateness_ms == lateness_ms:
        return Range(rows[place].late, rows[place].late)
    return Range(rows[place].late, rows[max(place - 1, 0)].late)


def _delay(rows: list[WhatIf], lateness_ms: int | None) -> Range | None:
    if lateness_ms is None:
        return None
    place = bisect_left(rows, lateness_ms, key=lambda row: row.lateness_ms)
    if place == len(rows):
        return None
    below = place if rows[place].lateness_ms == lateness_ms else place - 1
    low, high = rows[max(below, 0)].delay_ms, rows[place].delay_ms
    return None if low is None or high is None else Range(min(low, high), max(low, high))


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
