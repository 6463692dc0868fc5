"""Which of several branches of a task's chain leads to an operator; REST reports only the edge. Pure."""

from msgspec.structs import replace

from ...watermarks.times import MIN
from .samples import Sample, VertexSample


def on_the_way(operator: VertexSample, now: Sample, before: Sample | None) -> tuple[Sample, Sample | None]:
    """The samples, in which each task above `operator` sends the watermark of the branch that leads to it."""
    if not any(task.branches for one in now.vertices for task in one.subtasks):
        return now, before
    there = {one.vertex.id: one for one in now.vertices}
    chosen: dict[str, int] = {}
    readers = [operator]
    for reader in readers:
        for edge in reader.vertex.inputs:
            above = there.get(edge.vertex)
            if above is None or above in readers:
                continue
            readers.append(above)
            if (branch := _branch(above, reader)) is not None:
                chosen[edge.vertex] = branch
    return _with(now, chosen), None if before is None else _with(before, chosen)


def _branch(above: VertexSample, reader: VertexSample) -> int | None:
    """The branch whose lowest watermark is nearest to the lowest one that the reader received."""
    marks = [task.branches for task in above.subtasks]
    taken = [task.input for task in reader.subtasks if task.input is not None]
    if not taken or not marks or not marks[0] or any(len(one) != len(marks[0]) for one in marks):
        return None
    level = min(taken)
    lowest = [min(one) for one in zip(*marks, strict=True)]

    def distance(place: int) -> tuple[bool, int]:
        return (lowest[place] == MIN) != (level == MIN), abs(lowest[place] - level)

    return min(range(len(lowest)), key=distance)


def _with(sample: Sample, chosen: dict[str, int]) -> Sample:
    return replace(sample, vertices=tuple(_sends(one, chosen.get(one.vertex.id)) for one in sample.vertices))


def _sends(vertex: VertexSample, branch: int | None) -> VertexSample:
    if branch is None:
        return vertex
    subtasks = tuple(
        replace(task, output=task.branches[branch]) if branch < len(task.branches) else task for task in vertex.subtasks
    )
    return replace(vertex, subtasks=subtasks)
