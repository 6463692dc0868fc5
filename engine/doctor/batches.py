"""Batches and state: slow batches, a growing backlog, a batch that never ends, state that grows or is never removed."""

from collections.abc import Sequence
from math import ceil
from statistics import median
from typing import Literal

from ..snapshot import OperatorKind, StatefulOperator
from ..text import formatting as f
from ..text.codes import OPERATORS
from ..verdict.history import HistoryPoint, Phases
from ..watermarks.settings import Sliding, Tumbling
from .finding import ADD_WATERMARK, Finding, Fix, n, span
from .rules import MINUTE, SECOND, DiagnosisInput, rule, thirds

SLOW_MS, SLOW_TIMES, SLOW_PART, FEW = 2 * SECOND, 10, 50, 5
"""A batch is slow from this duration (ms), number of emit intervals and part of the normal delay on; enough batches."""
BACKLOG, BACKLOG_GROWS, WATCHED_MS = 1_000, 1.5, MINUTE
"""Falling behind: unread records, their growth from the first third of the watched time to the last, that time (ms)."""
STATE_TIMES, STATE_GROWS, STATE_WATCHED_MS = 2, 1.3, 2 * MINUTE
"""State grows: times the windows that the settings explain, or by this factor in each third of that time (ms)."""
HUNG_MS, HUNG_TIMES = 5 * MINUTE, 10
MANAGE_THEIR_STATE: tuple[OperatorKind, ...] = ("map_groups_with_state", "transform_with_state", "limit")
"""Operators that remove state by their own code and timers, or keep a single number: they need no watermark."""
_PHASES = {
    "offsets_ms": "asking the sources for offsets",
    "planning_ms": "planning",
    "work_ms": "reading and computing",
    "commit_ms": "committing to the checkpoint",
}
_LENGTHEN_TRIGGER = Fix("lengthen-trigger", "Set a trigger interval that is not shorter than a batch")
_ADD_CAPACITY = Fix("add-capacity", "Add cores, or do less work for each record")
_FREE_WATERMARK = Fix(
    "free-watermark", "Free the watermark: the main screen shows which channel holds it back, and why"
)
_FASTER = {
    "offsets_ms": "Make listing the source faster: fewer files or partitions, or a broker that is closer",
    "planning_ms": "Simplify the plan: fewer unions, fewer columns",
    "work_ms": "Add cores, or do less work for each record; a checkpoint keeps its number of shuffle partitions",
    "commit_ms": "Use a faster checkpoint directory: local disk instead of an object store",
}


@rule("slow-batches", "Progress", accounts_for=("slow",))
def slow_batches(facts: DiagnosisInput) -> Finding | None:
    """Batches take long, or the backlog keeps growing. Spark's watermark advances once a batch.

    Recognised by: the median batch takes at least 2 seconds, 10 emit intervals and a fiftieth of the time that a result
    takes; or the backlog has grown for a minute.
    What to do: speed up the phase that takes most of the time, or add cores.
    """
    if facts.ended:
        return None
    batches = _batches(facts.past)
    took = [point.batch_ms for point in batches[-30:] if point.batch_ms is not None]
    growth = _backlog_growth(facts)
    if len(took) < FEW and growth is None:
        return None
    spark, batch_ms = facts.snapshot.spark, int(median(took)) if took else 0
    emit = 0 if facts.is_attached else facts.settings.emit_every_ms
    slow = len(took) >= FEW and batch_ms >= max(SLOW_MS, SLOW_TIMES * emit, facts.scale_ms // SLOW_PART)
    slow = slow and spark.real_time_ms is None  # there a batch is as long as it is set to be
    if not slow and growth is None:
        return None
    backlog, come, done = facts.past[-1].backlog, spark.input_rows_per_second, spark.processed_rows_per_second
    phase, phase_share = _longest_phase(batches[-30:])
    capacity = _ADD_CAPACITY if phase is None else Fix("speed-up-batches", _FASTER[phase])
    waits, why = "The watermark advances", "The watermark advances once a batch: while one runs, no window fires."
    if spark.has_watermark is False:
        waits, why = "Results appear", "The results of a batch appear when it ends."
    what = "Batches do"
    if not took:
        what, why = "Processing does", "More records come than are processed."
    times = f", {batch_ms // emit:,} times the emit interval" if emit else ""
    can = "" if done is None else f", {f.rate(done)} can be processed"
    unread = n(backlog, "record")
    return Finding(
        size=max(batch_ms, SECOND * (backlog or 0) / done if growth and done else 0),
        title=f"{what} not keep up" if growth else "Batches are slow",
        impact=f"Backlog of {unread}, and growing" if growth else f"{waits} only every {span(batch_ms)}",
        cause=why,
        evidence=[
            f"Median batch: {span(batch_ms)}{times}" if took else None,
            None if phase is None else f"{f.share(phase_share)} of that: {_PHASES[phase]}",
            None if come is None else f"{f.rate(come)} rows/s come{can}",
            None if growth is None else f"Backlog: {unread}, {f.rate(growth)} more each second",
        ],
        fixes=(capacity, _LENGTHEN_TRIGGER) if facts.is_attached and took else (capacity,),
    )


def _longest_phase(batches: Sequence[HistoryPoint]) -> tuple[str | None, float | None]:
    """The phase that takes most of the time, a field of `Phases`, and its share; None: not known."""
    phases = [point.phases for point in batches if point.phases]
    sums = {name: sum(getattr(each, name) for each in phases) for name in Phases.__struct_fields__}
    total, longest = sum(sums.values()), max(sums, key=lambda name: sums[name])
    return (longest, sums[longest] / total) if total else (None, None)


def _batches(points: Sequence[HistoryPoint]) -> list[HistoryPoint]:
    """One point per batch, the oldest first."""
    pairs = zip(points, [None, *points], strict=False)
    return [point for point, before in pairs if before is None or point.batch != before.batch]


def _backlog_growth(facts: DiagnosisInput) -> float | None:
    """The growth of the backlog in records per second, if it grows all the time; else None."""
    points = [(point.wall_ms, point.backlog) for point in facts.last(5 * MINUTE) if point.backlog is not None]
    if len(points) < 10 or points[-1][0] - points[0][0] < WATCHED_MS:
        return None
    first, second, third = thirds([backlog for _, backlog in points])
    if third < BACKLOG or not first < second < third or third < BACKLOG_GROWS * first:
        return None
    return SECOND * (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])


@rule("hung-batch", "Progress", accounts_for=("stalled", "slow", "unknown"))
def hung_batch(facts: DiagnosisInput) -> Finding | None:
    """A batch began and has not ended for much longer than usual. It hangs, or the query died in it.

    Recognised by: a batch in flight for at least 5 minutes and 10 times the median batch.
    What to do: check the query's process and its log.
    """
    spark, wall_ms = facts.snapshot.spark, facts.snapshot.wall_ms
    if facts.ended or not spark.in_flight or spark.batch_timestamp_ms is None or wall_ms is None:
        return None
    took = [point.batch_ms for point in _batches(facts.past) if point.batch_ms is not None]
    usual = int(median(took)) if took else spark.batch_ms or spark.real_time_ms
    age_ms, batch = wall_ms - spark.batch_timestamp_ms, facts.snapshot.batch
    if age_ms < max(HUNG_MS, HUNG_TIMES * (usual or 0)):
        return None
    number = "The batch" if batch is None else f"Batch {batch:,}"
    return Finding(
        severity="critical",
        size=age_ms,
        title=f"{number} does not end",
        impact=f"No results for {span(age_ms)}",
        cause=f"It hangs or processes something large{'' if facts.is_alive else ', or the query has died in it'}.",
        evidence=[
            f"{number} began {span(age_ms)} ago and is not committed",
            None if usual is None else f"Median batch: {span(usual)}",
        ],
        fixes=(facts.check_query,),
    )


@rule(
    "state-grows",
    "Progress",
    "Windows",
    suppressed_by=(
        "node-without-data",
        "watermark-pinned",
        "watermark-never-moved",
        "no-watermark",
        "state-never-removed",
        "silent-channels",
        "no-data",
        "only-realigning",
        "lagging-channels",
        "frozen-by-lateness",
        "future-timestamps",
        "wrong-unit",
        "zone-shift",
    ),
)
def state_grows(facts: DiagnosisInput) -> Finding | None:
    """State keeps growing, because the watermark does not follow or does not exist.

    Recognised by: twice as many open windows as the settings explain, and still more; or state that grows by 30 % in
    each third of the observed time while the watermark is frozen.
    What to do: find out what holds back the watermark; without one, call `withWatermark`.
    """
    points = [p for p in facts.last(15 * MINUTE) if p.state_rows is not None or p.open_windows is not None]
    spark = facts.snapshot.spark
    if spark.output_mode in ("complete", "update"):
        return None  # these modes keep emitted results, by design
    if spark.operators and all(one.kind in MANAGE_THEIR_STATE for one in spark.operators):
        return None  # the user's code removes state, or keeps it on purpose
    if facts.ended or len(points) < 30 or points[-1].wall_ms - points[0].wall_ms < STATE_WATCHED_MS:
        return None
    windows = [point.open_windows for point in points if point.open_windows is not None]
    rows = [point.state_rows or 0 for point in points]
    spec, expected = facts.settings.window, None
    if isinstance(spec, Tumbling | Sliding) and facts.settings.lateness_ms is not None:
        expected = ceil(facts.scale_ms / spec.slide_ms) + 2
    if expected is not None and any(windows) and len(windows) == len(points):
        first, second, third = thirds(windows)
        if not (first + 1 <= second and second + 1 <= third and windows[-1] >= STATE_TIMES * expected):
            return None
    else:
        first, second, third = thirds(rows)
        frozen = len({point.watermark_ms for point in points[len(points) // 3 :]}) == 1
        if not frozen or not 0 < first * STATE_GROWS <= second or not second * STATE_GROWS <= third:
            return None
    before, now = points[0], points[-1]
    known = before.state_rows is not None and now.state_rows is not None
    opened = n(now.open_windows, "open window")
    in_state = f"{n(rows[-1], 'row')} in state" if known else opened
    accounted = "" if expected is None else f"; window and lateness account for {expected}"
    cause, fix = "Records open new windows faster than the watermark closes old ones.", _FREE_WATERMARK
    if now.watermark_ms is None:
        cause, fix = "Without a watermark no state is ever released.", ADD_WATERMARK
    return Finding(
        size=rows[-1],
        title="State keeps growing",
        impact=in_state,
        cause=cause,
        evidence=[
            in_state,
            f"{f.count(rows[0])} rows {span(now.wall_ms - before.wall_ms)} ago" if known else None,
            None if now.open_windows is None else opened + accounted,
            None if spark.state_bytes is None else f"{spark.state_bytes / 1_048_576:,.0f} MiB of memory",
        ],
        fixes=(fix,),
    )


@rule("no-watermark", "Operators", "Progress", accounts_for=("unknown",))
def no_watermark(facts: DiagnosisInput) -> Finding | None:
    """The query keeps state but has no watermark. Its state is never removed.

    Recognised by: a stateful operator that needs a watermark, and no `withWatermark` in the query.
    What to do: call `withWatermark` before the first stateful operator. For totals by key it may be intended.
    """
    spark = facts.snapshot.spark
    needing = [one for one in spark.operators or () if one.kind not in MANAGE_THEIR_STATE]
    # Complete mode keeps everything by design.
    if facts.over or spark.has_watermark is not False or not needing or spark.output_mode == "complete":
        return None
    # Totals by key often have none on purpose: their state grows only with new keys.
    totals = all(one.kind == "aggregation" and one.windowed is False for one in needing)
    return Finding(
        severity="info" if totals else "warning",
        title="The query keeps state without a watermark",
        impact="State grows with each new key: nothing is ever removed",
        cause="Without a watermark, Spark does not know which state is no longer needed.",
        evidence=["0 calls of withWatermark" if spark.state_rows is None else f"{n(spark.state_rows, 'row')} in state"],
        fixes=(ADD_WATERMARK,),
    )


KeptReason = Literal[
    "no_watermark",
    "watermark_after",
    "watermark_lost",
    "key_without_window",
    "join_unbounded",
    "dedup_without_time",
    "mode_not_known",
]
_KEEP_EVENT_TIME = Fix(
    "keep-event-time",
    "Use the column of withWatermark itself in the window or key; do not overwrite it or derive another after it",
)
_KEPT: dict[KeptReason | None, tuple[str, Fix]] = {
    "no_watermark": (
        "No withWatermark comes before it, so Spark does not know when its state is no longer needed.",
        ADD_WATERMARK,
    ),
    "watermark_after": (
        "withWatermark comes after it: a watermark is only known to what follows it.",
        Fix("watermark-the-source", "Call withWatermark on the source's event-time column, before the aggregation"),
    ),
    "watermark_lost": (
        "Its window or key uses a column without the watermark: overwritten, or derived from it.",
        _KEEP_EVENT_TIME,
    ),
    "key_without_window": (
        "Its key has no window: the watermark does not say when a key is finished.",
        Fix(
            "key-with-window",
            "Group by a window of the event time as well, or remove old keys yourself (transformWithState)",
        ),
    ),
    "join_unbounded": (
        "Rows of at least one input stay in state: the join condition does not bound event time in both directions, "
        "or an input has no withWatermark.",
        Fix(
            "bound-join",
            "Add a bound on event time to the join condition (right BETWEEN left AND left + interval 1 hour)",
        ),
    ),
    "dedup_without_time": (
        "Its key lacks the event-time column: the watermark does not say when a key is finished.",
        Fix("dedup-with-time", "Add the event-time column to dropDuplicates, or use dropDuplicatesWithinWatermark"),
    ),
    "mode_not_known": (
        "Its keys carry no watermark. In complete mode that is intended; a checkpoint alone does not show the mode.",
        ADD_WATERMARK,
    ),
    None: ("Its keys carry no watermark.", _KEEP_EVENT_TIME),
}
"""Why state is never removed, and the fix, by the reason that is known."""


@rule("state-never-removed", "Operators", suppressed_by=("no-watermark",))
def state_never_removed(facts: DiagnosisInput) -> Finding | None:
    """A stateful operator keeps its state as long as the query runs: its keys carry no watermark.

    Recognised by: the query's plan: the key or window has no column with a watermark, or a join has no bound on event
    time.
    What to do: use the column of `withWatermark` in the key, window or join condition, as the finding's fix says.
    """
    spark = facts.snapshot.spark
    kept = [one for one in spark.operators or () if one.evicts is False and one.output_mode != "complete"]
    if not kept or spark.output_mode == "complete":  # which keeps everything on purpose
        return None
    first = max(kept, key=lambda one: one.rows or 0)
    reason = _reason(first, facts)
    totals = first.kind == "aggregation" and not first.windowed
    meant = reason == "mode_not_known" or (totals and reason in ("no_watermark", None))
    cause, fix = _KEPT[reason]
    return Finding(
        severity="info" if meant else "warning",
        size=sum(one.rows or 0 for one in kept),
        title=f"The {OPERATORS[first.kind]} never removes state",
        impact="State grows as long as the query runs",
        cause=cause,
        evidence=[
            f"{n(len(kept), 'stateful operator')} without a watermark on the key",
            None if first.rows is None else f"{n(first.rows, 'row')} in state",
        ],
        fixes=(fix,),
    )


def _reason(one: StatefulOperator, facts: DiagnosisInput) -> KeptReason | None:
    spark = facts.snapshot.spark
    if one.watermarks is None and spark.has_watermark is False:
        return "no_watermark"
    if one.watermarks is None:  # only its state is known; complete mode would keep everything
        return "mode_not_known" if spark.output_mode is None and facts.watermark_ms is None else None
    if not one.watermarks:
        return "watermark_after" if any(node.after_state for node in spark.nodes or ()) else "no_watermark"
    if one.kind == "join":
        return "join_unbounded"
    if one.kind == "dedup":
        return "dedup_without_time"
    return "key_without_window" if one.kind == "aggregation" and one.windowed is False else "watermark_lost"
