"""A rule about the plan of an attached Spark query: state that the watermark never removes."""

from typing import Literal

from ..snapshot import OperatorKind, StatefulOperator
from .diagnosis_input import DiagnosisInput
from .finding import Finding, Fix, FixCode, Severity

KeptReason = Literal[
    "no_watermark",
    "watermark_after",
    "watermark_lost",
    "key_without_window",
    "join_unbounded",
    "dedup_without_time",
    "mode_not_known",
]


class StateNeverRemoved(Finding, frozen=True, kw_only=True, tag="state-never-removed"):
    """The watermark never removes state of these operators: it grows as long as the query runs."""

    kind: OperatorKind
    """The kind of the operator with most rows; the next two fields are also about that one."""
    rows: int | None
    reason: KeptReason | None
    """None: not known."""
    operators: int


def state_never_removed(given: DiagnosisInput) -> StateNeverRemoved | None:
    """Stateful operators whose keys have no watermark; complete mode keeps everything on purpose."""
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
        "dedup_without_time": "dedup-with-time",
        "mode_not_known": "add-watermark",
        None: "keep-event-time",
    }
    totals = first.kind == "aggregation" and not first.windowed
    meant = reason == "mode_not_known" or (totals and reason in ("no_watermark", None))
    severity: Severity = "info" if meant else "warning"
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
    if one.watermarks is None and spark.has_watermark is False:
        return "no_watermark"
    if one.watermarks is None:  # only its state is known; complete mode would keep everything
        return "mode_not_known" if spark.output_mode is None and given.watermark_ms is None else None
    if not one.watermarks:
        return "watermark_after" if any(node.after_state for node in spark.nodes or ()) else "no_watermark"
    if one.kind == "join":
        return "join_unbounded"
    if one.kind == "dedup":
        return "dedup_without_time"
    return "key_without_window" if one.kind == "aggregation" and one.windowed is False else "watermark_lost"
