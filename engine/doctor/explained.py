"""What late records have in common, by the columns of `--explain`."""

from msgspec.structs import replace

from ..snapshot import ExplainedColumn, ExplainedValue
from .diagnosis_input import DiagnosisInput
from .finding import Finding, Fix

_MIN_LATE, _MIN_RATIO, _MIN_SHARE, _MAX_ALSO = 20, 2.0, 0.2, 3
_CLEAR_SHARE = 0.5


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


def late_cause(given: DiagnosisInput) -> LateCause | None:
    """The value that most late records have but few of all records, beyond chance."""
    columns = given.snapshot.explain or ()
    found = [cause for column in columns for value in column.values if (cause := _cause(column, value)) is not None]
    found.sort(key=lambda cause: (cause.share - cause.late_share, cause.column))
    if not found:
        return None
    return replace(found[0], also=tuple((it.column, it.value, it.late_share) for it in found[1 : 1 + _MAX_ALSO]))


def _cause(column: ExplainedColumn, value: ExplainedValue) -> LateCause | None:
    """The finding about one value, if its records are late far more often than those without it."""
    if not value.sure or value.lift is None or value.low is None or value.high is None or not column.late:
        return None
    share, late_share = value.records / column.records, value.late / column.late
    if value.late < _MIN_LATE or late_share < _MIN_SHARE:
        return None
    others = (column.late - value.late) / max(column.records - value.records, 1)
    if value.low * column.late / column.records < _MIN_RATIO * others:
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
        fixes=(Fix(code="fix-cause"), Fix(code="correct-clock"), Fix(code="see-late-records")),
    )
