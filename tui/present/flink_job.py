"""The words for an attached Flink job, as far as its REST API shows it. Pure."""

from collections.abc import Sequence
from datetime import tzinfo

from ...engine.core.history import HistoryPoint
from ...engine.core.snapshot import Snapshot
from . import formatting as f
from .attached import Attached
from .chain import Stage
from .flink_chain import stages_of_job
from .flink_progress import age_words, job_charts
from .line import Part, part
from .own_run import held_back_by
from .preview import LatenessPreview, Preview
from .progress import Cells, Chart
from .screen_words import JOB_GONE, NO_LINKS
from .windows_unknown import unknown_text
from .wording import cause, late_drops, name

NO_WHAT_IF = "A what-if needs event times, which Flink's REST API does not have"
NO_WHAT_IF_HERE = "no what-if: Flink's REST API has no event times"
_LINE = "Keys + - and [ ] choose a value on the main screen, Enter gives the line to change in the job."
_NAME_CELLS = 28
_SKEW_MS = 30_000
"""Smallest clock difference (ms) that is shown."""


class FlinkJob(Attached):
    """The words for a job whose subtasks report their watermarks; a `Presenter`."""

    def untunable(self) -> str | None:
        """None: the line to change in the job can be given for any lateness."""
        return None

    def no_steps(self) -> str:
        """Why there is no what-if, which command has it, and how to get the line."""
        return f"{NO_WHAT_IF}. {self._who_answers()}"

    def standing(self) -> tuple[str, str | None] | None:
        """The job's own state if it does not run, else the age of its metrics or that some are missing."""
        snapshot, job = self._snapshot, self._snapshot.flink
        if snapshot.state not in ("stale", "partial", "starting") or job is None:
            return None
        error = None if snapshot.error is None else f.first_line(snapshot.error)
        if job.state not in ("RUNNING", "UNKNOWN") and not job.unanswered:
            return job.state, error
        if snapshot.state == "partial":
            return "PARTIAL", "Metrics of some subtasks are missing"
        if snapshot.state == "starting":
            return "STARTING", "The JobManager has no metrics of the job yet"
        if job.state == "UNKNOWN" and error is None:
            error = JOB_GONE
        age = age_words(snapshot, job.sampled_ms)
        return "STALE" if age is None else f"STALE {age}", error

    def tuning(self, preview: Preview | None, recent_late: float | None) -> list[Part]:
        """Late records, the age of the metrics, restarts, checkpoints; the settings are not in the REST API."""
        snapshot, job = self._snapshot, self._snapshot.flink
        if preview is not None:
            value = preview.lateness_ms if isinstance(preview, LatenessPreview) else preview.idle_after_ms
            what = "lateness" if isinstance(preview, LatenessPreview) else "idle after"
            return [
                part((f" {what} ", "dim"), (f"▸ {f.setting(value)}?", "preview")),
                part((NO_WHAT_IF_HERE, "dim"), rank=1),
            ]
        is_known = snapshot.totals.late is not None
        parts = [part((" dropped as late ", "dim"), (late_drops(snapshot), "strong" if is_known else "dim"))]
        if job is not None:
            parts += [*_ages(snapshot), *_clock_skew(snapshot)]
            if job.restarts:
                parts.append(part(("restarts ", "dim"), (f.count(job.restarts), "bad"), rank=2))
            at = age_words(snapshot, job.checkpoint_ms)
            parts.append(part(("checkpoint ", "dim"), ("none" if at is None else f"{at} ago", "strong"), rank=4))
        parts.append(part((f"lateness and idle timeout {f.ELSEWHERE}", "dim"), rank=5))
        return parts

    def holder(self, zone: tzinfo | None) -> list[Part]:
        """Which channel holds back the watermark; records in flight blame none."""
        snapshot = self._snapshot
        holder = snapshot.level.holder
        is_channel = holder is not None and any(one.channel == holder.channel for one in snapshot.channels)
        if holder is not None and is_channel and holder.cause == "no_watermark":
            return [part((f" {self._source()}", "holder"), (f": {cause(snapshot)}", "text"))]
        if holder is not None and not is_channel:
            return [part((f" {cause(snapshot)}", "text"))]
        if (found := held_back_by(snapshot)) or holder is None or holder.cause != "kept_back":
            return found or super().holder(zone)
        return [part((f" {cause(snapshot)}", "text"))]  # no channel is ahead of the others

    def stages(self, zone: tzinfo | None) -> list[Stage]:
        """The job's graph."""
        return stages_of_job(self._snapshot)

    def empty_barrel(self) -> str:
        """Before a subtask reports a watermark, or if the metrics disappeared with the job."""
        job = self._snapshot.flink
        if job is not None and job.state in ("FINISHED", "CANCELED", "FAILED"):
            return f"the job is {job.state}: Flink keeps no metrics of it"
        if job is not None and job.vertices and not job.has_links:
            return f"{NO_LINKS}: all its operators are chained to the sources"
        return "no subtask reports a watermark yet"

    def no_channels(self) -> str:
        """As `empty_barrel`."""
        return self.empty_barrel()

    def no_windows(self) -> str:
        """Windows are not in the REST API."""
        return f"{f.ELSEWHERE}: {unknown_text('not_in_rest', {})}"

    def no_lateness(self) -> str:
        """There are no event times."""
        return f"How late records are: {f.ELSEWHERE}\n{NO_WHAT_IF}.\n{self._who_answers()}\n{_LINE}"

    def no_idle_ladder(self) -> str:
        """As `no_lateness`."""
        return f"What another idle timeout would give: {f.ELSEWHERE}\n{NO_WHAT_IF}.\n{self._who_answers()}\n{_LINE}"

    def _source(self) -> str:
        """The task of the channel that holds the watermark back; all splits of a source may be alike."""
        job, holder = self._snapshot.flink, self._snapshot.level.holder
        assert holder is not None
        task = None if job is None else next((one for one in job.vertices if one.id == job.held_in), None)
        return name(holder.channel) if task is None else f.label(task.name, _NAME_CELLS)

    def _who_answers(self) -> str:
        """The command that reads the event times itself, as complete as possible."""
        job = self._snapshot.flink
        bootstrap = (job.bootstrap if job is not None else None) or "BOOTSTRAP"
        topics = " ".join(job.topics) if job is not None and job.topics else "TOPIC"
        where = "" if job is not None and job.topics else "If the job reads Kafka, this does: "
        return f"{where or 'This command answers it: '}{f.clean(f'wmtop run kafka {bootstrap} {topics} --time PATH')}"

    def charts(self, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
        """Rates, load and checkpoints instead of batches."""
        return job_charts(self._snapshot, points, cells)

    def not_judged(self) -> str | None:
        """What the REST API does not have."""
        return "A Flink job is attached: what its REST API does not show is not judged."

    def _no_holder(self) -> str:
        snapshot = self._snapshot
        job = snapshot.flink
        if job is not None and job.state != "RUNNING":
            return JOB_GONE if job.state == "UNKNOWN" else f"The job is {job.state}"
        if not snapshot.channels:
            return self.empty_barrel()
        return super()._no_holder() if snapshot.level.idle else f"What holds it back is {f.ELSEWHERE}"


def _ages(snapshot: Snapshot) -> list[Part]:
    """The age of the metrics, and their interval."""
    job = snapshot.flink
    age = None if job is None else age_words(snapshot, job.sampled_ms)
    if job is None or age is None:
        return [part(("no metrics yet", "dim"), rank=1)]
    every = "" if job.interval_ms is None else f", every {f.setting(job.interval_ms)}"
    return [part(("metrics ", "dim"), (f"{age} old", "strong"), (every, "dim"), rank=1)]


def _clock_skew(snapshot: Snapshot) -> list[Part]:
    """The difference between the JobManager's clock and this machine's, if it is large enough to show."""
    clock_ms = snapshot.flink.clock_ms if snapshot.flink is not None else None
    if clock_ms is None or snapshot.now_ms is None or abs(clock_ms - snapshot.now_ms) < _SKEW_MS:
        return []
    ahead_ms = clock_ms - snapshot.now_ms
    words = f"{f.duration(abs(ahead_ms))} {'ahead of' if ahead_ms > 0 else 'behind'} this machine"
    return [part(("JobManager's clock ", "dim"), (words, "stale"), rank=2)]
