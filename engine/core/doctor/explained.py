"""Rules about the columns of `--explain`: wrong clocks, and what late records have in common."""

from msgspec.structs import replace

from ..snapshot import ExplainedColumn, ExplainedValue
from .diagnosis_input import MINUTE, DiagnosisInput
from .finding import Finding, Fix

ZONE_STEP_MS, MOST_ZONE_MS = 15 * MINUTE, 14 * 60 * MINUTE
"""Time zones differ by multiples of this (ms), by at most this much (ms)."""
_ZONE_SLACK_MS = 2 * MINUTE
_LEAST_LATE, _LEAST_RATIO, _LEAST_SHARE, _MOST_ALSO = 20, 2.0, 0.2, 3
_CLEAR_SHARE = 0.5


class ClockSkew(Finding, frozen=True, kw_only=True, tag="clock-skew"):
    """The event times of one value are `offset_ms` behind (above 0) or ahead of those of most records."""

    column: str
    value: str
    records: int
    offset_ms: int
    low_ms: int
    high_ms: int
    usual_ms: int
    zone_ms: int | None
    """The time zone difference (ms) that matches the offset; None: none does."""
    drift_ms_per_hour: int | None
    """How much the offset grows per hour; None: it is constant."""
    more: int
    """How many further values of the column have wrong clocks."""


class LateCause(Finding, frozen=True, kw_only=True, tag="late-cause"):
    """One value has `late_share` of the late records and only `share` of all."""

    column: str
    value: str
    late: int
    late_share: float
    share: float
    lift: float
    low: float
    high: float
    approximate: bool
    also: tuple[tuple[str, str, float], ...] = ()
    """Further values for which the same is true: column, value, share of the late records."""


def clock_skew(given: DiagnosisInput) -> ClockSkew | None:
    """The value whose clock is farthest off: far beyond the spread of its own records and of the others'."""
    found = [
        (offset, column.column) for column in given.snapshot.explain or () for offset in column.offsets if offset.stable
    ]
    if not found:
        return None
    worst, column = max(found, key=lambda pair: (abs(pair[0].offset_ms), pair[0].records))
    nearest = round(worst.offset_ms / ZONE_STEP_MS) * ZONE_STEP_MS
    is_zone = 0 < abs(nearest) <= MOST_ZONE_MS and abs(worst.offset_ms - nearest) <= _ZONE_SLACK_MS
    is_zone = is_zone and worst.drift_ms_per_hour is None
    return ClockSkew(
        severity="warning",
        size=abs(worst.offset_ms),
        column=column,
        value=worst.value,
        records=worst.records,
        offset_ms=worst.offset_ms,
        low_ms=worst.low_ms,
        high_ms=worst.high_ms,
        usual_ms=worst.usual_ms,
        zone_ms=nearest if is_zone else None,
        drift_ms_per_hour=worst.drift_ms_per_hour,
        more=sum(of == column for _, of in found) - 1,
        fixes=(Fix(code="convert-to-utc"),) if is_zone else (Fix(code="correct-clock"),),
    )


def late_cause(given: DiagnosisInput) -> LateCause | None:
    """The value that most late records have but few of all records, beyond chance; values with a wrong clock are left
    out.
    """
    columns = given.snapshot.explain or ()
    clocks = {(column.column, offset.value) for column in columns for offset in column.offsets if offset.stable}
    found = [
        cause
        for column in columns
        for value in column.values
        if (column.column, value.value) not in clocks and (cause := _cause(column, value)) is not None
    ]
    found.sort(key=lambda cause: (cause.share - cause.late_share, cause.column))
    if not found:
        return None
    return replace(found[0], also=tuple((it.column, it.value, it.late_share) for it in found[1 : 1 + _MOST_ALSO]))


def _cause(column: ExplainedColumn, value: ExplainedValue) -> LateCause | None:
    """The finding about one value, if its records are late far more often than those without it."""
    if not value.sure or value.lift is None or value.low is None or value.high is None or not column.late:
        return None
    share, late_share = value.records / column.records, value.late / column.late
    if value.late < _LEAST_LATE or late_share < _LEAST_SHARE:
        return None
    others = (column.late - value.late) / max(column.records - value.records, 1)
    if value.low * column.late / column.records < _LEAST_RATIO * others:
        return None
    return LateCause(
        severity="warning" if late_share >= _CLEAR_SHARE else "info",
        size=late_share,
        column=column.column,
        value=value.value,
        late=value.late,
        late_share=late_share,
        share=share,
        lift=value.lift,
        low=value.low,
        high=value.high,
        approximate=column.approximate,
        fixes=(Fix(code="fix-cause"), Fix(code="see-late-records")),
    )
