"""Rules about Spark's clock: the fastest channel drives it, each node has its own, and delay 0 drops equal times."""

from ..snapshot import ChannelView, OperatorKind, UnmovedReason
from .diagnosis_input import MINUTE, SECOND, DiagnosisInput, loss_severity, share
from .finding import Finding, Fix, FixCode
from .progress import verdict_of

SKEW_TIMES = 2
"""An input is far behind: so many times the longest delay, or a window, and a minute at least."""
LOST_LEAST = 20
"""Fewer late records prove nothing."""
MANAGE_THEIR_STATE: tuple[OperatorKind, ...] = ("map_groups_with_state", "transform_with_state", "limit")
"""Operators that remove state by their own code and timers, or keep a single number: they need no watermark."""


class LeftBehind(Finding, frozen=True, kw_only=True, tag="left-behind"):
    """The fastest channel alone drives the clock, and every record of these channels is late."""

    behind_ms: int
    late: int | None


class ZeroDelay(Finding, frozen=True, kw_only=True, tag="zero-delay"):
    """The delay is 0: Spark drops every record whose event time is not greater than the greatest one of earlier
    batches.
    """

    column: str | None
    windowed: bool
    """Whether windows are known: a record is then lost only once its window has ended."""


class PinnedNode(Finding, frozen=True, kw_only=True, tag="watermark-pinned"):
    """A watermark node never advances: its rows come from an operator that emits only when this watermark advances."""

    columns: tuple[str | None, ...]
    nodes: int


class NeverMoved(Finding, frozen=True, kw_only=True, tag="watermark-never-moved"):
    """Rows are read, but the watermark is still at 1970, and no node without rows explains it."""

    nodes: int | None
    reason: UnmovedReason | None
    """The reason; None: not known."""
    max_event_ms: int | None
    delay_ms: int | None


class NoWatermark(Finding, frozen=True, kw_only=True, tag="no-watermark"):
    """The query keeps state but has no watermark: state is never removed."""

    state_rows: int | None


class SiblingFailed(Finding, frozen=True, kw_only=True, tag="sibling-failed"):
    """Another query of the same application has failed."""

    queries: tuple[str, ...]
    error: str | None


class NodeWithoutData(Finding, frozen=True, kw_only=True, tag="node-without-data"):
    """One of several watermark nodes has had no row; until it has, the query's watermark stays at 1970."""

    columns: tuple[str | None, ...]
    """The known event time columns of such nodes."""
    nodes: int


class InputHoldsBack(Finding, frozen=True, kw_only=True, tag="input-holds-back"):
    """One of several inputs sets the query's watermark, and the others are far ahead."""

    column: str | None
    delay_ms: int | None
    sources: tuple[str, ...]
    """What feeds it, in the sources' words."""
    gain_ms: int
    """How far behind the next input it is, at least."""
    frozen_ms: int | None
    """For how long the watermark has not advanced."""


def left_behind(given: DiagnosisInput) -> LeftBehind | None:
    """Spark's one clock has passed everything that some channels still send."""
    level = given.watermark_ms
    if given.ended or given.settings.strategy != "spark" or level is None:
        return None
    closed_ms = level - given.window_ms - given.settings.allowed_lateness_ms
    lost = [
        (view.max_event_ms, view)
        for view in given.channels
        if view.max_event_ms is not None and view.max_event_ms < closed_ms and _loses(view, given)
    ]
    if not lost:
        return None
    lost.sort(key=lambda pair: pair[0])
    behind_ms = level - lost[0][0]
    late = None if any(view.late is None for _, view in lost) else sum(view.late or 0 for _, view in lost)
    size = share(late, given.snapshot.totals.records) or len(lost) / len(given.channels)
    needed = behind_ms + (given.settings.lateness_ms or 0)
    edges = (row.lateness_ms for row in given.snapshot.whatif or ())
    covers = next((edge for edge in edges if edge >= needed), -(-needed // (60 * SECOND)) * 60 * SECOND)
    return LeftBehind(
        severity=loss_severity(size),
        size=size,
        channels=tuple(view.channel for _, view in lost),
        behind_ms=behind_ms,
        late=late,
        fixes=(Fix(code="set-lateness", value_ms=covers), Fix(code="split-query")),
    )


def _loses(view: ChannelView, given: DiagnosisInput) -> bool:
    """Whether half of its records were late; for an attached query: whether it receives data."""
    lost = share(view.late, view.records)
    if lost is not None:
        return lost >= 0.5 and (view.late or 0) >= LOST_LEAST
    recent_ms = max(10 * SECOND, given.horizon_ms / 4)  # a batch may take long, and a trigger may pause
    return given.is_attached and view.quiet_ms is not None and view.quiet_ms < recent_ms


def zero_delay(given: DiagnosisInput) -> ZeroDelay | None:
    """Spark's rule is `event_time <= watermark`: with delay 0 an equal time in the next batch is dropped."""
    if given.ended or given.settings.strategy != "spark":
        return None
    nodes = given.snapshot.spark.nodes or ()
    zero = [node.column for node in nodes if node.delay_ms == 0]
    if not zero and given.settings.lateness_ms != 0:
        return None
    windowed = given.settings.window is not None or any(one.windowed for one in given.snapshot.spark.operators or ())
    return ZeroDelay(
        severity="info" if windowed else "warning",
        column=zero[0] if len(zero) == 1 else None,
        windowed=windowed,
        fixes=(Fix(code="lengthen-lateness"),),
    )


def node_without_data(given: DiagnosisInput) -> NodeWithoutData | None:
    """Under the policy "min" the query's watermark is the lowest of its nodes', and 1970 for a node without rows."""
    nodes = given.snapshot.spark.nodes or []
    empty = [node for node in nodes if node.pinned == "no_input"]
    if given.over or not empty:
        return None
    return NodeWithoutData(
        severity="critical",
        size=len(empty),
        columns=tuple(node.column for node in empty),
        nodes=len(nodes),
        fixes=(Fix(code="feed-input"), Fix(code="use-max-policy")),
    )


def input_holds_back(given: DiagnosisInput) -> InputHoldsBack | None:
    """Under the policy "min" the slowest input sets the watermark; the state of the others grows meanwhile."""
    spark, level_ms = given.snapshot.spark, given.watermark_ms
    nodes = spark.nodes or []
    holding = [node for node in nodes if node.holds and node.pinned is None]
    ahead = [node.reached_ms for node in nodes if not node.holds and node.reached_ms is not None]
    if given.over or spark.policy != "min" or level_ms is None or len(holding) != 1 or len(ahead) != len(nodes) - 1:
        return None
    longest_ms = max((node.delay_ms or 0 for node in nodes), default=0)
    gain_ms = min(ahead, default=level_ms) - level_ms
    stalled = verdict_of(given) == "stalled"
    if gain_ms <= 0 or (not stalled and gain_ms < max(MINUTE, SKEW_TIMES * longest_ms, SKEW_TIMES * given.window_ms)):
        return None
    [node] = holding
    known = given.snapshot.sources or []
    return InputHoldsBack(
        severity="critical" if stalled else "warning",
        size=gain_ms,
        column=node.column,
        delay_ms=node.delay_ms,
        sources=tuple(known[place].description for place in node.sources or () if place < len(known)),
        gain_ms=gain_ms,
        frozen_ms=given.frozen_ms,
        fixes=(Fix(code="check-input"), Fix(code="use-max-policy")),
    )


def pinned_node(given: DiagnosisInput) -> PinnedNode | None:
    """In a chain of stateful operators, a watermark above one of them that can never advance."""
    nodes = given.snapshot.spark.nodes or []
    stuck = [node for node in nodes if node.pinned == "own_output"]
    if given.over or not stuck:
        return None
    return PinnedNode(
        severity="critical",
        size=len(stuck),
        columns=tuple(node.column for node in stuck),
        nodes=len(nodes),
        fixes=(Fix(code="remove-upper-watermark"),),
    )


def never_moved(given: DiagnosisInput) -> NeverMoved | None:
    """The watermark is at 1970 although rows were read."""
    spark = given.snapshot.spark
    if given.over or not spark.never_moved:
        return None
    several = spark.nodes is None or len(spark.nodes) > 1
    fixes: dict[UnmovedReason | None, tuple[FixCode, ...]] = {
        "no_event_time": ("fill-event-time",),
        "before_1970": ("event-time-after-1970",),
        "delay_too_long": ("shorten-delay",),
        None: ("feed-input", "use-max-policy") if several else ("fill-event-time",),
    }
    return NeverMoved(
        severity="critical",
        nodes=None if spark.nodes is None else len(spark.nodes),
        reason=spark.unmoved,
        max_event_ms=spark.max_event_ms,
        delay_ms=given.settings.lateness_ms,
        fixes=tuple(Fix(code=code) for code in fixes[spark.unmoved]),
    )


def no_watermark(given: DiagnosisInput) -> NoWatermark | None:
    """A stateful query without a watermark; complete mode keeps everything by design.

    Totals by key often have none on purpose: their state grows only with new keys.
    """
    spark = given.snapshot.spark
    needing = [one for one in spark.operators or () if one.kind not in MANAGE_THEIR_STATE]
    if given.over or spark.has_watermark is not False or not needing or spark.output_mode == "complete":
        return None
    totals = all(one.kind == "aggregation" and one.windowed is False for one in needing)
    return NoWatermark(
        severity="info" if totals else "warning", state_rows=spark.state_rows, fixes=(Fix(code="add-watermark"),)
    )


def sibling_failed(given: DiagnosisInput) -> SiblingFailed | None:
    """Another query of the same application failed, which its owner may not have noticed."""
    failed = [one for one in given.snapshot.siblings or () if one.state == "failed"]
    if not failed:
        return None
    return SiblingFailed(
        severity="warning",
        size=len(failed),
        queries=tuple(one.name for one in failed),
        error=failed[0].error,
        fixes=(Fix(code="check-query"),),
    )
