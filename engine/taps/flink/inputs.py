"""What an operator's watermark is the minimum of: the subtasks upstream, through tasks that only pass a watermark on.

A task passes it on where each of its subtasks sends the watermark that it takes in. One that sends another (watermarks
assigned there, an operator that keeps records back) is an end: what is behind it does not say where its watermark is.
Pure.
"""

from collections.abc import Iterator

from msgspec import Struct

from ...core.snapshot import ChannelState
from ...core.times import MIN
from .samples import Sample, Split, Subtask, VertexSample

_ASSIGNS = ("Timestamps/Watermarks", "WatermarkAssigner")
"""Operators that make watermarks of their own (DataStream API, SQL)."""


class Input(Struct):
    """An upstream subtask in both samples."""

    name: str
    vertex: str
    """The name of its vertex."""
    now: Subtask
    before: Subtask | None
    source: Subtask
    """The source subtask behind edges that are not shuffled; `now` itself where there is none."""
    source_before: Subtask | None
    """The same in the older sample."""
    source_id: str
    """The id of its vertex."""
    splits: tuple[Split, ...]
    """The splits in it, where they have watermarks of their own."""
    splits_before: dict[str, Split]
    apart_ms: int
    """How far the samples are apart; 0: there is one."""
    vertex_ended: bool
    state: ChannelState = "active"


class Upstream(Struct):
    """The inputs of an operator, and where records wait on the way from them to it (a vertex's name), if they do."""

    inputs: list[Input]
    waits_in: str | None = None


def operators(sample: Sample) -> list[VertexSample]:
    """The vertices that take a watermark, those with windows first, nearest the sources first, sinks last."""
    read = {edge.vertex for one in sample.vertices for edge in one.vertex.inputs}
    depths = _depths(sample)
    takes = [one for one in sample.vertices if one.vertex.inputs]

    def order(one: VertexSample) -> tuple[bool, bool, int, int]:
        level = level_of(one)
        is_sink = one.vertex.id not in read and not one.windowed
        return not one.windowed, is_sink, depths[one.vertex.id], MIN if level is None else level

    return sorted(takes, key=order)


def level_of(vertex: VertexSample) -> int | None:
    """The minimum of its subtasks' input watermarks; None where a subtask's is not in the dump."""
    inputs = [task.input for task in vertex.subtasks]
    return None if not inputs or None in inputs else min(one for one in inputs if one is not None)


def vertex_in(sample: Sample | None, id: str) -> VertexSample | None:
    """The vertex in a sample."""
    return next((one for one in sample.vertices if one.vertex.id == id), None) if sample is not None else None


def upstream_of(operator: VertexSample, now: Sample, before: Sample | None) -> Upstream:
    """The subtasks that `operator` (of sample `now`) has its watermark from; `before` is an older sample."""
    leaves, passing = _leaves(operator, now, before)
    several = len(leaves) > 1
    inputs = [one for leaf in leaves for one in _inputs(leaf, now, before, several=several)]
    waits = (one.vertex.name for one in (operator, *passing) if _waits_before(one, now, before))
    return Upstream(inputs, next(waits, None))


def _leaves(
    operator: VertexSample, now: Sample, before: Sample | None
) -> tuple[list[VertexSample], list[VertexSample]]:
    """The vertices whose subtasks count, and those between that only pass watermarks on, the last one first."""
    leaves: dict[str, VertexSample] = {}
    passing: dict[str, VertexSample] = {}
    open_ends = [edge.vertex for edge in operator.vertex.inputs]
    while open_ends:
        vertex = vertex_in(now, open_ends.pop(0))
        if vertex is None or vertex.vertex.id in passing:
            continue
        source = _root(now, vertex)
        if not source.vertex.inputs or not _passes_on(vertex, vertex_in(before, vertex.vertex.id)):
            leaves.setdefault(source.vertex.id if not source.vertex.inputs else vertex.vertex.id, vertex)
        else:
            passing[vertex.vertex.id] = vertex
            open_ends += [edge.vertex for edge in vertex.vertex.inputs]
    return list(leaves.values()), list(passing.values())


def _passes_on(vertex: VertexSample, before: VertexSample | None) -> bool:
    """Whether each subtask sends what it takes in, or what it took in since the older sample."""
    if any(name in vertex.vertex.name for name in _ASSIGNS):
        return False
    known = [task for task in vertex.subtasks if task.input is not None and task.output is not None]
    return bool(known) and all(_sends_its_input(task, _task(before, task.index)) for task in known)


def _sends_its_input(task: Subtask, before: Subtask | None) -> bool:
    sent, taken = task.output, task.input
    if sent == taken or sent is None or taken is None:
        return True
    if before is None or before.input is None or before.output is None or MIN in (sent, before.output):
        return False
    # The dump is not of one moment: a watermark may pass between the two values.
    return before.input <= sent <= taken or before.input == before.output <= taken <= sent


def _waits_before(vertex: VertexSample, now: Sample, before: Sample | None) -> bool:
    """Whether all subtasks right upstream that take part were past its watermark in the older sample."""
    earlier, level = vertex_in(before, vertex.vertex.id), level_of(vertex)
    level_before = None if earlier is None else level_of(earlier)
    if level is None or level_before is None:
        return False
    sent: list[int] = []
    for edge in vertex.vertex.inputs:
        then = vertex_in(before, edge.vertex)
        for task in _subtasks(now, edge.vertex):
            old = _task(then, task.index)
            if task.output is None or old is None or old.output is None:
                return False
            if task.output >= level_before:
                sent.append(old.output)
    return bool(sent) and level < min(sent)


def _inputs(upstream: VertexSample, now: Sample, before: Sample | None, *, several: bool) -> Iterator[Input]:
    earlier = vertex_in(before, upstream.vertex.id)
    root = _root(now, upstream)
    for task in upstream.subtasks:
        then = _task(earlier, task.index)
        source, source_then = _source(now, upstream, task) or task, _source(before, earlier, then)
        yield Input(
            name=f"{upstream.vertex.name} #{task.index}" if several else f"#{task.index}",
            vertex=upstream.vertex.name,
            now=task,
            before=then,
            source=source,
            source_before=source_then,
            source_id=upstream.vertex.id if root.vertex.inputs else root.vertex.id,
            splits=() if _assigned_later(task, source) else source.splits,
            splits_before={split.id: split for split in (source_then.splits if source_then is not None else ())},
            apart_ms=0 if before is None else now.at_ms - before.at_ms,
            vertex_ended=upstream.vertex.status == "FINISHED",
        )


def _assigned_later(task: Subtask, source: Subtask) -> bool:
    """Whether watermarks are assigned behind the source: none of its splits has one, and yet the subtask sends one."""
    return task.output not in (None, MIN) and all(split.watermark == MIN for split in source.splits)


def _root(sample: Sample, vertex: VertexSample) -> VertexSample:
    """The vertex at the other end of edges that are not shuffled; itself where it has none."""
    inputs = vertex.vertex.inputs
    if len(inputs) != 1 or not inputs[0].forward:
        return vertex
    above = vertex_in(sample, inputs[0].vertex)
    return vertex if above is None else _root(sample, above)


def _source(sample: Sample | None, vertex: VertexSample | None, task: Subtask | None) -> Subtask | None:
    """A subtask's counterpart at the source behind edges that are not shuffled; itself where it has none."""
    found = task
    while sample is not None and vertex is not None and task is not None:
        found = task
        if task.splits or len(vertex.vertex.inputs) != 1 or not vertex.vertex.inputs[0].forward:
            break
        vertex = vertex_in(sample, vertex.vertex.inputs[0].vertex)
        task = _task(vertex, task.index)
    return found


def _subtasks(sample: Sample, id: str) -> tuple[Subtask, ...]:
    vertex = vertex_in(sample, id)
    return vertex.subtasks if vertex is not None else ()


def _task(vertex: VertexSample | None, index: int) -> Subtask | None:
    return vertex.subtasks[index] if vertex is not None and index < len(vertex.subtasks) else None


def _depths(sample: Sample) -> dict[str, int]:
    """How many edges each vertex is away from its farthest source."""
    depths: dict[str, int] = {}
    inputs = {one.vertex.id: [edge.vertex for edge in one.vertex.inputs] for one in sample.vertices}

    def depth(id: str) -> int:
        if id not in depths:
            depths[id] = 0  # a plan has no cycle; an iteration's feedback edge would be one
            depths[id] = max((depth(before) + 1 for before in inputs.get(id, ())), default=0)
        return depths[id]

    for id in inputs:
        depth(id)
    return depths
