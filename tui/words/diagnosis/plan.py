"""The finding about the plan of an attached Spark query, in words. Pure."""

from ....engine.doctor.plan import KeptReason, StateNeverRemoved
from ..operators import OPERATORS
from .explanation import Context, Explainers, Explanation, n

_KEPT: dict[KeptReason | None, str] = {
    "no_watermark": "No withWatermark comes before it, so Spark does not know when its state is no longer needed.",
    "watermark_after": "withWatermark comes after it: a watermark is only known to what follows it.",
    "watermark_lost": "Its window or key uses a column without the watermark: overwritten, or derived from it.",
    "key_without_window": "Its key has no window: the watermark does not say when a key is finished.",
    "join_unbounded": (
        "Rows of at least one input stay in state: the join condition does not bound event time in both directions, "
        "or an input has no withWatermark."
    ),
    "dedup_without_time": "Its key lacks the event-time column: the watermark does not say when a key is finished.",
    "mode_not_known": (
        "Its keys carry no watermark. In complete mode that is intended; a checkpoint alone does not show the mode."
    ),
    None: "Its keys carry no watermark.",
}


def _never_removed(it: StateNeverRemoved, context: Context) -> Explanation:
    rows = [] if it.rows is None else [f"{n(it.rows, 'row')} in state"]
    return Explanation(
        f"The {OPERATORS[it.kind]} never removes state",
        "State grows as long as the query runs",
        _KEPT[it.reason],
        [f"{n(it.operators, 'stateful operator')} without a watermark on the key", *rows],
        ("Operators",),
    )


EXPLAINERS: Explainers = {StateNeverRemoved: _never_removed}
