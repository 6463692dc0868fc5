"""A rule about the plan of an attached Spark query: state that the watermark never removes."""

from typing import Literal

from ..snapshot import OperatorKind, StatefulOperator
from .diagnosis_input import DiagnosisInput
from .finding import Finding, Fix, FixCode, Severity

KeptReason = Literal["no_watermark", "watermark_after", "watermark_lost", "key_without_window", "join_unbounded"]


class StateNeverRemoved(Finding, frozen=True, kw_only=True, tag="state-never-removed"):
    """The watermark makes these operators remove nothing: their state grows as long as the query runs."""

    kind: OperatorKind
    """Of the one with most rows, as the next two."""
    rows: int | None
    reason: KeptReason | None
    """None: not known."""
    operators: int


def state_never_removed(given: DiagnosisInput) -> StateNeverRemoved | None:
    """Stateful operators whose keys carry no watermark; complete mode keeps everything on purpose."""
    spark = given.snapshot.spark
    kept = [one for one in spark.operators or () if one.evicts is False and one.output_mode != "complete"]
    if not kept or spark.output_mode == "complete":
        return None
    first = max(kept, key=lambda one: one.rows or 0)
    reason = _reason(first, given)
    fixes: dict[KeptReason | None, FixCode] = {
        "no_watermark": "add-watermark",
        "watermark_after": "watermark-the-source",
        "watermark_lost": "keep-event-time",
        "key_without_window": "key-with-window",
        "join_unbounded": "bound-join",
        None: "keep-event-time",
    }
    totals = first.kind == "aggregation" and not first.windowed
    severity: Severity = "info" if totals and reason in ("no_watermark", None) else "warning"
    return StateNeverRemoved(
        severity=severity,
        size=sum(one.rows or 0 for one in kept),
        kind=first.kind,
        rows=first.rows,
        reason=reason,
        operators=len(kept),
        fixes=(Fix(code=fixes[reason]),),
    )


def _reason(one: StatefulOperator, given: DiagnosisInput) -> KeptReason | None:
    spark = given.snapshot.spark
    if one.watermarks is None:
        return "no_watermark" if spark.has_watermark is False else None
    if not one.watermarks:
        return "watermark_after" if any(node.after_state for node in spark.nodes or ()) else "no_watermark"
    if one.kind == "join":
        return "join_unbounded"
    return "key_without_window" if one.kind == "aggregation" and one.windowed is False else "watermark_lost"
