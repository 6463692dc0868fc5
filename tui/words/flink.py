"""The words for an attached Flink job, and its graph with a row for each task. Pure."""

from collections.abc import Sequence
from datetime import tzinfo

from ...engine.snapshot import Snapshot
from ...engine.snapshot.flink_job import FlinkVertex
from ...engine.text import formatting as f
from ...engine.text.codes import JOB_GONE, NO_LINKS, is_back_pressured, is_busy, unknown_text
from ...engine.text.formatting import name
from ...engine.verdict.history import HistoryPoint
from .operators import Stage, clock_stage, gap
from .preview import LatenessPreview, Preview
from .progress import Cells, Chart, age_words, job_charts
from .spans import Part, part
from .targets import Presenter, held_back_by
from .watermark import cause, late_drops

_NAME_CELLS = 28


def stages_of_job(snapshot: Snapshot) -> list[Stage]:
    """The tasks in the order of the plan; only the chosen operator's link names a channel."""
    tasks = {task.id: task for task in snapshot.job.vertices}
    stages = (
        _stage(snapshot, task, [tasks[id] for id in task.inputs if id in tasks]) for task in snapshot.job.vertices
    )
    return [clock_stage(snapshot), *stages]


def key_of(id: str) -> str:
    """The key of a task on a screen; it never equals a channel's."""
    return f"task {id}"


def _stage(snapshot: Snapshot, task: FlinkVertex, inputs: Sequence[FlinkVertex]) -> Stage:
    """A task; `upstream` is what holds it back, one step upstream: for the chosen operator and its sources the
    channel.
    """
    job, holder = snapshot.job, snapshot.level.holder
    # In flight: the holder is the operator itself, no channel is to blame.
    blamed = holder is not None and any(view.channel == holder.channel for view in snapshot.channels)
    holds, why, upstream = False, _lowest(inputs) if inputs else "behind the clock", None
    if inputs:
        # No watermark yet is the lowest; the end of the stream holds nothing back.
        open_ones = [one for one in inputs if one.status != "FINISHED"] or inputs
        upstream = key_of(min(open_ones, key=lambda one: (one.output_ms is not None, one.output_ms or 0)).id)
        fastest = [_fastest(one) for one in inputs]
        known = [time for time in fastest if time is not None]
        before = max(known) if len(known) == len(fastest) else None
    else:
        before = snapshot.now_ms
    if holder is not None and blamed and task.id in (job.operator, job.held_in):
        upstream = holder.channel
    if holder is not None and inputs and task.id == job.operator:
        holds, why = blamed, cause(snapshot)
        if blamed:
            subtask = ""
            if holder.instance is not None and snapshot.instances is not None:
                subtask = f" in {name(snapshot.instances[holder.instance].channel)}"
            why = f"held back by {name(holder.channel)}{subtask}: {why}"
    time_ms = task.input_ms if inputs else task.output_ms
    loads = ((is_back_pressured(task), "BACK-PRESSURED", task.back_pressured), (is_busy(task), "BUSY", task.busy))
    return Stage(
        f.label(task.name, _NAME_CELLS),
        time_ms,
        _what(task),
        gap(before, time_ms if inputs else _fastest(task)),
        why,
        holds,
        stands_for="ended" if task.status == "FINISHED" else f.NO_DATA,
        alarm=", ".join(f"{word} {f.share(load)}" for explains, word, load in loads if explains),
        key=key_of(task.id),
        upstream=upstream,
    )


def _lowest(inputs: Sequence[FlinkVertex]) -> str:
    """The input with the lowest watermark, as far as known."""
    known = [one for one in inputs if one.output_ms is not None]
    if len(known) < len(inputs):
        none = next(one for one in inputs if one.output_ms is None)
        return "" if none.status == "FINISHED" else f"no watermark from {f.label(none.name, _NAME_CELLS)}"
    low = min(known, key=lambda one: one.output_ms or 0)
    if len(inputs) == 1 and not low.spread_ms:
        return ""
    which = "" if low.slowest is None or low.parallelism == 1 else f" #{low.slowest}"
    return f"lowest input: {f.label(low.name, _NAME_CELLS)}{which}"


def _what(task: FlinkVertex) -> str:
    """Parallelism, state, spread of the outputs, drops, load."""
    parts = [f"×{task.parallelism}"]
    if task.status != "RUNNING":
        parts.append(task.status)
    if task.drift_ms is not None:
        parts.append(alignment_words(task.drift_ms))
    rates = ((task.taken_per_second, "in"), (task.sent_per_second, "out"))
    parts += [f"{f.rate(rate)}/s {way}" for rate, way in rates if rate is not None and task.status == "RUNNING"]
    if task.late or task.late_at_least:
        parts.append(f"{'≥ ' if task.late_at_least else ''}{f.count(task.late)} dropped as late")
    if task.spread_ms:
        slowest = "" if task.slowest is None else f", slowest #{task.slowest}"
        parts.append(f"outputs {f.duration(task.spread_ms)} apart{slowest}")
    if task.delay_ms:
        side = "behind" if task.delay_ms > 0 else "ahead of"
        parts.append(f"sends its watermark {f.duration(abs(task.delay_ms))} {side} its input")
    if task.output_ms is None and task.status == "RUNNING":
        parts.append("sends no watermark yet")
    return ", ".join(parts)


def alignment_words(drift_ms: int) -> str:
    """How far a source is from the limit of watermark alignment."""
    if drift_ms > 0:
        return f"paused by alignment, {f.duration(drift_ms)} past its limit"
    return f"{f.duration(-drift_ms)} below its alignment limit"


def _fastest(task: FlinkVertex) -> int | None:
    """The highest watermark that its subtasks send; None: not known."""
    return None if task.output_ms is None or task.spread_ms is None else task.output_ms + task.spread_ms


def delay_words(snapshot: Snapshot) -> str | None:
    """Note that channels' watermarks are shown as they arrive, after tasks that send them later; None: no task does."""
    delays = snapshot.job.delays
    if not delays:
        return None
    longest = max(delays.values(), key=abs)
    is_one = len(set(delays.values())) == 1 and len(delays) == len(snapshot.channels)
    amount = f.duration(abs(longest)) if is_one else f"up to {f.duration(abs(longest))}"
    side = "later" if longest > 0 else "earlier"
    return f"watermarks as they arrive: a task on the way sends them {amount} {side}"


NO_WHAT_IF = "A what-if needs event times, which Flink's REST API does not have"
NO_WHAT_IF_HERE = "no what-if: Flink's REST API has no event times"
_LINE = "Keys + - and [ ] choose a value on the main screen, Enter gives the line to change in the job."
_SKEW_MS = 30_000
"""Smallest clock difference (ms) that is shown."""


class FlinkJobWords(Presenter):
    """The words for a job whose subtasks report their watermarks; a `Presenter`."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._job = snapshot.job

    def untunable(self) -> str | None:
        """None: the line to change in the job can be given for any lateness."""
        return None

    def no_steps(self) -> str:
        """Why there is no what-if, which command has it, and how to get the line."""
        return f"{NO_WHAT_IF}. {self._who_answers()}"

    def state_override(self) -> tuple[str, str | None] | None:
        """The job's own state if it does not run, else the age of its metrics or that some are missing."""
        snapshot, job = self._snapshot, self._job
        if snapshot.state not in ("stale", "partial", "starting"):
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
        snapshot, job = self._snapshot, self._job
        if preview is not None:
            value = preview.lateness_ms if isinstance(preview, LatenessPreview) else preview.idle_after_ms
            what = "lateness" if isinstance(preview, LatenessPreview) else "idle after"
            return [
                part((f" {what} ", "dim"), (f"▸ {f.setting(value)}?", "preview")),
                part((NO_WHAT_IF_HERE, "dim"), rank=1),
            ]
        is_known = snapshot.totals.late is not None
        parts = [part((" dropped as late ", "dim"), (late_drops(snapshot), "strong" if is_known else "dim"))]
        age = age_words(snapshot, job.sampled_ms)
        every = "" if job.interval_ms is None else f", every {f.setting(job.interval_ms)}"
        metrics = part(("metrics ", "dim"), (f"{age} old", "strong"), (every, "dim"), rank=1)
        parts.append(part(("no metrics yet", "dim"), rank=1) if age is None else metrics)
        ahead_ms = 0 if job.clock_ms is None or snapshot.now_ms is None else job.clock_ms - snapshot.now_ms
        if abs(ahead_ms) >= _SKEW_MS:
            words = f"{f.duration(abs(ahead_ms))} {'ahead of' if ahead_ms > 0 else 'behind'} this machine"
            parts.append(part(("JobManager's clock ", "dim"), (words, "stale"), rank=2))
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
        return stages_of_job(self._snapshot)

    def empty_barrel(self) -> str:
        """Before a subtask reports a watermark, or if the metrics disappeared with the job."""
        job = self._job
        if job.state in ("FINISHED", "CANCELED", "FAILED"):
            return f"the job is {job.state}: Flink keeps no metrics of it"
        if job.vertices and not job.has_links:
            return f"{NO_LINKS}: all its operators are chained to the sources"
        return "no subtask reports a watermark yet"

    def no_channels(self) -> str:
        return self.empty_barrel()

    def no_windows(self) -> str:
        return f"{f.ELSEWHERE}: {unknown_text('not_in_rest', {})}"

    def no_lateness(self) -> str:
        return f"How late records are: {f.ELSEWHERE}\n{NO_WHAT_IF}.\n{self._who_answers()}\n{_LINE}"

    def no_idle_ladder(self) -> str:
        return f"What another idle timeout would give: {f.ELSEWHERE}\n{NO_WHAT_IF}.\n{self._who_answers()}\n{_LINE}"

    def _source(self) -> str:
        """The task of the channel that holds the watermark back; all splits of a source may be alike."""
        holder = self._snapshot.level.holder
        assert holder is not None
        task = next((task for task in self._job.vertices if task.id == self._job.held_in), None)
        return name(holder.channel) if task is None else f.label(task.name, _NAME_CELLS)

    def _who_answers(self) -> str:
        """The command that reads the event times itself, as complete as possible."""
        topics = " ".join(self._job.topics) or "TOPIC"
        where = "This command answers it: " if self._job.topics else "If the job reads Kafka, this does: "
        bootstrap = self._job.bootstrap or "BOOTSTRAP"
        return f"{where}{f.clean(f'wmtop run kafka {bootstrap} {topics} --time PATH')}"

    def charts(self, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
        return job_charts(self._snapshot, points, cells)

    def not_judged(self) -> str | None:
        return "A Flink job is attached: what its REST API does not show is not judged."

    def _no_holder(self) -> str:
        snapshot = self._snapshot
        if self._job.state != "RUNNING":
            return JOB_GONE if self._job.state == "UNKNOWN" else f"The job is {self._job.state}"
        if not snapshot.channels:
            return self.empty_barrel()
        return super()._no_holder() if snapshot.level.idle else f"What holds it back is {f.ELSEWHERE}"
