"""Constant delays between the watermark that a task receives and the one it sends. Pure.

Flink SQL's interval join has one (a result may be as old as its bound); a user's operator may have one, too. A delay
counts as constant once it was the same at two input watermarks: while nothing moves, the operator may just be holding
records back.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from ...watermarks.times import MAX, MIN, shift
from .samples import Sample, Subtask, VertexSample

_CONSTANT = "IntervalJoin"
"""Flink's operator whose delay is always constant (`KeyedCoProcessOperatorWithWatermarkDelay`)."""


class Delay(Struct, frozen=True):
    """The last delay of all subtasks of a task: how far they send their watermark behind their input (ms; < 0:
    ahead).
    """

    ms: int
    seen_at: int
    """The input watermark at which it was first seen."""
    is_constant: bool = False
    """The delay was the same at another input watermark."""
    missed: bool = False
    """The last sample was different: it may have been taken while a watermark passed."""


Delays = Mapping[str, Delay]
"""By vertex id."""


def learned(known: Delays, sample: Sample) -> dict[str, Delay]:
    """The delays after a new sample; one that was different twice is not constant."""
    found = {one.vertex.id: _next(known.get(one.vertex.id), one) for one in sample.vertices if one.vertex.inputs}
    return {id: delay for id, delay in found.items() if delay is not None}


def delay_of(vertex: VertexSample, delays: Delays) -> int:
    """The task's constant delay (ms); 0: none, or not known."""
    delay = delays.get(vertex.vertex.id)
    return delay.ms if delay is not None and (delay.is_constant or _CONSTANT in vertex.vertex.name) else 0


def delayed(task: Subtask, ms: int) -> Subtask:
    """The subtask and its splits, with watermarks as they arrive after a delay."""
    if not ms:
        return task
    splits = tuple(replace(split, watermark=_later(split.watermark, ms)) for split in task.splits)
    return replace(task, output=_later(task.output, ms), splits=splits)


def _later(watermark: int | None, ms: int) -> int | None:
    return watermark if watermark is None or watermark == MAX else shift(watermark, -ms)


def _next(last: Delay | None, vertex: VertexSample) -> Delay | None:
    pairs = [
        (task.input, task.input - task.output)
        for task in vertex.subtasks
        if task.input not in (None, MIN, MAX) and task.output not in (None, MIN, MAX)
    ]
    if not pairs:
        return last
    marks, differences = {taken for taken, _ in pairs}, {difference for _, difference in pairs}
    if last is not None and differences == {last.ms}:
        return replace(last, is_constant=last.is_constant or marks != {last.seen_at}, missed=False)
    if last is not None and last.is_constant and not last.missed:
        return replace(last, missed=True)
    return Delay(differences.pop(), min(marks), is_constant=len(marks) > 1) if len(differences) == 1 else None
