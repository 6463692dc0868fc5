"""The answers of Flink's REST API (1.20 to 2.3), reduced to the fields that are used; others are ignored."""

from msgspec import Struct, field

from .samples import Graph, Input, Job, Vertex


class JobOverview(Struct, rename={"started": "start-time"}):
    """A job in `/jobs/overview`; times in epoch ms."""

    jid: str
    name: str
    state: str
    started: int

    def job(self) -> Job:
        """The job."""
        return Job(self.jid, self.name, self.state, self.started)


class JobsOverview(Struct):
    """`/jobs/overview`."""

    jobs: list[JobOverview]


class VertexAnswer(Struct):
    """A vertex in `/jobs/J`."""

    id: str
    name: str
    parallelism: int
    status: str


class PlanInput(Struct):
    """An edge of the plan."""

    id: str
    ship_strategy: str = ""


class PlanNode(Struct):
    """A vertex in the plan."""

    id: str
    inputs: list[PlanInput] = []


class Plan(Struct):
    """The plan of `/jobs/J`."""

    nodes: list[PlanNode] = []


class JobAnswer(Struct, rename={"started": "start-time"}):
    """`/jobs/J`."""

    jid: str
    name: str
    state: str
    started: int
    now: int
    vertices: list[VertexAnswer]
    timestamps: dict[str, int] = {}
    plan: Plan = field(default_factory=Plan)

    def graph(self) -> Graph:
        """The job's graph; its start is when it last began to run."""
        inputs = {node.id: node.inputs for node in self.plan.nodes}
        vertices = tuple(
            Vertex(
                one.id,
                one.name,
                one.parallelism,
                one.status,
                tuple(Input(edge.id, edge.ship_strategy == "FORWARD") for edge in inputs.get(one.id, ())),
            )
            for one in self.vertices
        )
        started = self.timestamps.get("RUNNING") or self.started
        return Graph(Job(self.jid, self.name, self.state, started, self.started), self.now, vertices)


class BackPressure(Struct, rename={"taken": "end-timestamp"}):
    """`/jobs/J/vertices/V/backpressure`: when the present dump of metrics was requested (epoch ms)."""

    taken: int | None = None


class ExceptionEntry(Struct):
    """A failure."""

    stacktrace: str | None = None


class ExceptionHistory(Struct):
    """The failures, the newest first."""

    entries: list[ExceptionEntry] = []


class Exceptions(Struct):
    """`/jobs/J/exceptions`."""

    history: ExceptionHistory = field(name="exceptionHistory", default_factory=ExceptionHistory)


class Completed(Struct, rename={"took_ms": "end_to_end_duration", "size": "state_size"}):
    """A completed checkpoint."""

    latest_ack_timestamp: int | None = None
    took_ms: int | None = None
    size: int | None = None


class LatestCheckpoints(Struct):
    """The newest checkpoint of each kind."""

    completed: Completed | None = None


class CheckpointCounts(Struct):
    """How many checkpoints there were."""

    failed: int | None = None


class Checkpoints(Struct):
    """`/jobs/J/checkpoints`."""

    latest: LatestCheckpoints | None = None
    counts: CheckpointCounts | None = None


class Metric(Struct):
    """A metric's id, and its value if values were requested."""

    id: str
    value: str | None = None


class MetricSum(Struct):
    """A metric's sum over the subtasks of a vertex."""

    id: str
    sum: float | None = None


class ConfigEntry(Struct):
    """A line of `/jobmanager/config`."""

    key: str
    value: str | None = None


class Errors(Struct):
    """The answer in case of an error: stack traces."""

    errors: list[str] = []
