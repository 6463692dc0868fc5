"""The part of a snapshot that only a Flink job has; times in epoch ms."""

import re
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar, Literal

from msgspec import Struct, field

from ..source import SourceView
from ..watermark import ChannelView
from .any_target import AnyTarget, JobLanguage, Load

NO_METRICS = "metrics.fetcher.update-interval is 0, so the JobManager fetches no metrics: set it to 10 s"
"""A snapshot's error where the JobManager is configured to know nothing of its jobs' watermarks."""
_SQL_NODE = re.compile(r"\w\[\d+\]")
"""Flink's planner numbers the operators of SQL and the Table API: `GlobalWindowAggregate[5]`."""


class FlinkVertex(Struct, frozen=True):
    """A task of the job's plan; `None`: not known."""

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
    """The distance between its subtasks' lowest and highest output watermark."""
    slowest: int | None = None
    """The subtask with the lowest output."""
    late: int | None = None
    """Late records that it dropped, also before restarts; the greatest of its counters. None: none is counted, or it
    is not known, as for a join, or where a side output may have them."""
    late_at_least: bool = False
    """`late` is a lower bound (for None: some may be dropped). Several counters may count the same record, a two-phase
    SQL aggregate counts partial rows, `HOP` has several rows for a record, and a restart forgets earlier counts."""
    busy: float | None = None
    """Share of time that its busiest subtask is busy."""
    back_pressured: float | None = None
    windowed: bool = False
    taken_per_second: float | None = None
    """Records per second that it receives (a source: that it reads)."""
    sent_per_second: float | None = None
    """Records per second that it sends; with windows: that they fire."""
    pending: int | None = None
    """Unread records that a source reports: a lower bound, and 0 proves nothing."""
    drift_ms: int | None = None
    """A source with watermark alignment: how far its fastest subtask is beyond the limit (> 0 proves no pause)."""
    delay_ms: int = 0
    """How much later the watermark it sends is than the one it receives: by the bound of an interval join of SQL."""
    read: int | None = None
    """Records that it has received (a source: read) since the job last began to run."""
    since_ms: int | None = None
    """When `input_ms` was seen to change, or first seen, by this machine's clock (epoch ms)."""


class FlinkJob(AnyTarget, frozen=True):
    """The watched job, as its JobManager reports it."""

    charts_batches: ClassVar[bool] = False
    expects_channels: ClassVar[bool] = True
    has_tasks: ClassVar[bool] = True
    hides_writes: ClassVar[bool] = True
    news_from: ClassVar[Literal["query", "job", "source"]] = "job"
    previews_any_value: ClassVar[bool] = True
    reports_drops: ClassVar[bool] = True
    reports_settings: ClassVar[bool] = False
    shows_event_times: ClassVar[bool] = False

    id: str
    name: str
    state: str
    operator: str | None
    """The id of the vertex whose watermark is shown."""
    vertices: list[FlinkVertex]
    sampled_ms: int | None = None
    """When the metrics were taken, by the JobManager's clock; they are up to `interval_ms` old."""
    interval_ms: int | None = None
    restarts: int | None = None
    checkpoint_ms: int | None = None
    """When the last checkpoint was completed, by the JobManager's clock; None: no checkpoint yet, or not known."""
    topics: list[str] = field(default_factory=list[str])
    """The Kafka topics that its sources read; spelled as in metrics (`_` for `.`) unless a broker is given."""
    bootstrap: str | None = None
    """The broker given for these topics."""
    clock_ms: int | None = None
    """The JobManager's clock at `now_ms` of the snapshot; the two machines' clocks may differ."""
    held_in: str | None = None
    """The id of the vertex with the channel that holds back the operator's watermark; without such a channel, of a task
    that waits, or whose input holds it back: which one is not known.
    """
    checkpoint_took_ms: int | None = None
    checkpoint_bytes: int | None = None
    """The size of the last completed checkpoint's state."""
    checkpoints_failed: int | None = None
    submitted_ms: int | None = None
    """When it was submitted, and when it last began to run, by the JobManager's clock."""
    running_ms: int | None = None
    failure: str | None = None
    """The cause of its last failure, in one line, also of one that it has recovered from."""
    delays: dict[str, int] = field(default_factory=dict[str, int])
    """By channel: how much later (ms) tasks on the way send its watermark; its own is `watermark_ms` plus this."""
    unanswered: bool = False
    """Whether the JobManager did not answer: all else is from its last answer."""
    operator_gone: bool = False
    """Since the start the job was submitted again, and no operator is named like the chosen one."""
    rescales: int | None = None
    """How many of `restarts` were rescales; None: not reported (Flink 1.20)."""
    late_at_least: bool = False
    """`totals.late` is a lower bound, also a 0: tasks may drop the same record or others, or it is one of a task's."""

    @property
    def chosen(self) -> FlinkVertex | None:
        """The vertex whose watermark is shown."""
        return next((vertex for vertex in self.vertices if vertex.id == self.operator), None)

    def reached_upstream(self) -> dict[str, int]:
        """How far each task above the chosen operator has come, by the task's id: the greatest watermark (ms) that it
        sends, and, as `ID read`, the records that a source has read.
        """
        tasks = {vertex.id: vertex for vertex in self.vertices}
        above = [] if self.operator is None else [self.operator]
        for id in above:
            above += [input for input in (tasks[id].inputs if id in tasks else []) if input not in above]
        known = [tasks[id] for id in above if id in tasks]
        sent = {task.id: task.output_ms + (task.spread_ms or 0) for task in known[1:] if task.output_ms is not None}
        return sent | {f"{task.id} read": task.read for task in known if not task.inputs and task.read is not None}

    @property
    def read_per_second(self) -> float | None:
        """Records per second that all sources read; None if one of them does not report it."""
        sources = [vertex for vertex in self.vertices if not vertex.inputs and vertex.status == "RUNNING"]
        rates = [source.taken_per_second for source in sources]
        return sum(rate for rate in rates if rate is not None) if rates and None not in rates else None

    def busiest(self, load: Callable[[FlinkVertex], float | None]) -> float | None:
        """The greatest load of any vertex."""
        return max((share for vertex in self.vertices if (share := load(vertex)) is not None), default=None)

    @property
    def target_kind(self) -> str:
        return "flink"

    @property
    def written_in(self) -> JobLanguage:
        is_planned = any(_SQL_NODE.search(task.name) for task in self.vertices)
        return "flink_sql" if is_planned else "flink_java"

    @property
    def reported_now_ms(self) -> int | None:
        return self.clock_ms

    def load(self, *, is_stale: bool) -> Load:
        if is_stale:
            return Load()
        return Load(
            read_per_second=self.read_per_second,
            sent_per_second=None if self.chosen is None else self.chosen.sent_per_second,
            busy=self.busiest(lambda task: task.busy),
            back_pressured=self.busiest(lambda task: task.back_pressured),
        )

    def topics_read(
        self, source: SourceView | None, channels: Sequence[ChannelView], known: Collection[str]
    ) -> set[str]:
        """Flink's metrics spell `.` as `_`: a name that can mean several known topics stands for none of them."""
        real = {name: sorted(each for each in known if each.replace(".", "_") == name) for name in self.topics}
        return {" or ".join(alike) or name for name, alike in real.items()}
