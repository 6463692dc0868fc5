"""Rules about lateness: too small, larger than needed, a burst of late records, rows that Spark drops."""

from ..lateness import recommended_lateness_ms
from ..snapshot import WhatIf
from .diagnosis_input import SECOND, DiagnosisInput, loss_severity, share
from .finding import Finding, Fix

ENOUGH = 1_000
"""Records from which on a share says something."""
LOST_SHARE, WANTED = 0.023, 0.99
"""Lateness is too small when more than this is late (2.3 %: beyond two deviations); what is then recommended."""
BURST_TIMES = 4
"""A burst: so many times the late share since the start."""
KEPT_SHARE, ENOUGH_KEPT, SHORTER, SOONER = 0.999, 10_000, 3, 0.5
"""Lateness is too large when a third of it keeps this share of so many records, and that saves so much of the time from
the start of a window to its result."""


class LatenessTooSmall(Finding, frozen=True, kw_only=True, tag="lateness-too-small"):
    """Too many records come when their windows are closed: since the start, or (`burst`) in the last minutes."""

    late: int
    late_share: float
    recent_share: float | None
    lateness_ms: int | None
    burst: bool
    """Only lately: since the start the share is small."""


class Dropped(Finding, frozen=True, kw_only=True, tag="dropped"):
    """An attached query drops rows behind its watermark; how late they are is not counted."""

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


def lateness_too_small(given: DiagnosisInput) -> LatenessTooSmall | None:
    """More is late than two deviations leave, since the start and lately."""
    totals, settings = given.snapshot.totals, given.settings
    late_share = share(totals.late, totals.records)
    if late_share is None or (totals.records or 0) < ENOUGH:
        return None
    recent = _recent_share(given)
    burst = late_share <= LOST_SHARE
    if (late_share if recent is None else recent) <= LOST_SHARE:
        return None
    if burst and (recent is None or recent < BURST_TIMES * late_share):
        return None
    return LatenessTooSmall(
        severity=loss_severity(recent if burst else late_share),
        size=recent if burst and recent is not None else late_share,
        late=totals.late or 0,
        late_share=late_share,
        recent_share=recent,
        lateness_ms=settings.lateness_ms,
        burst=burst,
        fixes=_longer(given, burst=burst),
    )


def _longer(given: DiagnosisInput, *, burst: bool) -> tuple[Fix, ...]:
    """The lateness at which 99 % would have been on time, where there is one."""
    if given.settings.lateness_ms is None:
        return (Fix(code="use-strategy-with-lateness"),)
    rows = given.snapshot.whatif or []
    edges, late = [row.lateness_ms for row in rows], [row.late for row in rows]
    records = given.snapshot.totals.records or 0
    needed_ms = None if burst or not rows else recommended_lateness_ms(edges, late, records, WANTED)
    needed = next((row for row in rows if row.lateness_ms == needed_ms), None)
    if needed is None or needed.lateness_ms <= given.settings.lateness_ms:
        return (Fix(code="see-late-records"),)  # what is late now was let through by the settings of before
    later_ms = _delay(needed, given.own_lateness)
    fix = Fix(code="set-lateness", value_ms=needed.lateness_ms, late_share=needed.late_share, later_ms=later_ms)
    return (fix,)


def dropped(given: DiagnosisInput) -> Dropped | None:
    """What Spark reports as dropped, where the records are not counted."""
    spark, settings = given.snapshot.spark, given.settings
    if not spark.dropped_at_least or given.snapshot.totals.late is not None:
        return None
    columns = [node.column for node in spark.nodes or ()]
    return Dropped(
        severity="warning",
        size=share(spark.dropped_at_least, given.snapshot.totals.records) or 0.0,
        rows=spark.dropped_at_least,
        lateness_ms=settings.lateness_ms,
        column=columns[0] if len(columns) == 1 else None,
        fixes=(Fix(code="lengthen-lateness"), Fix(code="tap-input")),
    )


def lateness_too_large(given: DiagnosisInput) -> LatenessTooLarge | None:
    """A third of the lateness would do for 999 of 1,000 records, and results would come clearly sooner."""
    totals, own, lateness_ms = given.snapshot.totals, given.own_lateness, given.settings.lateness_ms
    rows = given.snapshot.whatif or []
    if own is None or not lateness_ms or (totals.records or 0) < ENOUGH_KEPT or own.delay_ms is None:
        return None
    enough_ms = recommended_lateness_ms(
        [row.lateness_ms for row in rows], [row.late for row in rows], totals.records or 0, KEPT_SHARE
    )
    enough = next((row for row in rows if row.lateness_ms == enough_ms), None)
    if enough is None or enough.lateness_ms * SHORTER > lateness_ms or enough.delay_ms is None:
        return None
    sooner_ms = own.delay_ms - enough.delay_ms
    if sooner_ms < max(SECOND, SOONER * (given.window_ms + own.delay_ms)):
        return None
    return LatenessTooLarge(
        severity="info",
        size=sooner_ms,
        lateness_ms=lateness_ms,
        late_share=own.late_share or 0.0,
        enough_ms=enough.lateness_ms,
        enough_share=enough.late_share or 0.0,
        sooner_ms=sooner_ms,
        fixes=(
            Fix(code="set-lateness", value_ms=enough.lateness_ms, late_share=enough.late_share, later_ms=-sooner_ms),
        ),
    )


def _recent_share(given: DiagnosisInput) -> float | None:
    """The late share over the history; None where too few records came in it."""
    if not given.past:
        return None
    records = given.past[-1].records - given.past[0].records
    return (given.past[-1].late - given.past[0].late) / records if records >= ENOUGH else None


def _delay(other: WhatIf | None, own: WhatIf | None) -> float | None:
    if other is None or own is None or other.delay_ms is None or own.delay_ms is None:
        return None
    return other.delay_ms - own.delay_ms
