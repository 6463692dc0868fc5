"""The words for a Flink job whose subtasks report their watermarks: its state, its tasks, its figures. Pure."""

from collections.abc import Callable, Sequence
from datetime import tzinfo
from statistics import fmean

from msgspec.structs import replace

from ....engine.snapshot import Cause, ChannelView, FlinkJob, Snapshot
from ....engine.snapshot.kinds.flink_job import FlinkVertex
from ....engine.text import formatting as f
from ....engine.text.codes import CAUSES, JOB_GONE, CauseWords, is_back_pressured, is_busy, kept_back, unknown_text
from ....engine.text.formatting import name
from ....engine.verdict.history import HistoryPoint
from ..operators import Stage, clock_stage, gap
from ..preview import LatenessPreview, Preview
from ..progress import Cells, Chart, backlog_chart, chart_of, each, growth, last_of, rate_words
from ..spans import Part, Span, part
from ..texts import NO_CHANNEL
from ..watermark import late_drops
from .presenter import Presenter, What

_CAUSES: dict[Cause, CauseWords] = {
    **CAUSES,
    "paused": replace(
        CAUSES["paused"],
        sentence="paused by watermark alignment",
        ends_with="the slower sources catching up (watermark alignment)",
    ),
    "in_flight": replace(CAUSES["in_flight"], sentence="no channel holds it back: records wait before a busy operator"),
}
NO_WHAT_IF = "A what-if needs event times, which Flink's REST API does not have"
NO_WHAT_IF_HERE = "no what-if: Flink's REST API has no event times"
_LINE = "Keys + - and [ ] choose a value on the main screen, Enter gives the line to change in the job."
_TASK_CELLS = 28
_SKEW_MS = 30_000
"""Smallest clock difference (ms) that is shown."""


class FlinkJobWords(Presenter):
    """A job whose subtasks report their watermarks."""

    causes = _CAUSES
    paused_by = "watermark alignment"
    without_timeout = "a record, or an idle timeout in the job"

    def __init__(self, snapshot: Snapshot, job: FlinkJob) -> None:
        super().__init__(snapshot)
        self._job = job

    def kind_name(self) -> str:
        return "Flink job"

    def identity(self) -> str:
        job = self._job
        return f"job {job.id[:8]}" if job.name == self._snapshot.name else f"job {job.name} {job.id[:8]}"

    def whole_identity(self) -> str:
        return f"job {f.clean(self._job.name)}, id {f.clean(self._job.id)}, {f.clean(self._job.state)}"

    def end(self) -> str:
        return f"the job is {self._job.state}"

    def end_sentence(self) -> str:
        return f"The job is {self._job.state}"

    def no_advice(self, name: str, address: str, *, recorded: bool) -> list[str]:
        return [
            f"{name}: Flink's REST API does not report how late records are. Read the job's input once:",
            "  wmtop run kafka BOOTSTRAP TOPIC --time PATH --once --record input.rec",
            "  wmtop advise input.rec --horizon all",
        ]

    def further_channel_facts(self, view: ChannelView, zone: tzinfo | None) -> list[tuple[str, list[Span]]]:
        """Its own watermark, where tasks on the way send it later."""
        delay_ms = self._job.delays.get(view.channel)
        if not delay_ms or view.watermark_ms is None:
            return []
        own = f.clock(view.watermark_ms + delay_ms, zone, self._snapshot.now_ms)
        way = f"{f.duration(abs(delay_ms))} {'later' if delay_ms > 0 else 'earlier'}"
        return [("its own", [(own, "text"), (f"  a task on the way sends it {way}", "dim")])]

    def note_on_inputs(self) -> str | None:
        """That channels' watermarks are shown as they arrive, after tasks that send them later; None: no task does."""
        return delay_words(self._snapshot)

    def untunable(self) -> str | None:
        return None  # the line to change in the job can be given for any lateness

    def state_override(self) -> tuple[str, str | None] | None:
        """The job's own state if it does not run, else the age of its metrics or that some are missing."""
        snapshot = self._snapshot
        job = self._job
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
        snapshot = self._snapshot
        job = self._job
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
            return [part((f" {self._source()}", "holder"), (f": {self.cause()}", "text"))]
        if holder is not None and (not is_channel or holder.cause == "kept_back"):
            return [part((f" {self.cause()}", "text"))]  # a task is to blame, not the channel
        return self.held_by() or super().holder(zone)

    def stages(self, zone: tzinfo | None) -> list[Stage]:
        return stages_of_job(self._snapshot, self.cause())

    def _none(self) -> dict[What, str]:
        """Without event times: which command has them, and how to get the line for the job."""
        topics = " ".join(self._job.topics) or "TOPIC"
        bootstrap = self._job.bootstrap or "BOOTSTRAP"
        where = "This command answers it: " if self._job.topics else "If the job reads Kafka, this does: "
        command = where + f.clean(f"wmtop run kafka {bootstrap} {topics} --time PATH")
        barrel = "no subtask reports a watermark yet"
        if self._job.state in ("FINISHED", "CANCELED", "FAILED"):
            barrel = f"the job is {self._job.state}: Flink keeps no metrics of it"
        windows = unknown_text(self._snapshot.windows.unknown or "not_in_rest", {})
        no_times = f"{f.ELSEWHERE}\n{NO_WHAT_IF}.\n{command}\n{_LINE}"
        return {
            **super()._none(),
            "barrel": barrel,
            "channels": barrel,
            "inputs": NO_CHANNEL,
            "windows": f"{f.ELSEWHERE}: {windows}",
            "lateness": f"How late records are: {no_times}",
            "idle timeouts": f"What another idle timeout would give: {no_times}",
            "what-if": f"{NO_WHAT_IF}. {command}",
            "judgement": "A Flink job is attached: what its REST API does not show is not judged.",
        }

    def _watermark_lines(self) -> list[str]:
        unknown = task_or_input(self._snapshot)
        return [*super()._watermark_lines(), *([] if unknown is None else [unknown])]

    def _all_read(self) -> bool:
        return False  # its REST API does not show what is unread

    def _source(self) -> str:
        """The task of the channel that holds the watermark back; all splits of a source may be alike."""
        holder = self._snapshot.level.holder
        assert holder is not None
        task = next((task for task in self._job.vertices if task.id == self._job.held_in), None)
        return name(holder.channel) if task is None else f.label(task.name, _TASK_CELLS)

    def charts(self, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
        return job_charts(self._snapshot, points, cells)

    def _no_holder(self) -> str:
        snapshot = self._snapshot
        level = self._snapshot.level
        if self._job.state != "RUNNING":
            return JOB_GONE if self._job.state == "UNKNOWN" else f"The job is {self._job.state}"
        if not snapshot.channels:
            return self.no("barrel")
        if (unknown := task_or_input(snapshot)) is not None:
            return unknown
        # A split that no other active one is ahead of; a subtask (`#0`) may have such splits that are not reported.
        is_alone = level.behind_fastest_ms is not None and level.holder is not None and "#" not in level.holder.channel
        return super()._no_holder() if level.idle or is_alone else f"What holds it back is {f.ELSEWHERE}"


def task_or_input(snapshot: Snapshot) -> str | None:
    """That a task of a Flink job waits, or that its input holds back the watermark; None: another answer is known."""
    if snapshot.level.holder is not None or snapshot.job.held_in is None:
        return None
    return f"What holds it back is not known: {kept_back(snapshot, 'waits, or always sends its watermark')}"


_NAME_CELLS = 28


def stages_of_job(snapshot: Snapshot, cause: str) -> list[Stage]:
    """The tasks in the order of the plan; only the chosen operator's link names a channel, and its `cause`."""
    tasks = {task.id: task for task in snapshot.job.vertices}
    inputs = {task.id: [tasks[id] for id in task.inputs if id in tasks] for task in snapshot.job.vertices}
    return [clock_stage(snapshot), *(_stage(snapshot, cause, task, inputs[id]) for id, task in tasks.items())]


def key_of_task(id: str) -> str:
    """The key of a task on a screen; it never equals a channel's."""
    return f"task {id}"


def _stage(snapshot: Snapshot, cause: str, task: FlinkVertex, inputs: Sequence[FlinkVertex]) -> Stage:
    """A task; `upstream` is what holds it back: a task, or for the chosen operator and its sources the channel."""
    job = snapshot.job
    holder = snapshot.level.holder
    # In flight: the holder is the operator itself, no channel is to blame.
    blamed = holder is not None and any(view.channel == holder.channel for view in snapshot.channels)
    is_chosen = holder is not None and bool(inputs) and task.id == job.operator
    why = _lowest(inputs) if inputs else "behind the clock"
    if is_chosen:
        why = f"{_held_by(snapshot)}: {cause}" if blamed else cause
    upstream = _slowest_input(inputs)
    if holder is not None and blamed and task.id in (job.operator, job.held_in):
        upstream = holder.channel
    time_ms = task.input_ms if inputs else task.output_ms
    before_ms = _fastest_input(inputs) if inputs else snapshot.now_ms
    loads = ((is_back_pressured(task), "BACK-PRESSURED", task.back_pressured), (is_busy(task), "BUSY", task.busy))
    return Stage(
        f.label(task.name, _NAME_CELLS),
        time_ms,
        _what(task),
        gap(before_ms, time_ms if inputs else _fastest(task)),
        why=why,
        holds=is_chosen and blamed,
        instead="ended" if task.status == "FINISHED" else f.NO_DATA,
        alarm=", ".join(f"{word} {f.share(load)}" for explains, word, load in loads if explains),
        key=key_of_task(task.id),
        upstream=upstream,
    )


def _held_by(snapshot: Snapshot) -> str:
    """The channel that holds back the chosen operator, and the subtask that it is in."""
    holder = snapshot.level.holder
    assert holder is not None
    if holder.instance is None or snapshot.instances is None:
        return f"held back by {name(holder.channel)}"
    return f"held back by {name(holder.channel)} in {name(snapshot.instances[holder.instance].channel)}"


def _slowest_input(inputs: Sequence[FlinkVertex]) -> str | None:
    """The key of the input with the lowest watermark: none yet is the lowest; what has ended holds nothing back."""
    open_ones = [one for one in inputs if one.status != "FINISHED"] or inputs
    slowest = min(open_ones, key=lambda one: (one.output_ms is not None, one.output_ms or 0), default=None)
    return None if slowest is None else key_of_task(slowest.id)


def _fastest_input(inputs: Sequence[FlinkVertex]) -> int | None:
    """The highest watermark that any subtask of the inputs sends; None: not known of all."""
    fastest = [_fastest(one) for one in inputs]
    known = [time for time in fastest if time is not None]
    return max(known) if len(known) == len(fastest) else None


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
        side = "past" if task.drift_ms > 0 else "below"  # that it is past it does not prove that it is paused
        parts.append(f"{f.duration(abs(task.drift_ms))} {side} its alignment limit")
    rates = ((task.taken_per_second, "in"), (task.sent_per_second, "out"))
    parts += [f"{f.rate(rate)}/s {way}" for rate, way in rates if rate is not None and task.status == "RUNNING"]
    if task.late is None and task.late_at_least:
        parts.append(f"late drops {f.ELSEWHERE}")
    elif task.late or task.late_at_least:
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


_TASK_NAME_CELLS = 14
NO_BACKLOG = f"{f.ELSEWHERE}; of a Kafka topic --bootstrap shows it"


def job_charts(snapshot: Snapshot, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
    """All figures of a Flink job, in the order in which they are drawn."""
    job = snapshot.job
    read = job.read_per_second
    sent = job.chosen.sent_per_second if job.chosen is not None else None
    read_by = each(cells, lambda point: point.rows_in, fmean)
    sent_by = each(cells, lambda point: point.results_in_a_second, fmean)
    # Event time that the watermark gains per second of the clock.
    gains = growth(cells, lambda point: point.watermark_ms)
    speeds = [None if column is None else (column[0] / f.SECOND,) for column in gains]
    speed = last_of(speeds)
    backlog = backlog_chart(snapshot, cells)
    if backlog.note is not None:  # no broker is queried: a lower bound from the sources
        pending = sum(task.pending or 0 for task in job.vertices)
        note = f"≥ {f.counted(pending, 'record')} pending in the sources" if pending else NO_BACKLOG
        backlog = Chart("backlog", "", note=note)
    return [
        chart_of("records read", None if read is None else rate_words(read), read_by, rate_words),
        chart_of("results out", None if sent is None else rate_words(sent), sent_by, rate_words),
        _load("busiest task", job, cells, lambda task: task.busy, lambda point: point.busy),
        _load("back pressure", job, cells, lambda task: task.back_pressured, lambda point: point.back_pressured),
        chart_of("event time", None if speed is None else _speed(speed), speeds, _speed),
        backlog,
        Chart("checkpoint", "", note=_checkpoint(snapshot, job)),
    ]


def _checkpoint(snapshot: Snapshot, job: FlinkJob) -> str:
    """The last completed checkpoint: its time, its duration, its size, and the number of failed ones."""
    age = age_words(snapshot, job.checkpoint_ms)
    took = job.checkpoint_took_ms
    size = job.checkpoint_bytes
    words = ["none completed" if age is None else f"{age} ago"]
    if age is not None and took is not None:
        words.append(f"took {f.duration(took)}")
    if age is not None and size is not None:
        words.append(f"state {size / 1_048_576:,.1f} MiB" if size >= 104_858 else f"state {size / 1024:,.1f} KiB")
    if job.checkpoints_failed:
        words.append(f"{f.count(job.checkpoints_failed)} failed")
    return ", ".join(words)


def age_words(snapshot: Snapshot, time_ms: int | None) -> str | None:
    """How long ago a time of the JobManager's clock was."""
    clock_ms = snapshot.job.clock_ms
    if time_ms is None or clock_ms is None:
        return None
    return f.duration(max(clock_ms - time_ms, 0) // f.SECOND * f.SECOND)


def _load(
    name: str, job: FlinkJob, cells: Cells, of: Callable[[FlinkVertex], float | None],
    then: Callable[[HistoryPoint], float | None],
) -> Chart:  # fmt: skip
    """The load of the most loaded task, on an axis of 100 %."""
    columns = each(cells, then, max)
    most = max(job.vertices, key=lambda task: of(task) or 0.0, default=None)
    share = None if most is None else of(most)
    if not any(columns) and share is None:
        return Chart(name, "", note=f.ELSEWHERE)
    named = f" {f.label(most.name, _TASK_NAME_CELLS)}" if most is not None and share else ""
    return Chart(name, f"{f.share(share)}{named}", columns, 1.0, "100 %")


def _speed(times: float) -> str:
    return f"×{times:,.0f}" if times >= 10 else f"×{times:.1f}"
