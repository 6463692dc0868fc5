"""What the JobManager reports of a job, as plain structs, and the metric names that they are read from. Pure.

Watermarks are Flink's own numbers: `MIN` is "none yet", `MAX` "end of stream"; `None` is "not in the dump".

A metric's name is `<subtask>.<operator>.<metric>` or `<subtask>.<metric>`. In operator and split names Flink writes `_`
for a space and for `.` `:` `,`, and cuts operators at 80 characters.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct, field

from ...watermarks.times import MAX, MIN

RUNS: frozenset[str] = frozenset({"INITIALIZING", "CREATED", "RUNNING", "RESTARTING", "FAILING", "RECONCILING"})
"""The states of a job that is not over."""


class ListedJob(Struct, frozen=True, rename={"id": "jid", "started_ms": "start-time"}):
    """A job as `/jobs/overview` lists it; times in epoch ms."""

    id: str
    name: str
    state: str
    started_ms: int
    """When it last began to run (`/jobs/overview`: when it was submitted)."""
    submitted_ms: int | None = None


class Edge(Struct, frozen=True):
    """An edge of the graph: the vertex upstream, and whether each subtask reads only its share of the subtasks."""

    vertex: str
    forward: bool


class Vertex(Struct, frozen=True, rename={"started_ms": "start-time"}):
    """A task of the job: a chain of operators."""

    id: str
    name: str
    """The name in Flink's form: `Source: orders -> Map`."""
    parallelism: Annotated[int, Meta(le=32_768)]
    """Within Flink's own bound: of a larger one no list of subtasks is made."""
    status: str
    inputs: tuple[Edge, ...] = ()
    untimed: bool = False
    """None of its windows is known to wait for event time: count windows, for example."""
    windows_per_record: int = 1
    """In how many windows a record may be where SQL makes a row for each of them (`HOP`, `CUMULATE`)."""
    delay_ms: int = 0
    """How much later than it receives its watermark it sends it on: SQL's interval join does, by its bounds."""
    waits: bool = False
    """It was seen to send its watermark later than it receives it, by no constant: it waits for something."""
    tasks: dict[str, int] = {}
    """How many of its subtasks are in each state."""
    started_ms: int = -1
    """When its last attempt began; of a job with several regions each is restarted alone."""

    @property
    def receives(self) -> bool:
        """Whether an operator in it receives watermarks: it reads another vertex, or is chained to a source."""
        return bool(self.inputs) or OPERATOR_SEPARATOR in self.name

    @property
    def assigns(self) -> bool:
        """Whether an operator in it assigns watermarks itself, by its name (DataStream API, SQL)."""
        return "Timestamps/Watermarks" in self.name or "WatermarkAssigner" in self.name


class Graph(Struct, frozen=True):
    """A job's vertices in the order of the plan, from the sources on."""

    job: ListedJob
    now_ms: int
    """The JobManager's clock."""
    vertices: tuple[Vertex, ...] = ()


class SampledSplit(Struct, frozen=True):
    """A split of a source subtask; a name is spelled as in the metrics, where `.` `:` `,` and space became `_`."""

    id: str
    watermark: int | None = None
    idle_ms: int | None = None
    """Accumulated idle time; grows in steps of 5 s."""
    active_ms: int | None = None
    """Accumulated active time; it, or idle or paused time, grows until the split ends."""
    idle_share: float | None = None
    """Share of the last minute for which it was idle, 0 to 1."""
    paused_ms: int | None = None
    """Accumulated time for which watermark alignment paused it; in steps of 5 s."""
    paused_share: float | None = None
    """Share of the last minute that it was paused, 0 to 1."""
    offset: int | None = None
    """Kafka: the last offset read; None: nothing was read."""
    topic: str | None = None
    """Kafka: its topic and partition."""
    partition: int | None = None


class Subtask(Struct, frozen=True):
    """A parallel instance of a vertex."""

    index: int
    input: int | None = None
    """What its windows receive, the lowest; without windows its task, and of a source its chain's last operator."""
    output: int | None = None
    """The watermark that its last operator sends; of several branches the lowest."""
    branches: tuple[int, ...] = ()
    """The watermarks of several branches of its chain, in the order of their names; empty: it has one."""
    head: int | None = None
    """What the chain before the windows begins with: what a source operator sends on, or another task receives."""
    splits: tuple[SampledSplit, ...] = ()
    busy: float | None = None
    """Share of time that it was busy, 0 to 1."""
    back_pressured: float | None = None
    late: dict[str, int] = {}
    """Late rows that its operators dropped since its last restart, by counter: a join has one for each side."""
    source_idle_ms: int | None = None
    """How long its source as a whole has had nothing to read."""
    drift_ms: int | None = None
    """How far it is beyond the limit of watermark alignment; Flink waits for a few more values before it pauses it."""

    @property
    def received(self) -> int | None:
        """The watermark that its chain receives: of a source's chain the one that the source operator sends."""
        return self.input if self.head is None else self.head

    @property
    def delay_ms(self) -> int | None:
        """How much later (ms) than received its chain sends a watermark on; None: not known, or there is none."""
        received, sent = time_of(self.received), time_of(self.output)
        return None if received is None or sent is None else received - sent


class Rates(Struct, frozen=True):
    """Records per second that a vertex receives and sends (its windows: fire), from Flink's meters."""

    taken: float | None = None
    sent: float | None = None
    read: int | None = None
    """Records that it has received (a source: read) since the job last began to run."""
    pending: int | None = None
    """Unread records that a source reports; 0 proves nothing."""


class VertexSample(Struct, frozen=True):
    """The subtasks of a vertex; `windowed`: an operator drops late records, or waits for the watermark."""

    vertex: Vertex
    subtasks: tuple[Subtask, ...]
    windowed: bool = False
    rates: Rates = Rates()


class JobSample(Struct, frozen=True):
    """One dump of metrics, dated by the JobManager's clock (epoch ms)."""

    at_ms: int
    vertices: tuple[VertexSample, ...]
    whole: bool = True
    """Whether the gauges of all subtasks are present."""


class Checkpoint(Struct, frozen=True):
    """The last completed checkpoint; all None: there was none."""

    completed_ms: int | None = field(name="latest_ack_timestamp", default=None)
    """When (JobManager's clock, epoch ms)."""
    took_ms: int | None = field(name="end_to_end_duration", default=None)
    size: int | None = field(name="state_size", default=None)
    """The size of its state (bytes)."""
    failed: int | None = None
    """How many checkpoints of the job failed."""


class UnreadPartition(Struct, frozen=True):
    """A Kafka partition at the last metrics; `read`: records read between the last samples."""

    backlog: int
    behind_end_ms: int | None = None
    read: int | None = None


UnreadBySplit = dict[tuple[str, str], UnreadPartition]
"""By vertex and split: two sources may read the same partition."""


def splits_of(sample: JobSample | None) -> list[tuple[str, SampledSplit]]:
    """The splits of a sample, each with its vertex's id."""
    vertices = sample.vertices if sample is not None else ()
    return [(vertex.vertex.id, split) for vertex in vertices for task in vertex.subtasks for split in task.splits]


def or_min(watermark: int | None) -> int:
    """The watermark; `MIN` for none."""
    return MIN if watermark is None else watermark


def time_of(watermark: int | None) -> int | None:
    """A watermark as a time (epoch ms); None for none yet, end of stream, and not in the dump."""
    return None if watermark in (None, MIN, MAX) else watermark


_METRIC = re.compile(
    r"(?P<subtask>\d+)\.(?:(?P<task>currentInputWatermark|busyTimeMsPerSecond|backPressuredTimeMsPerSecond)"
    r"|(?P<operator>[^.]+)\.(?:"
    r"(?P<own>currentOutputWatermark|currentInputWatermark|numLateRecordsDropped|(?:left|right)NumLateRecordsDropped|sourceIdleTime"
    r"|watermarkAlignmentDrift)"
    r"|split\.(?P<split>.+)\.watermark\.(?P<of_split>currentWatermark|idleTimeMsPerSecond|pausedTimeMsPerSecond"
    r"|accumulated(?:Active|Idle|Paused)TimeMs)"
    r"|KafkaSourceReader\.topic\.(?P<topic>.+)\.partition\.(?P<partition>\d+)\.currentOffset))"
)
"""The metrics that are read: of a task, an operator, a split, a Kafka partition."""
_MAX_OPERATOR_LENGTH = 80
_MAX_DELAY_MS = 100 * 366 * 86_400_000
OPERATOR_SEPARATOR = " -> "
"""Between the operators of a chain, in a vertex's name."""
BRANCHES = " -> ("
"""Before several branches."""
_NEXT = "_->_"
"""The separator as it is spelled in metrics."""
_HOLDS = re.compile(r"EventTime\w*Windows|Temporal(?:Sort|Join)\[")
"""Flink's own names of operators that hold results until the watermark passes and may count no late records: windows of
PyFlink, SQL's sort and temporal join.
"""
COMPACTS = "WatermarkTimestampAssigner"
"""Flink SQL's operator before a sink that compacts by watermark: it holds its rows until the watermark passes."""
_SINK = re.compile(r"^Sink_|_(Writer|Committer)$")
_IN_RATE, _OUT_RATE = "numRecordsInPerSecond", "numRecordsOutPerSecond"
_PENDING, _LATE = "pendingRecords", "numLateRecordsDropped"
_LATE_COUNTS = (_LATE, "leftNumLateRecordsDropped", "rightNumLateRecordsDropped")
_RECEIVED = "currentInputWatermark"


def wanted(vertex: Vertex, ids: Iterable[str]) -> list[str]:
    """The metric ids that are read: what operators receive only of windows, unless they receive what the task does."""
    found = [metric for id in ids if (metric := _METRIC.fullmatch(id))]
    has_input = any(metric["task"] == _RECEIVED for metric in found)
    windows = {metric["operator"] for metric in found if metric["own"] in _LATE_COUNTS} - {first_operator(vertex)}
    kept = (each for each in found if not has_input or each["own"] != _RECEIVED or each["operator"] in windows)
    return sorted(metric[0] for metric in kept)


def _operator_id(name: str) -> str:
    """An operator's name in metrics."""
    return _escaped(name)[:_MAX_OPERATOR_LENGTH]


def _escaped(name: str) -> str:
    return re.sub(r"[ .:,]", "_", name)


def last_operator(vertex: Vertex) -> str:
    """The name in metrics of the operator whose output leaves the vertex."""
    return _operator_id(vertex.name.rpartition(OPERATOR_SEPARATOR)[2])


def first_operator(vertex: Vertex) -> str:
    """The name in metrics of the operator that the vertex begins with."""
    return _operator_id(vertex.name.partition(OPERATOR_SEPARATOR)[0])


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


def sample_of(
    vertex: Vertex, ids: Sequence[str], values: Mapping[str, str], over: Mapping[int, str] = {}
) -> tuple[VertexSample, bool]:
    """The facts about the vertex from the values, and whether every subtask is present; of those that are `over`, whose
    states these are, the FINISHED have sent Flink's last watermark, and what was kept of the rest is not read.
    """
    by_subtask: dict[int, _Values] = {}
    for id, value in values.items():
        if (metric := _METRIC.fullmatch(id)) and over.get(int(metric["subtask"]), "FINISHED") == "FINISHED":
            by_subtask.setdefault(int(metric["subtask"]), _Values()).put(metric, value)
    seen = [by_subtask.get(index, _Values()).subtask(index, vertex) for index in range(vertex.parallelism)]
    ended = {index for index, state in over.items() if state == "FINISHED"}
    subtasks = tuple(Subtask(task.index, MAX, MAX, late=task.late) if task.index in ended else task for task in seen)
    whole = len(values) == len(ids) and all(task.index in by_subtask or task.index in ended for task in seen)
    waits = _HOLDS.search(vertex.name) or COMPACTS in vertex.name or any(task.late for task in subtasks)
    return VertexSample(vertex, subtasks, bool(waits) and not vertex.untimed), whole


class _Values:
    """The values of one subtask, while they are collected."""

    def __init__(self) -> None:
        self.task: dict[str, str] = {}
        self.operators: dict[str, dict[str, str]] = {}
        self.splits: dict[str, dict[str, str]] = {}

    def put(self, metric: re.Match[str], value: str) -> None:
        """Add the value of a metric of the subtask."""
        if metric["task"]:
            self.task[metric["task"]] = value
        elif metric["own"]:
            self.operators.setdefault(metric["operator"], {})[metric["own"]] = value
        elif metric["split"]:
            self.splits.setdefault(metric["split"], {})[metric["of_split"]] = value
        else:
            topic, partition = metric["topic"], metric["partition"]
            split = self.splits.setdefault(f"{topic}-{partition}", {})
            split |= {"currentOffset": value, "topic": topic, "partition": partition}

    def subtask(self, index: int, vertex: Vertex) -> Subtask:
        """The subtask's facts."""
        outputs = {name: metrics["currentOutputWatermark"] for name, metrics in self.operators.items()
                   if "currentOutputWatermark" in metrics}  # fmt: skip
        ends = branch_ends(vertex, outputs) or (list(outputs) if len(outputs) == 1 else [])
        branches = tuple(mark for end in ends if (mark := _watermark(outputs[end])) is not None)
        drift_ms = max(self._numbers("watermarkAlignmentDrift"), default=None)
        received, of_task = self._received(vertex), _watermark(self.task.get(_RECEIVED))
        has_chain = not vertex.inputs and len(outputs) > 1
        of_source = _watermark(outputs.get(first_operator(vertex))) if has_chain else None
        return Subtask(
            index=index,
            input=of_task if received is None else received,
            # The lowest branch that has a watermark: one without may lead to nothing that needs it.
            output=min((mark for mark in branches if mark != MIN), default=MIN if branches else None),
            branches=branches if len(branches) > 1 else (),
            head=of_source if of_task is None or received in (None, of_task) else of_task,
            splits=tuple(_split(id, metrics) for id, metrics in sorted(self.splits.items(), key=_natural)),
            busy=_share(self.task.get("busyTimeMsPerSecond")),
            back_pressured=_share(self.task.get("backPressuredTimeMsPerSecond")),
            late={f"{name}.{metric}": count for name in self.operators for metric, count in self._late(name)},
            source_idle_ms=max(self._numbers("sourceIdleTime"), default=None),
            # Where no limit is set, Flink's is the end of time.
            drift_ms=drift_ms if drift_ms is not None and abs(drift_ms) < _MAX_DELAY_MS else None,
        )

    def _received(self, vertex: Vertex) -> int | None:
        """What its windows receive, the lowest; without windows its last operators."""
        marks = {name: _watermark(metrics.get(_RECEIVED)) for name, metrics in self.operators.items()}
        known = {name: mark for name, mark in marks.items() if mark is not None}
        waiting = [name for name in known if any(self._late(name))]
        return min((known[name] for name in waiting or branch_ends(vertex, known)), default=None)

    def _late(self, operator: str) -> Iterator[tuple[str, int]]:
        """The operator's counters of late rows."""
        own = self.operators[operator]
        return ((metric, count) for metric in _LATE_COUNTS if (count := _number(own.get(metric))) is not None)

    def _numbers(self, metric: str) -> list[int]:
        """The values of a metric of its operators."""
        return [number for one in self.operators.values() if (number := _number(one.get(metric))) is not None]


def _split(id: str, metrics: Mapping[str, str]) -> SampledSplit:
    offset = _number(metrics.get("currentOffset"))
    return SampledSplit(
        id=id,
        watermark=_watermark(metrics.get("currentWatermark")),
        idle_ms=_number(metrics.get("accumulatedIdleTimeMs")),
        active_ms=_number(metrics.get("accumulatedActiveTimeMs")),
        idle_share=_share(metrics.get("idleTimeMsPerSecond")),
        paused_ms=_number(metrics.get("accumulatedPausedTimeMs")),
        paused_share=_share(metrics.get("pausedTimeMsPerSecond")),
        offset=None if offset is None or offset < 0 else offset,
        topic=metrics.get("topic"),
        partition=_number(metrics.get("partition")),
    )


def _number(text: str | None) -> int | None:
    try:
        number = None if text is None else int(float(text)) if "." in text or "E" in text else int(text)
    except (ValueError, OverflowError):  # `NaN`, or what no gauge of ours says
        return None
    return number if number is not None and MIN <= number <= MAX else None


def _watermark(text: str | None) -> int | None:
    """A watermark; an operator that delays the end of the stream sends a little less than `MAX`."""
    number = _number(text)
    return MAX if number is not None and number > MAX - _MAX_DELAY_MS else number


def _share(text: str | None) -> float | None:
    per_second = _number(text)
    return per_second / 1000 if per_second is not None and 0 <= per_second <= 1000 else None


def _natural(item: tuple[str, object]) -> list[tuple[int, str]]:
    """Sorts `orders-10` after `orders-9`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d{1,18})", item[0])]


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
        "read": [f"{source}.numRecordsIn", f"{source}.numRecordsOut"] if not vertex.inputs else ["numRecordsIn"],
        "pending": [f"{source}.{_PENDING}"] if not vertex.inputs else [],
    }
    return {rate: [name for name in group if name in known] for rate, group in names.items()}


def rates_of(names: Mapping[str, Sequence[str]], sums: Mapping[str, float]) -> Rates:
    """The rates from the JobManager's sums over the subtasks, of several the greatest; None if a metric is missing."""
    greatest = {
        rate: max((sums[name] for name in group if name in sums), default=None) for rate, group in names.items()
    }
    read, pending = (None if (count := greatest.get(name)) is None else int(count) for name in ("read", "pending"))
    return Rates(greatest.get("taken"), greatest.get("sent"), read, pending)
