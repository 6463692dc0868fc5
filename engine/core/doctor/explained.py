"""Rules about the values of the columns of `--explain`: clocks that are off, and what late records have in common."""

from .diagnosis_input import MINUTE, DiagnosisInput
from .finding import Finding, Fix

ZONE_STEP_MS, MOST_ZONE_MS = 15 * MINUTE, 14 * 60 * MINUTE
"""Time zones differ by quarters of an hour."""
_ZONE_SLACK_MS = 2 * MINUTE
_LEAST_LATE, _LEAST_LIFT, _LEAST_SHARE = 20, 2.0, 0.3
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
    """The difference of time zones (ms) that it fits; None: none."""
    more: int
    """How many further values of the column have clocks that are off."""


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


def clock_skew(given: DiagnosisInput) -> ClockSkew | None:
    """The value whose clock is farthest off: far beyond the spread of its own records and of the others."""
    found = [
        (offset, column.column) for column in given.snapshot.explain or () for offset in column.offsets if offset.stable
    ]
    if not found:
        return None
    worst, column = max(found, key=lambda pair: (abs(pair[0].offset_ms), pair[0].records))
    nearest = round(worst.offset_ms / ZONE_STEP_MS) * ZONE_STEP_MS
    is_zone = 0 < abs(nearest) <= MOST_ZONE_MS and abs(worst.offset_ms - nearest) <= _ZONE_SLACK_MS
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
        more=sum(of == column for _, of in found) - 1,
        fixes=(Fix(code="convert-to-utc"),) if is_zone else (Fix(code="correct-clock"),),
    )


def late_cause(given: DiagnosisInput) -> LateCause | None:
    """The value that most late records have and few of all, beyond chance."""
    found: list[LateCause] = []
    for column in given.snapshot.explain or ():
        late = column.other_late + sum(value.late for value in column.values)
        records = given.snapshot.totals.records or 0
        late = max(late, given.snapshot.totals.late or 0)
        if late < _LEAST_LATE or not records or not column.values:
            continue
        first = column.values[0]
        if first.lift is None or first.low is None or first.high is None or first.low < _LEAST_LIFT:
            continue
        if first.late < max(_LEAST_LATE, _LEAST_SHARE * late):
            continue
        share = first.late / late
        found.append(
            LateCause(
                severity="warning" if share >= _CLEAR_SHARE else "info",
                size=share,
                column=column.column,
                value=first.value,
                late=first.late,
                late_share=share,
                share=first.records / records,
                lift=first.lift,
                low=first.low,
                high=first.high,
                approximate=column.approximate,
                fixes=(Fix(code="fix-cause"), Fix(code="see-late-records")),
            )
        )
    return max(found, key=lambda finding: (finding.late_share - finding.share, finding.column), default=None)
