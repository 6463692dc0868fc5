"""Whether event time advances: records that repeat their times, and findings for verdicts that no other explains."""

from msgspec import Struct

from ..snapshot import ChannelView, Holder, Snapshot
from ..text import formatting as f
from ..text.codes import CAUSES, busiest_task
from ..verdict.blame import blamed_holder
from .finding import ADD_READERS, SEE_OPERATORS, WAIT, Finding, Fix, check_channels, n, names, span, verb
from .kind_details import STUCK_MS
from .rules import DiagnosisInput, rule

CANNOT_TELL = "Cannot tell yet"
"""How the title of a finding begins that there is no verdict yet."""


SEE_PROGRESS = Fix("see-progress", "See where the time of a batch goes (Progress, key g)")
_START_CONSUMER = Fix("start-consumer", "Start a consumer of the group: it has no member")
TAP_EVENTS = Fix("tap-events", "To see its event time, put a tap (one line) on its input")


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
    if facts.watermark_ms > (facts.now_ms or 0) or snapshot.state not in ("live", "partial"):
        return None  # a timestamp in the future set it, or what is read now is not known
    unmoved = facts.details.unmoved(snapshot, frozen_ms)
    if unmoved is None:
        return None
    newest = _newest(facts, frozen_ms)
    return Finding(
        severity="critical" if unmoved.is_certain or facts.verdict == "stalled" else "warning",
        size=frozen_ms,
        channels=newest.with_data,
        title=newest.title,
        impact=f"{facts.nothing_fires}: the watermark has not advanced for {span(frozen_ms)}",
        cause="No record is newer than the newest before it: they repeat their timestamps, or are old.",
        evidence=[
            f"{f.count(round(unmoved.per_second))} records/s are read",
            f"The newest event time has not advanced for {span(frozen_ms)}",
            newest.evidence,
        ],
        fixes=(facts.check_event_time,),
    )


class _Newest(Struct, frozen=True):
    """The channels with the newest event time that still have data, and what is said of them."""

    title: str
    with_data: tuple[str, ...] = ()
    evidence: str | None = None


def _newest(facts: DiagnosisInput, frozen_ms: int) -> _Newest:
    """Which channels with data set the newest event time, as far as channels show theirs."""
    nothing = _Newest("Records come, but event time does not advance")
    known = [view for view in facts.channels if view.max_event_ms is not None and facts.target.shows_event_times]
    if not known:
        return nothing
    newest_ms = max(facts.event_times)
    first = [view for view in known if view.max_event_ms == newest_ms]
    with_data = tuple(view.channel for view in first if _has_data(facts, view, frozen_ms))
    older = sum(_has_data(facts, view, frozen_ms) for view in known if view.max_event_ms != newest_ms)
    if with_data and older:
        title = f"Event time of {names(with_data)} does not advance, and no other channel is ahead"
        return _Newest(title, with_data, f"{n(older, 'other channel')} with data: older event times")
    if with_data:
        return _Newest(nothing.title, with_data, f"All channels with data: {names(with_data)}")
    before = names([view.channel for view in first])
    return _Newest(
        f"No channel with data has reached the event time of {before}",
        evidence=f"No data now from {before}, which had the newest event time",
    )


def _has_data(facts: DiagnosisInput, view: ChannelView, frozen_ms: int) -> bool:
    return view.quiet_ms is not None and view.quiet_ms < min(frozen_ms, facts.stall_ms) / 2


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
        fixes = (facts.check_event_time if snapshot.channels else TAP_EVENTS,)
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
        fixes=(*fixes, SEE_OPERATORS if facts.target.has_tasks else SEE_PROGRESS),
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
    time = facts.target.time_name
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
