"""Which subtasks an operator has its watermark from, through tasks that only pass a watermark on. Pure.

A task passes it on if each of its subtasks sends the watermark that it receives, or that less a join's bound. A task
that sends another one (it assigns watermarks, or holds records back) is an end: its inputs do not show its watermark.
"""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from ...watermarks.times import MAX, MIN, shift
from .facts import DUMP_MS, FlinkFacts, is_named
from .samples import JobSample, Subtask, VertexSample, first_operator, is_sink_name, or_min

Vertices = dict[str, VertexSample]
"""The vertices of a sample by id; empty: there is no such sample."""


class Upstream(Struct, frozen=True):
    """An operator, and where it has its watermark from; vertices have the watermarks of the branch that leads to it."""

    operator: VertexSample
    now: Vertices
    before: Vertices
    """The same in the older sample."""
    ends: list[tuple[VertexSample, int]]
    """The vertices whose subtasks are inputs of its minimum, each with the delay (ms) on its way."""
    passing: list[VertexSample]
    """Those between that only pass watermarks on, the last one first."""


def operators(sample: JobSample) -> list[VertexSample]:
    """The vertices that receive a watermark: those with windows first, nearest the sources first; without windows those
    with several inputs (joins) first; sinks last, and then chains of a source.
    """
    depths = _depths(sample)

    def order(vertex: VertexSample) -> tuple[bool, bool, bool, bool, int, int]:
        watermark = watermark_of(vertex)
        is_joined = not vertex.windowed and len({edge.vertex for edge in vertex.vertex.inputs}) > 1
        is_sink = not vertex.windowed and is_sink_name(first_operator(vertex.vertex))
        is_source = not vertex.windowed and not vertex.vertex.inputs
        return not vertex.windowed, is_source, is_sink, not is_joined, depths[vertex.vertex.id], or_min(watermark)

    return sorted((vertex for vertex in sample.vertices if vertex.vertex.receives), key=order)


def watermark_of(
    vertex: VertexSample | None, of: Callable[[Subtask], int | None] = lambda subtask: subtask.input
) -> int | None:
    """The minimum of its subtasks' input watermarks, or of other ones; None if one is missing in the dump."""
    watermarks = [] if vertex is None else [of(subtask) for subtask in vertex.subtasks]
    return None if not watermarks or None in watermarks else min(mark for mark in watermarks if mark is not None)


def upstream_of(facts: FlinkFacts) -> Upstream | None:
    """The vertices from which the chosen operator has its watermark; None: no sample has the operator.

    If several ways lead to one vertex, the most delayed counts: it has the lowest watermark.
    """
    sample, older = facts.sample, facts.older_sample
    part, candidates = facts.operator, operators(sample) if sample is not None else []
    operator = next((vertex for vertex in candidates if part is None or is_named(vertex.vertex, part)), None)
    if sample is None or operator is None:
        return None
    now = {vertex.vertex.id: vertex for vertex in sample.vertices}
    before = {} if older is None else {vertex.vertex.id: vertex for vertex in older.vertices}
    _choose_branches(operator, now, before)
    ways = [(edge.vertex, 0) for edge in operator.vertex.inputs]
    if not ways or any(task.head is not None for task in operator.subtasks):  # its chain sends what it receives
        for vertices in (now, before):
            if (own := vertices.get(operator.vertex.id)) is not None:  # with what its windows receive as its output
                received = tuple(replace(task, output=task.input, branches=()) for task in own.subtasks)
                vertices[operator.vertex.id] = replace(own, subtasks=received)
        ways = [(operator.vertex.id, 0)]
    ends: dict[str, tuple[VertexSample, int]] = {}
    passing: dict[str, tuple[VertexSample, int]] = {}
    while ways:
        id, delay_ms = ways.pop(0)
        vertex = now.get(id)
        if vertex is None or (id in passing and delay_ms <= passing[id][1]):
            continue
        own_ms = vertex.vertex.delay_ms
        if vertex.vertex.inputs and _passes_on(vertex, before.get(id), own_ms):
            passing[id] = vertex, delay_ms
            ways += [(edge.vertex, delay_ms + own_ms) for edge in vertex.vertex.inputs]
        elif id not in ends or delay_ms > ends[id][1]:
            ends[id] = vertex, delay_ms
    return Upstream(operator, now, before, list(ends.values()), [vertex for vertex, _ in passing.values()])


def delayed(subtask: Subtask, ms: int, chain_ms: int) -> Subtask:
    """The subtask and its splits, with watermarks as they arrive after a delay, and that in the chain of the source."""
    if not ms + chain_ms:
        return subtask
    return replace(
        subtask,
        input=_later(subtask.input, ms),
        output=_later(subtask.output, ms),
        head=_later(subtask.head, ms + chain_ms),
        splits=tuple(replace(split, watermark=_later(split.watermark, ms + chain_ms)) for split in subtask.splits),
    )


def _later(watermark: int | None, ms: int) -> int | None:
    return watermark if watermark is None or watermark == MAX else shift(watermark, -ms)


def _passes_on(vertex: VertexSample, before: VertexSample | None, delay_ms: int) -> bool:
    """Whether each subtask sends what it receives less a delay, or what it received after the older sample."""
    if vertex.vertex.assigns:
        return False
    known = [subtask for subtask in vertex.subtasks if subtask.input is not None and subtask.output is not None]
    pairs = [(subtask, subtask_at(before, subtask.index)) for subtask in known]
    return bool(pairs) and all(_sends_its_input(subtask, earlier, delay_ms) for subtask, earlier in pairs)


def _sends_its_input(subtask: Subtask, before: Subtask | None, delay_ms: int) -> bool:
    sent, received = _later(subtask.output, -delay_ms), subtask.received
    if sent == received or sent is None or received is None:
        return True
    # A dump is not taken at one moment: a watermark may pass between the two values of a sample. So what was received
    # in the older sample is sent by now, and what was sent was received.
    if before is None:
        return abs(received - sent) <= DUMP_MS
    sent_before, received_before = _later(before.output, -delay_ms), before.received
    if received_before is None or sent_before is None or MIN in (sent, sent_before):
        return False
    return received_before <= sent and sent_before <= received


def records_wait(vertex: VertexSample, now: Vertices, before: Vertices) -> bool:
    """Whether all subtasks right upstream that take part were past its watermark in the older sample."""
    both = (vertex, before.get(vertex.vertex.id))
    watermark, watermark_before = (watermark_of(each, lambda subtask: subtask.received) for each in both)
    if watermark is None or watermark_before is None:
        return False
    sent_before: list[int] = []
    for edge in vertex.vertex.inputs:
        above, above_before = now.get(edge.vertex), before.get(edge.vertex)
        for subtask in above.subtasks if above is not None else ():
            earlier = subtask_at(above_before, subtask.index)
            if subtask.output is None or earlier is None or earlier.output is None:
                return False
            if subtask.output >= watermark_before:
                sent_before.append(earlier.output)
    return bool(sent_before) and watermark < min(sent_before)


def source_vertex(vertices: Vertices, vertex: VertexSample, *, shared: bool = False) -> VertexSample:
    """The vertex at the other end of edges that are not shuffled (see `_forward_input`); itself where it has none."""
    above = _forward_input(vertices, vertex, shared=shared)
    return vertex if above is None else source_vertex(vertices, above, shared=shared)


def chain_ms(vertices: Vertices, vertex: VertexSample) -> int:
    """How much later (ms) the tasks from that end to the vertex send a watermark on."""
    above = _forward_input(vertices, vertex)
    return vertex.vertex.delay_ms + (0 if above is None else chain_ms(vertices, above))


def source_subtask(vertices: Vertices, vertex: VertexSample, subtask: Subtask) -> Subtask:
    """A subtask's counterpart at the source behind edges that are not shuffled; itself where it has none."""
    above = None if subtask.splits else _forward_input(vertices, vertex)
    counterpart = subtask_at(above, subtask.index)
    if above is None or counterpart is None:
        return subtask
    return source_subtask(vertices, above, counterpart)


def _forward_input(vertices: Vertices, vertex: VertexSample, *, shared: bool = False) -> VertexSample | None:
    """The only vertex that it reads, if each subtask reads its counterpart (`shared`: one that others may read)."""
    inputs = vertex.vertex.inputs
    above = vertices.get(inputs[0].vertex) if len(inputs) == 1 and inputs[0].forward else None
    more = 0 if above is None else len(vertex.subtasks) - len(above.subtasks)
    return above if more == 0 or (shared and more > 0) else None


def subtask_at(vertex: VertexSample | None, index: int) -> Subtask | None:
    """The subtask with that index; None: the sample has none."""
    return vertex.subtasks[index] if vertex is not None and index < len(vertex.subtasks) else None


def _depths(sample: JobSample) -> dict[str, int]:
    """How many edges each vertex is away from its farthest source; a plan's vertices are in order, sources first."""
    depths: dict[str, int] = {}
    for vertex in sample.vertices:
        depths[vertex.vertex.id] = max((depths.get(edge.vertex, 0) + 1 for edge in vertex.vertex.inputs), default=0)
    return depths


# Which of several branches of a task's chain leads to the operator: REST reports only the edge.


def _choose_branches(operator: VertexSample, now: Vertices, before: Vertices) -> None:
    """Give the vertices above `operator` the watermark of the branch that leads to it, in both samples."""
    readers = [operator]
    for reader in readers:
        for id in (edge.vertex for edge in reader.vertex.inputs):
            above = now.get(id)
            if above is None or any(above.vertex.id == seen.vertex.id for seen in readers):
                continue
            readers.append(above)
            if (branch := _branch(above, reader)) is not None:
                for vertices in (now, before):
                    if id in vertices:
                        vertices[id] = _sending(vertices[id], branch)


def _branch(above: VertexSample, reader: VertexSample) -> int | None:
    """The branch whose lowest watermark is nearest to the lowest one that the reader received."""
    branches = [subtask.branches for subtask in above.subtasks]
    received = [mark for subtask in reader.subtasks if (mark := subtask.received) is not None]
    if not received or not branches or not branches[0] or any(len(own) != len(branches[0]) for own in branches):
        return None
    watermark = min(received)
    lowest = [min(watermarks) for watermarks in zip(*branches, strict=True)]

    def distance(place: int) -> tuple[bool, int]:
        return (lowest[place] == MIN) != (watermark == MIN), abs(lowest[place] - watermark)

    return min(range(len(lowest)), key=distance)


def _sending(vertex: VertexSample, branch: int) -> VertexSample:
    subtasks = tuple(
        replace(subtask, output=subtask.branches[branch]) if branch < len(subtask.branches) else subtask
        for subtask in vertex.subtasks
    )
    return replace(vertex, subtasks=subtasks)
