"""The inputs of an operator's watermark: the subtasks upstream, through tasks that only pass a watermark on. Pure.

A task passes it on if each of its subtasks sends the watermark that it receives, or that less a constant. A task that
sends another one (it assigns watermarks, or holds records back) is an end: its own inputs do not show its watermark.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ...snapshot import ChannelState
from ...watermarks.times import MAX, MIN
from .delays import Delays, delay_of, delayed
from .metrics import OPERATOR_SEPARATOR, first_operator, is_sink_name
from .samples import Sample, Split, Subtask, Vertex, VertexSample

_ASSIGNS = ("Timestamps/Watermarks", "WatermarkAssigner")
"""Operators that assign watermarks themselves (DataStream API, SQL)."""


class Input(Struct):
    """An upstream subtask in both samples; watermarks as they arrive at the operator, after delays on the way."""

    name: str
    vertex: str
    """The name of its vertex."""
    now: Subtask
    before: Subtask | None
    source: Subtask
    """The source subtask behind edges that are not shuffled; `now` itself if it has no such input."""
    source_before: Subtask | None
    """The same in the older sample."""
    source_id: str
    """The id of its vertex."""
    splits: tuple[Split, ...]
    """Its splits, if they have watermarks of their own."""
    splits_before: dict[str, Split]
    source_label: str
    """The name of its source operator, unlike that of any other source."""
    shown: dict[str, str]
    """Names of splits whose id another source has as well; of all others the id is the name."""
    apart_ms: int
    """The time between the samples; 0: there is only one."""
    vertex_ended: bool
    delay_ms: int = 0
    """How much later (ms) tasks on the way to the operator send its watermark."""
    keeps_back: bool = False
    """Its watermark is behind the one it receives, or the one that its own source sends, not by a constant."""
    unmarked: bool = False
    """Its source reads records, but none of its subtasks sends a watermark."""
    not_assigned: bool = False
    """The same, but an operator that assigns watermarks follows: no record has reached it yet, or it drops them."""
    is_new: bool = False
    """The job runs for less than a minute, so a record may still be on its way to that operator."""
    no_split: bool = False
    """Other subtasks of its source have splits, this one has none."""
    state: ChannelState = "active"


class Upstream(Struct):
    """The inputs of an operator, and the vertex on the way before which records wait, if they do."""

    inputs: list[Input]
    waits_in: str | None = None


def operators(sample: Sample) -> list[VertexSample]:
    """The vertices that receive a watermark: those with windows first, nearest the sources first; without windows those
    with several inputs (joins) first; sinks last.
    """
    depths = _depths(sample)
    takes = [one for one in sample.vertices if one.vertex.inputs]

    def order(one: VertexSample) -> tuple[bool, bool, bool, int, int]:
        level = level_of(one)
        is_joined = not one.windowed and len({edge.vertex for edge in one.vertex.inputs}) > 1
        is_sink = not one.windowed and is_sink_name(first_operator(one.vertex))
        return not one.windowed, is_sink, not is_joined, depths[one.vertex.id], MIN if level is None else level

    return sorted(takes, key=order)


def is_named(vertex: Vertex, part: str) -> bool:
    """Whether the vertex receives watermarks, and its name contains `part` in any case, or `part` is its id."""
    return bool(vertex.inputs) and (part.lower() in vertex.name.lower() or part == vertex.id)


def lacks(vertices: Sequence[Vertex], operator: str | None) -> bool:
    """Whether the job's plan is known, and none of its tasks is named like the chosen operator (None: none is)."""
    return operator is not None and bool(vertices) and not any(is_named(one, operator) for one in vertices)


def level_of(vertex: VertexSample) -> int | None:
    """The minimum of its subtasks' input watermarks; None if one is missing in the dump."""
    inputs = [task.input for task in vertex.subtasks]
    return None if not inputs or None in inputs else min(one for one in inputs if one is not None)


def vertex_in(sample: Sample | None, id: str) -> VertexSample | None:
    """The vertex in a sample."""
    return next((one for one in sample.vertices if one.vertex.id == id), None) if sample is not None else None


class _Leaf(Struct, frozen=True):
    """A vertex whose subtasks are inputs, and how much later tasks on the way to the operator send its watermark."""

    vertex: VertexSample
    delay_ms: int


def upstream_of(operator: VertexSample, now: Sample, before: Sample | None, delays: Delays) -> Upstream:
    """The subtasks from which `operator` (of sample `now`) has its watermark; `before` is an older sample."""
    leaves, passing = _leaves(operator, now, before, delays)
    several = len(leaves) > 1
    numbers = _numbers(one.vertex.vertex.name for one in leaves)
    roots = [_source_name(_root(now, one.vertex).vertex) for one in leaves]
    labels = [root + number for root, number in zip(roots, _numbers(roots), strict=True)]
    inputs = [
        one
        for leaf, number, label in zip(leaves, numbers, labels, strict=True)
        for one in _inputs(leaf, now, before, label, number if several else None)
    ]
    _tell_apart(inputs)
    waits = (one.vertex.name for one in (operator, *passing) if _waits_before(one, now, before))
    return Upstream(inputs, next(waits, None))


def _numbers(names: Iterable[str]) -> list[str]:
    """For each name nothing, or ` 2` if it is the second one like it."""
    counts: Counter[str] = Counter()
    out: list[str] = []
    for name in names:
        counts[name] += 1
        out.append("" if counts[name] == 1 else f" {counts[name]}")
    return out


def _tell_apart(inputs: Sequence[Input]) -> None:
    """Two sources may have splits of the same id: both read the same topic, for example."""
    sources: dict[str, set[str]] = {}
    for one in inputs:
        for split in one.splits:
            sources.setdefault(split.id, set()).add(one.source_label)
    for one in inputs:
        one.shown = {s.id: f"{s.id} ({one.source_label})" for s in one.splits if len(sources[s.id]) > 1}


def _source_name(vertex: Vertex) -> str:
    return vertex.name.partition(OPERATOR_SEPARATOR)[0].removeprefix("Source: ")


def _named(name: str, number: str) -> str:
    """A chain's name with a number after its first operator, which a short label keeps."""
    first, chained, rest = name.partition(OPERATOR_SEPARATOR)
    return f"{first}{number}{chained}{rest}"


def _leaves(
    operator: VertexSample, now: Sample, before: Sample | None, delays: Delays
) -> tuple[list[_Leaf], list[VertexSample]]:
    """The vertices whose subtasks are inputs, and those between that only pass watermarks on, the last one first.

    If several ways lead to one vertex, the most delayed counts: it has the lowest watermark.
    """
    leaves: dict[str, _Leaf] = {}
    passing: dict[str, _Leaf] = {}
    open_ends = [(edge.vertex, 0) for edge in operator.vertex.inputs]
    while open_ends:
        id, delay_ms = open_ends.pop(0)
        vertex = vertex_in(now, id)
        if vertex is None or (id in passing and delay_ms <= passing[id].delay_ms):
            continue
        source = _root(now, vertex)
        own_ms = delay_of(vertex, delays)
        if not source.vertex.inputs or not _passes_on(vertex, vertex_in(before, id), own_ms):
            end = source.vertex.id if not source.vertex.inputs else id
            if end not in leaves or delay_ms > leaves[end].delay_ms:
                leaves[end] = _Leaf(vertex, delay_ms)
        else:
            passing[id] = _Leaf(vertex, delay_ms)
            open_ends += [(edge.vertex, delay_ms + own_ms) for edge in vertex.vertex.inputs]
    return list(leaves.values()), [one.vertex for one in passing.values()]


def _passes_on(vertex: VertexSample, before: VertexSample | None, delay_ms: int) -> bool:
    """Whether each subtask sends what it receives less a delay, or what it received after the older sample."""
    if _assigns(vertex):
        return False
    known = [task for task in vertex.subtasks if task.input is not None and task.output is not None]
    return bool(known) and all(_sends_its_input(task, _task(before, task.index), delay_ms) for task in known)


def _assigns(vertex: VertexSample) -> bool:
    return any(name in vertex.vertex.name for name in _ASSIGNS)


def _sends_its_input(task: Subtask, before: Subtask | None, delay_ms: int) -> bool:
    sent, taken = delayed(task, -delay_ms).output, task.input
    if sent == taken or sent is None or taken is None:
        return True
    then = None if before is None else delayed(before, -delay_ms)
    if then is None or then.input is None or then.output is None or MIN in (sent, then.output):
        return False
    return _passed(then.input, then.output, taken, sent)


def _passed(taken_before: int, sent_before: int, taken: int, sent: int) -> bool:
    """Whether what was taken in the older sample is sent by now, and what was sent was taken.

    A dump is not taken at one moment: a watermark may pass between the two values of a sample.
    """
    return taken_before <= sent and sent_before <= taken


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


def _inputs(leaf: _Leaf, now: Sample, before: Sample | None, source_label: str, number: str | None) -> Iterator[Input]:
    """`number` is of the vertex's name; None: there is only one vertex."""
    upstream, delay_ms = leaf.vertex, leaf.delay_ms
    earlier = vertex_in(before, upstream.vertex.id)
    root = _root(now, upstream)
    has_splits = any(task.splits for task in root.subtasks)
    silent = has_splits and _is_unmarked(root) and _is_unmarked(upstream)
    assigns = _assigns(root) or _assigns(upstream)
    for own in upstream.subtasks:
        own_then = _task(earlier, own.index)
        task, then = delayed(own, delay_ms), _delayed(own_then, delay_ms)
        above = _source(now, upstream, own)
        source = task if above is None or above is own else delayed(above, delay_ms)
        source_then = _delayed(_source(before, earlier, own_then), delay_ms)
        held = not _assigns(root) and _held_in_chain(own, own_then)
        own_marks = held or _assigned_in_chain(root, own, own_then)
        yield Input(
            name=f"#{own.index}" if number is None else f"{_named(upstream.vertex.name, number)} #{own.index}",
            vertex=upstream.vertex.name,
            now=task,
            before=then,
            source=source,
            source_before=source_then,
            source_id=upstream.vertex.id if root.vertex.inputs else root.vertex.id,
            splits=() if own_marks or (silent and assigns) or _assigned_later(task, source) else source.splits,
            source_label=source_label,
            shown={},
            splits_before={split.id: split for split in (source_then.splits if source_then is not None else ())},
            apart_ms=0 if before is None else now.at_ms - before.at_ms,
            vertex_ended=upstream.vertex.status == "FINISHED",
            delay_ms=delay_ms,
            keeps_back=held or (bool(root.vertex.inputs) and not _assigns(upstream) and _is_behind_its_input(own)),
            unmarked=silent and not assigns,
            not_assigned=silent and assigns,
            no_split=has_splits and not source.splits,
        )


def _delayed(task: Subtask | None, ms: int) -> Subtask | None:
    return None if task is None else delayed(task, ms)


def _is_unmarked(vertex: VertexSample) -> bool:
    """Whether records are read or received, but no subtask or split has a watermark.

    If splits do not report theirs (1.20), one that was never read may keep its subtask at MIN.
    """
    splits = [split for task in vertex.subtasks for split in task.splits]
    marks = [*(task.output for task in vertex.subtasks), *(split.watermark for split in splits)]
    reads = bool(vertex.rates.taken) or any(split.offset is not None for split in splits)
    return reads and bool(marks) and all(mark == MIN for mark in marks)


def _is_behind_its_input(task: Subtask) -> bool:
    return task.input not in (None, MIN) and task.output is not None and task.output < task.input


def _assigned_later(task: Subtask, source: Subtask) -> bool:
    """Whether watermarks are assigned after the source: none of its splits has one, but the subtask sends one."""
    return task.output not in (None, MIN) and all(split.watermark == MIN for split in source.splits)


def _held_in_chain(task: Subtask, before: Subtask | None) -> bool:
    """Whether an operator chained to the source has not sent yet what the source had sent in the older sample."""
    sent, then = task.source_output, None if before is None else before.source_output
    if task.output is None or sent in (None, MIN) or then in (None, MIN) or MAX in (sent, task.output):
        return False
    return task.output < (then or MIN)


def _assigned_in_chain(source: VertexSample, task: Subtask, before: Subtask | None) -> bool:
    """Whether an operator chained to the source sends watermarks of its own: it ignores those of the splits."""
    if task.source_output is None or task.output in (None, MIN, MAX, task.source_output):
        return False
    was_sent = before.output if before is not None else None
    return _assigns(source) or (was_sent is not None and was_sent > task.source_output)


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
