"""A Flink job: it does not run or restarts again and again, drops late records, or an operator gets no watermark."""

from ...snapshot import Snapshot
from ...snapshot.kinds.flink_job import FlinkJob, FlinkVertex
from ...text import formatting as f
from ...text.codes import JOB_GONE, kept_back
from ..condition import OLD, age, stale_part
from ..finding import ADD_READERS, CHECK_JOB, SEE_OPERATORS, Finding, Fix, lengthen_lateness, n, names, span
from ..kind_details import KIND_DETAILS, KindDetails, Unmoved
from ..rules import MINUTE, SECOND, DiagnosisInput, loss_severity, rule

RECENT_MS = 10 * MINUTE
"""A restart is recent for so long; a job that restarts at least as often as this is in a loop."""
LOOP = 3
"""From so many restarts on it is one."""
MIN_MS = 30 * SECOND
"""How long late records are watched before a share is made of them."""
FEW_SHARE = 0.001
"""A smaller share of late records is worth knowing and no more."""
FAR_MS = 10 * MINUTE
"""An operator so far behind the one that is shown is not just slower."""
READS = ("slow_reader", "backlog", "back_pressured")
"""Causes of a watermark that is behind because records are not read in time."""
LATE_MS = 5 * MINUTE
"""A watermark so far behind the clock is not just on its way."""
MIN_UNREAD_S = 60
"""Seconds of reading that the unread records are worth; fewer are on their way."""
CATCHES_UP = 1.1
"""The speed from which a backlog is worked off."""
COLLECT_LATE_RECORDS = Fix(
    "collect-late-records", "Collect late records in a side output (sideOutputLateData): it shows how late they are"
)
SET_WATERMARK_STRATEGY = Fix(
    "set-watermark-strategy", "Give the source a watermark strategy and a timestamp assigner (in SQL: WATERMARK FOR)"
)
CHECK_OPERATOR = Fix(
    "check-operator",
    "Look at what that operator waits for: an async call without an answer (set a timeout), or its own watermark",
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


def running_job(snapshot: Snapshot) -> FlinkJob | None:
    """The job, where it runs and its metrics are new enough to be judged."""
    job = snapshot.job
    return job if job.state == "RUNNING" and snapshot.state in ("live", "partial") else None


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


@rule("job-restarts", "Progress", "Operators")
def job_restarts(facts: DiagnosisInput) -> Finding | None:
    """The Flink job was restarted lately, or restarts again and again. Work since the last checkpoint is repeated.

    Recognised by: a restart in the last 10 minutes; a loop from 3 failures on, one every 10 minutes or more often.
    What to do: look at the job's exceptions in Flink's web UI. Flink counts a rescale as a restart as well.
    """
    job = running_job(facts.snapshot)  # between two restarts a job looks healthy
    if job is None or not job.restarts or job.clock_ms is None or job.running_ms is None:
        return None
    ago_ms = max(0, job.clock_ms - job.running_ms)
    if ago_ms >= RECENT_MS:
        return None
    failures = job.restarts - (job.rescales or 0)
    every_ms = None if job.submitted_ms is None or not failures else (job.clock_ms - job.submitted_ms) // failures
    loop = failures >= LOOP and every_ms is not None and every_ms <= RECENT_MS
    rescales = f", {n(job.rescales, 'rescale')} among them" if job.rescales else ""
    last, error = f"{n(job.restarts, 'restart')}{rescales}, the last one {span(ago_ms)} ago", job.failure
    repeats = every_ms is not None and failures > 1
    cause = "Flink reports no failure: it may have been rescaled."
    if error is not None:
        cause = f"Its last failure: {f.clean(error)}"
    return Finding(
        severity="info" if error is None or not failures else "critical" if loop else "warning",
        size=job.restarts,
        title="The job fails and restarts again and again" if loop else "The job was restarted",
        impact=f"{last}: work since the last checkpoint is repeated",
        cause=cause if failures else "It was rescaled.",
        evidence=[last, f"On average every {span(every_ms)} since the job was submitted" if repeats else None],
        fixes=(CHECK_JOB,),
    )


@rule("late-drops", "Operators", suppressed_by=("event-time-stuck",))
def late_drops(facts: DiagnosisInput) -> Finding | None:
    """Operators of the job drop late records.

    Recognised by: `numLateRecordsDropped` of the job's operators.
    What to do: set a longer out-of-orderness in the job; collect late records in a side output to see how late they
    are.
    """
    dropping = sorted((task for task in facts.snapshot.job.vertices if task.late), key=lambda task: -(task.late or 0))
    if not dropping:
        return None
    past = facts.last(RECENT_MS)
    watched_ms = past[-1].wall_ms - past[0].wall_ms if past else 0
    recent = max(0, past[-1].late - past[0].late) if watched_ms >= MIN_MS else None
    rates = [task.taken_per_second for task in dropping if task.taken_per_second is not None]
    taken = sum(rates) * watched_ms / SECOND if len(rates) == len(dropping) else 0
    lost = min(1.0, recent / taken) if recent is not None and taken else None
    # A longer delay does not help where a timestamp ahead of the clock has moved the watermark.
    ahead = facts.now_ms is not None and (facts.watermark_ms or facts.now_ms) > facts.now_ms
    few = recent == 0 or (lost is not None and lost < FEW_SHARE)
    late = f"{'≥ ' if facts.snapshot.job.late_at_least else ''}{n(dropping[0].late, 'record')}"
    part = "" if lost is None else f", {f.share(lost)} of what these operators took in"
    return Finding(
        severity="info" if few else loss_severity(lost),
        size=lost or 0.0,
        title="Late records are dropped",
        impact=f"{late} lost" + ("; none of them lately" if recent == 0 else ""),
        cause="The watermark had passed their time, or the end of their windows and the allowed lateness.",
        evidence=[
            f"{late} since the start, by numLateRecordsDropped of {names([task.name for task in dropping])}",
            None if recent is None else f"In the last {span(watched_ms)}: {f.count(recent)}{part}",
            "How late they are is not in Flink's REST API",
        ],
        fixes=(*(() if ahead else (lengthen_lateness(facts.snapshot),)), COLLECT_LATE_RECORDS),
    )


@rule("source-without-watermark", "Operators", accounts_for=("stalled", "unknown"))
def source_without_watermark(facts: DiagnosisInput) -> Finding | None:
    """Records come, but their source sends no watermark. Windows by event time never fire.

    Recognised by: a minute after the start the watermark is still Flink's lowest value while the source sends records.
    What to do: give the source a watermark strategy and a timestamp assigner (in SQL: WATERMARK FOR).
    """
    job, holder = running_job(facts.snapshot), facts.snapshot.level.holder
    if job is None or facts.watermark_ms is not None or holder is None or holder.cause != "no_watermark":
        return None
    if not _runs_long(job):  # before, a source may not have had its first record
        return None
    # Windows that fire all the same go by processing time, or by a trigger of their own.
    waits = job.chosen is not None and job.chosen.windowed and not job.chosen.sent_per_second
    cause = "Without a watermark strategy, and without timestamps, Flink has no event time; records stay in state."
    if not waits:
        cause = "Its operator has no windows by event time, as far as is known, or fires all the same."
    return Finding(
        severity="critical" if waits else "info",
        channels=(holder.channel,),
        title="The source sends no watermark",
        impact="Windows by event time never fire" if waits else "No effect where nothing waits for event time",
        cause=cause,
        evidence=[f"Records come from {names([holder.channel])}, and its watermark is still Flink's lowest value"],
        fixes=(SET_WATERMARK_STRATEGY,),
        not_for=() if waits else ("stalled",),
    )


@rule("operator-behind", "Operators")
def operator_behind(facts: DiagnosisInput) -> Finding | None:
    """An operator that waits for the watermark, other than the one that is shown, has none or is far behind.

    Recognised by: its watermark is missing, 10 minutes behind, or stuck for a minute while that of the shown operator
    advances.
    What to do: see on the Operators screen where its watermark gets lost; choose it with --operator.
    """
    job = running_job(facts.snapshot)
    chosen = None if job is None else job.chosen
    if job is None or chosen is None or chosen.input_ms is None or not _runs_long(job):
        return None
    others = [task for task in job.vertices if task.windowed and task.id != chosen.id and task.status == "RUNNING"]
    behind = [(None if task.input_ms is None else chosen.input_ms - task.input_ms, task) for task in others]
    concerned = sorted(
        ((ms, task) for ms, task in behind if ms is None or ms >= FAR_MS or _stuck_ms(facts, task) is not None),
        key=lambda pair: (pair[0] is not None, -(pair[0] or 0)),
    )
    if not concerned:
        return None
    behind_ms, first = concerned[0]
    which, stuck_ms = names([task.name for _, task in concerned]), _stuck_ms(facts, first)
    if behind_ms is None:
        title, impact = f"No watermark reaches {which}", "No results from it"
        tasks = {task.id: task for task in job.vertices}
        silent = [tasks[id].name for id in first.inputs if id in tasks and tasks[id].output_ms is None]
        cause = "No task that it reads has sent a watermark."
        if silent:
            cause = f"{names(silent[:1])} has sent no record that a watermark could come from."
    else:
        title = f"{which} {'is' if len(concerned) == 1 else 'are'} far behind"
        impact = f"Its results come {span(behind_ms)} of event time later"
        cause = "Its inputs are behind those of the operator that is shown."
    if stuck_ms is not None:
        title = f"The watermark of {names([first.name])} is stuck for {span(stuck_ms)}"
        impact = "No results from it"
    return Finding(
        severity="warning" if stuck_ms is None else "critical",
        size=len(concerned),
        title=title,
        impact=impact,
        cause=cause,
        evidence=[f"The verdict is about {names([chosen.name])}, not about {which}"],
        fixes=(SEE_OPERATORS,),
    )


def _stuck_ms(facts: DiagnosisInput, task: FlinkVertex) -> int | None:
    """How long a task's watermark has not moved, from a minute on, if the shown operator's has."""
    if task.input_ms is None or task.since_ms is None or facts.now_ms is None:
        return None
    stuck_ms, shown_ms = facts.now_ms - task.since_ms, facts.snapshot.verdict.age_ms
    return stuck_ms if stuck_ms >= MINUTE and shown_ms is not None and shown_ms < MINUTE // 2 else None


def _runs_long(job: FlinkJob) -> bool:
    return job.clock_ms is not None and job.running_ms is not None and job.clock_ms - job.running_ms >= MINUTE


@rule("operator-keeps-watermark", "Operators", accounts_for=("stalled", "unknown"))
def operator_keeps_back(facts: DiagnosisInput) -> Finding | None:
    """An operator does not send on the watermark that it receives. The windows below it wait.

    Recognised by: the watermark that it receives is past the one that it sends, which has not moved for a minute. A
    warning if neither has moved since wmtop looked: then it waits, or it always sends its watermark so much later.
    What to do: look at what it waits for: an async call without an answer, or a watermark of its own.
    """
    job, holder = running_job(facts.snapshot), facts.snapshot.level.holder
    if job is None or (holder is not None and holder.cause != "kept_back"):
        return None
    stuck_ms = facts.frozen_ms
    task = next((task for task in job.vertices if task.id == job.held_in), None)
    if task is None or stuck_ms is None:
        return None
    stuck = span(stuck_ms)
    if holder is None:
        return Finding(
            size=stuck_ms,
            title=f"Whether {names([task.name])} holds back the watermark is not known",
            impact=f"No window below it has fired for {stuck}",
            cause="It waits, or it always sends its watermark later, and what it receives is stuck.",
            evidence=[f"{kept_back(facts.snapshot)}; neither has moved for {stuck}"],
            fixes=(SEE_OPERATORS, CHECK_OPERATOR),
        )
    return Finding(
        severity="critical",
        size=stuck_ms,
        channels=(holder.channel,),
        title=f"{names([task.name])} does not send on the watermark that it receives",
        impact=f"No window below it has fired for {stuck}",
        cause="An operator in it waits: records that it has not passed on hold the watermark back.",
        evidence=[f"The watermark that it receives is past the one that it sends, which has not moved for {stuck}"],
        fixes=(CHECK_OPERATOR,),
    )


@rule("source-too-slow", "Progress", "Operators", accounts_for=("slow",))
def reads_too_slowly(facts: DiagnosisInput) -> Finding | None:
    """The job does not catch up with its sources: records wait, and event time advances no faster than the clock.

    Recognised by: the watermark is at least 5 minutes behind the clock, a minute of reading or more is unread, and
    event time advances at less than 1.1 times the speed of the clock.
    What to do: add readers, or make the busy operator or the sink faster.
    """
    job, level, speed = running_job(facts.snapshot), facts.snapshot.level, facts.snapshot.verdict.speed
    if job is None or level.holder is None or level.holder.cause not in READS or speed is None or speed >= CATCHES_UP:
        return None
    known, behind_ms = [view.backlog for view in facts.channels if view.backlog is not None], level.behind_clock_ms or 0
    unread = sum(known) if known else sum(task.pending or 0 for task in job.vertices)
    if not unread or behind_ms < LATE_MS or facts.verdict == "stalled":
        return None
    # The distance from the clock may be out-of-orderness that the job allows, and not the unread records.
    end_ms = next((view.behind_end_ms for view in facts.channels if view.channel == level.holder.channel), None)
    if unread < MIN_UNREAD_S * (job.read_per_second or 0) if end_ms is None else end_ms < LATE_MS:
        return None
    return Finding(
        size=behind_ms,
        channels=(level.holder.channel,),
        title="The job does not catch up with its sources",
        impact=f"The watermark is {span(behind_ms)} behind the clock",
        cause="Records wait to be read, and event time advances no faster than the clock.",
        evidence=[
            f"{'' if known else '≥ '}{n(unread, 'record')} unread",
            f"Event time advances at ×{speed:.1f} of the clock",
        ],
        fixes=(ADD_READERS, SEE_OPERATORS),
    )


@rule("alignment-pauses", "Blockers", "Operators", accounts_for=("stalled", "slow"))
def alignment_pauses(facts: DiagnosisInput) -> Finding | None:
    """Watermark alignment pauses channels until slower ones catch up, so it limits how fast the job reads.

    Recognised by: their paused time grows in Flink's metrics (2.1 or newer). That a source is past the limit proves
    nothing: one that reads at full speed is past it at times.
    What to do: make the slowest one faster, or give it an idle timeout if it has no data, or allow a larger drift.
    """
    paused = [view for view in facts.channels if view.held_back]
    if running_job(facts.snapshot) is None or not paused:
        return None
    holder, level_ms = facts.snapshot.level.holder, facts.watermark_ms
    slowest = None if holder is None or holder.instance is None or holder.cause == "paused" else holder
    backlog = sum(backlogs) if (backlogs := [view.backlog for view in paused if view.backlog is not None]) else None
    ahead_ms = None if level_ms is None else max((view.watermark_ms or level_ms) - level_ms for view in paused)
    reads = slowest is not None and slowest.cause in (*READS, "behind")
    limit = "the slowest source" if slowest is None else names([slowest.channel])
    cause = f"They wait for {limit} if it is in the same alignment group; Flink does not report the groups."
    if slowest is None:
        cause = "For which source is not known: no other input of the operator holds back the watermark."
    channels = tuple(view.channel for view in paused)
    return Finding(
        # A warning where others have a backlog, or the slowest source is not read.
        severity="info" if reads and not backlog else "warning",
        size=ahead_ms or 0,
        channels=channels,
        title=f"Watermark alignment pauses {names(channels)}",
        impact=f"Read no faster than {limit}",
        cause=cause,
        evidence=[
            f"Paused time grows; {span(ahead_ms)} ahead of the watermark",
            None if backlog is None else f"Backlog: {n(backlog, 'record')}",
        ],
        fixes=(SEE_OPERATORS,),
        # Where another channel holds back the watermark, that one is the cause.
        not_for=() if slowest is None else ("stalled", "slow"),
    )


def _unmoved(snapshot: Snapshot, frozen_ms: int) -> Unmoved | None:
    """What a job reads where a channel with data holds back the watermark, and no other is ahead of it."""
    job = running_job(snapshot)
    holder = snapshot.level.holder
    is_held = holder is not None and holder.cause in ("behind", "stuck")
    is_ahead = (snapshot.level.behind_fastest_ms or 0) >= frozen_ms // 2
    if job is None or not job.read_per_second or not is_held or is_ahead:
        return None
    return Unmoved(job.read_per_second, is_certain=True)


KIND_DETAILS[FlinkJob] = KindDetails(
    called="The job",
    check_failed=CHECK_JOB,
    times_are_set="at the timestamp assigner (in SQL: the column of WATERMARK FOR)",
    keep_out=Fix(
        "filter-future-records",
        "Filter records with future timestamps in the job before it assigns watermarks, and start it without its "
        "state: the watermark never goes back",
    ),
    unmoved=_unmoved,
)
