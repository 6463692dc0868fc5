"""A Flink job: it restarts again and again, drops late records, or an operator gets no watermark."""

from ..snapshot import VerdictName
from ..snapshot.flink_job import FlinkJob, FlinkVertex
from ..text import formatting as f
from .finding import (
    ADD_READERS,
    CHECK_JOB,
    SEE_OPERATORS,
    Context,
    Explanation,
    Finding,
    Fix,
    lengthen_lateness,
    n,
    names,
    only,
    span,
)
from .rules import MINUTE, SECOND, DiagnosisInput, loss_severity, rule

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


class JobRestarts(Finding, frozen=True, kw_only=True, tag="job-restarts"):
    """The Flink job was restarted lately, or restarts again and again. Work since the last checkpoint is repeated.

    Recognised by: a restart in the last 10 minutes; a loop from 3 restarts on, one every 10 minutes or more often.

    What to do: look at the job's exceptions in Flink's web UI. A rescale counts as a restart as well.
    """

    restarts: int
    ago_ms: int
    """How long ago the last one was."""
    every_ms: int | None
    """The mean time between restarts since the job was submitted."""
    error: str | None
    """The last failure that Flink reports."""
    loop: bool

    def words(self, context: Context) -> Explanation:
        evidence = [f"{n(self.restarts, 'restart')}, the last one {span(self.ago_ms)} ago"]
        if self.every_ms is not None and self.restarts > 1:
            evidence.append(f"On average every {span(self.every_ms)} since the job was submitted")
        return Explanation(
            "The job fails and restarts again and again" if self.loop else "The job was restarted",
            f"{evidence[0]}: work since the last checkpoint is repeated",
            "Flink reports no failure: it may have been rescaled."
            if self.error is None
            else f"Its last failure: {f.clean(self.error)}",
            evidence,
            ("Progress", "Operators"),
        )


@rule(JobRestarts)
def job_restarts(facts: DiagnosisInput) -> JobRestarts | None:
    """Between two restarts a job looks healthy."""
    job = facts.running_job
    if job is None or not job.restarts or job.clock_ms is None or job.running_ms is None:
        return None
    ago_ms = max(0, job.clock_ms - job.running_ms)
    every_ms = None if job.submitted_ms is None else (job.clock_ms - job.submitted_ms) // job.restarts
    if ago_ms >= RECENT_MS:
        return None
    loop = job.restarts >= LOOP and every_ms is not None and every_ms <= RECENT_MS
    return JobRestarts(
        # A rescale counts as a restart as well.
        severity="info" if job.failure is None else "critical" if loop else "warning",
        size=job.restarts,
        restarts=job.restarts,
        ago_ms=ago_ms,
        every_ms=every_ms,
        error=job.failure,
        loop=loop,
        fixes=(CHECK_JOB,),
    )


class LateDrops(Finding, frozen=True, kw_only=True, tag="late-drops"):
    """Window operators of the job drop late records.

    Recognised by: `numLateRecordsDropped` of the job's operators.

    What to do: set a longer out-of-orderness in the job; collect late records in a side output to see how late they
    are.
    """

    late: int
    at_least: bool
    tasks: tuple[str, ...]
    """The names of those that do, most records first."""
    recent: int | None
    """Those in the last `watched_ms`; None: not watched for long enough."""
    watched_ms: int
    lost_share: float | None
    """`recent` of the records that these operators took in; None: not known."""

    def words(self, context: Context) -> Explanation:
        least = "≥ " if self.at_least else ""
        evidence = [f"{least}{n(self.late, 'record')} since the start, by numLateRecordsDropped of {names(self.tasks)}"]
        if self.recent is not None:
            part = "" if self.lost_share is None else f", {f.share(self.lost_share)} of what these operators took in"
            evidence.append(f"In the last {span(self.watched_ms)}: {f.count(self.recent)}{part}")
        return Explanation(
            "Window operators drop late records",
            f"{least}{n(self.late, 'record')} lost" + ("; none of them lately" if self.recent == 0 else ""),
            "The watermark had passed the end of their windows, and the allowed lateness.",
            [*evidence, "How late they are is not in Flink's REST API"],
            ("Operators",),
        )


@rule(LateDrops, suppressed_by=("event-time-stuck",))
def late_drops(facts: DiagnosisInput) -> LateDrops | None:
    """The records are counted where they are dropped, with their number and not with how late they are."""
    dropping = [task for task in facts.snapshot.job.vertices if task.late]
    if not dropping:
        return None
    dropping.sort(key=lambda task: -(task.late or 0))
    past = facts.last(RECENT_MS)
    watched_ms = past[-1].wall_ms - past[0].wall_ms if past else 0
    recent = max(0, past[-1].late - past[0].late) if watched_ms >= MIN_MS else None
    rates = [task.taken_per_second for task in dropping if task.taken_per_second is not None]
    taken = sum(rates) * watched_ms / SECOND if len(rates) == len(dropping) else 0
    lost = min(1.0, recent / taken) if recent is not None and taken else None
    # A longer delay does not help where a timestamp ahead of the clock has moved the watermark.
    ahead = facts.now_ms is not None and (facts.watermark_ms or facts.now_ms) > facts.now_ms
    few = recent == 0 or (lost is not None and lost < FEW_SHARE)
    return LateDrops(
        severity="info" if few else loss_severity(lost),
        size=lost or 0.0,
        late=sum(task.late or 0 for task in dropping),
        at_least=any(task.late_at_least for task in dropping),
        tasks=tuple(task.name for task in dropping),
        recent=recent,
        watched_ms=watched_ms,
        lost_share=lost,
        fixes=(*(() if ahead else (lengthen_lateness(facts.snapshot),)), COLLECT_LATE_RECORDS),
    )


class SourceSendsNoWatermark(Finding, frozen=True, kw_only=True, tag="source-without-watermark"):
    """Records come, but their source sends no watermark. Windows by event time never fire.

    Recognised by: a minute after the start the watermark is still Flink's lowest value while the source sends records.

    What to do: give the source a watermark strategy and a timestamp assigner (in SQL: WATERMARK FOR).
    """

    fires: bool
    """The operator sends results all the same: its windows go by processing time, or by a trigger of their own."""

    def words(self, context: Context) -> Explanation:
        cause = "Without a watermark strategy, and without timestamps, Flink has no event time; records stay in state."
        if self.fires:
            cause = (
                "It fires all the same, so its windows go by processing time or by a trigger, and need no watermark."
            )
        return Explanation(
            "The source sends no watermark",
            "No effect on windows by processing time" if self.fires else "Windows by event time never fire",
            cause,
            [f"Records come from {names(self.channels)}, and its watermark is still Flink's lowest value"],
            ("Operators",),
            only(self.channels),
        )

    def explains(self, verdict: VerdictName) -> bool:
        """Windows by processing time need no watermark, so that its absence stalls none."""
        return verdict != "stalled" or not self.fires


@rule(SourceSendsNoWatermark, accounts_for=("stalled", "unknown"))
def source_without_watermark(facts: DiagnosisInput) -> SourceSendsNoWatermark | None:
    """A minute after the start of the job: before, a source may not have had its first record."""
    job, holder = facts.running_job, facts.snapshot.level.holder
    if job is None or facts.watermark_ms is not None or holder is None or holder.cause != "no_watermark":
        return None
    if not _runs_long(job):
        return None
    chosen = job.chosen
    fires = chosen is not None and bool(chosen.sent_per_second)
    return SourceSendsNoWatermark(
        severity="info" if fires else "critical",
        channels=(holder.channel,),
        fires=fires,
        fixes=(SET_WATERMARK_STRATEGY,),
    )


class OperatorBehind(Finding, frozen=True, kw_only=True, tag="operator-behind"):
    """A window operator other than the one that is shown has no watermark, or is far behind.

    Recognised by: its watermark is missing, 10 minutes behind, or stuck for a minute while that of the shown operator
    advances.

    What to do: see on the Operators screen where its watermark gets lost; choose it with --operator.
    """

    tasks: tuple[str, ...]
    """The names of those concerned, the worst first."""
    behind_ms: int | None
    """How far the first one is behind the operator that is shown; None: it has no watermark."""
    stuck_ms: int | None = None
    """How long its watermark has been stuck while that of the operator that is shown advances; None: it is not."""
    silent_input: str | None
    """The name of a task that it reads and that sends no watermark."""

    def words(self, context: Context) -> Explanation:
        which = names(self.tasks)
        if self.behind_ms is None:
            title, impact = f"No watermark reaches {which}", "Its windows do not fire"
            cause = "No task that it reads has sent a watermark."
            if self.silent_input is not None:
                cause = (
                    f"{names((self.silent_input,))} sends none: it has sent no record that a watermark could come from."
                )
        else:
            title = f"{which} {'is' if len(self.tasks) == 1 else 'are'} far behind"
            impact = f"Its windows fire {span(self.behind_ms)} of event time later"
            cause = "Its inputs are behind those of the operator that is shown."
        if self.stuck_ms is not None:
            title = f"The watermark of {names(self.tasks[:1])} is stuck for {span(self.stuck_ms)}"
            impact = "Its windows do not fire"
        shown = context.snapshot.job.chosen
        of = "another operator" if shown is None else names((shown.name,))
        return Explanation(title, impact, cause, [f"The verdict is about {of}, not about {which}"], ("Operators",))


@rule(OperatorBehind)
def operator_behind(facts: DiagnosisInput) -> OperatorBehind | None:
    """The verdict is about one operator; windows further down may be stuck while that one moves."""
    job = facts.running_job
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
    first_ms, first = concerned[0]
    tasks = {task.id: task for task in job.vertices}
    silent = [tasks[id].name for id in first.inputs if id in tasks and tasks[id].output_ms is None]
    stuck_ms = _stuck_ms(facts, first)
    return OperatorBehind(
        severity="warning" if stuck_ms is None else "critical",
        size=len(concerned),
        tasks=tuple(task.name for _, task in concerned),
        behind_ms=first_ms,
        stuck_ms=stuck_ms,
        silent_input=silent[0] if first_ms is None and silent else None,
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


class OperatorKeepsBack(Finding, frozen=True, kw_only=True, tag="operator-keeps-watermark"):
    """An operator does not send on the watermark that it receives. The windows below it wait.

    Recognised by: the watermark that it receives is past the one that it sends, which has not moved for a minute.

    What to do: look at what it waits for: an async call without an answer, or a watermark of its own.
    """

    task: str
    """The name of its task."""
    stuck_ms: int

    def words(self, context: Context) -> Explanation:
        which, stuck = names((self.task,)), span(self.stuck_ms)
        return Explanation(
            f"{which} does not send on the watermark that it receives",
            f"No window below it has fired for {stuck}",
            "An operator in it waits: records that it has not passed on hold the watermark back.",
            [f"The watermark that it receives is past the one that it sends, which has not moved for {stuck}"],
            ("Operators",),
            only(self.channels),
        )


@rule(OperatorKeepsBack, accounts_for=("stalled", "unknown"))
def operator_keeps_back(facts: DiagnosisInput) -> OperatorKeepsBack | None:
    """Its watermark is frozen while the one that it receives is past it: async I/O waits for an answer, for example."""
    job, holder = facts.running_job, facts.snapshot.level.holder
    if job is None or holder is None or holder.cause != "kept_back":
        return None
    stuck_ms = facts.frozen_ms
    task = next((task for task in job.vertices if task.id == job.held_in), None)
    if task is None or stuck_ms is None:
        return None
    return OperatorKeepsBack(
        severity="critical",
        size=stuck_ms,
        channels=(holder.channel,),
        task=task.name,
        stuck_ms=stuck_ms,
        fixes=(CHECK_OPERATOR,),
    )


class ReadsTooSlowly(Finding, frozen=True, kw_only=True, tag="source-too-slow"):
    """The job does not catch up with its sources: records wait, and event time advances no faster than the clock.

    Recognised by: the watermark is at least 5 minutes behind the clock, a minute of reading or more is unread, and
    event time advances at less than 1.1 times the speed of the clock.

    What to do: add readers, or make the busy operator or the sink faster.
    """

    behind_ms: int
    """How far the watermark is behind the clock."""
    unread: int
    at_least: bool
    """`unread` is what the sources themselves report."""
    speed: float

    def words(self, context: Context) -> Explanation:
        least = "≥ " if self.at_least else ""
        return Explanation(
            "The job does not catch up with its sources",
            f"The watermark is {span(self.behind_ms)} behind the clock",
            "Records wait to be read, and event time advances no faster than the clock.",
            [f"{least}{n(self.unread, 'record')} unread", f"Event time advances at ×{self.speed:.1f} of the clock"],
            ("Progress", "Operators"),
            only(self.channels),
        )


@rule(ReadsTooSlowly, accounts_for=("slow",))
def reads_too_slowly(facts: DiagnosisInput) -> ReadsTooSlowly | None:
    """A watermark that advances at the speed of the clock is not fine while it is far behind it and records wait."""
    job, level, speed = facts.running_job, facts.snapshot.level, facts.snapshot.verdict.speed
    if job is None or level.holder is None or level.holder.cause not in READS or speed is None or speed >= CATCHES_UP:
        return None
    known = [view.backlog for view in facts.channels if view.backlog is not None]
    unread = sum(known) if known else sum(task.pending or 0 for task in job.vertices)
    if not unread or (level.behind_clock_ms or 0) < LATE_MS or facts.verdict == "stalled":
        return None
    # The distance from the clock may be out-of-orderness that the job allows, and not the unread records.
    end_ms = next((view.behind_end_ms for view in facts.channels if view.channel == level.holder.channel), None)
    if unread < MIN_UNREAD_S * (job.read_per_second or 0) if end_ms is None else end_ms < LATE_MS:
        return None
    return ReadsTooSlowly(
        severity="warning",
        size=level.behind_clock_ms or 0,
        channels=(level.holder.channel,),
        behind_ms=level.behind_clock_ms or 0,
        unread=unread,
        at_least=not known,
        speed=speed,
        fixes=(ADD_READERS, SEE_OPERATORS),
    )
