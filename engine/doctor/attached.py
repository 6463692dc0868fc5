"""Attached queries and jobs: not running, not started, without progress, pausing for an unknown time."""

from ..snapshot.flink_job import FlinkJob
from ..text import formatting as f
from ..text.codes import JOB_GONE
from .condition import CHECK_SOURCE, NO_RESULTS, OLD, age, broker_silent, note_of, pauses, stale_part, unreadable
from .finding import CHECK_JOB, CHECK_QUERY, Context, Explanation, Finding, Fix, span
from .rules import DiagnosisInput, rule


class JobNotRunning(Finding, frozen=True, kw_only=True, tag="job-not-running"):
    """Nothing new is known of the attached Flink job: it does not run, its JobManager does not answer, its metrics are
    old, or it no longer has the chosen operator.

    Recognised by: the job's state in Flink's REST API, an error instead of an answer, or metrics that stay the same.

    What to do: look at the job's exceptions in Flink's web UI; check that the JobManager and the task managers run.
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

    def words(self, context: Context) -> Explanation:
        error = None if self.error is None else f.clean(f.first_line(self.error))
        impact = "Whether event time moves is not known"
        if self.unanswered and error is not None:
            title, cause = "Nothing newer is known of the job", error
        elif self.operator_gone:
            title = "The job no longer has the chosen operator"
            cause = (
                "The job was submitted again with other operators. Attach again with another --operator, or without it."
            )
        elif self.state == "UNKNOWN":
            title, impact = JOB_GONE, "No results from it"
            cause = f"The job was removed, or the JobManager was restarted without it. {OLD}"
        elif self.state != "RUNNING":
            title, impact = f"The job is {self.state}", "No results: the watermark is frozen"
            cause = f"Its last failure: {error}" if error else f"No failure is reported. {OLD}"
        elif error is not None:
            title, cause = "The JobManager fetches no metrics", error
        else:
            title = "The metrics are old"
            cause = f"The JobManager has had no newer metrics from its task managers. {OLD}"
        counted = [] if not self.restarts else [f"Restarts: {self.restarts:,}"]
        state = f"{'Last known state' if self.unanswered else 'State'} of the job: {self.state}"
        return Explanation(title, impact, cause, [state, *counted, *age(context)], ("Operators",))


@rule(JobNotRunning, accounts_for=("unknown",), before_data=True)
def job_not_running(facts: DiagnosisInput) -> JobNotRunning | None:
    """The job's state is as old as the JobManager's last answer."""
    job, error = facts.snapshot.job, facts.snapshot.error
    if stale_part(facts) != "job-not-running":
        return None
    return JobNotRunning(
        severity="critical",
        state=job.state,
        error=error,
        unanswered=job.unanswered,
        restarts=job.restarts,
        operator_gone=job.operator_gone,
        fixes=() if job.operator_gone else (_check_job(job, error),),
    )


def _check_job(job: FlinkJob, error: str | None) -> Fix:
    if job.unanswered:
        what = (
            "Check that the JobManager runs, and that its REST address answers from this machine; then look at its log"
        )
        return Fix("check-jobmanager", what)
    if job.state == "UNKNOWN":
        how = "wmtop follows it by its name; or attach to the job that replaced it"
        return Fix("submit-job", f"Submit the job again: {how}")
    if job.state != "RUNNING":
        return CHECK_JOB
    if error is not None:
        return Fix("fetch-metrics", "Set metrics.fetcher.update-interval: 10 s in the JobManager's configuration")
    what = "Check in Flink's web UI that the job's task managers are connected, and look at their logs"
    return Fix("check-task-managers", what)


class QueryStale(Finding, frozen=True, kw_only=True, tag="query-stale"):
    """The attached Spark query shows no progress. It may be idle, hang or be dead.

    Recognised by: no new batch for much longer than its batches and its trigger explain, or its application has ended.

    What to do: check that its process runs, and read its log. If its source does not answer either, check the source
    first.
    """

    age_ms: int | None
    """How long ago its last batch began."""
    gone: bool = False
    """Its application ended without stopping it."""
    source_silent: str | None = None
    """Why its source does not answer this program either, in one line."""

    def words(self, context: Context) -> Explanation:
        number, in_flight = context.snapshot.batch, context.snapshot.spark.in_flight
        batch = "The last batch" if number is None else f"Batch {number:,}"
        begun = "" if self.age_ms is None else f" began {span(self.age_ms)} ago"
        ended = "" if in_flight is None else " and has not ended" if in_flight else " and was the last one"
        if self.gone:
            return Explanation(
                "The query's application has ended",
                NO_RESULTS,
                f"The application ended without stopping the query: it was killed, or it failed. {OLD}",
                [f"{batch}{begun}{ended}"],
                ("Progress",),
            )
        title, silent = "The query shows no progress", list[str]()
        why = "The query is idle, hangs, or has died: from outside these look alike."
        if self.source_silent is not None:
            title, silent = f"{title}; its source does not answer", [self.source_silent]
            why = "Its source does not answer from here either: the query probably waits for it."
        return Explanation(
            title,
            "No results" if self.age_ms is None else f"Nothing new for {span(self.age_ms)}",
            " ".join(text for text in (why, unreadable(context), OLD) if text),
            [f"{batch}{begun}{ended}", *map(f.clean, silent)],
            ("Progress",),
        )


@rule(QueryStale, suppressed_by=("hung-batch",), accounts_for=("unknown",), before_data=True)
def query_stale(facts: DiagnosisInput) -> QueryStale | None:
    if stale_part(facts) != "query-stale":
        return None
    begun, now = facts.snapshot.spark.batch_timestamp_ms, facts.snapshot.wall_ms
    gone = note_of(facts, "application_gone") is not None
    silent = None if gone else broker_silent(facts)
    return QueryStale(
        severity="critical",
        age_ms=None if begun is None or now is None else max(now - begun, 0),
        gone=gone,
        source_silent=silent,
        fixes=(CHECK_QUERY,) if silent is None else (CHECK_SOURCE, CHECK_QUERY),
    )


class QueryNotStarted(Finding, frozen=True, kw_only=True, tag="query-not-started"):
    """The attached Spark query has not begun a batch.

    Recognised by: its checkpoint, event log or reports have no batch yet.

    What to do: check that the application has started the query. The first batch may still be planned.
    """

    def words(self, context: Context) -> Explanation:
        return Explanation(
            "The query has not started",
            "No results: no batch has begun",
            "Its application has not started the query, or its first batch is still being planned.",
            ["0 batches so far"],
            ("Progress",),
        )


@rule(QueryNotStarted, accounts_for=("unknown",), before_data=True)
def query_not_started(facts: DiagnosisInput) -> QueryNotStarted | None:
    if stale_part(facts) != "query-not-started":
        return None
    return QueryNotStarted(severity="warning", fixes=(CHECK_QUERY,))


class PauseUnknown(Finding, frozen=True, kw_only=True, tag="pause-unknown"):
    """The attached Spark query has had no batch for a while, and nothing shows whether that is its trigger's pause.

    Recognised by: no batch for longer than before, and neither its batches nor its plan show how long its trigger
    pauses.

    What to do: check that its process runs. This is not an all-clear.
    """

    silent_ms: int

    def words(self, context: Context) -> Explanation:
        return Explanation(
            "The query pauses; whether it runs is not known",
            "Not an all-clear: nothing new may be a trigger's pause, an idle source or a query that has died",
            "Neither its batches so far nor its plan show how long its trigger pauses.",
            [f"No batch for {span(self.silent_ms)}"],
            ("Progress",),
        )


@rule(PauseUnknown, before_data=True)
def pause_unknown(facts: DiagnosisInput) -> PauseUnknown | None:
    """A pause of unknown cause is neither an all-clear nor a fault."""
    silent_ms = pauses(facts)
    if silent_ms is None:
        return None
    return PauseUnknown(severity="info", size=silent_ms, silent_ms=silent_ms, fixes=(CHECK_QUERY,))
