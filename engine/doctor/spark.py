"""Spark's clock: the fastest channel drives it, each input has its own, and delay 0 drops equal times."""

from typing import Literal

from ..snapshot import ChannelView, UnmovedReason
from ..text import formatting as f
from ..text.formatting import name
from .finding import CHECK_QUERY, Context, Explanation, Finding, Fix, column, lengthen_lateness, n, names, only, span
from .rules import MINUTE, SECOND, DiagnosisInput, loss_severity, rule, share

SKEW_TIMES = 2
"""An input is far behind: so many times the longest delay, or a window, and a minute at least."""
MIN_LOST = 20
"""Fewer late records prove nothing."""
_QUERIES_NAMED = 3
NOTHING_FIRES = "No window ever fires, and no state is released"
SPLIT_QUERY = Fix("split-query", "Or give the slow channels a query of their own")
FEED_INPUT = Fix("feed-input", "Send a record to the input without data, for example a heartbeat")
USE_MAX_POLICY = Fix(
    "use-max-policy", "Or set spark.sql.streaming.multipleWatermarkPolicy=max, if that input may lose late rows"
)
CHECK_INPUT = Fix(
    "check-input",
    "Check that input: does its source still deliver, and how old are its event times? One newer record moves it",
)
REMOVE_UPPER_WATERMARK = Fix(
    "remove-upper-watermark",
    "Remove the second withWatermark: group the first result by window(window_time(window), ...), which keeps "
    "the first watermark",
)


class LeftBehind(Finding, frozen=True, kw_only=True, tag="left-behind"):
    """Every record of some channels is late. Spark has one clock, which the fastest channel drives.

    Recognised by: the newest record of these channels is older than the oldest open window, and at least half of their
    records are late.

    What to do: set a lateness that covers the distance, or give the slow channels a query of their own.
    """

    behind_ms: int
    late: int | None

    def words(self, context: Context) -> Explanation:
        late = [] if self.late is None else [f"{n(self.late, 'record')} of these channels late so far"]
        return Explanation(
            f"{names(self.channels)} can only be late",
            late[0] if late else f"All records of {n(len(self.channels), 'channel')} are dropped",
            "Spark has one clock for all channels, and the fastest drives it: slower channels do not hold it back.",
            [f"The newest record of {names(self.channels[:1])} is {span(self.behind_ms)} behind the watermark", *late],
            ("Time", "Lateness"),
            only(self.channels),
        )


@rule(LeftBehind)
def left_behind(facts: DiagnosisInput) -> LeftBehind | None:
    level = facts.watermark_ms
    if facts.ended or facts.settings.strategy != "spark" or level is None:
        return None
    closed_ms = level - facts.window_ms - facts.settings.allowed_lateness_ms
    lost = [
        (view.max_event_ms, view)
        for view in facts.channels
        if view.max_event_ms is not None and view.max_event_ms < closed_ms and _loses(view, facts)
    ]
    if not lost:
        return None
    lost.sort(key=lambda pair: pair[0])
    behind_ms = level - lost[0][0]
    late = None if any(view.late is None for _, view in lost) else sum(view.late or 0 for _, view in lost)
    size = share(late, facts.snapshot.totals.records) or len(lost) / len(facts.channels)
    needed = behind_ms + (facts.settings.lateness_ms or 0)
    edges = (row.lateness_ms for row in facts.snapshot.whatif or ())
    covers = next((edge for edge in edges if edge >= needed), -(-needed // (60 * SECOND)) * 60 * SECOND)
    return LeftBehind(
        severity=loss_severity(size),
        size=size,
        channels=tuple(view.channel for _, view in lost),
        behind_ms=behind_ms,
        late=late,
        fixes=(Fix("set-lateness", value_ms=covers), SPLIT_QUERY),
    )


def _loses(view: ChannelView, facts: DiagnosisInput) -> bool:
    """Whether half of its records were late; for an attached query: whether it receives data."""
    lost = share(view.late, view.records)
    if lost is not None:
        return lost >= 0.5 and (view.late or 0) >= MIN_LOST
    recent_ms = max(10 * SECOND, facts.stall_ms / 4)  # a batch may take long, and a trigger may pause
    return facts.is_attached and view.quiet_ms is not None and view.quiet_ms < recent_ms


class ZeroDelay(Finding, frozen=True, kw_only=True, tag="zero-delay"):
    """The watermark delay is 0. Spark drops a record whose event time is not greater than the greatest of the batch
    before; with windows, once its window has ended.

    Recognised by: a delay of 0 in `withWatermark`.

    What to do: set a delay that covers how far records are out of order.
    """

    column: str | None
    windowed: bool
    """Whether windows are known: a record is then lost only once its window has ended."""

    def words(self, context: Context) -> Explanation:
        impact = "Records with the same event time as the newest one before are dropped"
        if self.windowed:
            impact = "A record that is out of order by any amount is dropped once its window has ended"
        return Explanation(
            "The watermark delay is 0",
            impact,
            "Spark drops a row when its event time is at or before the watermark, and with delay 0 the watermark is "
            "the newest event time of the batch before.",
            [f"Delay of {column(self.column)}: 0s"],
            ("Lateness", "Operators"),
        )


@rule(ZeroDelay)
def zero_delay(facts: DiagnosisInput) -> ZeroDelay | None:
    """Spark's rule is `event_time <= watermark`: with delay 0 an equal time in the next batch is dropped."""
    if facts.ended or facts.settings.strategy != "spark":
        return None
    nodes = facts.snapshot.spark.nodes or ()
    zero = [node.column for node in nodes if node.delay_ms == 0]
    if not zero and facts.settings.lateness_ms != 0:
        return None
    windowed = facts.settings.window is not None or any(one.windowed for one in facts.snapshot.spark.operators or ())
    return ZeroDelay(
        severity="info" if windowed else "warning",
        column=zero[0] if len(zero) == 1 else None,
        windowed=windowed,
        fixes=(lengthen_lateness(facts.snapshot),),
    )


class NodeWithoutData(Finding, frozen=True, kw_only=True, tag="node-without-data"):
    """One of several inputs with a watermark has had no row. Until it has one, the query's watermark stays at 1970.

    Recognised by: a `withWatermark` of the query without a row, under the policy min.

    What to do: send a record to that input, or set the policy to max if that input may lose late rows.
    """

    columns: tuple[str | None, ...]
    """The known event time columns of such nodes."""

    def words(self, context: Context) -> Explanation:
        known = [name(text) for text in self.columns if text]
        which = f" ({', '.join(known)})" if known else ""
        return Explanation(
            f"{n(len(self.columns), 'watermark node')}{which} without a row: the watermark stays at 1970",
            NOTHING_FIRES,
            "The query's watermark is the minimum over its nodes (policy min); a node without a row is at 1970.",
            [f"{len(self.columns)} of {_nodes(context)} without a row"],
            ("Operators",),
        )


@rule(NodeWithoutData, accounts_for=("stalled", "unknown"))
def node_without_data(facts: DiagnosisInput) -> NodeWithoutData | None:
    """Under the policy "min" the query's watermark is the lowest of its nodes', and 1970 for a node without rows."""
    columns, fixes = _pinned(facts, "no_input"), (FEED_INPUT, USE_MAX_POLICY)
    return NodeWithoutData(severity="critical", size=len(columns), columns=columns, fixes=fixes) if columns else None


def _pinned(facts: DiagnosisInput, why: Literal["no_input", "own_output"]) -> tuple[str | None, ...]:
    """The columns of the nodes that are kept at 1970 for that reason."""
    return () if facts.over else tuple(node.column for node in facts.snapshot.spark.nodes or () if node.pinned == why)


class PinnedNode(Finding, frozen=True, kw_only=True, tag="watermark-pinned"):
    """A second `withWatermark` waits for the output of an operator that emits only when the watermark advances. Neither
    ever happens.

    Recognised by: a watermark in the plan above a stateful operator, still at 1970.

    What to do: remove the second `withWatermark` and group by window_time of the first result.
    """

    columns: tuple[str | None, ...]

    def words(self, context: Context) -> Explanation:
        known = [name(text) for text in self.columns if text]
        which = f" of {', '.join(known)}" if known else ""
        return Explanation(
            f"The watermark{which} waits for its own output: it stays at 1970",
            NOTHING_FIRES,
            "This withWatermark is above a stateful operator that emits only when the watermark advances; the "
            "watermark is the minimum over all nodes, this one included.",
            [f"{len(self.columns)} of {_nodes(context)} above a stateful operator without output"],
            ("Operators",),
        )


@rule(PinnedNode, accounts_for=("stalled", "unknown"))
def pinned_node(facts: DiagnosisInput) -> PinnedNode | None:
    """In a chain of stateful operators, a watermark above one of them that can never advance."""
    columns, fixes = _pinned(facts, "own_output"), (REMOVE_UPPER_WATERMARK,)
    return PinnedNode(severity="critical", size=len(columns), columns=columns, fixes=fixes) if columns else None


class InputHoldsBack(Finding, frozen=True, kw_only=True, tag="input-holds-back"):
    """One of several inputs sets the query's watermark, and the others are far ahead. Their state grows.

    Recognised by: under the policy min, one watermark is behind all others by at least a minute and twice the longest
    delay or window.

    What to do: check whether that input still delivers and how old its event times are. One newer record moves it.
    """

    column: str | None
    delay_ms: int | None
    sources: tuple[str, ...]
    """What feeds it, in the sources' words."""
    gain_ms: int
    """How far behind the next input it is, at least."""
    frozen_ms: int | None
    """For how long the watermark has not advanced."""

    def words(self, context: Context) -> Explanation:
        delay = "" if self.delay_ms is None else f" (delay {f.setting(self.delay_ms)})"
        frozen = [] if self.frozen_ms is None else [f"The watermark has not advanced for {span(self.frozen_ms)}"]
        return Explanation(
            f"The input of {name(self.column or 'window')}{delay} holds back the watermark",
            f"Results wait, and the state of the other inputs grows: {span(self.gain_ms)} of event time",
            "The query's watermark is the minimum over its inputs (policy min), and the others are ahead of this one.",
            [
                f"The next input is {span(self.gain_ms)} ahead",
                *(f"It reads {f.label(text, 150)}" for text in self.sources[:2]),
                *frozen,
            ],
            ("Operators",),
        )


@rule(InputHoldsBack, accounts_for=("stalled", "slow", "unknown"))
def input_holds_back(facts: DiagnosisInput) -> InputHoldsBack | None:
    """Under the policy "min" the slowest input sets the watermark; the state of the others grows meanwhile."""
    spark, level_ms = facts.snapshot.spark, facts.watermark_ms
    nodes = spark.nodes or []
    holding = [node for node in nodes if node.holds and node.pinned is None]
    ahead = [node.reached_ms for node in nodes if not node.holds and node.reached_ms is not None]
    if facts.over or spark.policy != "min" or level_ms is None or len(holding) != 1 or len(ahead) != len(nodes) - 1:
        return None
    longest_ms = max((node.delay_ms or 0 for node in nodes), default=0)
    gain_ms = min(ahead, default=level_ms) - level_ms
    stalled = facts.verdict == "stalled"
    if gain_ms <= 0 or (not stalled and gain_ms < max(MINUTE, SKEW_TIMES * longest_ms, SKEW_TIMES * facts.window_ms)):
        return None
    [node] = holding
    known = facts.snapshot.sources or []
    return InputHoldsBack(
        severity="critical" if stalled else "warning",
        size=gain_ms,
        column=node.column,
        delay_ms=node.delay_ms,
        sources=tuple(known[place].description for place in node.sources or () if place < len(known)),
        gain_ms=gain_ms,
        frozen_ms=facts.frozen_ms,
        fixes=(CHECK_INPUT, USE_MAX_POLICY),
    )


class NeverMoved(Finding, frozen=True, kw_only=True, tag="watermark-never-moved"):
    """Rows are read, but the watermark is still at 1970. No window fires.

    Recognised by: batches had rows, and the query's watermark has never advanced.

    What to do: check the column that is given to `withWatermark`: its format, its type, its null rows and its delay.
    """

    def words(self, context: Context) -> Explanation:
        spark, delay_ms = context.snapshot.spark, context.snapshot.settings.lateness_ms
        newest = [] if not spark.max_event_ms else [f"Newest event time: {f.stamp(spark.max_event_ms, context.zone)}"]
        delay = [] if delay_ms is None else [f"Delay: {f.setting(delay_ms)}"]
        cause, _ = _UNMOVED[spark.unmoved]
        if spark.unmoved is None and spark.nodes is not None and len(spark.nodes) == 1:
            cause = "Rows are read, but none has an event time that is later than 1970 plus the delay."
        return Explanation(
            "The watermark has never advanced: it is at 1970",
            "All rows are dropped" if spark.unmoved == "before_1970" else "No window fires, and no state is released",
            cause,
            [f"Watermark at 1970; {_nodes(context)}", *newest, *(delay if spark.unmoved == "delay_too_long" else [])],
            ("Operators",),
        )


_FILL_EVENT_TIME = Fix(
    "fill-event-time", "Check the column given to withWatermark: its format, its type, and the rows in which it is null"
)
_UNMOVED: dict[UnmovedReason | None, tuple[str, Fix]] = {
    "no_event_time": ("Rows are read, but the event time of all of them is null.", _FILL_EVENT_TIME),
    "before_1970": (
        "All event times are before 1970. Spark's watermark starts at 1970 and never goes back.",
        Fix("event-time-after-1970", "Use event times after 1970: Spark's watermark cannot be earlier"),
    ),
    "delay_too_long": (
        "The newest event time minus the delay is before 1970, where Spark's watermark starts.",
        Fix("shorten-delay", "Set a shorter delay in withWatermark"),
    ),
    None: (
        "Rows are read, but none with an event time has reached one of the query's watermarks: its input has none, or "
        "a filter keeps none.",
        _FILL_EVENT_TIME,
    ),
}
"""The cause of a watermark that has never moved, and the fix, by the reason that is known."""


def _nodes(context: Context) -> str:
    """How many watermark nodes the query has."""
    nodes = context.snapshot.spark.nodes
    return "watermark nodes not known" if nodes is None else n(len(nodes), "watermark node")


@rule(NeverMoved, suppressed_by=("node-without-data", "watermark-pinned"), accounts_for=("stalled", "unknown"))
def never_moved(facts: DiagnosisInput) -> NeverMoved | None:
    spark = facts.snapshot.spark
    if facts.over or not spark.never_moved:
        return None
    several = spark.nodes is None or len(spark.nodes) > 1
    fixes = (FEED_INPUT, USE_MAX_POLICY) if spark.unmoved is None and several else (_UNMOVED[spark.unmoved][1],)
    return NeverMoved(severity="critical", fixes=fixes)


class SiblingFailed(Finding, frozen=True, kw_only=True, tag="sibling-failed"):
    """Another query of the same Spark application has failed.

    Recognised by: the application reports it.

    What to do: read the error and the log of that query.
    """

    queries: tuple[str, ...]
    error: str | None

    def words(self, context: Context) -> Explanation:
        more = len(self.queries) - _QUERIES_NAMED
        which = names(self.queries)
        if more > 0:
            first = ", ".join(name(query) for query in self.queries[:_QUERIES_NAMED])
            which = f"{first} and {more} more quer{'y' if more == 1 else 'ies'}"
        return Explanation(
            f"{which} of the same application {'has' if len(self.queries) == 1 else 'have'} failed",
            f"{n(len(self.queries), 'other query').replace('querys', 'queries')} of this application: no results",
            f"{'That query' if len(self.queries) == 1 else 'Those queries'} ended with an error.",
            [f.first_line(f.clean(self.error)) if self.error else f"{len(self.queries)} failed"],
            ("Progress",),
        )


@rule(SiblingFailed)
def sibling_failed(facts: DiagnosisInput) -> SiblingFailed | None:
    """Another query of the same application failed, which its owner may not have noticed."""
    failed = [one for one in facts.snapshot.siblings or () if one.state == "failed"]
    if not failed:
        return None
    return SiblingFailed(
        severity="warning",
        size=len(failed),
        queries=tuple(one.name for one in failed),
        error=failed[0].error,
        fixes=(CHECK_QUERY,),
    )
