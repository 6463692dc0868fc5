"""Rules about batches and state: slow batches, a backlog that grows, a batch that never ends, state that grows."""

from collections.abc import Sequence
from math import ceil
from statistics import median

from ..verdict.history import HistoryPoint, Phases
from .diagnosis_input import MINUTE, SECOND, DiagnosisInput, thirds
from .finding import Finding, Fix
from .spark import MANAGE_THEIR_STATE

SLOW_MS, SLOW_TIMES, SLOW_PART, FEW = 2 * SECOND, 10, 50, 5
"""A batch is slow from this duration (ms) on, if it lasts this many emit intervals and takes this part of the normal
delay; and how many batches must show it.
"""
BACKLOG, BACKLOG_GROWS, WATCHED_MS = 1_000, 1.5, MINUTE
"""Falling behind: unread records, their growth from the first third of the watched time to the last, and that time
(ms).
"""
STATE_TIMES, STATE_GROWS, STATE_WATCHED_MS = 2, 1.3, 2 * MINUTE
"""State grows: as a multiple of the windows that the settings explain, or by this factor in each third of the watched
time (ms).
"""
HUNG_MS, HUNG_TIMES = 5 * MINUTE, 10


class SlowBatches(Finding, frozen=True, kw_only=True, tag="slow-batches"):
    """Batches take long, or do not keep up with the input."""

    batch_ms: int
    emit_every_ms: int | None
    """The emit interval; None: an attached query."""
    phase: str | None
    """The phase that takes most of the time, a field of `Phases`, and its share."""
    phase_share: float | None
    rows_in: float | None
    rows_done: float | None
    backlog: int | None
    backlog_per_s: float | None
    """How fast the backlog grows, if it does (records per second)."""


class HungBatch(Finding, frozen=True, kw_only=True, tag="hung-batch"):
    """A batch began and has not ended for much longer than usual: it hangs, or the query died in it."""

    batch: int | None
    age_ms: int
    usual_ms: int | None


class StateGrows(Finding, frozen=True, kw_only=True, tag="state-grows"):
    """State keeps growing, because the watermark does not follow."""

    rows: int | None
    before_rows: int | None
    windows: int | None
    expected_windows: int | None
    """How many windows the settings explain."""
    watched_ms: int
    bytes: int | None
    watermark: bool
    """Whether there is a watermark at all: without one nothing is ever removed."""


def slow_batches(given: DiagnosisInput) -> SlowBatches | None:
    """Batches that take a large part of the normal delay of a result, or a backlog that keeps growing."""
    if given.ended:
        return None
    batches = _batches(given.past)
    took = [point.batch_ms for point in batches[-30:] if point.batch_ms is not None]
    growth = _backlog_growth(given)
    if len(took) < FEW and growth is None:
        return None
    batch_ms = int(median(took)) if took else 0
    emit = None if given.is_attached else given.settings.emit_every_ms
    slow = len(took) >= FEW and batch_ms >= max(SLOW_MS, SLOW_TIMES * (emit or 0), given.scale_ms // SLOW_PART)
    if not slow and growth is None:
        return None
    backlog, spark = given.past[-1].backlog, given.snapshot.spark
    phase, part = _longest_phase([point.phases for point in batches[-30:] if point.phases])
    done = spark.processed_rows_per_second
    capacity = Fix(code="speed-up-batches" if phase is not None else "add-capacity")
    return SlowBatches(
        severity="warning",
        size=max(batch_ms, SECOND * (backlog or 0) / done if growth and done else 0),
        batch_ms=batch_ms,
        emit_every_ms=emit,
        phase=phase,
        phase_share=part,
        rows_in=spark.input_rows_per_second,
        rows_done=done,
        backlog=backlog,
        backlog_per_s=growth,
        fixes=(capacity, Fix(code="lengthen-trigger")) if given.is_attached else (capacity,),
    )


def hung_batch(given: DiagnosisInput) -> HungBatch | None:
    """A batch in flight that is far older than batches usually get."""
    spark, wall_ms = given.snapshot.spark, given.snapshot.wall_ms
    if given.ended or not spark.in_flight or spark.batch_timestamp_ms is None or wall_ms is None:
        return None
    took = [point.batch_ms for point in _batches(given.past) if point.batch_ms is not None]
    usual = int(median(took)) if took else spark.batch_ms
    age_ms = wall_ms - spark.batch_timestamp_ms
    if age_ms < max(HUNG_MS, HUNG_TIMES * (usual or 0)):
        return None
    return HungBatch(
        severity="critical",
        size=age_ms,
        batch=given.snapshot.batch,
        age_ms=age_ms,
        usual_ms=usual,
        fixes=(Fix(code="check-query"),),
    )


def state_grows(given: DiagnosisInput) -> StateGrows | None:
    """State with twice the windows that the settings explain that still grows; or state that grows while the watermark
    is frozen.
    """
    points = [p for p in given.last(15 * MINUTE) if p.state_rows is not None or p.open_windows is not None]
    spark = given.snapshot.spark
    if spark.output_mode in ("complete", "update"):
        return None  # these modes keep emitted results, by design
    if spark.operators and all(one.kind in MANAGE_THEIR_STATE for one in spark.operators):
        return None  # the user's code removes state, or keeps it on purpose
    if given.ended or len(points) < 30 or points[-1].wall_ms - points[0].wall_ms < STATE_WATCHED_MS:
        return None
    windows = [point.open_windows for point in points if point.open_windows is not None]
    rows = [point.state_rows or 0 for point in points]
    expected = None
    if given.slide_ms is not None and given.settings.lateness_ms is not None:
        expected = ceil(given.scale_ms / given.slide_ms) + 2
    if expected is not None and any(windows) and len(windows) == len(points):
        first, second, third = thirds(windows)
        if not (first + 1 <= second and second + 1 <= third and windows[-1] >= STATE_TIMES * expected):
            return None
    else:
        first, second, third = thirds(rows)
        frozen = len({point.watermark_ms for point in points[len(points) // 3 :]}) == 1
        if not frozen or not 0 < first * STATE_GROWS <= second or not second * STATE_GROWS <= third:
            return None
    known = points[0].state_rows is not None and points[-1].state_rows is not None
    return StateGrows(
        severity="warning",
        size=rows[-1],
        rows=rows[-1] if known else None,
        before_rows=rows[0] if known else None,
        windows=points[-1].open_windows,
        expected_windows=expected,
        watched_ms=points[-1].wall_ms - points[0].wall_ms,
        bytes=given.snapshot.spark.state_bytes,
        watermark=points[-1].watermark_ms is not None,
        fixes=(Fix(code="free-watermark" if points[-1].watermark_ms is not None else "add-watermark"),),
    )


def _batches(points: Sequence[HistoryPoint]) -> list[HistoryPoint]:
    """One point per batch, the oldest first."""
    pairs = zip(points, [None, *points], strict=False)
    return [point for point, before in pairs if before is None or point.batch != before.batch]


def _backlog_growth(given: DiagnosisInput) -> float | None:
    """The growth of the backlog in records per second, if it grows all the time; else None."""
    points = [(point.wall_ms, point.backlog) for point in given.last(5 * MINUTE) if point.backlog is not None]
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
