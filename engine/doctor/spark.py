"""Spark's clock: the fastest channel drives it, each input has its own, and delay 0 drops equal times."""

from typing import Literal

from ..snapshot import ChannelView, SparkProgress, UnmovedReason
from ..text import formatting as f
from ..text.formatting import name
from .finding import CHECK_QUERY, Finding, Fix, column, lengthen_lateness, n, names, span, stamped, verb
from .rules import MINUTE, SECOND, DiagnosisInput, loss_severity, rule

SKEW_TIMES = 2
"""An input is far behind: so many times the longest delay, or a window, and a minute at least."""
MIN_LOST = 20
"""Fewer late records prove nothing."""
_QUERIES_NAMED = 3
NOTHING_FIRES = "No window ever fires, and no state is released"
SPLIT_QUERY = Fix("split-query", "Or give the slow channels a query of their own")
FEED_INPUT = Fix("feed-input", "Send a record to the input without data, for example a heartbeat")
USE_MAX_POLICY = Fix(
    "use-max-policy",
    "Or, if that input may lose late rows, set spark.sql.streaming.multipleWatermarkPolicy=max and start with a new "
    "checkpoint: one keeps the policy of its first start",
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


@rule("left-behind", "Time", "Lateness")
def left_behind(facts: DiagnosisInput) -> Finding | None:
    """Every record of some channels is late. Spark has one clock, which the fastest channel drives.

    Recognised by: the newest record of these channels is older than the oldest open window, and at least half of their
    records are late.
    What to do: set a lateness that covers the distance, or give the slow channels a query of their own.
    """
    level = facts.snapshot.late_watermark_ms
    if facts.ended or not facts.snapshot.one_clock or level is None or not facts.snapshot.spark.drops_late:
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
    behind_ms, channels = level - lost[0][0], tuple(view.channel for _, view in lost)
    late = None if any(view.late is None for _, view in lost) else sum(view.late or 0 for _, view in lost)
    size = f.ratio(late, facts.snapshot.totals.records) or len(lost) / len(facts.channels)
    needed = behind_ms + (facts.settings.lateness_ms or 0)
    edges = (row.lateness_ms for row in facts.snapshot.whatif or ())
    covers = next((edge for edge in edges if edge >= needed), -(-needed // (60 * SECOND)) * 60 * SECOND)
    records = None if late is None else f"{n(late, 'record')} of these channels late so far"
    return Finding(
        severity=loss_severity(size),
        size=size,
        channels=channels,
        title=f"{names(channels)} can only be late",
        impact=records or f"All records of {n(len(channels), 'channel')} are dropped",
        cause="Spark has one clock for all channels, and the fastest drives it: slower channels do not hold it back.",
        evidence=[
            f"The newest record of {names(channels[:1])} is {span(behind_ms)} behind the watermark that "
            "late records are compared with",
            records,
        ],
        fixes=(Fix("set-lateness", value_ms=covers), SPLIT_QUERY),
    )


def _loses(view: ChannelView, facts: DiagnosisInput) -> bool:
    """Whether half of its records were late; for an attached query: whether it receives data."""
    lost = f.ratio(view.late, view.records)
    if lost is not None:
        return lost >= 0.5 and (view.late or 0) >= MIN_LOST
    recent_ms = max(10 * SECOND, facts.stall_ms / 4)  # a batch may take long, and a trigger may pause
    return facts.is_attached and view.quiet_ms is not None and view.quiet_ms < recent_ms


@rule("zero-delay", "Lateness", "Operators")
def zero_delay(facts: DiagnosisInput) -> Finding | None:
    """The watermark delay is 0. Spark drops a record whose event time is not greater than the watermark of the batch
    before; with windows, once its window has ended.

    Recognised by: a delay of 0 in `withWatermark` of a query with state. Of `dropDuplicates` Spark counts the dropped
    rows one by one; those of batches whose earliest time was the watermark came with exactly that time.
    What to do: set a delay that covers how far records are out of order.
    """
    if facts.ended or facts.settings.strategy != "spark":
        return None
    spark = facts.snapshot.spark
    zero = [node.column for node in spark.nodes or () if node.delay_ms == 0]
    if not zero and facts.settings.lateness_ms != 0:
        return None
    if not spark.drops_late:
        return None
    # A record is then lost only once its window has ended.
    windowed = facts.settings.window is not None or any(one.windowed for one in spark.operators or ())
    impact = "Records with the same event time as the newest one before are dropped"
    if windowed:
        impact = "A record that is out of order by any amount is dropped once its window has ended"
    return Finding(
        severity="info" if windowed else "warning",
        title="The watermark delay is 0",
        impact=impact,
        cause="Spark drops a row when its event time is at or before the watermark of the batch before, and with delay "
        "0 that is the newest event time that came before that batch.",
        evidence=[f"Delay of {column(zero[0] if len(zero) == 1 else None)}: 0s", _dropped(spark)],
        fixes=(lengthen_lateness(facts.snapshot),),
    )


def _dropped(spark: SparkProgress) -> str | None:
    if not spark.dropped_at_least:
        return None if spark.dropped_at_least is None else "No row dropped so far"
    bound, at_it = "" if spark.dropped_exact else "≥ ", spark.dropped_at_watermark
    equal = f", at least {f.count(at_it)} of them with exactly the watermark's time" if at_it else ""
    return f"{bound}{n(spark.dropped_at_least, 'row')} dropped so far{equal}"


@rule("node-without-data", "Operators", accounts_for=("stalled", "unknown"))
def node_without_data(facts: DiagnosisInput) -> Finding | None:
    """One of several inputs with a watermark has had no row. Until it has one, the query's watermark stays at 1970.

    Recognised by: a `withWatermark` of the query without a row, under the policy min.
    What to do: send a record to that input, or, if that input may lose late rows, set the policy to max and start with
    a new checkpoint: one keeps the policy of its first start.
    """
    pinned, known = _pinned(facts, "no_input")
    if not pinned:
        return None
    which = f" ({', '.join(known)})" if known else ""
    return Finding(
        severity="critical",
        size=pinned,
        title=f"{n(pinned, 'watermark node')}{which} without a row: the watermark stays at 1970",
        impact=NOTHING_FIRES,
        cause="The query's watermark is the minimum over its nodes (policy min); a node without a row is at 1970.",
        evidence=[f"{pinned} of {_nodes(facts)} without a row"],
        fixes=(FEED_INPUT, USE_MAX_POLICY),
    )


def _pinned(facts: DiagnosisInput, why: Literal["no_input", "own_output"]) -> tuple[int, list[str]]:
    """How many nodes are kept at 1970 for that reason, and the known names of their columns."""
    nodes = () if facts.over else facts.snapshot.spark.nodes or ()
    pinned = [node.column for node in nodes if node.pinned == why]
    return len(pinned), [name(text) for text in pinned if text]


@rule("watermark-pinned", "Operators", accounts_for=("stalled", "unknown"))
def pinned_node(facts: DiagnosisInput) -> Finding | None:
    """A second `withWatermark` waits for the output of an operator that emits only when the watermark advances. Neither
    ever happens.

    Recognised by: a watermark in the plan above a stateful operator, still at 1970.
    What to do: remove the second `withWatermark` and group by window_time of the first result.
    """
    pinned, known = _pinned(facts, "own_output")
    if not pinned:
        return None
    which = f" of {', '.join(known)}" if known else ""
    return Finding(
        severity="critical",
        size=pinned,
        title=f"The watermark{which} waits for its own output: it stays at 1970",
        impact=NOTHING_FIRES,
        cause="This withWatermark is above a stateful operator that emits only when the watermark advances; the "
        "watermark is the minimum over all nodes, this one included.",
        evidence=[f"{pinned} of {_nodes(facts)} above a stateful operator without output"],
        fixes=(REMOVE_UPPER_WATERMARK,),
    )


@rule("input-holds-back", "Operators", accounts_for=("stalled", "slow", "unknown"))
def input_holds_back(facts: DiagnosisInput) -> Finding | None:
    """One of several inputs sets the query's watermark, and the others are far ahead. Their state grows.

    Recognised by: under the policy min, one watermark is behind all others by at least a minute and twice the longest
    delay or window.
    What to do: check whether that input still delivers and how old its event times are. One newer record moves it.
    """
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
    known, frozen_ms = facts.snapshot.sources or [], facts.frozen_ms
    sources = [known[place].description for place in node.sources or () if place < len(known)]
    delay = "" if node.delay_ms is None else f" (delay {f.setting(node.delay_ms)})"
    return Finding(
        severity="critical" if stalled else "warning",
        size=gain_ms,
        title=f"The input of {name(node.column or 'window')}{delay} holds back the watermark",
        impact=f"Results wait, and the state of the other inputs grows: {span(gain_ms)} of event time",
        cause="The query's watermark is the minimum over its inputs (policy min), and the others are ahead of "
        "this one.",
        evidence=[
            f"The next input is {span(gain_ms)} ahead",
            *(f"It reads {f.label(text, 150)}" for text in sources[:2]),
            None if frozen_ms is None else f"The watermark has not advanced for {span(frozen_ms)}",
        ],
        fixes=(CHECK_INPUT, USE_MAX_POLICY),
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


def _nodes(facts: DiagnosisInput) -> str:
    """How many watermark nodes the query has."""
    nodes = facts.snapshot.spark.nodes
    return "watermark nodes not known" if nodes is None else n(len(nodes), "watermark node")


@rule(
    "watermark-never-moved",
    "Operators",
    suppressed_by=("node-without-data", "watermark-pinned"),
    accounts_for=("stalled", "unknown"),
)
def never_moved(facts: DiagnosisInput) -> Finding | None:
    """Rows are read, but the watermark is still at 1970. No window fires.

    Recognised by: batches had rows, and the query's watermark has never advanced.
    What to do: check the column that is given to `withWatermark`: its format, its type, its null rows and its delay.
    """
    spark, delay_ms = facts.snapshot.spark, facts.settings.lateness_ms
    if facts.over or not spark.never_moved:
        return None
    cause, fix = _UNMOVED[spark.unmoved]
    impact = "All rows are dropped" if spark.unmoved == "before_1970" else "No window fires, and no state is released"
    fixes: tuple[Fix, ...] = (fix,)
    if spark.unmoved is None and spark.nodes is not None and len(spark.nodes) == 1:
        cause = "Rows are read, but none has an event time that is later than 1970 plus the delay."
    if spark.unmoved is None and (spark.nodes is None or len(spark.nodes) > 1):
        fixes = (FEED_INPUT, USE_MAX_POLICY)
    too_long = spark.unmoved == "delay_too_long" and delay_ms is not None
    return Finding(
        severity="critical",
        title="The watermark has never advanced: it is at 1970",
        impact=impact,
        cause=cause,
        evidence=[
            f"Watermark at 1970; {_nodes(facts)}",
            stamped("Newest event time: ", spark.max_event_ms or None),
            f"Delay: {f.setting(delay_ms)}" if too_long else None,
        ],
        fixes=fixes,
    )


@rule("sibling-failed", "Progress")
def sibling_failed(facts: DiagnosisInput) -> Finding | None:
    """Another query of the same Spark application has failed.

    Recognised by: the application reports it.
    What to do: read the error and the log of that query.
    """
    failed = [one for one in facts.snapshot.siblings or () if one.state == "failed"]
    if not failed:
        return None
    queries, error = [one.name for one in failed], failed[0].error
    more = len(queries) - _QUERIES_NAMED
    which = names(queries)
    if more > 0:
        first = ", ".join(name(query) for query in queries[:_QUERIES_NAMED])
        which = f"{first} and {more} more quer{'y' if more == 1 else 'ies'}"
    return Finding(
        size=len(queries),
        title=f"{which} of the same application {verb(queries, 'has', 'have')} failed",
        impact=f"{n(len(queries), 'other query').replace('querys', 'queries')} of this application: no results",
        cause=f"{verb(queries, 'That query', 'Those queries')} ended with an error.",
        evidence=[f.first_line(f.clean(error)) if error else f"{len(queries)} failed"],
        fixes=(CHECK_QUERY,),
    )
