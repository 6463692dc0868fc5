"""Rules about what is lost, what comes late and what is dear: lateness, batches, state."""

from collections.abc import Sequence
from math import ceil
from statistics import median

from ..history import HistoryPoint, Phases
from ..lateness import recommended_lateness_ms
from ..snapshot import WhatIf
from .case import MINUTE, SECOND, Case, Finding, share, thirds

ENOUGH = 1_000
"""Records from which on a share says something."""
LOST_SHARE, WANTED = 0.023, 0.99
"""Lateness is too small when more than this is late (2.3 %: beyond two deviations); what is then recommended."""
KEPT_SHARE, ENOUGH_KEPT, SHORTER, SOONER = 0.999, 10_000, 3, 0.3
"""Lateness is too large when a third of it keeps this share of so many records, and results come so much sooner."""
SLOW_MS, SLOW_TIMES, SLOW_PART, FEW = 2 * SECOND, 10, 50, 5
"""A batch is slow from here on, so many emit intervals, and a part of the normal delay; seen in a few batches."""
BACKLOG, BACKLOG_GROWS, WATCHED_MS = 1_000, 1.5, MINUTE
"""Falling behind: so many records unread, growing so much from one third of the time to the last."""
STATE_TIMES, STATE_GROWS, STATE_WATCHED_MS = 2, 1.3, 2 * MINUTE
"""State grows: so many times the windows that the settings explain, or by so much in each third of the time."""
HUNG_MS, HUNG_TIMES = 5 * MINUTE, 10


class LatenessTooSmall(Finding, frozen=True, kw_only=True, tag="lateness-too-small"):
    """Too many records come when their windows have closed."""

    late: int
    late_share: float
    recent_share: float | None
    lateness_ms: int | None
    needed_ms: int | None
    """The lateness at which 99 % would have been on time; None where that is not known."""
    needed_share: float | None
    later_ms: float | None
    """How much later results would come with it."""


class Dropped(Finding, frozen=True, kw_only=True, tag="dropped"):
    """A query that others run drops rows behind its watermark."""

    rows: int
    lateness_ms: int | None
    column: str | None


class LatenessTooLarge(Finding, frozen=True, kw_only=True, tag="lateness-too-large"):
    """Results wait for records that do not come."""

    lateness_ms: int
    late_share: float
    enough_ms: int
    """The lateness at which 99.9 % would have been on time."""
    enough_share: float
    sooner_ms: float


class SlowBatches(Finding, frozen=True, kw_only=True, tag="slow-batches"):
    """Batches take long, or do not keep up with what comes."""

    batch_ms: int
    emit_every_ms: int | None
    """None: of a query that others run."""
    phase: str | None
    """What takes most of it, a field of `Phases`, and its share."""
    phase_share: float | None
    rows_in: float | None
    rows_done: float | None
    backlog: int | None
    backlog_per_s: float | None
    """How fast what is unread grows, where it does (records per second)."""


class HungBatch(Finding, frozen=True, kw_only=True, tag="hung-batch"):
    """A batch has begun and not ended for much longer than usual: it hangs, or the query has died in it."""

    batch: int | None
    age_ms: int
    usual_ms: int | None


class StateGrows(Finding, frozen=True, kw_only=True, tag="state-grows"):
    """More and more is kept, because the level does not follow."""

    rows: int | None
    before_rows: int | None
    windows: int | None
    expected_windows: int | None
    """How many the settings explain."""
    watched_ms: int
    bytes: int | None
    watermark: bool
    """There is one at all: without, nothing is ever let go."""


def lateness_too_small(case: Case) -> LatenessTooSmall | None:
    """More is late than two deviations leave, since the start and lately."""
    totals, settings = case.snapshot.totals, case.settings
    late_share = share(totals.late, totals.records)
    if late_share is None or (totals.records or 0) < ENOUGH or late_share <= LOST_SHARE:
        return None
    recent = _recent_share(case)
    if recent is not None and recent <= LOST_SHARE:
        return None
    rows, own = case.snapshot.whatif or [], case.own_lateness
    edges, late = [row.lateness_ms for row in rows], [row.late for row in rows]
    needed_ms = recommended_lateness_ms(edges, late, totals.records or 0, WANTED) if rows else None
    needed = next((row for row in rows if row.lateness_ms == needed_ms), None)
    if needed is not None and needed.lateness_ms <= (settings.lateness_ms or 0):
        needed = None  # not lateness: what is late now was let through by the settings of before
    return LatenessTooSmall(
        harm="loses",
        size=late_share,
        late=totals.late or 0,
        late_share=late_share,
        recent_share=recent,
        lateness_ms=settings.lateness_ms,
        needed_ms=needed.lateness_ms if needed else None,
        needed_share=needed.late_share if needed else None,
        later_ms=_delay(needed, own),
    )


def dropped(case: Case) -> Dropped | None:
    """What Spark itself says that it has dropped, where nobody counts the records."""
    spark, settings = case.snapshot.spark, case.settings
    if not spark.dropped_at_least or case.snapshot.totals.late is not None:
        return None
    columns = [node.column for node in spark.nodes or ()]
    return Dropped(
        harm="loses",
        size=share(spark.dropped_at_least, case.snapshot.totals.records) or 0.0,
        rows=spark.dropped_at_least,
        lateness_ms=settings.lateness_ms,
        column=columns[0] if len(columns) == 1 else None,
    )


def lateness_too_large(case: Case) -> LatenessTooLarge | None:
    """A third of the lateness would do for 999 of 1,000 records, and results would come clearly sooner."""
    totals, own, lateness_ms = case.snapshot.totals, case.own_lateness, case.settings.lateness_ms
    rows = case.snapshot.whatif or []
    if own is None or not lateness_ms or (totals.records or 0) < ENOUGH_KEPT or own.delay_ms is None:
        return None
    enough_ms = recommended_lateness_ms(
        [row.lateness_ms for row in rows], [row.late for row in rows], totals.records or 0, KEPT_SHARE
    )
    enough = next((row for row in rows if row.lateness_ms == enough_ms), None)
    if enough is None or enough.lateness_ms * SHORTER > lateness_ms or enough.delay_ms is None:
        return None
    sooner_ms = own.delay_ms - enough.delay_ms
    if sooner_ms < max(SECOND, SOONER * own.delay_ms):
        return None
    return LatenessTooLarge(
        harm="delays",
        size=sooner_ms,
        lateness_ms=lateness_ms,
        late_share=own.late_share or 0.0,
        enough_ms=enough.lateness_ms,
        enough_share=enough.late_share or 0.0,
        sooner_ms=sooner_ms,
    )


def slow_batches(case: Case) -> SlowBatches | None:
    """Batches that take a good part of the normal delay of a result, or a backlog that grows and grows."""
    if case.ended:
        return None
    batches = _batches(case.past)
    took = [point.batch_ms for point in batches[-30:] if point.batch_ms is not None]
    growth = _backlog_growth(case)
    if len(took) < FEW and growth is None:
        return None
    batch_ms = int(median(took)) if took else 0
    emit = None if case.others else case.settings.emit_every_ms
    slow = len(took) >= FEW and batch_ms >= max(SLOW_MS, SLOW_TIMES * (emit or 0), case.scale_ms // SLOW_PART)
    if not slow and growth is None:
        return None
    backlog, spark = case.past[-1].backlog, case.snapshot.spark
    phase, part = _longest_phase([point.phases for point in batches[-30:] if point.phases])
    done = spark.processed_rows_per_second
    return SlowBatches(
        harm="delays",
        size=max(batch_ms, SECOND * (backlog or 0) / done if growth and done else 0),
        batch_ms=batch_ms,
        emit_every_ms=emit,
        phase=phase,
        phase_share=part,
        rows_in=spark.input_rows_per_second,
        rows_done=done,
        backlog=backlog,
        backlog_per_s=growth,
    )


def hung_batch(case: Case) -> HungBatch | None:
    """The batch in flight is far older than batches usually get."""
    spark, wall_ms = case.snapshot.spark, case.snapshot.wall_ms
    if case.ended or not spark.in_flight or spark.batch_timestamp_ms is None or wall_ms is None:
        return None
    took = [point.batch_ms for point in _batches(case.past) if point.batch_ms is not None]
    usual = int(median(took)) if took else spark.batch_ms
    age_ms = wall_ms - spark.batch_timestamp_ms
    if age_ms < max(HUNG_MS, HUNG_TIMES * (usual or 0)):
        return None
    return HungBatch(harm="stops", size=age_ms, batch=case.snapshot.batch, age_ms=age_ms, usual_ms=usual)


def state_grows(case: Case) -> StateGrows | None:
    """Twice the windows that the settings explain, and ever more; or state that grows while the level stands."""
    points = [p for p in case.last(15 * MINUTE) if p.state_rows is not None or p.open_windows is not None]
    if case.ended or len(points) < 30 or points[-1].wall_ms - points[0].wall_ms < STATE_WATCHED_MS:
        return None
    windows = [point.open_windows or 0 for point in points]
    rows = [point.state_rows or 0 for point in points]
    expected = None
    if case.slide_ms is not None and case.settings.lateness_ms is not None:
        expected = ceil(case.scale_ms / case.slide_ms) + 2
    if expected is not None and any(windows):
        first, second, third = thirds(windows)
        if not (first + 1 <= second and second + 1 <= third and windows[-1] >= STATE_TIMES * expected):
            return None
    else:
        first, second, third = thirds(rows)
        stood = len({point.watermark_ms for point in points[len(points) // 3 :]}) == 1
        if not stood or not 0 < first * STATE_GROWS <= second or not second * STATE_GROWS <= third:
            return None
    known = points[0].state_rows is not None and points[-1].state_rows is not None
    return StateGrows(
        harm="burdens",
        size=rows[-1],
        rows=rows[-1] if known else None,
        before_rows=rows[0] if known else None,
        windows=points[-1].open_windows,
        expected_windows=expected,
        watched_ms=points[-1].wall_ms - points[0].wall_ms,
        bytes=case.snapshot.spark.state_bytes,
        watermark=points[-1].watermark_ms is not None,
    )


def _recent_share(case: Case) -> float | None:
    """The late share over the history; None where too few records came in it."""
    if not case.past:
        return None
    records = case.past[-1].records - case.past[0].records
    return (case.past[-1].late - case.past[0].late) / records if records >= ENOUGH else None


def _delay(other: WhatIf | None, own: WhatIf | None) -> float | None:
    if other is None or own is None or other.delay_ms is None or own.delay_ms is None:
        return None
    return other.delay_ms - own.delay_ms


def _batches(points: Sequence[HistoryPoint]) -> list[HistoryPoint]:
    """One point for each batch, the oldest first."""
    pairs = zip(points, [None, *points], strict=False)
    return [point for point, before in pairs if before is None or point.batch != before.batch]


def _backlog_growth(case: Case) -> float | None:
    """By how many records a second what is unread grows, where it does so all the time."""
    points = [(point.wall_ms, point.backlog) for point in case.last(5 * MINUTE) if point.backlog is not None]
    if len(points) < 10 or points[-1][0] - points[0][0] < WATCHED_MS:
        return None
    first, second, third = thirds([backlog for _, backlog in points])
    if third < BACKLOG or not first < second < third or third < BACKLOG_GROWS * first:
        return None
    return SECOND * (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])


def _longest_phase(phases: Sequence[Phases]) -> tuple[str | None, float | None]:
    sums = {name: sum(getattr(phase, name) for phase in phases) for name in Phases.__struct_fields__}
    total = sum(sums.values())
    if not total:
        return None, None
    name = max(sums, key=lambda name: sums[name])
    return name, sums[name] / total
