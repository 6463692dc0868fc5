"""The state of the target: failed, unreachable, not answering, starting, paused, partly unknown, without records."""

from ..snapshot import LostDirectory
from ..text import formatting as f
from ..text.codes import unknown_text
from .finding import CHECK_PRODUCERS, WAIT, Finding, Fix, Text, n, span, stamped
from .rules import MINUTE, DiagnosisInput, rule

SILENT_MS = 10_000
"""Time (ms) without a snapshot after which an engine is stale; it sends one at least every second."""
NO_RESULTS = "No results: event time does not move any more"
OLD = "Everything else on the screen is from before that."
CHECK_SOURCE = Fix("check-source", "Check the source: can it be reached, with which credentials?")


@rule("engine-failed", "Progress", accounts_for=("unknown",), before_data=True)
def engine_failed(facts: DiagnosisInput) -> Finding | None:
    """The engine, the attached query or the attached job has failed. No more results come.

    Recognised by: the target reports a failure, or the engine's process ended without its last message.
    What to do: read the error and the log of what failed, remove the cause, and start it again.
    """
    snapshot = facts.snapshot
    lost = snapshot.state != "failed"
    if lost and (facts.lost is None or facts.ended):
        return None
    who = "The engine"
    fix = _check_engine(facts)
    if facts.is_attached and not lost:
        who = facts.details.called
        fix = facts.details.check_failed
    error = facts.lost if lost else snapshot.error
    error = f.clean(f.first_line(error)) if error else "no error was reported"
    return Finding(
        severity="critical",
        size=float("inf"),
        title=f"{who} {'has stopped' if lost else 'has failed'}",
        impact=NO_RESULTS,
        cause="The process is gone." if lost else f"{who} ended with an error: {error}",
        evidence=[error, age(facts)],
        fixes=(fix,),
    )


def _check_engine(facts: DiagnosisInput) -> Fix:
    log = facts.snapshot.log
    where = f" ({f.clean(log)})" if log else ""
    return Fix("check-engine", f"Read the engine's log{where}, then start it again (wmtop run)")


def age(facts: DiagnosisInput) -> Text:
    """When what is shown was so, as evidence: of a source that does not answer snapshots come all the same."""
    if facts.snapshot.state != "stale":
        return stamped("Last snapshot: ", facts.snapshot.wall_ms)
    live = (point.wall_ms for point in reversed(facts.past) if point.reason != "source_silent")
    return stamped("Last live snapshot: ", next(live, None))


@rule("engine-silent", "Progress", accounts_for=("unknown",), before_data=True)
def engine_silent(facts: DiagnosisInput) -> Finding | None:
    """The engine runs but sends nothing, or its JVM does not answer. What is shown is old.

    Recognised by: no snapshot for 10 seconds (an engine sends one a second), or the engine reports that its JVM does
    not answer.
    What to do: check whether the process is suspended or its host overloaded; read the engine's log; start it again if
    it hangs.
    """
    silent_ms = facts.silent_ms
    if facts.lost is not None or facts.ended or silent_ms is None or silent_ms < SILENT_MS:
        silent_ms = facts.snapshot.condition.jvm_silent_ms
        if stale_part(facts) != "engine-silent" or silent_ms is None:
            return None
        who, title = "The JVM", "The engine's JVM does not answer"
        impact, evidence = f"Nothing has been read for {span(silent_ms)}", f"No answer for {span(silent_ms)}"
    else:
        who, title = "The engine", "The engine sends nothing"
        impact = f"What is shown is {span(silent_ms)} old"
        evidence = f"No snapshot for {span(silent_ms)}; a healthy engine sends one a second"
    return Finding(
        severity="critical",
        size=silent_ms,
        title=title,
        impact=impact,
        cause=f"{who} is hung or suspended, or its host is overloaded. {OLD}",
        evidence=[evidence, age(facts)],
        fixes=(_check_engine(facts),),
    )


def stale_part(facts: DiagnosisInput) -> str | None:
    """The code of the finding that accounts for a target that sends nothing new; None: it is not stale."""
    snapshot = facts.snapshot
    if snapshot.state != "stale" or snapshot.condition.stopping:
        return None
    if snapshot.condition.jvm_silent_ms is not None:
        return "engine-silent"
    if facts.target.news_from == "query":
        begun = snapshot.batch is not None or snapshot.spark.batch_timestamp_ms is not None
        return "query-stale" if begun else "query-not-started"
    return "job-not-running" if facts.target.news_from == "job" else "source-unreachable"


@rule("engine-starting", accounts_for=("unknown",), before_data=True)
def engine_starting(facts: DiagnosisInput) -> Finding | None:
    """The engine is still starting. There is nothing to judge yet.

    Recognised by: the engine reports the state `starting`.
    What to do: wait for the first batch. The finding shows the step that takes the time.
    """
    if facts.snapshot.state != "starting":
        return None
    step = next((step.name for step in facts.snapshot.steps if step.seconds is None), None)
    return Finding(
        severity="info",
        title="The engine is starting",
        impact="Nothing to judge yet",
        cause="The first batch has not ended.",
        evidence=[f"Step: {f.clean(step)}" if step else "Waiting for the first batch"],
        fixes=(WAIT,),
    )


@rule("source-unreachable", "Progress", accounts_for=("unknown",), before_data=True)
def source_unreachable(facts: DiagnosisInput) -> Finding | None:
    """The broker or file system of the source does not answer. How much is unread is not known.

    Recognised by: requests to the source fail or time out, or the directory of `run files` is not there.
    What to do: check that the source runs, that this machine reaches it, and that the credentials are right.
    """
    stale = stale_part(facts) == "source-unreachable"
    lost = facts.snapshot.condition.directory_lost
    if stale and lost is not None:
        return _directory_lost(facts, lost)
    if not stale and not _is_broker_missing(facts):
        return None
    why = broker_silent(facts)
    source = facts.snapshot.source
    return Finding(
        severity="critical" if stale else "warning",
        size=0.0 if stale else float("inf"),
        title="The source does not answer",
        impact="Unknown how much is unread, and which channels have data",
        cause="The broker or file system cannot be reached." + (f" {OLD}" if stale else ""),
        evidence=[
            f"Source: {f.clean(source.description)}" if source else "Source: 1, unreachable",
            f.clean(why) if why else None,
            age(facts),
        ],
        fixes=(CHECK_SOURCE,),
    )


def _is_broker_missing(facts: DiagnosisInput) -> bool:
    """Whether part of the target is unknown because its broker does not answer."""
    is_partial = facts.snapshot.state == "partial" and facts.snapshot.condition.channels_left_out is None
    return is_partial and broker_silent(facts) is not None


def _directory_lost(facts: DiagnosisInput, lost: LostDirectory) -> Finding:
    """A directory that is away may come back with all its files: nothing has failed yet."""
    return Finding(
        severity="warning",
        size=float("inf"),
        title="The source's directory cannot be read",
        impact="Unknown how much is unread, and which channels have data",
        cause=f"{f.clean(lost.directory)}: {f.clean(lost.why)}. {OLD}",
        evidence=[stamped("Lost: ", lost.since_ms), age(facts)],
        fixes=(Fix("check-directory", "Put the directory back, or mount it again; the run then continues"),),
    )


def broker_silent(facts: DiagnosisInput) -> str | None:
    """The line about a broker that does not answer, if there is one."""
    return facts.snapshot.condition.source_silent


def pauses(facts: DiagnosisInput) -> int | None:
    """For how long (ms) an attached query has had no batch, where that may be its trigger's pause."""
    condition = facts.snapshot.condition
    return condition.silent_ms if condition.pause in ("unknown", "first_batch") else None


@rule("source-paused", "Progress", accounts_for=("unknown",), before_data=True)
def source_paused(facts: DiagnosisInput) -> Finding | None:
    """The source is paused on purpose: nothing is read, and the watermark waits.

    Recognised by: the engine reports the state `paused`.
    What to do: resume the source when it may be read again.
    """
    if facts.snapshot.state != "paused":
        return None
    return Finding(
        severity="info",
        title="The source is paused",
        impact="The watermark waits until the source is resumed",
        cause="Reading was paused; the pause does not count towards the idle timeout.",
        evidence=["State: paused", age(facts)],
        fixes=(Fix("resume-source", "Resume the source when it may be read again"),),
    )


@rule("partly-unknown", "Progress", before_data=True)
def partly_unknown(facts: DiagnosisInput) -> Finding | None:
    """Part of the target cannot be seen. A channel or window that is not shown may be stuck.

    Recognised by: a tap does not answer, may not read a file, or the snapshot was too large to send with all channels.
    What to do: give wmtop access to what it cannot read; with too many channels, start the engine with a smaller
    --max-channels.
    """
    # Also of a run that is paused or has ended: an incomplete snapshot is not an all-clear.
    if (left_out := facts.snapshot.condition.channels_left_out) is not None:
        return Finding(
            size=left_out,
            title="The snapshot has no channels and no windows",
            impact="Any channel may hold back the watermark or be stuck; none of them is checked",
            cause="The engine's snapshot is too large to send, so its channels and windows are left out.",
            evidence=[f"{n(left_out, 'channel')} left out"],
            fixes=(Fix("lower-max-channels", "Start the engine again with a smaller --max-channels"),),
        )
    if facts.snapshot.state != "partial" or broker_silent(facts) is not None:
        return None
    if pauses(facts) is not None or facts.snapshot.condition.continuous:
        return None
    windows = facts.snapshot.windows
    return Finding(
        severity="info",
        title="Part of the picture is unknown",
        impact="A channel or window that is not shown may be stuck",
        cause=unreadable(facts) or "Some of the taps do not answer.",
        evidence=[unknown_text(windows.unknown, windows.unknown_args) or "State: partial"],
        fixes=(CHECK_SOURCE,),
    )


def unreadable(facts: DiagnosisInput) -> str | None:
    """What this user may not read, or what is damaged, as a sentence."""
    text = f.clean(facts.snapshot.condition.unreadable or "")
    return f"{f.sentence(text)}." if text else None


@rule("no-records", "Progress", accounts_for=("unknown",), before_data=True)
def no_records(facts: DiagnosisInput) -> Finding | None:
    """The query runs, but no record with a usable event time has come since the start.

    Recognised by: 0 records within a minute after the start.
    What to do: check the producers, the start position (--from) and the filters before the watermark.
    """
    snapshot, totals = facts.snapshot, facts.snapshot.totals
    if facts.ended or snapshot.state not in ("live", "partial") or totals.records is None:
        return None
    if totals.records or totals.malformed or facts.watched_ms < MINUTE:
        return None
    return Finding(
        title="No record has come yet",
        impact="No watermark, no results",
        cause="The source is empty, the start position is at its end, or a filter drops everything.",
        evidence=[f"0 records in {span(facts.watched_ms)}", f"{n(len(snapshot.channels), 'channel')} known"],
        fixes=(CHECK_PRODUCERS,),
    )
