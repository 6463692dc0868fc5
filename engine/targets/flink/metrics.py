"""Metric names of a Flink vertex: which ones are read, and the meaning of their values; also its rates. Pure.

A name is `<subtask>.<operator>.<metric>` or `<subtask>.<metric>`. In operator and split names Flink writes `_` for a
space and for `.` `:` `,`, and cuts operators at 80 characters.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from ...watermarks.times import MAX, MIN
from .samples import Rates, Split, Subtask, Vertex, VertexSample

_TASK = re.compile(r"(\d+)\.(currentInputWatermark|busyTimeMsPerSecond|backPressuredTimeMsPerSecond)")
_OPERATOR = re.compile(
    r"(\d+)\.([^.]+)\.(currentOutputWatermark|numLateRecordsDropped|sourceIdleTime|watermarkAlignmentDrift)"
)
_SPLIT = re.compile(
    r"(\d+)\.([^.]+)\.split\.(.+)\.watermark\."
    r"(currentWatermark|accumulatedIdleTimeMs|idleTimeMsPerSecond|accumulatedPausedTimeMs|pausedTimeMsPerSecond)"
)
_OFFSET = re.compile(r"(\d+)\.([^.]+)\.KafkaSourceReader\.topic\.(.+)\.partition\.(\d+)\.currentOffset")
_MAX_OPERATOR_LENGTH = 80
_MAX_DELAY_MS = 100 * 366 * 86_400_000
OPERATOR_SEPARATOR = " -> "
"""Between the operators of a chain, in a vertex's name."""
_NEXT = "_->_"
"""The separator as it is spelled in metrics."""
_WINDOWS = re.compile("EventTime\\w*Windows")
"""Flink's own names of window operators: those of PyFlink do not count late records."""
_SINK = re.compile(r"^Sink_|_(Writer|Committer)$")
_IN_RATE, _OUT_RATE = "numRecordsInPerSecond", "numRecordsOutPerSecond"
_PENDING, _LATE = "pendingRecords", "numLateRecordsDropped"


def wanted(ids: Iterable[str]) -> list[str]:
    """The metric ids of a vertex that are read."""
    patterns = (_TASK, _OPERATOR, _SPLIT, _OFFSET)
    return sorted(id for id in ids if any(pattern.fullmatch(id) for pattern in patterns))


def operator_id(name: str) -> str:
    """An operator's name in metrics."""
    return _escaped(name)[:_MAX_OPERATOR_LENGTH]


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
    names = sorted(operators)
    if (last := last_operator(vertex)) in names:
        return [last]
    chain = _escaped(vertex.name)
    ends = [name for name in names if _is_end(name, chain)]
    return [name for name in ends if not is_sink_name(name)] or ends


def is_sink_name(operator: str) -> bool:
    """Whether an operator, by its name in metrics, is a part of a sink."""
    return _SINK.search(operator) is not None


def _is_end(operator: str, chain: str) -> bool:
    """Whether no operator follows in the name of the whole chain; a cut name continues."""
    is_cut = len(operator) == _MAX_OPERATOR_LENGTH
    rests = [chain[match.end() :] for match in re.finditer(re.escape(operator), chain)]
    return any(_NEXT not in rest if is_cut else not rest.startswith(_NEXT) for rest in rests)


def sample_of(vertex: Vertex, ids: Sequence[str], values: Mapping[str, str]) -> tuple[VertexSample, bool]:
    """The facts about the vertex from the values, and whether every subtask is present."""
    by_subtask: dict[int, _Values] = {}
    for id, value in values.items():
        _put(by_subtask, id, value)
    subtasks = tuple(by_subtask.get(index, _Values()).subtask(index, vertex) for index in range(vertex.parallelism))
    whole = len(values) == len(ids) and all(index in by_subtask for index in range(vertex.parallelism))
    windowed = _WINDOWS.search(vertex.name) is not None or any(task.late is not None for task in subtasks)
    return VertexSample(vertex, subtasks, windowed), whole


class _Values:
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
        branches = tuple(mark for end in ends if (mark := _watermark(outputs[end])) is not None)
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


def _put(by_subtask: dict[int, _Values], id: str, value: str) -> None:
    if match := _SPLIT.fullmatch(id):
        subtask, _, split, metric = match.groups()
        by_subtask.setdefault(int(subtask), _Values()).splits.setdefault(split, {})[metric] = value
    elif match := _OFFSET.fullmatch(id):
        subtask, _, topic, partition = match.groups()
        split = f"{topic}-{partition}"
        metrics = by_subtask.setdefault(int(subtask), _Values()).splits.setdefault(split, {})
        metrics |= {"currentOffset": value, "topic": topic, "partition": partition}
    elif match := _OPERATOR.fullmatch(id):
        subtask, operator, metric = match.groups()
        by_subtask.setdefault(int(subtask), _Values()).operators.setdefault(operator, {})[metric] = value
    elif match := _TASK.fullmatch(id):
        by_subtask.setdefault(int(match[1]), _Values()).task[match[2]] = value


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


def rate_names(vertex: Vertex, listed: Iterable[str]) -> dict[str, list[str]]:
    """The metrics for each of a vertex's rates, of all its metric ids.

    A source reads what its first operator does (its task counts no records in); a vertex with windows sends what they
    fire (a sink in the same chain has no records out).
    """
    known = {id.partition(".")[2] for id in listed}
    source = first_operator(vertex)
    windows = sorted(name.removesuffix(f".{_LATE}") for name in known if name.endswith(f".{_LATE}"))
    names = {
        "taken": [f"{source}.{_IN_RATE}", f"{source}.{_OUT_RATE}"] if not vertex.inputs else [_IN_RATE],
        "sent": [f"{windows[-1]}.{_OUT_RATE}"] if windows else [_OUT_RATE],
        "pending": [f"{source}.{_PENDING}"] if not vertex.inputs else [],
    }
    return {rate: [name for name in group if name in known] for rate, group in names.items()}


def rates_of(names: Mapping[str, Sequence[str]], sums: Mapping[str, float]) -> Rates:
    """The rates from the JobManager's sums over the subtasks, of several the greatest; None if a metric is missing."""
    greatest = {
        rate: max((sums[name] for name in group if name in sums), default=None) for rate, group in names.items()
    }
    pending = greatest.get("pending")
    return Rates(greatest.get("taken"), greatest.get("sent"), None if pending is None else int(pending))
