"""Findings about the engine, the query and the source, in words. Pure."""

from ....engine.doctor.condition import (
    EngineFailed,
    EngineSilent,
    EngineStarting,
    JobNotRunning,
    NoRecords,
    PartlyUnknown,
    PauseUnknown,
    QueryNotStarted,
    QueryStale,
    SourcePaused,
    SourceUnreachable,
)
from ....engine.doctor.progress import CannotTell, NotAdvancing, Slow, Stalled
from ....engine.text import formatting as f
from ....engine.verdict.verdict import reports_again
from ..kinds import job_of
from ..lists import JOB_GONE, NO_LINKS
from ..notes import unknown_text
from ..wording import busiest_task
from .explanation import Context, Explainers, Explanation, n, names, span

_OLD = "Everything else on the screen is from before that."

CANNOT_TELL = "Cannot tell yet"
"""How the title of a finding begins that there is no verdict yet."""


def _failed(it: EngineFailed, context: Context) -> Explanation:
    who = ("The job" if it.is_job else "The query") if it.attached else "The engine"
    error = f.clean(f.first_line(it.error)) if it.error else "no error was reported"
    return Explanation(
        f"{who} {'has stopped' if it.lost else 'has failed'}",
        "No results: event time does not move any more",
        "The process is gone." if it.lost else f"{who} ended with an error: {error}",
        [error, *_age(context)],
        ("Progress",),
    )


def _age(context: Context) -> list[str]:
    wall = context.snapshot.wall_ms
    return [] if wall is None else [f"Last snapshot: {f.stamp(wall, context.zone)}"]


def _silent(it: EngineSilent, context: Context) -> Explanation:
    if it.jvm:
        return Explanation(
            "The engine's JVM does not answer",
            f"Nothing has been read for {span(it.silent_ms)}",
            f"The JVM is hung or suspended, or its host is overloaded. {_OLD}",
            [f"No answer for {span(it.silent_ms)}", *_age(context)],
            ("Progress",),
        )
    return Explanation(
        "The engine sends nothing",
        f"What is shown is {span(it.silent_ms)} old",
        f"The engine is hung or suspended, or its host is overloaded. {_OLD}",
        [f"No snapshot for {span(it.silent_ms)}; a healthy engine sends one a second", *_age(context)],
        ("Progress",),
    )


def _starting(it: EngineStarting, context: Context) -> Explanation:
    return Explanation(
        "The engine is starting",
        "Nothing to judge yet",
        "The first batch has not ended.",
        [f"Step: {f.clean(it.step)}" if it.step else "Waiting for the first batch"],
    )


def _not_started(it: QueryNotStarted, context: Context) -> Explanation:
    return Explanation(
        "The query has not started",
        "No results: no batch has begun",
        "Its application has not started the query, or its first batch is still being planned.",
        ["0 batches so far"],
        ("Progress",),
    )


def _job_not_running(it: JobNotRunning, context: Context) -> Explanation:
    error = None if it.error is None else f.clean(f.first_line(it.error))
    if it.unanswered and error is not None:
        title, impact, cause = "Nothing newer is known of the job", "Whether event time moves is not known", error
    elif it.operator_gone:
        title, impact = "The job no longer has the chosen operator", "Whether event time moves is not known"
        cause = "The job was submitted again with other operators. Attach again with another --operator, or without it."
    elif it.state == "UNKNOWN":
        title, impact = JOB_GONE, "No results from it"
        cause = f"The job was removed, or the JobManager was restarted without it. {_OLD}"
    elif it.state != "RUNNING":
        title, impact = f"The job is {it.state}", "No results: the watermark is frozen"
        cause = f"Its last failure: {error}" if error else f"No failure is reported. {_OLD}"
    elif error is not None:
        title, impact, cause = "The JobManager fetches no metrics", "Whether event time moves is not known", error
    else:
        title, impact = "The metrics are old", "Whether event time moves is not known"
        cause = f"The JobManager has had no newer metrics from its task managers. {_OLD}"
    counted = [] if not it.restarts else [f"Restarts: {it.restarts:,}"]
    state = f"{'Last known state' if it.unanswered else 'State'} of the job: {it.state}"
    return Explanation(title, impact, cause, [state, *counted, *_age(context)], ("Operators",))


def _stale(it: QueryStale, context: Context) -> Explanation:
    batch = "The last batch" if it.batch is None else f"Batch {it.batch:,}"
    begun = "" if it.age_ms is None else f" began {span(it.age_ms)} ago"
    ended = "" if it.in_flight is None else " and has not ended" if it.in_flight else " and was the last one"
    if it.gone:
        return Explanation(
            "The query's application has ended",
            "No results: event time does not move any more",
            f"The application ended without stopping the query: it was killed, or it failed. {_OLD}",
            [f"{batch}{begun}{ended}"],
            ("Progress",),
        )
    why = "The query is idle, hangs, or has died: from outside these look alike."
    silent: list[str] = []
    if it.source_silent is not None:
        why, silent = (
            "Its source does not answer from here either: the query probably waits for it.",
            [it.source_silent],
        )
    return Explanation(
        "The query shows no progress" + ("; its source does not answer" if silent else ""),
        "No results" if it.age_ms is None else f"Nothing new for {span(it.age_ms)}",
        " ".join(text for text in (why, _unreadable(context), _OLD) if text),
        [f"{batch}{begun}{ended}", *map(f.clean, silent)],
        ("Progress",),
    )


def _pause(it: PauseUnknown, context: Context) -> Explanation:
    return Explanation(
        "The query pauses; whether it runs is not known",
        "Not an all-clear: nothing new may be a trigger's pause, an idle source or a query that has died",
        "Neither its batches so far nor its plan show how long its trigger pauses.",
        [f"No batch for {span(it.silent_ms)}"],
        ("Progress",),
    )


def _unreachable(it: SourceUnreachable, context: Context) -> Explanation:
    source = context.snapshot.source
    return Explanation(
        "The source does not answer",
        "Unknown how much is unread, and which channels have data",
        "The broker or file system cannot be reached." + (f" {_OLD}" if it.severity == "critical" else ""),
        [
            f"Source: {f.clean(source.description)}" if source else "Source: 1, unreachable",
            *([f.clean(it.why)] if it.why else []),
            *_age(context),
        ],
        ("Progress",),
    )


def _paused(it: SourcePaused, context: Context) -> Explanation:
    return Explanation(
        "The source is paused",
        "The watermark is frozen",
        "Reading was paused; the pause does not count towards the idle timeout.",
        ["State: paused", *_age(context)],
        ("Progress",),
    )


def _partly(it: PartlyUnknown, context: Context) -> Explanation:
    if it.left_out is not None:
        return Explanation(
            "The snapshot has no channels and no windows",
            "Any channel may hold back the watermark or be stuck; none of them is checked",
            "The engine's snapshot is too large to send, so its channels and windows are left out.",
            [f"{n(it.left_out, 'channel')} left out"],
            ("Progress",),
        )
    return Explanation(
        "Part of the picture is unknown",
        "A channel or window that is not shown may be stuck",
        _unreadable(context) or "Some of the taps do not answer.",
        [unknown_text(it.unknown, it.unknown_args) or "State: partial"],
        ("Progress",),
    )


def _unreadable(context: Context) -> str | None:
    """What this user may not read, or what is damaged, as a sentence."""
    why = next((note.args.get("why") for note in context.snapshot.notes if note.code == "unreadable"), None)
    text = f.clean(str(why or ""))
    return f"{text[:1].upper()}{text[1:]}." if text else None


def _no_records(it: NoRecords, context: Context) -> Explanation:
    return Explanation(
        "No record has come yet",
        "No watermark, no results",
        "The source is empty, the start position is at its end, or a filter drops everything.",
        [f"0 records in {span(it.watched_ms)}", f"{n(it.known_channels, 'channel')} known"],
        ("Progress",),
    )


def _stalled(it: Stalled, context: Context) -> Explanation:
    if it.moves_again:
        return Explanation(
            "The watermark moves again",
            "It was stalled until just now",
            "A verdict changes once what it rests on has lasted.",
            [f"Advanced {span(it.frozen_ms)} ago"],
            ("History",),
        )
    by = f": {names(it.channels)} holds it back" if it.channels else ""
    behind = [] if it.behind_fastest_ms is None else [f"{span(it.behind_fastest_ms)} behind the fastest channel"]
    return Explanation(
        f"The watermark is stalled{by}",
        "No window fires",
        "Data comes, but the watermark does not advance.",
        [f"Unchanged for {span(it.frozen_ms)}", *behind],
        ("Blockers", "Windows"),
        it.channels[0] if it.channels else None,
    )


def _slow(it: Slow, context: Context) -> Explanation:
    return Explanation(
        "Event time loses ground",
        "Results come later and later",
        f"The watermark advances more slowly than the clock{busiest_task(context.snapshot)}.",
        [f"Now {span(it.behind_clock_ms)} behind the clock"],
        ("Progress", "History"),
    )


def _not_advancing(it: NotAdvancing, context: Context) -> Explanation:
    silent = [f"No new input in them from {f.label(text, 120)}" for text in it.silent[:3]]
    another = "An input without newer records may hold it back. " if it.inputs > 1 else ""
    return Explanation(
        "The watermark does not advance, although batches read new input",
        "No window fires meanwhile; not an all-clear",
        "The reason is not known from here. The new records may be no newer than those before. "
        f"{another}A timestamp ahead of the others may have set it.",
        [
            f"The watermark has not advanced for at least {span(it.frozen_ms)}",
            f"Offsets advanced in at least {f.count(it.batches)} batches since",
            *silent,
        ],
        ("Operators", "Progress"),
    )


def _cannot_tell(it: CannotTell, context: Context) -> Explanation:
    if it.without_watermark:
        return Explanation(
            "Event time is not known: the query has no watermark",
            "Not an all-clear: only its batches can be judged",
            "Spark reports event time where a watermark is, and this query has no withWatermark.",
            ["0 calls of withWatermark"],
            ("Progress",),
        )
    if it.without_links:
        cause = "All its operators are chained to the sources, and Flink reports the watermarks that a task receives."
        tasks = job_of(context.snapshot).vertices
        impact = "Not an all-clear: only its rates can be judged"
        return Explanation(NO_LINKS, impact, cause, [n(len(tasks), "task")], ("Progress",))
    verdict = context.snapshot.verdict
    why = "A verdict needs at least a minute of history, or ten batches."
    if it.attached:
        why += " Some facts of an attached query are not known from here."
    seen = [f"Watched for {span(it.watched_ms)}"]
    title = CANNOT_TELL
    if verdict.reason.code == "too_short" and verdict.reason.ms is not None:
        needs = "10 batches" if verdict.horizon_ms is None else span(verdict.horizon_ms)
        seen = [f"Observed for {span(verdict.reason.ms)}; the verdict needs {needs}"]
        title += f": {span(verdict.reason.ms)} observed, a verdict needs {needs}"
    elif verdict.reason.code == "not_known":
        why = "Some of what a verdict needs is not known from here; the watermark does not move."
    elif reports_again(context.snapshot):
        why = "Data comes again; the verdict changes once that has lasted."
    return Explanation(title, "Not an all-clear", why, seen, ("Progress",))


EXPLAINERS: Explainers = {
    EngineFailed: _failed,
    EngineSilent: _silent,
    EngineStarting: _starting,
    JobNotRunning: _job_not_running,
    QueryNotStarted: _not_started,
    QueryStale: _stale,
    SourceUnreachable: _unreachable,
    SourcePaused: _paused,
    PartlyUnknown: _partly,
    PauseUnknown: _pause,
    NoRecords: _no_records,
    Stalled: _stalled,
    Slow: _slow,
    CannotTell: _cannot_tell,
    NotAdvancing: _not_advancing,
}
