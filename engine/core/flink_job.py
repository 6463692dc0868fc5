"""What a snapshot says of a Flink job besides its barrel; times in epoch ms."""

from collections.abc import Callable

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
    """`late` is a lower bound: a two-phase SQL aggregate drops partial rows of one record or more, and a restart
    forgets what was counted before."""
    busy: float | None = None
    """Of its busiest subtask, the share of time."""
    back_pressured: float | None = None
    windowed: bool = False
    taken_per_second: float | None = None
    """Records that it takes in; a source: that it reads."""
    sent_per_second: float | None = None
    """Records that it sends; with windows: that they fire."""
    pending: int | None = None
    """Of a source, records that it knows to be unread: a lower bound, and 0 proves nothing."""
    delay_ms: int = 0
    """By how much it sends its watermark behind the one that it takes in, where that is a constant (< 0: ahead)."""


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
    checkpoint_took_ms: int | None = None
    checkpoint_bytes: int | None = None
    """The state of the last completed checkpoint."""
    checkpoints_failed: int | None = None
    submitted_ms: int | None = None
    """When it was submitted, and when it last began to run, by the JobManager's clock."""
    running_ms: int | None = None
    failure: str | None = None
    """The cause of its last failure, in one line, also of one that it has recovered from."""
    delays: dict[str, int] = {}
    """By channel: how much later (ms) tasks on the way send its watermark; its own is its `watermark_ms` plus this."""

    @property
    def chosen(self) -> FlinkVertex | None:
        """The vertex whose barrel is shown."""
        return next((one for one in self.vertices if one.id == self.operator), None)

    @property
    def read_per_second(self) -> float | None:
        """Records per second that all sources read; None where one does not say."""
        rates = [one.taken_per_second for one in self.vertices if not one.inputs and one.status == "RUNNING"]
        return sum(rate for rate in rates if rate is not None) if rates and None not in rates else None

    def busiest(self, load: Callable[[FlinkVertex], float | None]) -> float | None:
        """The greatest load of all vertices."""
        return max((share for one in self.vertices if (share := load(one)) is not None), default=None)
