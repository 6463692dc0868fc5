"""Spark: a query that shows no progress, and its clock: the fastest channel drives it, each input has its own."""

from typing import Literal

from ...snapshot import ChannelView, Snapshot, SparkProgress, SparkQuery, UnmovedReason
from ...text import formatting as f
from ...text.formatting import name
from ...verdict.verdict import is_idle, is_inconclusive, lost_state
from ..condition import CHECK_SOURCE, NO_RESULTS, OLD, broker_silent, note_of, pauses, stale_part, unreadable
from ..finding import CHECK_QUERY, Finding, Fix, column, lengthen_lateness, n, names, span, stamped, verb
from ..kind_details import KIND_DETAILS, STUCK_MS, KindDetails, Unmoved
from ..rules import MINUTE, SECOND, DiagnosisInput, loss_severity, rule

SKEW_TIMES = 2
"""An input is far behind: so many times the longest delay, or a window, and a minute at least."""
MIN_LOST = 20
"""Fewer late records prove nothing."""
_QUERIES_NAMED = 3
UNMOVED_BATCHES = 3
"""Batches with new input that show that a query's watermark does not advance with what it reads."""
CHECK_SERVER = Fix("check-server", "Check that this machine reaches it, and with which credentials")
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


@rule("query-stale", "Progress", suppressed_by=("hung-batch",), accounts_for=("unknown",), before_data=True)
def query_stale(facts: DiagnosisInput) -> Finding | None:
    """The attached Spark query shows no progress. It may be idle, hang or be dead.

    Recognised by: no new batch for much longer than its batches and its trigger explain, or its application has ended.
    A warning where a checkpoint alone is seen and nothing is known to be unread: the query may be idle.
    What to do: check that its process runs, and read its log. If its source does not answer either, check the source
    first.
    """
    if stale_part(facts) != "query-stale":
        return None
    snapshot, silent = facts.snapshot, broker_silent(facts)
    begun_ms, now_ms, in_flight = snapshot.spark.batch_timestamp_ms, snapshot.wall_ms, snapshot.spark.in_flight
    ago = None if begun_ms is None or now_ms is None else span(max(now_ms - begun_ms, 0))
    batch = "The last batch" if snapshot.batch is None else f"Batch {snapshot.batch:,}"
    ended = "" if in_flight is None else " and has not ended" if in_flight else " and was the last one"
    title, impact = "The query shows no progress", "No results" if ago is None else f"Nothing new for {ago}"
    why = f"The query is {'slow' if in_flight else 'idle'}{' or hangs' if facts.is_alive else ', hangs, or has died'}"
    causes = [f"{why}: from outside these look alike.", unreadable_part := unreadable(facts), OLD]
    fixes = (facts.check_query,) if silent is None else (CHECK_SOURCE, facts.check_query)
    if (gone := note_of(facts, "application_gone")) is not None:
        silent_ms = gone.args.get("silent_ms")
        last = f"; its last report was {span(silent_ms)} ago" if isinstance(silent_ms, int) else ""
        title, impact, silent = f"The query's application has ended{last}", NO_RESULTS, None
        causes = ["The application ended without stopping the query: it was killed, or it failed.", OLD]
    elif silent is not None:
        title += "; its source does not answer"
        causes[0] = "Its source does not answer from here either: the query probably waits for it."
    elif unreadable_part is not None and in_flight is None:
        title, impact = "What shows the query does not answer", "Whether the query still runs is not known"
        causes, fixes = [unreadable_part, OLD], (CHECK_SERVER,)
    last = note_of(facts, "no_new_batch")
    may_be_idle = last is not None and last.args.get("due") is None and silent is None
    return Finding(
        severity="warning" if may_be_idle else "critical",
        title=title,
        impact=impact,
        cause=" ".join(text for text in causes if text),
        evidence=[
            f"{batch}{'' if ago is None else f' began {ago} ago'}{ended}",
            None if silent is None else f.clean(silent),
        ],
        fixes=fixes,
    )


@rule("query-not-started", "Progress", accounts_for=("unknown",), before_data=True)
def query_not_started(facts: DiagnosisInput) -> Finding | None:
    """The attached Spark query has not begun a batch.

    Recognised by: its checkpoint, event log or reports have no batch yet.
    What to do: check that the application has started the query, and that its input has data: without, no batch begins.
    """
    if stale_part(facts) != "query-not-started":
        return None
    return Finding(
        title="No batch has begun",
        impact="No results yet",
        cause="The query has not started, its input has no data yet, or its first batch is still being planned.",
        evidence=["0 batches so far"],
        fixes=(CHECK_QUERY,),
    )


@rule("pause-unknown", "Progress", accounts_for=("unknown",), before_data=True)
def pause_unknown(facts: DiagnosisInput) -> Finding | None:
    """The attached Spark query has had no batch for a while, and nothing shows whether it is idle, waits for its
    trigger, or has ended.

    Recognised by: no batch for longer than before, and neither its batches nor its plan show how long its trigger
    pauses.
    What to do: check that its process runs. This is not an all-clear.
    """
    silent_ms, batch = pauses(facts), facts.snapshot.batch
    if silent_ms is None:
        return None
    pause, title = "a long trigger", "The query pauses"
    if note_of(facts, "no_batch_ended") is not None:
        pause, title = "a slow first batch", "No batch has ended yet"
    last = "" if batch is None else f"; the last one is batch {batch:,}"
    unsure, worst = ("is stuck", "is stuck in its source") if facts.is_alive else ("runs", "has ended or died")
    return Finding(
        severity="info",
        size=silent_ms,
        title=f"{title}; whether it {unsure} is not known",
        impact=f"Not an all-clear: nothing new may be {pause}, an idle source or a query that {worst}",
        cause=f"An idle query, {pause} and a query that {worst} look the same from here.",
        evidence=[f"No batch for {span(silent_ms)}{last}"],
        fixes=(facts.check_query,),
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
    if facts.ended or not facts.settings.late_at_watermark:
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


@rule("watermark-not-advancing", "Operators", "Progress", last_resort="unknown")
def not_advancing(facts: DiagnosisInput) -> Finding | None:
    """Batches of an attached Spark query read new input, and its watermark does not advance. Why is not known from a
    checkpoint.

    Recognised by: at least 3 batches with new offsets, and an unchanged watermark for 75 seconds.
    What to do: attach to the job's event log or call publish(spark) in the job: both show event times.
    """
    snapshot, frozen_ms, batches = facts.snapshot, facts.frozen_ms, facts.snapshot.spark.batches_unmoved
    if snapshot.state not in ("live", "partial") or lost_state(snapshot) is not None or is_inconclusive(snapshot):
        return None  # among them a query that pauses: what it read last need not be newer
    if facts.watermark_ms is None or frozen_ms is None:
        return None
    if batches is None or batches < UNMOVED_BATCHES or frozen_ms < STUCK_MS:
        return None
    sources, reported = snapshot.sources or (), (snapshot.origin or {}).get("rates") is not None
    attach = "Attach to the job's event log, or call publish(spark) in the job: both show event times"
    silent = [source.description for source in sources if source.batches_unmoved == 0]
    another = "An input without newer records may hold it back. " if len(sources) > 1 else ""
    return Finding(
        size=frozen_ms,
        title="The watermark does not advance, although batches read new input",
        impact="No window fires meanwhile; not an all-clear",
        cause="The reason is not known from here. The new records may be no newer than those before. "
        f"{another}A timestamp ahead of the others may have set it.",
        evidence=[
            f"The watermark has not advanced for at least {span(frozen_ms)}",
            f"Offsets advanced in at least {f.count(batches)} batches since",
            *(f"No new input in them from {f.label(text, 120)}" for text in silent[:3]),
        ],
        fixes=(*(() if reported else (Fix("attach-reports", attach),)), facts.check_event_time),
    )


def _unmoved(snapshot: Snapshot, frozen_ms: int) -> Unmoved | None:
    """What a query reads whose newest records so far set its watermark."""
    rate = snapshot.spark.input_rows_per_second
    if not rate or is_idle(snapshot):  # when idle, the rate is that of its last batch
        return None
    if _clock_of(snapshot.spark, frozen_ms) != snapshot.level.watermark_ms:
        return None
    return Unmoved(rate) if _unmoved_by_its_last_rows(snapshot, frozen_ms) else None


def _clock_of(spark: SparkProgress, frozen_ms: int) -> int | None:
    """The watermark of a query that its newest records give; None: not known, or an input's advances."""
    nodes = spark.nodes or []
    if len(nodes) == 1:
        unknown = None in (spark.max_event_ms, nodes[0].delay_ms)
        return None if unknown else (spark.max_event_ms or 0) - (nodes[0].delay_ms or 0)
    clocks = [node.watermark_ms for node in nodes if node.watermark_ms is not None and node.pinned is None]
    if not nodes or len(clocks) < len(nodes) or spark.policy is None or max(clocks) - min(clocks) >= frozen_ms // 2:
        return None
    return min(clocks) if spark.policy == "min" else max(clocks)


def _unmoved_by_its_last_rows(snapshot: Snapshot, frozen_ms: int) -> bool:
    """Whether several batches had rows and left the watermark as it was; its last rows may be those that moved it."""
    spark = snapshot.spark
    if spark.batches_unmoved is not None:
        return spark.batches_unmoved >= UNMOVED_BATCHES
    if spark.batch_timestamp_ms is None or snapshot.now_ms is None or spark.in_flight:
        return False
    return frozen_ms - (snapshot.now_ms - spark.batch_timestamp_ms) >= MINUTE


KIND_DETAILS[SparkQuery] = KindDetails(
    keep_out=Fix(
        "drop-future-rows",
        "Drop such rows before withWatermark, and start the query with a new checkpoint: in this one the watermark "
        "never goes back",
    ),
    unmoved=_unmoved,
)
