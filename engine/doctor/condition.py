"""The engine and the source: failed, without an answer, starting, paused, partly unknown, without records."""

from ..snapshot import FlinkJob, Note, NoteCode
from ..text import formatting as f
from ..text.codes import unknown_text
from .finding import CHECK_JOB, CHECK_PRODUCERS, CHECK_QUERY, WAIT, Context, Explanation, Finding, Fix, n, span
from .rules import MINUTE, DiagnosisInput, rule

SILENT_MS = 10_000
"""Time (ms) without a snapshot after which an engine is stale; it sends one at least every second."""
NO_RESULTS = "No results: event time does not move any more"
OLD = "Everything else on the screen is from before that."
CHECK_SOURCE = Fix("check-source", "Check the source: can it be reached, with which credentials?")


class EngineFailed(Finding, frozen=True, kw_only=True, tag="engine-failed"):
    """The engine, the attached query or the attached job has failed. No more results come.

    Recognised by: the target reports a failure, or the engine's process ended without its last message.

    What to do: read the error and the log of what failed, remove the cause, and start it again.
    """

    error: str | None
    lost: bool
    """The process ended without its last message."""

    def words(self, context: Context) -> Explanation:
        who = "The engine"
        if context.is_attached and not self.lost:
            who = "The job" if isinstance(context.snapshot.target, FlinkJob) else "The query"
        error = f.clean(f.first_line(self.error)) if self.error else "no error was reported"
        return Explanation(
            f"{who} {'has stopped' if self.lost else 'has failed'}",
            NO_RESULTS,
            "The process is gone." if self.lost else f"{who} ended with an error: {error}",
            [error, *age(context)],
            ("Progress",),
        )


@rule(EngineFailed, accounts_for=("unknown",), before_data=True)
def engine_failed(facts: DiagnosisInput) -> EngineFailed | None:
    snapshot = facts.snapshot
    lost = snapshot.state != "failed"
    if lost and (facts.lost is None or facts.ended):
        return None
    fix = _check_engine(facts)
    if facts.is_attached and not lost:
        fix = CHECK_JOB if isinstance(snapshot.target, FlinkJob) else CHECK_QUERY
    error = facts.lost if lost else snapshot.error
    return EngineFailed(severity="critical", size=float("inf"), error=error, lost=lost, fixes=(fix,))


def _check_engine(facts: DiagnosisInput) -> Fix:
    log = facts.snapshot.log
    where = f" ({f.clean(log)})" if log else ""
    return Fix("check-engine", f"Read the engine's log{where}, then start it again (wmtop run)")


def age(context: Context) -> list[str]:
    """When the last snapshot was taken, as evidence."""
    wall = context.snapshot.wall_ms
    return [] if wall is None else [f"Last snapshot: {f.stamp(wall, context.zone)}"]


class EngineSilent(Finding, frozen=True, kw_only=True, tag="engine-silent"):
    """The engine runs but sends nothing, or its JVM does not answer. What is shown is old.

    Recognised by: no snapshot for 10 seconds (an engine sends one a second), or the engine reports that its JVM does
    not answer.

    What to do: check whether the process is suspended or its host overloaded; read the engine's log; start it again if
    it hangs.
    """

    silent_ms: int
    jvm: bool = False
    """The engine does send, but its JVM does not answer: nothing is read."""

    def words(self, context: Context) -> Explanation:
        silent, who, title = span(self.silent_ms), "The engine", "The engine sends nothing"
        impact = f"What is shown is {silent} old"
        evidence = f"No snapshot for {silent}; a healthy engine sends one a second"
        if self.jvm:
            who, title = "The JVM", "The engine's JVM does not answer"
            impact, evidence = f"Nothing has been read for {silent}", f"No answer for {silent}"
        cause = f"{who} is hung or suspended, or its host is overloaded. {OLD}"
        return Explanation(title, impact, cause, [evidence, *age(context)], ("Progress",))


@rule(EngineSilent, accounts_for=("unknown",), before_data=True)
def engine_silent(facts: DiagnosisInput) -> EngineSilent | None:
    silent_ms, jvm = facts.silent_ms, False
    if facts.lost is not None or facts.ended or silent_ms is None or silent_ms < SILENT_MS:
        hung = note_of(facts, "jvm_silent")
        if stale_part(facts) != "engine-silent" or hung is None:
            return None
        silent_ms, jvm = int(hung.args.get("silent_ms") or 0), True
    return EngineSilent(
        severity="critical", size=silent_ms, silent_ms=silent_ms, jvm=jvm, fixes=(_check_engine(facts),)
    )


def stale_part(facts: DiagnosisInput) -> str | None:
    """The code of the finding that accounts for a target that sends nothing new; None: it is not stale."""
    snapshot = facts.snapshot
    if snapshot.state != "stale":
        return None
    if note_of(facts, "jvm_silent") is not None:
        return "engine-silent"
    if isinstance(snapshot.target, FlinkJob):
        return "job-not-running"
    of_broker = snapshot.source is not None and snapshot.source.kind in ("topic", "group")
    if not facts.is_attached or "positions" in (snapshot.origin or {}) or of_broker:
        return "source-unreachable"
    begun = snapshot.batch is not None or snapshot.spark.batch_timestamp_ms is not None
    return "query-stale" if begun else "query-not-started"


def note_of(facts: DiagnosisInput, *codes: NoteCode) -> Note | None:
    """The first note with one of the codes."""
    return next((note for note in facts.snapshot.notes if note.code in codes), None)


class EngineStarting(Finding, frozen=True, kw_only=True, tag="engine-starting"):
    """The engine is still starting. There is nothing to judge yet.

    Recognised by: the engine reports the state `starting`.

    What to do: wait for the first batch. The finding shows the step that takes the time.
    """

    def words(self, context: Context) -> Explanation:
        step = next((step.name for step in context.snapshot.own.steps if step.seconds is None), None)
        return Explanation(
            "The engine is starting",
            "Nothing to judge yet",
            "The first batch has not ended.",
            [f"Step: {f.clean(step)}" if step else "Waiting for the first batch"],
        )


@rule(EngineStarting, accounts_for=("unknown",), before_data=True)
def engine_starting(facts: DiagnosisInput) -> EngineStarting | None:
    if facts.snapshot.state != "starting":
        return None
    return EngineStarting(severity="info", fixes=(WAIT,))


class SourceUnreachable(Finding, frozen=True, kw_only=True, tag="source-unreachable"):
    """The broker or file system of the source does not answer. How much is unread is not known.

    Recognised by: requests to the source fail or time out.

    What to do: check that the source runs, that this machine reaches it, and that the credentials are right.
    """

    why: str | None = None

    def words(self, context: Context) -> Explanation:
        source = context.snapshot.source
        return Explanation(
            "The source does not answer",
            "Unknown how much is unread, and which channels have data",
            "The broker or file system cannot be reached." + (f" {OLD}" if self.severity == "critical" else ""),
            [
                f"Source: {f.clean(source.description)}" if source else "Source: 1, unreachable",
                *([f.clean(self.why)] if self.why else []),
                *age(context),
            ],
            ("Progress",),
        )


@rule(SourceUnreachable, accounts_for=("unknown",), before_data=True)
def source_unreachable(facts: DiagnosisInput) -> SourceUnreachable | None:
    why, fixes = broker_silent(facts), (CHECK_SOURCE,)
    if stale_part(facts) == "source-unreachable":
        return SourceUnreachable(severity="critical", why=why, fixes=fixes)
    if facts.snapshot.state != "partial" or why is None or _left_out(facts) is not None:
        return None
    return SourceUnreachable(severity="warning", size=float("inf"), why=why, fixes=fixes)


def broker_silent(facts: DiagnosisInput) -> str | None:
    """The line about a broker that does not answer, if there is one."""
    note = note_of(facts, "broker_silent")
    return None if note is None else str(note.args.get("why") or "")


def pauses(facts: DiagnosisInput) -> int | None:
    """For how long (ms) an attached query has had no batch, where that may be its trigger's pause."""
    note = note_of(facts, "pause_unknown", "no_batch_ended")
    silent_ms = None if note is None else note.args.get("silent_ms")
    return silent_ms if isinstance(silent_ms, int) else None


def _left_out(facts: DiagnosisInput) -> int | None:
    """The number of channels that a snapshot was too long to carry."""
    note = note_of(facts, "snapshot_too_long")
    channels = None if note is None else note.args.get("channels")
    return channels if isinstance(channels, int) else None


class SourcePaused(Finding, frozen=True, kw_only=True, tag="source-paused"):
    """The source is paused on purpose: nothing is read, and the watermark waits.

    Recognised by: the engine reports the state `paused`.

    What to do: resume the source when it may be read again.
    """

    def words(self, context: Context) -> Explanation:
        return Explanation(
            "The source is paused",
            "The watermark waits until the source is resumed",
            "Reading was paused; the pause does not count towards the idle timeout.",
            ["State: paused", *age(context)],
            ("Progress",),
        )


@rule(SourcePaused, accounts_for=("unknown",), before_data=True)
def source_paused(facts: DiagnosisInput) -> SourcePaused | None:
    """A pause is intentional, but the watermark waits meanwhile."""
    if facts.snapshot.state != "paused":
        return None
    return SourcePaused(severity="info", fixes=(Fix("resume-source", "Resume the source when it may be read again"),))


class PartlyUnknown(Finding, frozen=True, kw_only=True, tag="partly-unknown"):
    """Part of the target cannot be seen. A channel or window that is not shown may be stuck.

    Recognised by: a tap does not answer, may not read a file, or the snapshot was too large to send with all channels.

    What to do: give wmtop access to what it cannot read; with too many channels, start the engine with a smaller
    --max-channels.
    """

    left_out: int | None = None
    """Number of channels that, like the windows, were left out of a snapshot that was too long to send."""

    def words(self, context: Context) -> Explanation:
        if self.left_out is not None:
            return Explanation(
                "The snapshot has no channels and no windows",
                "Any channel may hold back the watermark or be stuck; none of them is checked",
                "The engine's snapshot is too large to send, so its channels and windows are left out.",
                [f"{n(self.left_out, 'channel')} left out"],
                ("Progress",),
            )
        windows = context.snapshot.windows
        return Explanation(
            "Part of the picture is unknown",
            "A channel or window that is not shown may be stuck",
            unreadable(context) or "Some of the taps do not answer.",
            [unknown_text(windows.unknown, windows.unknown_args) or "State: partial"],
            ("Progress",),
        )


@rule(PartlyUnknown, before_data=True)
def partly_unknown(facts: DiagnosisInput) -> PartlyUnknown | None:
    """An incomplete snapshot is not an all-clear, also for a run that is paused or has ended."""
    left_out = _left_out(facts)
    if left_out is not None:
        fix = Fix("lower-max-channels", "Start the engine again with a smaller --max-channels")
        return PartlyUnknown(severity="warning", size=left_out, left_out=left_out, fixes=(fix,))
    if facts.snapshot.state != "partial" or broker_silent(facts) is not None:
        return None
    if pauses(facts) is not None or note_of(facts, "continuous") is not None:
        return None
    return PartlyUnknown(severity="info", fixes=(CHECK_SOURCE,))


def unreadable(context: Context) -> str | None:
    """What this user may not read, or what is damaged, as a sentence."""
    why = next((note.args.get("why") for note in context.snapshot.notes if note.code == "unreadable"), None)
    text = f.clean(str(why or ""))
    return f"{text[:1].upper()}{text[1:]}." if text else None


class NoRecords(Finding, frozen=True, kw_only=True, tag="no-records"):
    """The query runs, but no record with a usable event time has come since the start.

    Recognised by: 0 records within a minute after the start.

    What to do: check the producers, the start position (--from) and the filters before the watermark.
    """

    watched_ms: int

    def words(self, context: Context) -> Explanation:
        return Explanation(
            "No record has come yet",
            "No watermark, no results",
            "The source is empty, the start position is at its end, or a filter drops everything.",
            [f"0 records in {span(self.watched_ms)}", f"{n(len(context.snapshot.channels), 'channel')} known"],
            ("Progress",),
        )


@rule(NoRecords, accounts_for=("unknown",), before_data=True)
def no_records(facts: DiagnosisInput) -> NoRecords | None:
    snapshot, totals = facts.snapshot, facts.snapshot.totals
    if facts.ended or snapshot.state not in ("live", "partial") or totals.records is None:
        return None
    if totals.records or totals.malformed or facts.watched_ms < MINUTE:
        return None
    return NoRecords(severity="warning", watched_ms=facts.watched_ms, fixes=(CHECK_PRODUCERS,))
