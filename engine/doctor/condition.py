"""The state of the target: failed, not running, unreachable, starting, paused, partly unknown, without records."""

from ..snapshot import ConsumerGroup, Note, NoteCode
from ..text import formatting as f
from ..text.codes import JOB_GONE, unknown_text
from .finding import CHECK_JOB, CHECK_PRODUCERS, CHECK_QUERY, WAIT, Finding, Fix, Text, n, names, span, stamped, verb
from .rules import MINUTE, DiagnosisInput, rule

SILENT_MS = 10_000
"""Time (ms) without a snapshot after which an engine is stale; it sends one at least every second."""
NO_RESULTS = "No results: event time does not move any more"
_CHECK_ASSIGNMENT = Fix(
    "check-assignment",
    "Check that a consumer of the group is assigned to the partition (kafka-consumer-groups.sh --describe)",
)
OLD = "Everything else on the screen is from before that."
CHECK_SERVER = Fix("check-server", "Check that this machine reaches it, and with which credentials")
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
    who, fix = "The engine", _check_engine(facts)
    if facts.is_attached and not lost:
        who, fix = ("The job", CHECK_JOB) if facts.of_flink else ("The query", CHECK_QUERY)
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
        hung = note_of(facts, "jvm_silent")
        if stale_part(facts) != "engine-silent" or hung is None:
            return None
        silent_ms = int(hung.args.get("silent_ms") or 0)
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
    if snapshot.state != "stale" or note_of(facts, "engine_stopping") is not None:
        return None
    if note_of(facts, "jvm_silent") is not None:
        return "engine-silent"
    if facts.of_flink:
        return "job-not-running"
    of_broker = snapshot.source is not None and snapshot.source.kind in ("topic", "group")
    if not facts.is_attached or "positions" in (snapshot.origin or {}) or of_broker:
        return "source-unreachable"
    begun = snapshot.batch is not None or snapshot.spark.batch_timestamp_ms is not None
    return "query-stale" if begun else "query-not-started"


def note_of(facts: DiagnosisInput, *codes: NoteCode) -> Note | None:
    """The first note with one of the codes."""
    return next((note for note in facts.snapshot.notes if note.code in codes), None)


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
    lost = next((note for note in reversed(facts.snapshot.notes) if note.code == "directory_lost"), None)
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
    is_partial = facts.snapshot.state == "partial" and note_of(facts, "snapshot_too_long") is None
    return is_partial and broker_silent(facts) is not None


def _directory_lost(facts: DiagnosisInput, lost: Note) -> Finding:
    """A directory that is away may come back with all its files: nothing has failed yet."""
    directory = f.clean(str(lost.args.get("directory")))
    why = f.clean(str(lost.args.get("why")))
    return Finding(
        severity="warning",
        size=float("inf"),
        title="The source's directory cannot be read",
        impact="Unknown how much is unread, and which channels have data",
        cause=f"{directory}: {why}. {OLD}",
        evidence=[stamped("Lost: ", lost.wall_ms), age(facts)],
        fixes=(Fix("check-directory", "Put the directory back, or mount it again; the run then continues"),),
    )


def broker_silent(facts: DiagnosisInput) -> str | None:
    """The line about a broker that does not answer, if there is one."""
    note = note_of(facts, "broker_silent")
    return None if note is None else str(note.args.get("why") or "")


def _number_in(note: Note | None, name: str) -> int | None:
    value = None if note is None else note.args.get(name)
    return value if isinstance(value, int) else None


def pauses(facts: DiagnosisInput) -> int | None:
    """For how long (ms) an attached query has had no batch, where that may be its trigger's pause."""
    return _number_in(note_of(facts, "pause_unknown", "no_batch_ended"), "silent_ms")


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
    if (left_out := _number_in(note_of(facts, "snapshot_too_long"), "channels")) is not None:
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
    if pauses(facts) is not None or note_of(facts, "continuous") is not None:
        return None
    windows = facts.snapshot.windows
    return Finding(
        severity="info",
        title="Part of the picture is unknown",
        impact="A channel or window that is not shown may be stuck",
        cause=_unreadable(facts) or "Some of the taps do not answer.",
        evidence=[unknown_text(windows.unknown, windows.unknown_args) or "State: partial"],
        fixes=(CHECK_SOURCE,),
    )


def _unreadable(facts: DiagnosisInput) -> str | None:
    """What this user may not read, or what is damaged, as a sentence."""
    note = note_of(facts, "unreadable")
    text = "" if note is None else f.clean(str(note.args.get("why") or ""))
    return f"{f.sentence(text)}." if text else None


@rule("partitions-not-read", "Progress", "Blockers", accounts_for=("stalled", "unknown"))
def partitions_not_read(facts: DiagnosisInput) -> Finding | None:
    """A consumer group has read nothing from a partition that has records. A job that reads it has no watermark until
    it does.

    Recognised by: the group's offset is that of the partition's first record, or it has no offset there.
    What to do: check that a consumer of the group is assigned to the partition and reads it.
    """
    if not isinstance(facts.snapshot.target, ConsumerGroup) or facts.snapshot.state != "live":
        return None
    unread = [view for view in facts.channels if view.state == "never_seen" and view.backlog]
    left_out = note_of(facts, "partitions_uncommitted")
    if not unread and left_out is None:
        return None
    count, records = _number_in(left_out, "partitions"), _number_in(left_out, "records")
    uncommitted = None if count is None else f"{n(count, 'partition')} with {n(records, 'record')} and no commit"
    if not unread:
        return Finding(
            size=records or 0,
            title=f"The group has committed nothing on {n(count, 'partition')} with records",
            impact=f"Not known whether {n(records, 'record')} {'is' if records == 1 else 'are'} unread",
            cause="No consumer of the group reads it, or none has committed an offset there.",
            evidence=[uncommitted, None if left_out is None else f"First: {f.clean(str(left_out.args['partition']))}"],
            fixes=(_CHECK_ASSIGNMENT,),
            not_for=("stalled",),
        )
    channels, waiting = tuple(view.channel for view in unread), sum(view.backlog or 0 for view in unread)
    return Finding(
        severity="critical" if facts.verdict == "stalled" else "warning",
        size=waiting,
        channels=channels,
        title=f"The group has read nothing from {verb(channels, 'partition', 'partitions')} {names(channels)}",
        impact=f"{n(waiting, 'record')} unread; a job that reads them waits for the first one",
        cause="Its offset is that of the first record: no consumer of the group has read one.",
        evidence=[f"{n(len(unread), 'partition')} without a record that was read", uncommitted],
        fixes=(_CHECK_ASSIGNMENT,),
        blames="backlog",
    )


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


_CHECK_JOBMANAGER = Fix(
    "check-jobmanager",
    "Check that the JobManager runs, and that its REST address answers from this machine; then look at its log",
)
_SUBMIT_JOB = Fix(
    "submit-job", "Submit the job again: wmtop follows it by its name; or attach to the job that replaced it"
)
_FETCH_METRICS = Fix("fetch-metrics", "Set metrics.fetcher.update-interval: 10 s in the JobManager's configuration")
_CHECK_TASK_MANAGERS = Fix(
    "check-task-managers", "Check in Flink's web UI that the job's task managers are connected, and look at their logs"
)


@rule("job-not-running", "Operators", accounts_for=("unknown",), before_data=True)
def job_not_running(facts: DiagnosisInput) -> Finding | None:
    """Nothing new is known of the attached Flink job: it or its tasks do not run, its JobManager does not answer, its
    metrics are old, or it no longer has the chosen operator.

    Recognised by: the job's state in Flink's REST API, an error instead of an answer, or metrics that stay the same.
    What to do: look at the job's exceptions in Flink's web UI; check that the JobManager and the task managers run.
    """
    job, error = facts.snapshot.job, facts.snapshot.error
    if stale_part(facts) != "job-not-running":
        return None
    error = None if error is None else f.clean(f.first_line(error))
    impact = "Whether event time moves is not known"
    if job.unanswered and error is not None:
        title, cause, fix = "Nothing newer is known of the job", error, _CHECK_JOBMANAGER
    elif job.operator_gone:
        title, fix = "The job no longer has the chosen operator", None
        cause = "The job was submitted again with other operators. Attach again with another --operator, or without it."
    elif job.state == "UNKNOWN":
        title, impact, fix = JOB_GONE, "No results from it", _SUBMIT_JOB
        cause = f"The job was removed, or the JobManager was restarted without it. {OLD}"
    elif job.interval_ms == 0 and error is not None:
        title, cause, fix = "The JobManager fetches no metrics", error, _FETCH_METRICS
    elif job.state != "RUNNING" or error is not None:
        title = "The job is RUNNING, its tasks are not" if job.state == "RUNNING" else f"The job is {job.state}"
        impact, fix = "No results: the watermark is frozen", CHECK_JOB
        cause = f"Its last failure: {error}" if error else f"No failure is reported. {OLD}"
    else:
        title, fix = "The metrics are old", _CHECK_TASK_MANAGERS
        cause = f"The JobManager has had no newer metrics from its task managers. {OLD}"
    return Finding(
        severity="critical",
        title=title,
        impact=impact,
        cause=cause,
        evidence=[
            f"{'Last known state' if job.unanswered else 'State'} of the job: {job.state}",
            f"Restarts: {job.restarts:,}" if job.restarts else None,
            age(facts),
        ],
        fixes=() if fix is None or job.operator_gone else (fix,),
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
    causes = [f"{why}: from outside these look alike.", unreadable := _unreadable(facts), OLD]
    fixes = (facts.check_query,) if silent is None else (CHECK_SOURCE, facts.check_query)
    if (gone := note_of(facts, "application_gone")) is not None:
        silent_ms = gone.args.get("silent_ms")
        last = f"; its last report was {span(silent_ms)} ago" if isinstance(silent_ms, int) else ""
        title, impact, silent = f"The query's application has ended{last}", NO_RESULTS, None
        causes = ["The application ended without stopping the query: it was killed, or it failed.", OLD]
    elif silent is not None:
        title += "; its source does not answer"
        causes[0] = "Its source does not answer from here either: the query probably waits for it."
    elif unreadable is not None and in_flight is None:
        title, impact = "What shows the query does not answer", "Whether the query still runs is not known"
        causes, fixes = [unreadable, OLD], (CHECK_SERVER,)
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
