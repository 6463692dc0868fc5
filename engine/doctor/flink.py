"""Rules about a Flink job: it restarts again and again, drops late records, or an operator gets no watermark."""

from ..snapshot.flink_job import FlinkJob, FlinkVertex
from .diagnosis_input import MINUTE, SECOND, DiagnosisInput, loss_severity
from .finding import Finding, Fix, Severity
from .progress import verdict_of

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


class JobRestarts(Finding, frozen=True, kw_only=True, tag="job-restarts"):
    """The job runs, and was restarted lately: what it did since its last checkpoint is done again."""

    restarts: int
    ago_ms: int
    """How long ago the last one was."""
    every_ms: int | None
    """The mean time between restarts since the job was submitted."""
    error: str | None
    """The last failure that Flink reports."""
    loop: bool


class LateDrops(Finding, frozen=True, kw_only=True, tag="late-drops"):
    """Window operators of the job drop late records."""

    late: int
    at_least: bool
    tasks: tuple[str, ...]
    """The names of those that do, most records first."""
    recent: int | None
    """Those in the last `watched_ms`; None: not watched for long enough."""
    watched_ms: int
    lost_share: float | None
    """`recent` of the records that these operators took in; None: not known."""


class SourceSendsNoWatermark(Finding, frozen=True, kw_only=True, tag="source-without-watermark"):
    """Records come, and their source sends no watermark: windows by event time never fire."""

    operator: str | None
    fires: bool
    """The operator sends results all the same: its windows go by processing time, or by a trigger of their own."""


class OperatorBehind(Finding, frozen=True, kw_only=True, tag="operator-behind"):
    """A window operator other than the one that is shown has no watermark, or one far behind."""

    tasks: tuple[str, ...]
    """The names of those concerned, the worst first."""
    behind_ms: int | None
    """How far the first one is behind the operator that is shown; None: it has no watermark."""
    stuck_ms: int | None = None
    """How long its watermark has been stuck while that of the operator that is shown advances; None: it is not."""
    silent_input: str | None
    """The name of a task that it reads and that sends no watermark."""


class OperatorKeepsBack(Finding, frozen=True, kw_only=True, tag="operator-keeps-watermark"):
    """An operator on the way does not send the watermark that it has received, and the windows below it wait."""

    task: str
    """The name of its task."""
    stuck_ms: int


class ReadsTooSlowly(Finding, frozen=True, kw_only=True, tag="source-too-slow"):
    """A source has many unread records, and the watermark does not catch up with the clock."""

    behind_ms: int
    """How far the watermark is behind the clock."""
    unread: int
    at_least: bool
    """`unread` is what the sources themselves report."""
    speed: float


def reads_too_slowly(given: DiagnosisInput) -> ReadsTooSlowly | None:
    """A watermark that advances at the speed of the clock is not fine while it is far behind it and records wait."""
    job, level, speed = given.running_job, given.snapshot.level, given.snapshot.verdict.speed
    if job is None or level.holder is None or level.holder.cause not in READS or speed is None or speed >= CATCHES_UP:
        return None
    known = [view.backlog for view in given.channels if view.backlog is not None]
    unread = sum(known) if known else sum(one.pending or 0 for one in job.vertices)
    if not unread or (level.behind_clock_ms or 0) < LATE_MS or verdict_of(given) == "stalled":
        return None
    if not _is_much(unread, given, job, level.holder.channel):
        return None
    return ReadsTooSlowly(
        severity="warning",
        size=level.behind_clock_ms or 0,
        channels=(level.holder.channel,),
        behind_ms=level.behind_clock_ms or 0,
        unread=unread,
        at_least=not known,
        speed=speed,
        fixes=(Fix(code="add-readers"), Fix(code="see-operators")),
    )


def _is_much(unread: int, given: DiagnosisInput, job: FlinkJob, holder: str) -> bool:
    """Whether unread records explain the distance from the clock: it may be out-of-orderness that the job allows."""
    end_ms = next((view.behind_end_ms for view in given.channels if view.channel == holder), None)
    return unread >= MIN_UNREAD_S * (job.read_per_second or 0) if end_ms is None else end_ms >= LATE_MS


def job_restarts(given: DiagnosisInput) -> JobRestarts | None:
    """Between two restarts a job looks healthy."""
    job = given.running_job
    if job is None or not job.restarts or job.clock_ms is None or job.running_ms is None:
        return None
    ago_ms = max(0, job.clock_ms - job.running_ms)
    every_ms = None if job.submitted_ms is None else (job.clock_ms - job.submitted_ms) // job.restarts
    if ago_ms >= RECENT_MS:
        return None
    loop = job.restarts >= LOOP and every_ms is not None and every_ms <= RECENT_MS
    severity: Severity = "critical" if loop else "warning"
    return JobRestarts(
        severity=severity if job.failure is not None else "info",  # a rescale counts as a restart as well
        size=job.restarts,
        restarts=job.restarts,
        ago_ms=ago_ms,
        every_ms=every_ms,
        error=job.failure,
        loop=loop,
        fixes=(Fix(code="check-job"),),
    )


def late_drops(given: DiagnosisInput) -> LateDrops | None:
    """The records are counted where they are dropped, with their number and not with how late they are."""
    job = given.snapshot.flink
    dropping = [] if job is None else [one for one in job.vertices if one.late]
    if not dropping:
        return None
    dropping.sort(key=lambda one: -(one.late or 0))
    past = given.last(RECENT_MS)
    watched_ms = past[-1].wall_ms - past[0].wall_ms if past else 0
    recent = max(0, past[-1].late - past[0].late) if watched_ms >= MIN_MS else None
    lost = None if recent is None else _share(recent, watched_ms, dropping)
    few = recent == 0 or (lost is not None and lost < FEW_SHARE)
    return LateDrops(
        severity="info" if few else loss_severity(lost),
        size=lost or 0.0,
        late=sum(one.late or 0 for one in dropping),
        at_least=any(one.late_at_least for one in dropping),
        tasks=tuple(one.name for one in dropping),
        recent=recent,
        watched_ms=watched_ms,
        lost_share=lost,
        # A longer delay does not help where a timestamp ahead of the clock has moved the watermark.
        fixes=(*(() if _is_ahead(given) else (Fix(code="lengthen-lateness"),)), Fix(code="collect-late-records")),
    )


def _share(recent: int, watched_ms: int, dropping: list[FlinkVertex]) -> float | None:
    """`recent` of what these operators took in meanwhile, by their rate."""
    rates = [one.taken_per_second for one in dropping if one.taken_per_second is not None]
    taken = sum(rates) * watched_ms / SECOND
    return min(1.0, recent / taken) if len(rates) == len(dropping) and taken else None


def source_without_watermark(given: DiagnosisInput) -> SourceSendsNoWatermark | None:
    """A minute after the start of the job: before, a source may not have had its first record."""
    job, holder = given.running_job, given.snapshot.level.holder
    if job is None or given.watermark_ms is not None or holder is None or holder.cause != "no_watermark":
        return None
    if not _runs_long(job):
        return None
    chosen = job.chosen
    fires = chosen is not None and bool(chosen.sent_per_second)
    return SourceSendsNoWatermark(
        severity="info" if fires else "critical",
        channels=(holder.channel,),
        operator=None if chosen is None else chosen.name,
        fires=fires,
        fixes=(Fix(code="set-watermark-strategy"),),
    )


def operator_behind(given: DiagnosisInput) -> OperatorBehind | None:
    """The verdict is about one operator; windows further down may be stuck while that one moves."""
    job = given.running_job
    chosen = None if job is None else job.chosen
    if job is None or chosen is None or chosen.input_ms is None or not _runs_long(job):
        return None
    others = [one for one in job.vertices if one.windowed and one.id != chosen.id and one.status == "RUNNING"]
    behind = [(_behind_ms(one, chosen.input_ms), one) for one in others]
    found = sorted(
        ((ms, one) for ms, one in behind if ms is None or ms >= FAR_MS or _stuck_ms(given, one) is not None),
        key=lambda pair: (pair[0] is not None, -(pair[0] or 0)),
    )
    if not found:
        return None
    first_ms, first = found[0]
    tasks = {one.id: one for one in job.vertices}
    silent = [tasks[id].name for id in first.inputs if id in tasks and tasks[id].output_ms is None]
    stuck_ms = _stuck_ms(given, first)
    return OperatorBehind(
        severity="warning" if stuck_ms is None else "critical",
        size=len(found),
        tasks=tuple(one.name for _, one in found),
        behind_ms=first_ms,
        stuck_ms=stuck_ms,
        silent_input=silent[0] if first_ms is None and silent else None,
        fixes=(Fix(code="see-operators"),),
    )


def operator_keeps_back(given: DiagnosisInput) -> OperatorKeepsBack | None:
    """Its watermark is frozen while the one that it receives is past it: async I/O waits for an answer, for example."""
    job, holder = given.running_job, given.snapshot.level.holder
    if job is None or holder is None or holder.cause != "kept_back":
        return None
    stuck_ms = given.frozen_ms or 0
    task = next((one for one in job.vertices if one.id == job.held_in), None)
    if task is None or (stuck_ms < MINUTE and given.snapshot.verdict.verdict != "stalled"):
        return None
    return OperatorKeepsBack(
        severity="critical",
        size=stuck_ms,
        channels=(holder.channel,),
        task=task.name,
        stuck_ms=stuck_ms,
        fixes=(Fix(code="check-operator"),),
    )


def _is_ahead(given: DiagnosisInput) -> bool:
    watermark_ms, now_ms = given.watermark_ms, given.now_ms
    return watermark_ms is not None and now_ms is not None and watermark_ms > now_ms


def _stuck_ms(given: DiagnosisInput, one: FlinkVertex) -> int | None:
    """How long a task's watermark has not moved, from a minute on, if the shown operator's has."""
    if one.input_ms is None or one.since_ms is None or given.now_ms is None:
        return None
    stuck_ms, shown_ms = given.now_ms - one.since_ms, given.frozen_ms
    return stuck_ms if stuck_ms >= MINUTE and shown_ms is not None and shown_ms < MINUTE // 2 else None


def _behind_ms(one: FlinkVertex, watermark_ms: int) -> int | None:
    return None if one.input_ms is None else watermark_ms - one.input_ms


def _runs_long(job: FlinkJob) -> bool:
    return job.clock_ms is not None and job.running_ms is not None and job.clock_ms - job.running_ms >= MINUTE
