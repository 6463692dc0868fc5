"""Removes splits that moved to another subtask: the JobManager keeps the metrics of their former one. Pure."""

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from ...watermarks.times import MIN
from .samples import Sample, Split, Subtask, VertexSample


def without_moved(now: Sample, before: Sample | None) -> Sample:
    """The sample with each split in one subtask only; `before` is an older sample, already cleaned."""
    earlier = {one.vertex.id: one for one in before.vertices} if before is not None else {}
    return replace(now, vertices=tuple(_vertex(one, earlier.get(one.vertex.id)) for one in now.vertices))


def _vertex(vertex: VertexSample, before: VertexSample | None) -> VertexSample:
    counted = Counter(split.id for task in vertex.subtasks for split in task.splits)
    several = {id for id, count in counted.items() if count > 1}
    if not several:
        return vertex
    places = {id: _place(id, vertex, before) for id in several}
    subtasks = tuple(
        replace(task, splits=tuple(s for s in task.splits if places.get(s.id, task.index) == task.index))
        for task in vertex.subtasks
    )
    return replace(vertex, subtasks=subtasks)


def _place(id: str, vertex: VertexSample, before: VertexSample | None) -> int:
    """The subtask that has the split now: the one whose metrics change; else one where the split is not below what the
    subtask sends, as only an idle one would be.
    """
    found = list(_found(id, vertex))
    earlier = {task.index: split for task, split in (_found(id, before) if before is not None else ())}
    changed = [task.index for task, split in found if task.index in earlier and _differs(split, earlier[task.index])]
    if len(changed) == 1:
        return changed[0]
    above = [(task, split) for task, split in found if _watermark(split) >= _or_min(task.output)]
    if above:  # of several, the one that would hold back more
        return min(above, key=lambda one: _watermark(one[1]))[0].index
    return max(found, key=lambda one: _watermark(one[1]))[0].index


def _found(id: str, vertex: VertexSample) -> Iterator[tuple[Subtask, Split]]:
    return ((task, split) for task in vertex.subtasks for split in task.splits if split.id == id)


def _differs(split: Split, before: Split) -> bool:
    return replace(split, quiet_ms=None) != replace(before, quiet_ms=None)


def _watermark(split: Split) -> int:
    return _or_min(split.watermark)


def _or_min(watermark: int | None) -> int:
    return MIN if watermark is None else watermark
