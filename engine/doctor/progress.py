"""Whether event time advances: records that repeat their times, and findings for verdicts that no other explains."""

from ..snapshot import ChannelView, FlinkJob, Snapshot
from ..text import formatting as f
from ..text.codes import CAUSES, NO_LINKS, busiest_task
from ..verdict.verdict import is_idle, is_inconclusive, lost_state
from .finding import (
    ADD_READERS,
    SEE_OPERATORS,
    WAIT,
    Context,
    Explanation,
    Finding,
    Fix,
    check_channels,
    n,
    names,
    only,
    span,
    verb,
)
from .rules import MINUTE, SECOND, DiagnosisInput, rule

STUCK_MS = 75 * SECOND
"""Rates are means over the last minute, and metrics are up to 10 s old: a source that still has a rate after this
time has read records while the watermark was frozen."""
UNMOVED_BATCHES = 3
"""Batches with new input that show that a query's watermark does not advance with what it reads."""
CANNOT_TELL = "Cannot tell yet"
"""How the title of a finding begins that there is no verdict yet."""


SEE_PROGRESS = Fix("see-progress", "See where the time of a batch goes (Progress, key g)")
TAP_EVENTS = Fix("tap-events", "To see its event time, put a tap (one line) on its input")


def _check_event_time(facts: DiagnosisInput) -> Fix:
    where = "at the time column"
    if isinstance(facts.snapshot.target, FlinkJob):
        where = "at the timestamp assigner (in SQL: the column of WATERMARK FOR)"
    elif facts.is_attached:
        where = "at the column given to withWatermark"
    return Fix("check-event-time", f"Look at the timestamps of new records, and {where}")


class EventTimeStuck(Finding, frozen=True, kw_only=True, tag="event-time-stuck"):
    """Records come, but none is newer than the newest before it. Event time does not advance.

    Recognised by: the watermark has not advanced for 75 seconds while records are read, and no channel is ahead of the
    others.

    What to do: look at the timestamps of new records and at what assigns them.
    """

    frozen_ms: int
    read_per_second: float
    older: int = 0
    """Channels with data whose event time is older still."""
    newest: tuple[str, ...] = ()
    """The channels with the newest event time, where none of them has data now."""

    def words(self, context: Context) -> Explanation:
        title = "Records come, but event time does not advance"
        who: list[str] = []
        if self.channels and self.older:
            title = f"Event time of {names(self.channels)} does not advance, and no other channel is ahead"
            who = [f"{n(self.older, 'other channel')} with data: older event times"]
        elif self.channels:
            who = [f"All channels with data: {names(self.channels)}"]
        elif self.newest:
            title = f"No channel with data has reached the event time of {names(self.newest)}"
            who = [f"No data now from {names(self.newest)}, which had the newest event time"]
        return Explanation(
            title,
            f"No window fires: the watermark has not advanced for {span(self.frozen_ms)}",
            "No record is newer than the newest before it: they repeat their timestamps, or are old.",
            [
                f"{f.count(round(self.read_per_second))} records/s are read",
                f"The newest event time has not advanced for {span(self.frozen_ms)}",
                *who,
            ],
            ("Operators", "Progress"),
            only(self.channels),
        )


@rule(EventTimeStuck, suppressed_by=("input-holds-back", "frozen-by-lateness"), accounts_for=("stalled", "unknown"))
def event_time_stuck(facts: DiagnosisInput) -> EventTimeStuck | None:
    """No channel is ahead, so none holds the others back: the records repeat their times, or are old."""
    snapshot, frozen_ms, of_flink = facts.snapshot, facts.frozen_ms, isinstance(facts.snapshot.target, FlinkJob)
    if facts.watermark_ms is None or frozen_ms is None or frozen_ms < STUCK_MS:
        return None
    read = None if snapshot.state not in ("live", "partial") else _read_per_second(facts, frozen_ms)
    if not read:
        return None
    newest_ms, known = max(facts.event_times, default=None), [] if of_flink else facts.channels
    first = [view for view in known if view.max_event_ms is not None and view.max_event_ms == newest_ms]
    others = [view for view in known if view.max_event_ms is not None and view.max_event_ms != newest_ms]
    with_data = [view.channel for view in first if _has_data(facts, view, frozen_ms)]
    return EventTimeStuck(
        severity="critical" if of_flink or facts.verdict == "stalled" else "warning",
        size=frozen_ms,
        channels=tuple(with_data),
        frozen_ms=frozen_ms,
        read_per_second=read,
        older=sum(_has_data(facts, view, frozen_ms) for view in others),
        newest=() if with_data else tuple(view.channel for view in first),
        fixes=(_check_event_time(facts),),
    )


def _has_data(facts: DiagnosisInput, view: ChannelView, frozen_ms: int) -> bool:
    return view.quiet_ms is not None and view.quiet_ms < min(frozen_ms, facts.stall_ms) / 2


def _read_per_second(facts: DiagnosisInput, frozen_ms: int) -> float | None:
    """What a Flink job reads, or a Spark query whose newest records so far set its watermark."""
    level, spark = facts.snapshot.level, facts.snapshot.spark
    if facts.watermark_ms is None or facts.watermark_ms > (facts.now_ms or 0):
        return None  # a timestamp in the future set it
    if isinstance(facts.snapshot.target, FlinkJob):
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


class Stalled(Finding, frozen=True, kw_only=True, tag="watermark-stalled"):
    """The watermark does not advance although data comes, and no other finding explains it.

    Recognised by: the verdict is `stalled`.

    What to do: see on the Blockers screen which channels hold back the watermark.
    """

    frozen_ms: int | None

    def words(self, context: Context) -> Explanation:
        by = f": {names(self.channels)} holds it back" if self.channels else ""
        behind_ms = context.snapshot.level.behind_fastest_ms
        behind = [] if behind_ms is None else [f"{span(behind_ms)} behind the fastest channel"]
        return Explanation(
            f"The watermark is stalled{by}",
            "No window fires",
            _why_stalled(context.snapshot),
            [f"Unchanged for {span(self.frozen_ms)}", *behind],
            ("Blockers", "Windows"),
            self.channels[0] if self.channels else None,
        )


def _why_stalled(snapshot: Snapshot) -> str:
    """The cause by the channel that holds the watermark back, or why no channel does."""
    holder, reason = snapshot.level.holder, snapshot.verdict.reason
    if holder is not None:
        return (
            f"The watermark is the minimum over the channels, and {f.name(holder.channel)} {CAUSES[holder.cause].one}."
        )
    if reason.code == "unread_records":
        return f"No channel is known to hold it back: {n(reason.records, 'record')} unread."
    if snapshot.one_clock and snapshot.channels:
        return "No channel holds it back: no record is newer than the newest before it."
    return "The cause is not known: the event times of its records, and which input is behind, are not known from here."


@rule(Stalled, last_resort="stalled")
def watermark_stalled(facts: DiagnosisInput) -> Stalled:
    snapshot, holder = facts.snapshot, facts.snapshot.level.holder
    fixes = [Fix("see-blockers", "See which channels hold back the watermark (Blockers, key b)")]
    if snapshot.verdict.reason.code == "unread_records":
        fixes = [ADD_READERS, SEE_PROGRESS]
    elif holder is None:
        fixes = [_check_event_time(facts) if snapshot.one_clock and snapshot.channels else TAP_EVENTS]
    return Stalled(
        severity="critical",
        size=float(facts.frozen_ms or 0),
        channels=() if holder is None else (holder.channel,),
        frozen_ms=facts.frozen_ms,
        fixes=tuple(fixes),
    )


class Slow(Finding, frozen=True, kw_only=True, tag="watermark-slow"):
    """The watermark advances more slowly than the clock, and no other finding explains it. Results come later and
    later.

    Recognised by: the verdict is `slow`.

    What to do: see on the Progress screen where the time of a batch goes; for a Flink job, on the Operators screen.
    """

    def words(self, context: Context) -> Explanation:
        snapshot, reason, title = context.snapshot, context.snapshot.verdict.reason, "Event time loses ground"
        cause = "No channel alone holds it back: all event times advance more slowly than the clock"
        if self.channels:
            who = names(self.channels)
            title += f": {who} {verb(self.channels, 'holds', 'hold')} back the watermark"
            cause = f"The event time of {who} advances more slowly than the clock"
        elif not snapshot.channels:
            cause = "The watermark advances more slowly than the clock; no channel of the target is known"
        lost = [f"{span(reason.ms)} further behind the clock than {span(reason.over_ms)} ago"]
        return Explanation(
            title,
            "Results come later and later",
            f"{cause}{busiest_task(snapshot)}.",
            [f"Now {span(snapshot.level.behind_clock_ms)} behind the clock", *(lost if reason.ms is not None else [])],
            ("Progress", "History"),
            only(self.channels),
        )


@rule(Slow, last_resort="slow")
def watermark_slow(facts: DiagnosisInput) -> Slow:
    level, reason = facts.snapshot.level, facts.snapshot.verdict.reason
    alone = 2 * (level.behind_fastest_ms or 0) >= (reason.ms or 0)  # else all of them fall behind the clock
    channels = tuple(reason.channels) if alone else ()
    check = [check_channels(channels, ("is behind", "are behind"))] if channels else []
    see = SEE_OPERATORS if isinstance(facts.snapshot.target, FlinkJob) else SEE_PROGRESS
    return Slow(severity="warning", channels=channels, fixes=(*check, see))


class NotAdvancing(Finding, frozen=True, kw_only=True, tag="watermark-not-advancing"):
    """Batches of an attached Spark query read new input, and its watermark does not advance. Why is not known from a
    checkpoint.

    Recognised by: at least 3 batches with new offsets, and an unchanged watermark for 75 seconds.

    What to do: attach to the job's event log or call publish(spark) in the job: both show event times.
    """

    frozen_ms: int
    batches: int
    """Batches with new input since it has its value, at least."""
    silent: tuple[str, ...] = ()
    """The sources without new input in these batches, where others had some."""

    def words(self, context: Context) -> Explanation:
        silent = [f"No new input in them from {f.label(text, 120)}" for text in self.silent[:3]]
        another = "An input without newer records may hold it back. " if len(context.snapshot.sources or ()) > 1 else ""
        return Explanation(
            "The watermark does not advance, although batches read new input",
            "No window fires meanwhile; not an all-clear",
            "The reason is not known from here. The new records may be no newer than those before. "
            f"{another}A timestamp ahead of the others may have set it.",
            [
                f"The watermark has not advanced for at least {span(self.frozen_ms)}",
                f"Offsets advanced in at least {f.count(self.batches)} batches since",
                *silent,
            ],
            ("Operators", "Progress"),
        )


@rule(NotAdvancing, last_resort="unknown")
def not_advancing(facts: DiagnosisInput) -> NotAdvancing | None:
    """What a checkpoint shows of a frozen watermark: its batches' offsets advance, without event times."""
    snapshot, frozen_ms = facts.snapshot, facts.frozen_ms
    batches = snapshot.spark.batches_unmoved
    if snapshot.state not in ("live", "partial") or lost_state(snapshot) is not None or is_inconclusive(snapshot):
        return None  # among them a query that pauses: what it read last need not be newer
    if facts.watermark_ms is None or frozen_ms is None:
        return None
    if batches is None or batches < UNMOVED_BATCHES or frozen_ms < STUCK_MS:
        return None
    reported = (snapshot.origin or {}).get("rates") is not None
    attach = "Attach to the job's event log, or call publish(spark) in the job: both show event times"
    fixes = [_check_event_time(facts)] if reported else [Fix("attach-reports", attach), _check_event_time(facts)]
    return NotAdvancing(
        severity="warning",
        size=frozen_ms,
        frozen_ms=frozen_ms,
        batches=batches,
        silent=tuple(source.description for source in snapshot.sources or () if source.batches_unmoved == 0),
        fixes=tuple(fixes),
    )


class CannotTell(Finding, frozen=True, kw_only=True, tag="cannot-tell-yet"):
    """Too little is known for a verdict. This is not an all-clear.

    Recognised by: the history is shorter than a verdict needs (a minute, or ten batches), or a fact that it needs is
    not known.

    What to do: wait. If the query has no watermark, a tap on its input shows event time.
    """

    watched_ms: int
    without_watermark: bool = False
    """An attached query without a watermark: waiting does not help."""
    without_links: bool = False
    """A Flink job in which no task reads another one: no task receives a watermark, and waiting does not help."""

    def words(self, context: Context) -> Explanation:
        if self.without_watermark:
            return Explanation(
                "Event time is not known: the query has no watermark",
                "Not an all-clear: only its batches can be judged",
                "Spark reports event time where a watermark is, and this query has no withWatermark.",
                ["0 calls of withWatermark"],
                ("Progress",),
            )
        if self.without_links:
            cause = (
                "All its operators are chained to the sources, and Flink reports the watermarks that a task receives."
            )
            tasks = context.snapshot.job.vertices
            impact = "Not an all-clear: only its rates can be judged"
            return Explanation(NO_LINKS, impact, cause, [n(len(tasks), "task")], ("Progress",))
        verdict = context.snapshot.verdict
        why = "It is known once the watermark has advanced, or has been frozen for longer than usual."
        if context.is_attached:
            why += " Some facts of an attached query are not known from here."
        seen = [f"Watched for {span(self.watched_ms)}"]
        title = CANNOT_TELL
        if verdict.reason.code == "too_short" and verdict.reason.ms is not None and verdict.patience_ms is not None:
            seen = [f"Observed for {span(verdict.reason.ms)}; a stall takes {span(verdict.patience_ms)}"]
            title += f": observed for {span(verdict.reason.ms)}"
        elif verdict.reason.code == "not_known":
            why = "Some of what a verdict needs is not known from here; the watermark does not move."
        return Explanation(title, "Not an all-clear", why, seen, ("Progress",))


@rule(CannotTell, last_resort="unknown")
def cannot_tell(facts: DiagnosisInput) -> CannotTell:
    bare, job = facts.snapshot.spark.has_watermark is False, facts.running_job
    alone = job is not None and bool(job.vertices) and not job.has_links
    return CannotTell(
        severity="info",
        without_links=alone,
        watched_ms=facts.watched_ms,
        without_watermark=bare,
        fixes=(SEE_PROGRESS if alone else TAP_EVENTS if bare else WAIT,),
    )
