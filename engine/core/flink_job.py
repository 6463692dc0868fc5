"""What a snapshot says of a Flink job besides its barrel; times in epoch ms."""

from msgspec import Struct


class FlinkVertex(Struct, frozen=True):
    """A task of the job, by plan; `None`: not known."""

    id: str
    name: str
    parallelism: int
    status: str
    inputs: list[str]
    """The ids of the vertices that it reads."""
    input_ms: int | None = None
    """Its watermark: the lowest of its subtasks."""
    output_ms: int | None = None
    """The lowest watermark that its subtasks send."""
    spread_ms: int | None = None
    """How far its subtasks' outputs lie apart."""
    slowest: int | None = None
    """The subtask with the lowest output."""
    late: int | None = None
    """Records that its windows dropped, restarts included."""
    late_at_least: bool = False
    """A two-phase SQL aggregate drops partial rows, each of one record or more: `late` is a lower bound."""
    busy: float | None = None
    """Of its busiest subtask, the share of time."""
    back_pressured: float | None = None
    windowed: bool = False


class FlinkJob(Struct, frozen=True):
    """The job that is watched, as its JobManager reports it."""

    id: str
    name: str
    state: str
    operator: str | None
    """The id of the vertex whose barrel is shown."""
    vertices: list[FlinkVertex]
    sampled_ms: int | None = None
    """When the metrics were taken, by the JobManager's clock; they are up to `interval_ms` old."""
    interval_ms: int | None = None
    restarts: int | None = None
    checkpoint_ms: int | None = None
    """When the last checkpoint was completed, by the JobManager's clock; None: none was, or not known."""
    topics: list[str] = []
    """The Kafka topics that its sources read; as metrics spell them (`_` for `.`) unless a broker is named."""
    bootstrap: str | None = None
    """The broker that was named for them."""
    clock_ms: int | None = None
    """The JobManager's clock at `now_ms` of the snapshot; the two machines' clocks may differ."""
    held_in: str | None = None
    """The id of the vertex that contains the channel which holds back the operator's watermark."""
