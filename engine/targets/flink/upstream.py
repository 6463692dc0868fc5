"""Which subtasks an operator has its watermark from, through tasks that only pass a watermark on. Pure.

A task passes it on if each of its subtasks sends the watermark that it receives, or that less a constant. A task that
sends another one (it assigns watermarks, or holds records back) is an end: its own inputs do not show its watermark.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...watermarks.times import MAX, MIN, shift
from .facts import Moment, is_named
from .samples import OPERATOR_SEPARATOR, Sample, Subtask, VertexSample, first_operator, is_sink_name, or_min

ASSIGNERS = ("Timestamps/Watermarks", "WatermarkAssigner")
"""Operators that assign watermarks themselves (DataStream API, SQL)."""
NEW_JOB_MS = 60_000
"""Time (ms) after a job's start in which its first records may still be on their way."""
_Vertices = dict[str, VertexSample]
"""The vertices of a sample by id; empty: there is no such sample."""


class OperatorEvidence(Struct, frozen=True, kw_only=True):
    """The operator in both samples."""

    id: str
    name: str
    watermark: int | None
    """Its own, the lowest of its subtasks."""
    watermark_before: int | None
    apart_ms: int
    """The time between the samples; 0: there is only one."""
    is_new: bool
    """The job has run for less than a minute, so its first records may still be on their way."""
    waits_in: str | None
    """The name of the task on the way before which records wait; None: they wait before none."""


class UpstreamSubtask(Struct, frozen=True, kw_only=True):
    """An input of the operator's minimum, in both samples, with its counterpart at the source; watermarks as they
    arrive at the operator, after delays on the way.
    """

    now: Subtask
    before: Subtask | None
    source: Subtask
    """The source subtask behind edges that are not shuffled; `now` itself if it has no such input."""
    source_before: Subtask | None


class UpstreamVertex(Struct, frozen=True):
    """A vertex whose subtasks are inputs of the operator's minimum."""

    vertex: VertexSample
    source: VertexSample
    """The vertex at the other end of edges that are not shuffled; itself where it has none."""
    subtasks: tuple[UpstreamSubtask, ...]
    delay_ms: int
    """How much later (ms) tasks on the way to the operator send its watermark."""
    source_label: str
    """The name of its source operator, unlike that of any other source."""
    subtask_prefix: str
    """What precedes the number of a subtask in its name; empty: it is the only vertex."""


class Upstream(Struct, frozen=True):
    """An operator, and where it has its watermark from."""

    operator: OperatorEvidence
    vertices: tuple[UpstreamVertex, ...]


def operators(sample: Sample) -> list[VertexSample]:
    """The vertices that receive a watermark: those with windows first, nearest the sources first; without windows those
    with several inputs (joins) first; sinks last.
    """
    depths = _depths(sample)

    def order(vertex: VertexSample) -> tuple[bool, bool, bool, int, int]:
        watermark = watermark_of(vertex)
        is_joined = not vertex.windowed and len({edge.vertex for edge in vertex.vertex.inputs}) > 1
        is_sink = not vertex.windowed and is_sink_name(first_operator(vertex.vertex))
        return not vertex.windowed, is_sink, not is_joined, depths[vertex.vertex.id], or_min(watermark)

    return sorted((vertex for vertex in sample.vertices if vertex.vertex.inputs), key=order)


def watermark_of(vertex: VertexSample | None) -> int | None:
    """The minimum of its subtasks' input watermarks; None if one is missing in the dump."""
    inputs = [] if vertex is None else [subtask.input for subtask in vertex.subtasks]
    return None if not inputs or None in inputs else min(input for input in inputs if input is not None)


def upstream_of(moment: Moment) -> Upstream | None:
    """The subtasks from which the chosen operator has its watermark; None: no sample has the operator."""
    sample, older = moment.facts.sample, moment.facts.older_sample
    part, candidates = moment.operator, operators(sample) if sample is not None else []
    operator = next((vertex for vertex in candidates if part is None or is_named(vertex.vertex, part)), None)
    if sample is None or operator is None:
        return None
    now, before = _with_branches(operator, sample, older)
    ends, passing = _ends(operator, now, before, moment.delays_ms)
    waiting = (vertex.vertex.name for vertex in (operator, *passing) if _records_wait(vertex, now, before))
    known = OperatorEvidence(
        id=operator.vertex.id,
        name=operator.vertex.name,
        watermark=watermark_of(operator),
        watermark_before=watermark_of(before.get(operator.vertex.id)),
        apart_ms=0 if older is None else sample.at_ms - older.at_ms,
        is_new=moment.clock_ms - moment.facts.graph.job.started_ms < NEW_JOB_MS,
        waits_in=next(waiting, None),
    )
    return Upstream(known, _upstream_vertices(ends, now, before))


def _upstream_vertices(
    ends: Sequence[tuple[VertexSample, int]], now: _Vertices, before: _Vertices
) -> tuple[UpstreamVertex, ...]:
    sources = [_source_vertex(now, vertex) for vertex, _ in ends]
    source_labels = _numbered(
        source.vertex.name.partition(OPERATOR_SEPARATOR)[0].removeprefix("Source: ") for source in sources
    )
    labels = _numbered(vertex.vertex.name for vertex, _ in ends)
    return tuple(
        UpstreamVertex(
            vertex=vertex,
            source=source,
            subtasks=tuple(_upstream_subtask(subtask, vertex, now, before, delay_ms) for subtask in vertex.subtasks),
            delay_ms=delay_ms,
            source_label=source_label,
            subtask_prefix=f"{label} " if len(ends) > 1 else "",
        )
        for (vertex, delay_ms), source, source_label, label in zip(ends, sources, source_labels, labels, strict=True)
    )


def _upstream_subtask(
    subtask: Subtask, vertex: VertexSample, now: _Vertices, before: _Vertices, delay_ms: int
) -> UpstreamSubtask:
    vertex_before = before.get(vertex.vertex.id)
    subtask_before, source_before = _subtask(vertex_before, subtask.index), None
    if vertex_before is not None and subtask_before is not None:
        source_before = _delayed(_source_subtask(before, vertex_before, subtask_before), delay_ms)
    source, arriving = _source_subtask(now, vertex, subtask), _delayed(subtask, delay_ms)
    return UpstreamSubtask(
        now=arriving,
        before=None if subtask_before is None else _delayed(subtask_before, delay_ms),
        source=arriving if source is subtask else _delayed(source, delay_ms),
        source_before=source_before,
    )


def _delayed(subtask: Subtask, ms: int) -> Subtask:
    """The subtask and its splits, with watermarks as they arrive after a delay."""
    if not ms:
        return subtask
    return replace(
        subtask,
        input=_later(subtask.input, ms),
        output=_later(subtask.output, ms),
        source_output=_later(subtask.source_output, ms),
        splits=tuple(replace(split, watermark=_later(split.watermark, ms)) for split in subtask.splits),
    )


def _later(watermark: int | None, ms: int) -> int | None:
    return watermark if watermark is None or watermark == MAX else shift(watermark, -ms)


def _numbered(names: Iterable[str]) -> list[str]:
    """The names, the second one like another with ` 2` after its first operator, which a short label keeps."""
    counts: Counter[str] = Counter()
    numbered: list[str] = []
    for name in names:
        counts[name] += 1
        first, separator, rest = name.partition(OPERATOR_SEPARATOR)
        numbered.append(name if counts[name] == 1 else f"{first} {counts[name]}{separator}{rest}")
    return numbered


def _ends(
    operator: VertexSample, now: _Vertices, before: _Vertices, delays_ms: Mapping[str, int]
) -> tuple[list[tuple[VertexSample, int]], list[VertexSample]]:
    """The vertices whose subtasks are inputs, each with the delay (ms) on its way, and those between that only pass
    watermarks on, the last one first.

    If several ways lead to one vertex, the most delayed counts: it has the lowest watermark.
    """
    ends: dict[str, tuple[VertexSample, int]] = {}
    passing: dict[str, tuple[VertexSample, int]] = {}
    ways = [(edge.vertex, 0) for edge in operator.vertex.inputs]
    while ways:
        id, delay_ms = ways.pop(0)
        vertex = now.get(id)
        if vertex is None or (id in passing and delay_ms <= passing[id][1]):
            continue
        source = _source_vertex(now, vertex)
        is_source = not source.vertex.inputs
        own_ms = delays_ms[id]
        if not is_source and _passes_on(vertex, before.get(id), own_ms):
            passing[id] = vertex, delay_ms
            ways += [(edge.vertex, delay_ms + own_ms) for edge in vertex.vertex.inputs]
            continue
        end = source.vertex.id if is_source else id
        if end not in ends or delay_ms > ends[end][1]:
            ends[end] = vertex, delay_ms
    return list(ends.values()), [vertex for vertex, _ in passing.values()]


def _passes_on(vertex: VertexSample, before: VertexSample | None, delay_ms: int) -> bool:
    """Whether each subtask sends what it receives less a delay, or what it received after the older sample."""
    if any(name in vertex.vertex.name for name in ASSIGNERS):
        return False
    known = [subtask for subtask in vertex.subtasks if subtask.input is not None and subtask.output is not None]
    pairs = [(subtask, _subtask(before, subtask.index)) for subtask in known]
    return bool(pairs) and all(_sends_its_input(subtask, earlier, delay_ms) for subtask, earlier in pairs)


def _sends_its_input(subtask: Subtask, before: Subtask | None, delay_ms: int) -> bool:
    sent, received = _later(subtask.output, -delay_ms), subtask.input
    if sent == received or sent is None or received is None:
        return True
    sent_before = None if before is None else _later(before.output, -delay_ms)
    received_before = None if before is None else before.input
    if received_before is None or sent_before is None or MIN in (sent, sent_before):
        return False
    # A dump is not taken at one moment: a watermark may pass between the two values of a sample. So what was received
    # in the older sample is sent by now, and what was sent was received.
    return received_before <= sent and sent_before <= received


def _records_wait(vertex: VertexSample, now: _Vertices, before: _Vertices) -> bool:
    """Whether all subtasks right upstream that take part were past its watermark in the older sample."""
    watermark, watermark_before = watermark_of(vertex), watermark_of(before.get(vertex.vertex.id))
    if watermark is None or watermark_before is None:
        return False
    sent_before: list[int] = []
    for edge in vertex.vertex.inputs:
        above, above_before = now.get(edge.vertex), before.get(edge.vertex)
        for subtask in above.subtasks if above is not None else ():
            earlier = _subtask(above_before, subtask.index)
            if subtask.output is None or earlier is None or earlier.output is None:
                return False
            if subtask.output >= watermark_before:
                sent_before.append(earlier.output)
    return bool(sent_before) and watermark < min(sent_before)


def _source_vertex(vertices: _Vertices, vertex: VertexSample) -> VertexSample:
    """The vertex at the other end of edges that are not shuffled; itself where it has none."""
    above = _forward_input(vertices, vertex)
    return vertex if above is None else _source_vertex(vertices, above)


def _source_subtask(vertices: _Vertices, vertex: VertexSample, subtask: Subtask) -> Subtask:
    """A subtask's counterpart at the source behind edges that are not shuffled; itself where it has none."""
    above = None if subtask.splits else _forward_input(vertices, vertex)
    counterpart = _subtask(above, subtask.index)
    if above is None or counterpart is None:
        return subtask
    return _source_subtask(vertices, above, counterpart)


def _forward_input(vertices: _Vertices, vertex: VertexSample) -> VertexSample | None:
    """The vertex that it reads without a shuffle, if that is its only input."""
    inputs = vertex.vertex.inputs
    return vertices.get(inputs[0].vertex) if len(inputs) == 1 and inputs[0].forward else None


def _subtask(vertex: VertexSample | None, index: int) -> Subtask | None:
    return vertex.subtasks[index] if vertex is not None and index < len(vertex.subtasks) else None


def _depths(sample: Sample) -> dict[str, int]:
    """How many edges each vertex is away from its farthest source."""
    depths: dict[str, int] = {}
    inputs = {vertex.vertex.id: [edge.vertex for edge in vertex.vertex.inputs] for vertex in sample.vertices}

    def depth(id: str) -> int:
        if id not in depths:
            depths[id] = 0  # a plan has no cycle; an iteration's feedback edge would be one
            depths[id] = max((depth(above) + 1 for above in inputs.get(id, ())), default=0)
        return depths[id]

    for id in inputs:
        depth(id)
    return depths


# Which of several branches of a task's chain leads to the operator: REST reports only the edge.


def _with_branches(operator: VertexSample, now: Sample, before: Sample | None) -> tuple[_Vertices, _Vertices]:
    """The vertices of both samples, those above `operator` with the watermark of the branch that leads to it."""
    vertices = {vertex.vertex.id: vertex for vertex in now.vertices}
    chosen: dict[str, int] = {}
    readers = [operator]
    for reader in readers:
        for edge in reader.vertex.inputs:
            above = vertices.get(edge.vertex)
            if above is None or above in readers:
                continue
            readers.append(above)
            if (branch := _branch(above, reader)) is not None:
                chosen[edge.vertex] = branch
    return _sending(now.vertices, chosen), _sending(() if before is None else before.vertices, chosen)


def _branch(above: VertexSample, reader: VertexSample) -> int | None:
    """The branch whose lowest watermark is nearest to the lowest one that the reader received."""
    branches = [subtask.branches for subtask in above.subtasks]
    received = [subtask.input for subtask in reader.subtasks if subtask.input is not None]
    if not received or not branches or not branches[0] or any(len(own) != len(branches[0]) for own in branches):
        return None
    watermark = min(received)
    lowest = [min(watermarks) for watermarks in zip(*branches, strict=True)]

    def distance(place: int) -> tuple[bool, int]:
        return (lowest[place] == MIN) != (watermark == MIN), abs(lowest[place] - watermark)

    return min(range(len(lowest)), key=distance)


def _sending(vertices: Sequence[VertexSample], chosen: Mapping[str, int]) -> _Vertices:
    return {vertex.vertex.id: _sending_branch(vertex, chosen.get(vertex.vertex.id)) for vertex in vertices}


def _sending_branch(vertex: VertexSample, branch: int | None) -> VertexSample:
    if branch is None:
        return vertex
    subtasks = tuple(
        replace(subtask, output=subtask.branches[branch]) if branch < len(subtask.branches) else subtask
        for subtask in vertex.subtasks
    )
    return replace(vertex, subtasks=subtasks)
