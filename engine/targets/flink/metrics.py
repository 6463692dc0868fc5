"""Metric names of a Flink vertex: which ones are read, and the meaning of their values. Pure.

A name is `<subtask>.<operator>.<metric>` or `<subtask>.<metric>`. In operator and split names Flink writes `_` for a
space and for `.` `:` `,`, and cuts operators at 80 characters.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from ...watermarks.times import MAX, MIN
from .samples import Split, Subtask, Vertex, VertexSample

_TASK = re.compile(r"(\d+)\.(currentInputWatermark|busyTimeMsPerSecond|backPressuredTimeMsPerSecond)")
_OPERATOR = re.compile(
    r"(\d+)\.([^.]+)\.(currentOutputWatermark|numLateRecordsDropped|sourceIdleTime|watermarkAlignmentDrift)"
)
_SPLIT = re.compile(
    r"(\d+)\.([^.]+)\.split\.(.+)\.watermark\."
    r"(currentWatermark|accumulatedIdleTimeMs|idleTimeMsPerSecond|accumulatedPausedTimeMs|pausedTimeMsPerSecond)"
)
_OFFSET = re.compile(r"(\d+)\.([^.]+)\.KafkaSourceReader\.topic\.(.+)\.partition\.(\d+)\.currentOffset")
_MAX_OPERATOR = 80
_MAX_DELAY_MS = 100 * 366 * 86_400_000
OPERATOR_SEPARATOR = " -> "
"""Between the operators of a chain, in a vertex's name."""
_NEXT = "_->_"
"""The separator as it is spelled in metrics."""
_WINDOWS = re.compile("EventTime\\w*Windows")
"""Flink's own names of window operators: those of PyFlink do not count late records."""
_SINK = re.compile(r"^Sink_|_(Writer|Committer)$")


def wanted(ids: Iterable[str]) -> list[str]:
    """The metric ids of a vertex that are read."""
    patterns = (_TASK, _OPERATOR, _SPLIT, _OFFSET)
    return sorted(one for one in ids if any(pattern.fullmatch(one) for pattern in patterns))


def operator_id(name: str) -> str:
    """An operator's name in metrics."""
    return _escaped(name)[:_MAX_OPERATOR]


def _escaped(name: str) -> str:
    return re.sub(r"[ .:,]", "_", name)


def last_operator(vertex: Vertex) -> str:
    """The name in metrics of the operator whose output leaves the vertex."""
    return operator_id(vertex.name.rpartition(OPERATOR_SEPARATOR)[2])


def first_operator(vertex: Vertex) -> str:
    """The name in metrics of the operator that the vertex begins with."""
    return operator_id(vertex.name.partition(OPERATOR_SEPARATOR)[0])


def branch_ends(vertex: Vertex, operators: Iterable[str]) -> list[str]:
    """The operators whose output leaves the vertex, of those in its metrics: sinks only if there are no others.

    There are several where its chain has branches: `Source: in -> (Map, Filter -> Calc)`.
    """
    there = sorted(operators)
    if (last := last_operator(vertex)) in there:
        return [last]
    whole = _escaped(vertex.name)
    ends = [one for one in there if _is_end(one, whole)]
    return [one for one in ends if not is_sink_name(one)] or ends


def is_sink_name(operator: str) -> bool:
    """Whether an operator, by its name in metrics, is a part of a sink."""
    return _SINK.search(operator) is not None


def _is_end(operator: str, whole: str) -> bool:
    """Whether no operator follows in the name of the whole chain; a cut name continues."""
    cut = len(operator) == _MAX_OPERATOR
    rests = [whole[found.end() :] for found in re.finditer(re.escape(operator), whole)]
    return any(_NEXT not in rest if cut else not rest.startswith(_NEXT) for rest in rests)


def sample_of(vertex: Vertex, ids: Sequence[str], values: Mapping[str, str]) -> tuple[VertexSample, bool]:
    """The facts about the vertex from the values, and whether every subtask is present."""
    found: dict[int, _Found] = {}
    for one, value in values.items():
        _take(found, one, value)
    subtasks = tuple(found.get(index, _Found()).subtask(index, vertex) for index in range(vertex.parallelism))
    whole = len(values) == len(ids) and all(index in found for index in range(vertex.parallelism))
    windowed = _WINDOWS.search(vertex.name) is not None or any(task.late is not None for task in subtasks)
    return VertexSample(vertex, subtasks, windowed), whole


class _Found:
    """The values of one subtask, while they are collected."""

    def __init__(self) -> None:
        self.task: dict[str, str] = {}
        self.operators: dict[str, dict[str, str]] = {}
        self.splits: dict[str, dict[str, str]] = {}

    def subtask(self, index: int, vertex: Vertex) -> Subtask:
        """The subtask's facts."""
        outputs = {name: metrics["currentOutputWatermark"] for name, metrics in self.operators.items()
                   if "currentOutputWatermark" in metrics}  # fmt: skip
        ends = branch_ends(vertex, outputs) or (list(outputs) if len(outputs) == 1 else [])
        branches = tuple(mark for one in ends if (mark := _watermark(outputs[one])) is not None)
        first = first_operator(vertex)
        return Subtask(
            index=index,
            input=_watermark(self.task.get("currentInputWatermark")),
            output=_lowest(branches),
            branches=branches if len(branches) > 1 else (),
            source_output=_watermark(outputs.get(first)) if not vertex.inputs and len(outputs) > 1 else None,
            splits=tuple(_split(id, metrics) for id, metrics in sorted(self.splits.items(), key=_natural)),
            busy=_share(self.task.get("busyTimeMsPerSecond")),
            back_pressured=_share(self.task.get("backPressuredTimeMsPerSecond")),
            late=_sum(metrics.get("numLateRecordsDropped") for metrics in self.operators.values()),
            source_idle_ms=_greatest(metrics.get("sourceIdleTime") for metrics in self.operators.values()),
            drift_ms=_drift(metrics.get("watermarkAlignmentDrift") for metrics in self.operators.values()),
        )


def _take(found: dict[int, _Found], one: str, value: str) -> None:
    if match := _SPLIT.fullmatch(one):
        subtask, _, split, metric = match.groups()
        found.setdefault(int(subtask), _Found()).splits.setdefault(split, {})[metric] = value
    elif match := _OFFSET.fullmatch(one):
        subtask, _, topic, partition = match.groups()
        split = f"{topic}-{partition}"
        metrics = found.setdefault(int(subtask), _Found()).splits.setdefault(split, {})
        metrics |= {"currentOffset": value, "topic": topic, "partition": partition}
    elif match := _OPERATOR.fullmatch(one):
        subtask, operator, metric = match.groups()
        found.setdefault(int(subtask), _Found()).operators.setdefault(operator, {})[metric] = value
    elif match := _TASK.fullmatch(one):
        found.setdefault(int(match[1]), _Found()).task[match[2]] = value


def _split(id: str, metrics: Mapping[str, str]) -> Split:
    offset = _number(metrics.get("currentOffset"))
    return Split(
        id=id,
        watermark=_watermark(metrics.get("currentWatermark")),
        idle_ms=_number(metrics.get("accumulatedIdleTimeMs")),
        idle_share=_share(metrics.get("idleTimeMsPerSecond")),
        paused_ms=_number(metrics.get("accumulatedPausedTimeMs")),
        paused_share=_share(metrics.get("pausedTimeMsPerSecond")),
        offset=None if offset is None or offset < 0 else offset,
        topic=metrics.get("topic"),
        partition=_number(metrics.get("partition")),
    )


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(float(text)) if "." in text or "E" in text else int(text)
    except (ValueError, OverflowError):  # `NaN`, or what no gauge of ours says
        return None


def _watermark(text: str | None) -> int | None:
    """A watermark; an operator that delays the end of the stream sends a little less than `MAX`."""
    number = _number(text)
    return MAX if number is not None and number > MAX - _MAX_DELAY_MS else number


def _lowest(branches: Sequence[int]) -> int | None:
    """The lowest watermark of the branches that have one: one without may lead to nothing that needs it."""
    return min((mark for mark in branches if mark != MIN), default=MIN if branches else None)


def _share(text: str | None) -> float | None:
    try:
        share = None if text is None else float(text) / 1000
    except ValueError:
        return None
    return share if share is not None and 0 <= share <= 1 else None


def _sum(texts: Iterable[str | None]) -> int | None:
    numbers = [number for text in texts if (number := _number(text)) is not None]
    return sum(numbers) if numbers else None


def _greatest(texts: Iterable[str | None]) -> int | None:
    return max((number for text in texts if (number := _number(text)) is not None), default=None)


def _drift(texts: Iterable[str | None]) -> int | None:
    """None where no limit is set: Flink's is then the end of time."""
    drift = _greatest(texts)
    return drift if drift is not None and abs(drift) < _MAX_DELAY_MS else None


def _natural(item: tuple[str, object]) -> list[tuple[int, str]]:
    """Sorts `orders-10` after `orders-9`."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", item[0])]
