"""The graph of an attached Flink job: a row for each task, and how far each link holds back. Pure."""

from collections.abc import Sequence

from msgspec.structs import replace

from ...engine.core.flink_job import FlinkJob, FlinkVertex
from ...engine.core.snapshot import Snapshot
from . import formatting as f
from .chain import Stage, clock_stage, gap
from .flink_load import is_back_pressured, is_busy
from .wording import cause, name

_NAME_CELLS = 28


def stages_of_job(snapshot: Snapshot) -> list[Stage]:
    """The tasks in the order of the plan; only the chosen operator's link names a channel."""
    job = snapshot.flink
    if job is None:
        return [clock_stage(snapshot)]
    tasks = {one.id: one for one in job.vertices}
    stages = (_stage(snapshot, job, one, tasks) for one in job.vertices)
    links = (
        replace(stage, key=key_of(one.id), upstream=_upstream(snapshot, job, one, tasks), alarm=_alarm(one))
        for stage, one in zip(stages, job.vertices, strict=True)
    )
    return [clock_stage(snapshot), *links]


def key_of(id: str) -> str:
    """The key of a task on a screen; it never equals a channel's."""
    return f"task {id}"


def _upstream(snapshot: Snapshot, job: FlinkJob, task: FlinkVertex, tasks: dict[str, FlinkVertex]) -> str | None:
    """What holds the task back, one step upstream; for the chosen operator and its sources, the channel."""
    holder = snapshot.level.holder
    blamed = holder is not None and any(one.channel == holder.channel for one in snapshot.channels)
    if holder is not None and blamed and task.id in (job.operator, job.held_in):
        return holder.channel
    inputs = [tasks[one] for one in task.inputs if one in tasks]
    if not inputs:
        return None
    # No watermark yet is the lowest; the end of the stream holds nothing back.
    open_ones = [one for one in inputs if one.status != "FINISHED"] or inputs
    return key_of(min(open_ones, key=lambda one: (one.output_ms is not None, one.output_ms or 0)).id)


def _alarm(task: FlinkVertex) -> str:
    """A load that explains why the task's or an upstream watermark is behind."""
    loads = ((is_back_pressured(task), "BACK-PRESSURED", task.back_pressured), (is_busy(task), "BUSY", task.busy))
    return ", ".join(f"{word} {f.share(load)}" for holds, word, load in loads if holds)


def _stage(snapshot: Snapshot, job: FlinkJob, task: FlinkVertex, tasks: dict[str, FlinkVertex]) -> Stage:
    inputs = [tasks[one] for one in task.inputs if one in tasks]
    time_ms = task.input_ms if inputs else task.output_ms
    stands_for = "ended" if task.status == "FINISHED" else f.NO_DATA
    label = f.label(task.name, _NAME_CELLS)
    if not inputs:
        held_ms = gap(snapshot.now_ms, _fastest(task))
        return Stage(label, time_ms, _what(task), held_ms, "behind the clock", stands_for=stands_for)
    fastest = [_fastest(one) for one in inputs]
    known = [one for one in fastest if one is not None]
    held_ms = gap(max(known), time_ms) if known and len(known) == len(fastest) else None
    chosen = task.id == job.operator
    holder = snapshot.level.holder if chosen else None
    # In flight: the holder is the operator itself, no channel is to blame.
    blamed = holder is not None and any(one.channel == holder.channel for one in snapshot.channels)
    if holder is not None:
        by = _which(snapshot) if blamed else ""
        why = f"held back by {by}: {cause(snapshot)}" if blamed else cause(snapshot)
    else:
        why = _lowest(inputs)
    return Stage(label, time_ms, _what(task), held_ms, why, blamed, stands_for)


def _which(snapshot: Snapshot) -> str:
    """The channel, and its subtask."""
    holder = snapshot.level.holder
    assert holder is not None
    if holder.instance is None or snapshot.instances is None:
        return name(holder.channel)
    return f"{name(holder.channel)} in {name(snapshot.instances[holder.instance].channel)}"


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
    delays = snapshot.flink.delays if snapshot.flink is not None else {}
    if not delays:
        return None
    longest = max(delays.values(), key=abs)
    is_one = len(set(delays.values())) == 1 and len(delays) == len(snapshot.channels)
    amount = f.duration(abs(longest)) if is_one else f"up to {f.duration(abs(longest))}"
    side = "later" if longest > 0 else "earlier"
    return f"watermarks as they arrive: a task on the way sends them {amount} {side}"
