"""Whether event time advances: records that repeat their times, and findings for verdicts that no other explains."""

from ..snapshot import Chain, ChannelView, Holder, KafkaStreams, Snapshot
from ..snapshot.kinds.chain import Hop
from ..text import formatting as f
from ..text.codes import CAUSES, busiest_task
from ..verdict.blame import blamed_holder
from ..verdict.verdict import is_idle, is_inconclusive, lost_state
from .finding import ADD_READERS, SEE_OPERATORS, WAIT, Finding, Fix, check_channels, n, names, span, verb
from .rules import MINUTE, SECOND, DiagnosisInput, rule

STUCK_MS = 75 * SECOND
"""Rates are means over the last minute, and metrics are up to 10 s old: a source that still has a rate after this
time has read records while the watermark was frozen."""
UNMOVED_BATCHES = 3
"""Batches with new input that show that a query's watermark does not advance with what it reads."""
CANNOT_TELL = "Cannot tell yet"
"""How the title of a finding begins that there is no verdict yet."""


SEE_PROGRESS = Fix("see-progress", "See where the time of a batch goes (Progress, key g)")
_START_CONSUMER = Fix("start-consumer", "Start a consumer of the group: it has no member")
TAP_EVENTS = Fix("tap-events", "To see its event time, put a tap (one line) on its input")


def _check_event_time(facts: DiagnosisInput) -> Fix:
    where = "at the time column"
    if facts.of_flink:
        where = "at the timestamp assigner (in SQL: the column of WATERMARK FOR)"
    elif facts.is_attached:
        where = "at the column given to withWatermark"
    return Fix("check-event-time", f"Look at the timestamps of new records, and {where}")


@rule(
    "event-time-stuck",
    "Operators",
    "Progress",
    suppressed_by=("input-holds-back", "frozen-by-lateness"),
    accounts_for=("stalled", "unknown"),
)
def event_time_stuck(facts: DiagnosisInput) -> Finding | None:
    """Records come, but none is newer than the newest before it. Event time does not advance.

    Recognised by: the watermark has not advanced for 75 seconds while records are read, and no channel is ahead of the
    others.
    What to do: look at the timestamps of new records and at what assigns them.
    """
    snapshot, frozen_ms = facts.snapshot, facts.frozen_ms
    if facts.watermark_ms is None or frozen_ms is None or frozen_ms < STUCK_MS:
        return None
    read = None if snapshot.state not in ("live", "partial") else _read_per_second(facts, frozen_ms)
    if not read:
        return None
    newest_ms, known = max(facts.event_times, default=None), [] if facts.of_flink else facts.channels
    first = [view for view in known if view.max_event_ms is not None and view.max_event_ms == newest_ms]
    others = [view for view in known if view.max_event_ms is not None and view.max_event_ms != newest_ms]
    with_data = tuple(view.channel for view in first if _has_data(facts, view, frozen_ms))
    older, newest = sum(_has_data(facts, view, frozen_ms) for view in others), names([view.channel for view in first])
    title, who = "Records come, but event time does not advance", None
    if with_data and older:
        title = f"Event time of {names(with_data)} does not advance, and no other channel is ahead"
        who = f"{n(older, 'other channel')} with data: older event times"
    elif with_data:
        who = f"All channels with data: {names(with_data)}"
    elif first:
        title = f"No channel with data has reached the event time of {newest}"
        who = f"No data now from {newest}, which had the newest event time"
    return Finding(
        severity="critical" if facts.of_flink or facts.verdict == "stalled" else "warning",
        size=frozen_ms,
        channels=with_data,
        title=title,
        impact=f"{facts.nothing_fires}: the watermark has not advanced for {span(frozen_ms)}",
        cause="No record is newer than the newest before it: they repeat their timestamps, or are old.",
        evidence=[
            f"{f.count(round(read))} records/s are read",
            f"The newest event time has not advanced for {span(frozen_ms)}",
            who,
        ],
        fixes=(_check_event_time(facts),),
    )


def _has_data(facts: DiagnosisInput, view: ChannelView, frozen_ms: int) -> bool:
    return view.quiet_ms is not None and view.quiet_ms < min(frozen_ms, facts.stall_ms) / 2


def _read_per_second(facts: DiagnosisInput, frozen_ms: int) -> float | None:
    """What a Flink job reads, or a Spark query whose newest records so far set its watermark."""
    level, spark = facts.snapshot.level, facts.snapshot.spark
    if facts.watermark_ms is None or facts.watermark_ms > (facts.now_ms or 0):
        return None  # a timestamp in the future set it
    if facts.of_flink:
        job = facts.running_job
        held = level.holder is not None and level.holder.cause in ("behind", "stuck")
        none_ahead = (level.behind_fastest_ms or 0) < frozen_ms // 2
        return job.read_per_second if job is not None and held and none_ahead else None
    if is_idle(facts.snapshot):
        return None  # the rate is that of its last batch
    if _clock_of(facts, frozen_ms) != facts.watermark_ms or not _unmoved_by_its_last_rows(facts, frozen_ms):
        return None
    return spark.input_rows_per_second


def _clock_of(facts: DiagnosisInput, frozen_ms: int) -> int | None:
    """The watermark of a Spark query that its newest records give; None: not known, or an input's advances."""
    spark = facts.snapshot.spark
    nodes = spark.nodes or []
    if len(nodes) == 1:
        unknown = None in (spark.max_event_ms, nodes[0].delay_ms)
        return None if unknown else (spark.max_event_ms or 0) - (nodes[0].delay_ms or 0)
    clocks = [node.watermark_ms for node in nodes if node.watermark_ms is not None and node.pinned is None]
    if not nodes or len(clocks) < len(nodes) or spark.policy is None or max(clocks) - min(clocks) >= frozen_ms // 2:
        return None
    return min(clocks) if spark.policy == "min" else max(clocks)


def _unmoved_by_its_last_rows(facts: DiagnosisInput, frozen_ms: int) -> bool:
    """Whether several batches had rows and left the watermark as it was; its last rows may be those that moved it."""
    spark, now_ms = facts.snapshot.spark, facts.now_ms
    if spark.batches_unmoved is not None:
        return spark.batches_unmoved >= UNMOVED_BATCHES
    begun_ms = spark.batch_timestamp_ms
    if begun_ms is None or now_ms is None or spark.in_flight:
        return False
    return frozen_ms - (now_ms - begun_ms) >= MINUTE


def _what_to_do(holder: Holder | None) -> str:
    """A channel without data can be fed or left out; of the others it matters what follows the first."""
    if holder is None or holder.cause not in ("quiet", "never_seen"):
        return "See which channels hold back the watermark, and what frees each (Blockers, key b)"
    missing = f"{f.name(holder.channel)} has no data"
    return f"{missing}: find out why it gets none, or have an idle timeout leave it out (Blockers, key b: who is next)"


@rule("watermark-stalled", "Blockers", "Windows", last_resort="stalled")
def watermark_stalled(facts: DiagnosisInput) -> Finding:
    """The watermark does not advance although data comes, and no other finding explains it.

    Recognised by: the verdict is `stalled`.
    What to do: see on the Blockers screen which channels hold back the watermark.
    """
    snapshot, holder, behind_ms = facts.snapshot, blamed_holder(facts.snapshot), facts.snapshot.level.behind_fastest_ms
    fixes = (Fix("see-blockers", _what_to_do(holder)),)
    if snapshot.verdict.reason.code == "unread_records":
        is_alone = any(note.code == "no_member" for note in snapshot.notes)
        fixes = (_START_CONSUMER,) if is_alone else (ADD_READERS, SEE_PROGRESS)
    elif holder is None:
        fixes = (_check_event_time(facts) if snapshot.channels else TAP_EVENTS,)
    by = "" if holder is None else f": {names([holder.channel])} holds it back"
    return Finding(
        severity="critical",
        size=float(facts.frozen_ms or 0),
        channels=() if holder is None else (holder.channel,),
        title=f"The watermark is stalled{by}",
        impact=facts.nothing_fires,
        cause=_why_stalled(snapshot),
        evidence=[
            f"Unchanged for {span(facts.frozen_ms)}",
            None if behind_ms is None else f"{span(behind_ms)} behind the fastest channel",
        ],
        fixes=fixes,
    )


def _why_stalled(snapshot: Snapshot) -> str:
    """The cause by the channel that holds the watermark back, or why no channel does."""
    holder, reason = blamed_holder(snapshot), snapshot.verdict.reason
    if holder is not None:
        why = CAUSES[holder.cause].one
        return f"The watermark is the minimum over the channels, and {f.name(holder.channel)} {why}."
    if reason.code == "unread_records":
        return f"No channel is known to hold it back: {n(reason.records, 'record')} unread."
    if snapshot.channels:
        return "No channel holds it back: no record is newer than the newest before it."
    return "The cause is not known: the event times of its records, and which input is behind, are not known from here."


@rule("watermark-slow", "Progress", "History", last_resort="slow")
def watermark_slow(facts: DiagnosisInput) -> Finding:
    """The watermark advances more slowly than the clock, and no other finding explains it. Results come later and
    later.

    Recognised by: the verdict is `slow`.
    What to do: see on the Progress screen where the time of a batch goes; for a Flink job, on the Operators screen.
    """
    snapshot, level, reason = facts.snapshot, facts.snapshot.level, facts.snapshot.verdict.reason
    alone = 2 * (level.behind_fastest_ms or 0) >= (reason.ms or 0)  # else all of them fall behind the clock
    held_by = reason.channels or ([] if level.holder is None else [level.holder.channel])
    channels, title = tuple(held_by) if alone else (), "Event time loses ground"
    cause, fixes = "No channel alone holds it back: all event times advance more slowly than the clock", list[Fix]()
    if channels:
        title += f": {names(channels)} {verb(channels, 'holds', 'hold')} back the watermark"
        cause = f"The event time of {names(channels)} advances more slowly than the clock"
        fixes = [check_channels(channels, ("is behind", "are behind"))]
    elif not snapshot.channels:
        cause = "The watermark advances more slowly than the clock; no channel of the target is known"
    lost = f"{span(reason.ms)} further behind the clock than {span(reason.over_ms)} ago"
    return Finding(
        channels=channels,
        title=title,
        impact="Results come later and later",
        cause=f"{cause}{busiest_task(snapshot)}.",
        evidence=[f"Now {span(level.behind_clock_ms)} behind the clock", None if reason.ms is None else lost],
        fixes=(*fixes, SEE_OPERATORS if facts.of_flink else SEE_PROGRESS),
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
        fixes=(*(() if reported else (Fix("attach-reports", attach),)), _check_event_time(facts)),
    )


@rule("cannot-tell-yet", "Progress", last_resort="unknown")
def cannot_tell(facts: DiagnosisInput) -> Finding:
    """Too little is known for a verdict. This is not an all-clear.

    Recognised by: the watermark has not advanced yet, and was watched for less than a stall takes; or a fact that a
    verdict needs is not known.
    What to do: wait. If the query has no watermark, a tap on its input shows event time.
    """
    if facts.snapshot.spark.has_watermark is False:
        return Finding(
            severity="info",
            title="Event time is not known: the query has no watermark",
            impact="Not an all-clear: only its batches can be judged",
            cause="Spark reports event time where a watermark is, and this query has no withWatermark.",
            evidence=["0 calls of withWatermark"],
            fixes=(TAP_EVENTS,),
        )
    verdict = facts.snapshot.verdict
    time = "stream time" if isinstance(facts.snapshot.target, KafkaStreams) else "watermark"
    why = f"It is known once the {time} has advanced, or has been frozen for longer than usual."
    if facts.is_attached:
        why += " Some facts of an attached query are not known from here."
    title, seen = CANNOT_TELL, f"Watched for {span(facts.watched_ms)}"
    if verdict.reason.code == "too_short" and verdict.reason.ms is not None and verdict.patience_ms is not None:
        seen = f"Observed for {span(verdict.reason.ms)}; a stall takes {span(verdict.patience_ms)}"
        title += f": observed for {span(verdict.reason.ms)}"
    elif verdict.reason.code == "not_known":
        why = f"Some of what a verdict needs is not known from here; the {time} does not move."
    return Finding(severity="info", title=title, impact="Not an all-clear", cause=why, evidence=[seen], fixes=(WAIT,))


@rule("hop-trouble", "Events", accounts_for=("stalled", "slow", "unknown"))
def hop_trouble(facts: DiagnosisInput) -> Finding | None:
    """A topic or job of a chain is stalled, falls behind, has a critical finding, or its state is not known. What comes
    after it may only lack its input.

    Recognised by: the verdict and the findings on the hop's own target.
    What to do: `wmtop check TARGET` for that target: it has the cause and the fix.
    """
    chain = facts.snapshot.target
    hops = _troubled(chain) if isinstance(chain, Chain) else []
    if not isinstance(chain, Chain) or not hops:
        return None
    verdict, who = chain.verdict.verdict, [hop.name for hop in hops]
    title = {
        "stalled": f"{names(who)} {verb(who, 'does', 'do')} not advance",
        "slow": f"{names(who)} {verb(who, 'falls', 'fall')} behind",
        "unknown": f"{CANNOT_TELL}: the state of {names(who)} is not known",
    }.get(verdict, f"Critical findings on {names(who)}")
    return Finding(
        severity="critical" if verdict == "stalled" or any(hop.critical for hop in hops) else "warning",
        size=float(chain.behind_ms or 0),
        channels=tuple(who),
        channel=None,
        title=title,
        impact="The hops after it get no newer event time from it",
        cause=" ".join(_hop_cause(chain, hop) for hop in hops),
        evidence=[f"{f.name(hop.name)}: {', '.join([hop.verdict or f.UNKNOWN, *hop.critical])}" for hop in hops],
        fixes=tuple(Fix(f"check-{hop.target}", f"Run wmtop check {f.clean(hop.target or hop.name)}") for hop in hops),
    )


def _troubled(chain: Chain) -> list[Hop]:
    """The first hops on their way with the chain's verdict, if that is not good, and those with a critical finding."""
    verdict = chain.verdict.verdict
    after: set[int] = set()
    found: list[Hop] = []
    for number in sorted(chain.joined):
        hop = chain.hops[number]
        is_bad = verdict in ("stalled", "slow", "unknown") and hop.verdict == verdict
        is_after = not after.isdisjoint(hop.proven)
        if hop.critical or (is_bad and not is_after):
            found.append(hop)
        if is_bad or is_after:
            after.add(number)
    return found


def _hop_cause(chain: Chain, hop: Hop) -> str:
    holder = chain.holder_in(hop)
    if holder is not None and hop.cause is not None:
        return f"{f.name(hop.name)}: {f.name(holder)} {CAUSES[hop.cause].one}."
    return f"{f.name(hop.name)}: {f.clean(hop.trouble or 'its own check has the cause')}."
