"""What the JobManager reports of a job, as plain structs.

Watermarks are Flink's own numbers: `MIN` is "none yet", `MAX` "end of stream"; `None` is "not in the dump".
"""

from msgspec import Struct

from ...watermarks.times import MIN

RUNS: frozenset[str] = frozenset({"INITIALIZING", "CREATED", "RUNNING", "RESTARTING", "FAILING", "RECONCILING"})
"""The states of a job that is not over."""


class Job(Struct, frozen=True, rename={"id": "jid", "started_ms": "start-time"}):
    """A job as `/jobs/overview` lists it; times in epoch ms."""

    id: str
    name: str
    state: str
    started_ms: int
    """When it last began to run (`/jobs/overview`: when it was submitted)."""
    submitted_ms: int | None = None


class Edge(Struct, frozen=True):
    """An edge of the graph: the vertex upstream, and whether each subtask reads only its counterpart."""

    vertex: str
    forward: bool


class Vertex(Struct, frozen=True):
    """A task of the job: a chain of operators."""

    id: str
    name: str
    """The name in Flink's form: `Source: orders -> Map`."""
    parallelism: int
    status: str
    inputs: tuple[Edge, ...] = ()


class Graph(Struct, frozen=True):
    """A job's vertices in the order of the plan, from the sources on."""

    job: Job
    now_ms: int
    """The JobManager's clock."""
    vertices: tuple[Vertex, ...] = ()


class Split(Struct, frozen=True):
    """A split of a source subtask; a name is spelled as in the metrics, where `.` `:` `,` and space became `_`."""

    id: str
    watermark: int | None = None
    idle_ms: int | None = None
    """Accumulated idle time; grows in steps of 5 s."""
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
    quiet_ms: int | None = None
    """Kafka: how long, at least, nothing was read from it."""


class Subtask(Struct, frozen=True):
    """A parallel instance of a vertex."""

    index: int
    input: int | None = None
    """Its combined input watermark."""
    output: int | None = None
    """The watermark that its last operator sends; of several branches the lowest."""
    branches: tuple[int, ...] = ()
    """The watermarks of several branches of its chain, in the order of their names; empty: it has one."""
    source_output: int | None = None
    """The watermark that the source operator itself sends, where others are chained to it."""
    splits: tuple[Split, ...] = ()
    busy: float | None = None
    """Share of time that it was busy, 0 to 1."""
    back_pressured: float | None = None
    late: int | None = None
    """Records that its window operators dropped, since its last restart."""
    source_idle_ms: int | None = None
    """How long its source as a whole has had nothing to read."""
    drift_ms: int | None = None
    """How far it is beyond the limit of watermark alignment; above 0 it is paused."""


class Rates(Struct, frozen=True):
    """Records per second that a vertex receives and sends (its windows: fire), from Flink's meters."""

    taken: float | None = None
    sent: float | None = None
    pending: int | None = None
    """Unread records that a source reports; 0 proves nothing."""


class VertexSample(Struct, frozen=True):
    """The subtasks of a vertex; `windowed`: one of its operators drops late records."""

    vertex: Vertex
    subtasks: tuple[Subtask, ...]
    windowed: bool = False
    rates: Rates = Rates()


class Sample(Struct, frozen=True):
    """One dump of metrics, dated by the JobManager's clock (epoch ms)."""

    at_ms: int
    vertices: tuple[VertexSample, ...]
    whole: bool = True
    """Whether the gauges of all subtasks are present."""


class Checkpoint(Struct, frozen=True):
    """The last completed checkpoint; all None: there was none."""

    completed_ms: int | None = None
    """When (JobManager's clock, epoch ms)."""
    took_ms: int | None = None
    size: int | None = None
    """The size of its state (bytes)."""
    failed: int | None = None
    """How many checkpoints of the job failed."""


class Unread(Struct, frozen=True):
    """A Kafka partition when the last metrics were taken; `read` is the number of records read between the last
    samples.
    """

    backlog: int
    behind_end_ms: int | None = None
    read: int | None = None


UnreadBySplit = dict[tuple[str, str], Unread]
"""By vertex and split: two sources may read the same partition."""


def kafka_splits(sample: Sample | None) -> list[tuple[str, Split]]:
    """The Kafka splits of a sample, each with its vertex's id."""
    vertices = sample.vertices if sample is not None else ()
    return [
        (vertex.vertex.id, split)
        for vertex in vertices
        for subtask in vertex.subtasks
        for split in subtask.splits
        if split.topic is not None
    ]


def or_min(watermark: int | None) -> int:
    """The watermark; `MIN` for none."""
    return MIN if watermark is None else watermark
