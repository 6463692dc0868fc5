"""Rules about the state of engine, query and source: failed, lost, stale, not started, without records."""

from ..snapshot import NoteCode, Snapshot
from ..snapshot.flink_job import FlinkJob
from .diagnosis_input import MINUTE, DiagnosisInput
from .finding import Finding, Fix, FixCode

SILENT_MS = 10_000
"""Time (ms) without a snapshot after which an engine is stale; it sends one at least every second."""
_TOO_LONG: NoteCode = "snapshot_too_long"
_PAUSES: tuple[NoteCode, ...] = ("pause_unknown", "no_batch_ended")


class EngineFailed(Finding, frozen=True, kw_only=True, tag="engine-failed"):
    """The engine or the attached query has failed, or the engine's process is gone."""

    error: str | None
    attached: bool
    lost: bool
    """The process ended without its last message."""
    is_job: bool = False
    """A Flink job; else a Spark query."""


class EngineSilent(Finding, frozen=True, kw_only=True, tag="engine-silent"):
    """The engine runs but has sent nothing for `silent_ms`: what is shown is old."""

    silent_ms: int
    jvm: bool = False
    """The engine does send, but its JVM does not answer: nothing is read."""


class QueryStale(Finding, frozen=True, kw_only=True, tag="query-stale"):
    """The attached query shows no progress: it is idle, hangs or died."""

    batch: int | None
    age_ms: int | None
    """How long ago its last batch began."""
    in_flight: bool | None
    gone: bool = False
    """Its application ended without stopping it."""
    source_silent: str | None = None
    """Why its source does not answer this program either, in one line."""


class PauseUnknown(Finding, frozen=True, kw_only=True, tag="pause-unknown"):
    """No batch of an attached query for longer than usual; nothing shows whether that is its trigger's pause."""

    silent_ms: int


class QueryNotStarted(Finding, frozen=True, kw_only=True, tag="query-not-started"):
    """The attached query has not begun a batch."""


class JobNotRunning(Finding, frozen=True, kw_only=True, tag="job-not-running"):
    """The attached Flink job does not run now, its JobManager does not answer, its metrics are old, or it no longer has
    the chosen operator.
    """

    state: str
    """The job's state, in Flink's words."""
    error: str | None
    """The last failure of a job that does not run; else why there is no newer data."""
    unanswered: bool = False
    """The JobManager does not answer: the state is the last one known."""
    operator_gone: bool = False
    """The job runs, without the operator that was chosen."""
    restarts: int | None


class EngineStarting(Finding, frozen=True, kw_only=True, tag="engine-starting"):
    """The engine is still starting."""

    step: str | None


class SourceUnreachable(Finding, frozen=True, kw_only=True, tag="source-unreachable"):
    """The source does not answer, so that what is unread is not known."""

    why: str | None = None


class SourcePaused(Finding, frozen=True, kw_only=True, tag="source-paused"):
    """The source is paused: nothing is read."""


class PartlyUnknown(Finding, frozen=True, kw_only=True, tag="partly-unknown"):
    """Some of the query, or some of its channels, cannot be seen."""

    unknown: str | None
    """A `WindowsUnknownCode`, or None."""
    unknown_args: dict[str, str | int | None] = {}  # noqa: RUF012 (msgspec copies it)
    left_out: int | None = None
    """Number of channels that, like the windows, were left out of a snapshot that was too long to send."""


class NoRecords(Finding, frozen=True, kw_only=True, tag="no-records"):
    """The query runs, but no record with a usable event time has come since the start."""

    watched_ms: int
    known_channels: int


def engine_failed(given: DiagnosisInput) -> EngineFailed | None:
    """The run ended because of a failure."""
    snapshot = given.snapshot
    if snapshot.state == "failed" or (given.lost is not None and not given.ended):
        lost = snapshot.state != "failed"
        return EngineFailed(
            severity="critical",
            size=float("inf"),
            error=given.lost if lost else snapshot.error,
            attached=given.is_attached and not lost,
            lost=lost,
            is_job=snapshot.flink is not None,
            fixes=(Fix(code=_check_failed(snapshot, attached=given.is_attached and not lost)),),
        )
    return None


def _check_failed(snapshot: Snapshot, *, attached: bool) -> FixCode:
    if not attached:
        return "check-engine"
    return "check-query" if snapshot.flink is None else "check-job"


def engine_silent(given: DiagnosisInput) -> EngineSilent | None:
    """No snapshot for longer than a healthy engine ever pauses."""
    silent_ms = given.silent_ms
    if given.lost is not None or given.ended or silent_ms is None or silent_ms < SILENT_MS:
        return None
    return EngineSilent(severity="critical", size=silent_ms, silent_ms=silent_ms, fixes=(Fix(code="check-engine"),))


def query_stale(
    given: DiagnosisInput,
) -> EngineSilent | JobNotRunning | QueryStale | QueryNotStarted | SourceUnreachable | None:
    """An attached query without progress, a JVM that hangs, or a source that does not answer."""
    snapshot = given.snapshot
    if snapshot.state != "stale":
        return None
    hung = next((note for note in snapshot.notes if note.code == "jvm_silent"), None)
    if hung is not None:
        silent_ms = int(hung.args.get("silent_ms") or 0)
        return EngineSilent(
            severity="critical", size=silent_ms, silent_ms=silent_ms, jvm=True, fixes=(Fix(code="check-engine"),)
        )
    if (job := snapshot.flink) is not None:
        return _job_not_running(job, snapshot.error)
    if not given.is_attached or "positions" in (snapshot.origin or {}) or _is_topic(given):
        return SourceUnreachable(severity="critical", why=_broker_silent(given), fixes=(Fix(code="check-source"),))
    spark = snapshot.spark
    if snapshot.batch is None and spark.batch_timestamp_ms is None:
        return QueryNotStarted(severity="warning", fixes=(Fix(code="check-query"),))
    begun, now = spark.batch_timestamp_ms, snapshot.wall_ms
    gone = any(note.code == "application_gone" for note in snapshot.notes)
    silent = None if gone else _broker_silent(given)
    return QueryStale(
        severity="critical",
        batch=snapshot.batch,
        age_ms=None if begun is None or now is None else max(now - begun, 0),
        in_flight=spark.in_flight,
        gone=gone,
        source_silent=silent,
        fixes=(*([] if silent is None else [Fix(code="check-source")]), Fix(code="check-query")),
    )


def _job_not_running(job: FlinkJob, error: str | None) -> JobNotRunning:
    """The job's state is as old as the JobManager's last answer."""
    unanswered = job.unanswered
    fix: FixCode = "check-job"
    if unanswered:
        fix = "check-jobmanager"
    elif job.state == "UNKNOWN":
        fix = "submit-job"
    elif job.state == "RUNNING":
        fix = "check-task-managers" if error is None else "fetch-metrics"
    return JobNotRunning(
        severity="critical", state=job.state, error=error, unanswered=unanswered, restarts=job.restarts,
        operator_gone=job.operator_gone, fixes=() if job.operator_gone else (Fix(code=fix),),
    )  # fmt: skip


def _broker_silent(given: DiagnosisInput) -> str | None:
    """The line about a broker that does not answer, if there is one."""
    note = next((note for note in given.snapshot.notes if note.code == "broker_silent"), None)
    return None if note is None else str(note.args.get("why") or "")


def pause_unknown(given: DiagnosisInput) -> PauseUnknown | None:
    """A pause of unknown cause is neither an all-clear nor a fault."""
    silent = next((note.args.get("silent_ms") for note in given.snapshot.notes if note.code in _PAUSES), None)
    if not isinstance(silent, int):
        return None
    return PauseUnknown(severity="info", size=silent, silent_ms=silent, fixes=(Fix(code="check-query"),))


def _is_continuous(given: DiagnosisInput) -> bool:
    return any(note.code == "continuous" for note in given.snapshot.notes)


def _is_topic(given: DiagnosisInput) -> bool:
    source = given.snapshot.source
    return source is not None and source.kind in ("topic", "group")


def engine_starting(given: DiagnosisInput) -> EngineStarting | None:
    """The start is not over: nothing to judge yet."""
    if given.snapshot.state != "starting":
        return None
    running = next((step.name for step in given.snapshot.steps if step.seconds is None), None)
    return EngineStarting(severity="info", step=running, fixes=(Fix(code="wait"),))


def source_paused(given: DiagnosisInput) -> SourcePaused | None:
    """A pause is intentional, but it freezes the watermark."""
    if given.snapshot.state != "paused":
        return None
    return SourcePaused(severity="info", fixes=(Fix(code="resume-source"),))


def partly_unknown(given: DiagnosisInput) -> PartlyUnknown | SourceUnreachable | None:
    """An incomplete snapshot is not an all-clear, also for a run that is paused or has ended."""
    left_out = next((note.args.get("channels") for note in given.snapshot.notes if note.code == _TOO_LONG), None)
    if isinstance(left_out, int):
        fixes = (Fix(code="lower-max-channels"),)
        return PartlyUnknown(severity="warning", size=left_out, unknown=None, left_out=left_out, fixes=fixes)
    if given.snapshot.state != "partial":
        return None
    windows = given.snapshot.windows
    fixes = (Fix(code="check-source"),)
    if (why := _broker_silent(given)) is not None:
        return SourceUnreachable(severity="warning", size=float("inf"), why=why, fixes=fixes)
    if pause_unknown(given) is not None or _is_continuous(given):
        return None
    return PartlyUnknown(severity="info", unknown=windows.unknown, unknown_args=windows.unknown_args, fixes=fixes)


def no_records(given: DiagnosisInput) -> NoRecords | None:
    """No record within a minute after the start."""
    snapshot, past = given.snapshot, given.past
    if given.ended or snapshot.state not in ("live", "partial") or snapshot.totals.records is None:
        return None
    watched_ms = past[-1].wall_ms - past[0].wall_ms if past else 0
    if snapshot.totals.records or snapshot.totals.malformed or watched_ms < MINUTE:
        return None
    return NoRecords(
        severity="warning",
        watched_ms=watched_ms,
        known_channels=len(given.channels),
        fixes=(Fix(code="check-producers"),),
    )
