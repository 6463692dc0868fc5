"""What an application reports of its streaming queries: its events in Spark's form, and the facts from them (times ms).

Then the facts of all taps on one query. Pure.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ...snapshot import SiblingQuery
from ...system.errors import one_line
from ...watermarks.settings import WindowSpec
from ..topic import TopicFacts
from . import known
from .checkpoint import CheckpointFacts, RecordedBatch
from .files import Int64, UnreadableError, decode_json
from .open_windows import OpenWindows
from .plan import PlanFacts
from .tapped import Count, InputFacts

VERSION = 2
"""The version of the file that a job publishes."""
_LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$"
_EXECUTION_START = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"

_EPOCH, _MS = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)


def time_ms(text: str | None) -> int | None:
    """An ISO time in Spark's form; None for anything else."""
    try:
        return None if text is None else (datetime.fromisoformat(text) - _EPOCH) // _MS
    except (ValueError, TypeError, OverflowError):
        return None


Rate = float | str | None
"""Spark writes "NaN" and "Infinity" as strings."""
Batch = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class ApplicationStart(Struct, frozen=True, tag_field="Event", tag="SparkListenerApplicationStart"):
    """The application has started."""

    name: str = msgspec.field(name="App Name")
    time_ms: Int64 = msgspec.field(name="Timestamp")


class ApplicationEnd(Struct, frozen=True, tag_field="Event", tag="SparkListenerApplicationEnd"):
    """The application has ended by itself."""


class EnvironmentUpdate(Struct, frozen=True, tag_field="Event", tag="SparkListenerEnvironmentUpdate"):
    """The application's settings."""

    settings: dict[str, str] = msgspec.field(name="Spark Properties", default={})


class ExecutionStart(Struct, frozen=True, rename="camel", tag_field="Event", tag=_EXECUTION_START):
    """Spark has begun to execute a plan: one per batch for a streaming query, and more inside it."""

    execution_id: Int64
    time: Int64
    spark_plan_info: msgspec.Raw
    root_execution_id: Int64 | None = None
    description: str = ""
    modified_configs: dict[str, str] = {}


class QueryStarted(Struct, frozen=True, rename="camel", tag_field="Event", tag=_LISTENER + "QueryStartedEvent"):
    """A query has started."""

    id: str
    run_id: str
    name: str | None = None
    timestamp: str | None = None


class SourceProgress(Struct, frozen=True, rename="camel"):
    """A source in a batch; offsets are JSON as text, only in a listener's event JSON itself."""

    description: str = ""
    end: Any = msgspec.field(name="endOffset", default=None)
    latest: Any = msgspec.field(name="latestOffset", default=None)
    """The end of the available input; None: the source does not report it."""
    num_input_rows: Count = 0
    input_rows_per_second: Rate = None
    processed_rows_per_second: Rate = None


class StateFacts(Struct, frozen=True, rename="camel"):
    """A stateful operator after a batch."""

    operator: str = msgspec.field(name="operatorName", default="")
    num_rows_total: Count = 0
    memory_bytes: Count | None = msgspec.field(name="memoryUsedBytes", default=0)
    dropped_at_least: Count = msgspec.field(name="numRowsDroppedByWatermark", default=0)
    """Rows that the batch dropped as late: most operators count them after partial aggregation."""
    partitions: Count = msgspec.field(name="numShufflePartitions", default=0)
    instances: Count = msgspec.field(name="numStateStoreInstances", default=0)
    """How often the batch opened a store: in each partition a join has four, with newer formats of its state one."""

    @property
    def counts_rows(self) -> bool:
        """Whether `dropped_at_least` is exact in one use of the batch's rows: nothing is aggregated before it."""
        by_row = ("dedupe", "symmetrichash", "statefulstream", "applyinpandas", "flatmapgroups", "transformwith")
        return self.operator.lower().startswith(by_row)

    def of_one_use(self, *, by_function: bool) -> "StateFacts":
        """Its numbers in one use of a batch's rows: Spark adds up all uses. Of rows that a function drops it is only
        certain that there were some: a use that stops early counts them, and no store that it has not finished.
        """
        is_join = self.operator == "symmetricHashJoin" and self.instances >= 4 * self.partitions
        stores = max(1, self.partitions * (4 if is_join else 1))
        uses, rest = divmod(max(self.instances, stores), stores)
        rows = -1 if rest else self.num_rows_total // uses
        memory = None if rest else self.memory_bytes and self.memory_bytes // uses
        dropped = min(1, self.dropped_at_least) if by_function else self.dropped_at_least
        return replace(self, num_rows_total=rows, memory_bytes=memory, dropped_at_least=dropped)

    @property
    def rows(self) -> int | None:
        """Its rows; None: the state store does not count them."""
        return self.num_rows_total if self.num_rows_total >= 0 else None


class Sink(Struct, frozen=True):
    """Where a batch's rows go."""

    description: str = ""


class BatchProgress(Struct, frozen=True, rename="camel"):
    """A query's report on a batch."""

    id: str
    run_id: str
    batch: Batch = msgspec.field(name="batchId")
    name: str | None = None
    timestamp: str | None = None
    batch_duration: Int64 | None = None
    durations_ms: dict[str, Int64] = msgspec.field(name="durationMs", default={})
    event_time: dict[str, str] = {}
    states: tuple[StateFacts, ...] = msgspec.field(name="stateOperators", default=())
    sources: tuple[SourceProgress, ...] = ()
    sink: Sink = Sink()
    observed_metrics: dict[str, Any] = {}

    @property
    def timestamp_ms(self) -> int | None:
        """When its trigger started."""
        return time_ms(self.timestamp)

    @property
    def duration_ms(self) -> int | None:
        """How long it took."""
        return self.durations_ms.get("triggerExecution", self.batch_duration)

    @property
    def phases_ms(self) -> dict[str, int]:
        """How long each of its phases took."""
        return {one_line(name, 60): ms for name, ms in self.durations_ms.items() if name != "triggerExecution"}

    @property
    def watermark_ms(self) -> int | None:
        """The watermark in force in it; None: there is none, or it has not moved since the start (Spark says 1970)."""
        return (time_ms(self.event_time.get("watermark")) or 0) or None

    @property
    def is_used_by_function(self) -> bool:
        """Whether a function (`foreachBatch`) gets its rows: it may use them several times, also only some of them."""
        return self.sink.description.startswith("ForeachBatch")

    @property
    def is_idle(self) -> bool:
        """Whether its trigger found nothing to do: then its number is that of the last batch, or of the next one."""
        asked = self.durations_ms.keys() & {"latestOffset", "getOffset"}
        return bool(asked) and "addBatch" not in self.durations_ms and not self.rows

    @property
    def rows(self) -> int:
        """The rows of all its sources."""
        return sum(source.num_input_rows for source in self.sources)

    @property
    def dropped(self) -> int:
        """The late rows that its operators dropped, at least."""
        return sum(state.dropped_at_least for state in self.states)

    @property
    def input_rows_per_second(self) -> float | None:
        """Over all sources, as is the next one."""
        return _sum(source.input_rows_per_second for source in self.sources)

    @property
    def processed_rows_per_second(self) -> float | None:
        """The rate at which they were processed."""
        return _sum(source.processed_rows_per_second for source in self.sources)


class QueryProgress(Struct, frozen=True, tag_field="Event", tag=_LISTENER + "QueryProgressEvent"):
    """A batch has been carried out."""

    progress: BatchProgress


class QueryIdle(Struct, frozen=True, rename="camel", tag_field="Event", tag=_LISTENER + "QueryIdleEvent"):
    """The query has nothing to do: about every 10 s."""

    id: str
    run_id: str
    timestamp: str | None = None


class RunningBatch(Struct, frozen=True):
    """A batch that has begun and is not reported yet, and the watermark in force in it, where its plan shows that."""

    batch: int
    since_ms: int
    watermark_ms: int | None = None


class QueryTerminated(Struct, frozen=True, rename="camel", tag_field="Event", tag=_LISTENER + "QueryTerminatedEvent"):
    """A query has ended; the event does not say when. Only a job that publishes adds the batch that began last."""

    id: str
    run_id: str
    exception: str | None = None
    running: RunningBatch | None = None


ApplicationEvent = ApplicationStart | ApplicationEnd | EnvironmentUpdate
QueryEvent = ExecutionStart | QueryStarted | QueryProgress | QueryIdle | QueryTerminated


_event: msgspec.json.Decoder[ApplicationEvent | QueryEvent] = msgspec.json.Decoder(ApplicationEvent | QueryEvent)

STARTS = tuple(f'{{"Event":"{kind.__struct_config__.tag}"'.encode() for kind in get_args(ApplicationEvent | QueryEvent))
"""The beginnings of lines with one of these events."""


def decode_event(line: bytes) -> ApplicationEvent | QueryEvent:
    """The event of a line that begins with one of `STARTS`; UnreadableError if the line is invalid."""
    try:
        return _event.decode(line)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(one_line(str(error))) from None


def decode_progress(text: str) -> BatchProgress:
    """The JSON of a `StreamingQueryProgress`; UnreadableError for anything else."""
    return decode_json(text, BatchProgress)


def _sum(rates: Iterable[Rate]) -> float | None:
    finite = [rate for rate in rates if isinstance(rate, float) and math.isfinite(rate)]
    return sum(finite) if finite else None


class EventMax(Struct, frozen=True):
    """The greatest event time (ms) reported by batches in which exactly these `sources` delivered rows."""

    sources: tuple[int, ...]
    max_ms: int


class QueryRun(Struct, frozen=True, kw_only=True):
    """One run of a query: `id` survives restarts, `run_id` does not."""

    id: str
    run_id: str
    name: str | None = None
    is_whole: bool = True
    """Whether all its events since its start are known."""
    started_ms: int | None = None
    """The first time in its events, by the query's clock, and the last one."""
    last_event_ms: int | None = None
    idle_ms: int | None = None
    """When it last reported that it had nothing to do; None: not since its last batch."""
    ended: bool = False
    error: str | None = None
    """Why it ended, unless it was stopped: the exception's first line."""
    running: RunningBatch | None = None
    """The batch that runs, or the one in which the run ended."""
    progress: BatchProgress | None = None
    plan: PlanFacts | None = None
    """None: not seen (yet)."""
    watermark_policy: str | None = None
    """How the watermarks of several nodes are combined: min or max; None: not known."""
    max_event_ms: int | None = None
    """The greatest event time of all batches, from any node."""
    event_max: tuple[EventMax, ...] = ()
    """The same by the sources with rows: Spark reports the plan's first watermark that had rows."""
    silent: tuple[int, ...] | None = None
    """The sources without a row in this run; None before its first report."""
    dropped_at_least: int | None = None
    """Late rows dropped since this run started; None: not known, as before its first report."""
    dropped_at_watermark: int | None = 0
    """Those in batches whose earliest event time was the watermark itself; only for one watermark with a delay of 0."""
    dropped_behind_ms: int | None = None
    """How far the earliest event time of a batch that dropped rows lay behind the greatest of the batches before it."""
    history: tuple[RecordedBatch, ...] = ()
    """Its last batches."""
    moved_ms: int | None = None
    """When the batch began whose end gave the watermark its present value; its first batch, if none did."""
    unmoved: int | None = 0
    """Batches with rows since then; None: not known."""
    first_watermark_ms: int | None = None
    """The watermark in force in its first batch, which the run before left."""
    inputs: tuple[InputFacts, ...] = ()
    continuous: bool = False
    """Continuous processing: it reports no batches, and has no watermark."""
    pause_ms: int | None = None
    """Its longest pause between batches, or a batch and an idle report, except the first; None: there was none yet."""


NO_RUN = QueryRun(id="", run_id="", dropped_at_watermark=None, unmoved=None)
"""In place of a run: nothing is reported."""


class Application(Struct, frozen=True, kw_only=True):
    """An application's report on its streaming queries; a job that publishes writes it as JSON (times ms)."""

    app: str | None
    """The application's name."""
    app_id: str | None = None
    pid: int = 0
    version: int = VERSION
    started_ms: int | None = None
    written_ms: int | None = None
    """When it last wrote."""
    queries: tuple[QueryRun, ...] = ()
    """The runs of its streaming queries, the last started last."""
    alive: bool | None = None
    """Whether it still runs; None: it does, or it died without a trace in its log."""
    unread: int = 0
    """Bytes of the log that are left for the next time."""
    trouble: str | None = None
    """One line on what could not be read, by the job or of it."""


class Report(Struct, frozen=True, kw_only=True):
    """What an application reports of one query."""

    tap: Literal["event log", "publish", "driver"]
    run: QueryRun | None
    """The last run of the query; None: it has not started yet."""
    alive: bool | None
    """As `Application.alive`."""
    trouble: str | None
    out_of_reach: bool = False
    """Its source has not answered for some time."""
    siblings: list[SiblingQuery] | None = None
    """The last run of each other query of the application."""
    heard_ms: int | None = None
    """When the last line or file was written, by the file system's clock."""
    unread: int = 0
    """As `Application.unread`."""
    is_elsewhere: bool = False
    """It was fetched from another machine: paths in it are not those of this one."""
    checkpoint: str | None = None
    """The query's checkpoint directory by this run or an earlier one of the same query."""
    writes: tuple[str, ...] | None = None
    """The same for the topics that it writes."""
    plans: tuple[PlanFacts, ...] = ()
    """The plans of this run and of the query's runs before it in the same application."""
    moved_by: PlanFacts | None = None
    """The plan of the one that moved the watermark last; None: none of them has."""


class QueryFacts(Struct, frozen=True, kw_only=True):
    """The facts of all taps on one query at one moment; None: no such tap."""

    checkpoint: CheckpointFacts | None = None
    report: Report | None = None
    windows: tuple[OpenWindows, ...] | None = None
    window: WindowSpec | None = None
    """How windows are made, as far as the windows seen so far show it."""
    topics: TopicFacts | None = None
    """The broker's facts about the query's topics."""

    @property
    def is_out_of_reach(self) -> bool:
        """Whether what shows its state has not answered for some time."""
        return (self.report if self.report and self.report.run else self.stored).out_of_reach

    @property
    def run(self) -> QueryRun:
        """The query's last run, as it reports it; `NO_RUN`: it reports none."""
        return (self.report and self.report.run) or NO_RUN

    @property
    def plan(self) -> PlanFacts | None:
        """The plan of the last run."""
        return self.run.plan

    @property
    def progress(self) -> BatchProgress | None:
        """The last batch that the query reported."""
        return self.run.progress

    @property
    def stored(self) -> CheckpointFacts:
        """What the checkpoint has: nothing without one."""
        return self.checkpoint or CheckpointFacts()

    @property
    def is_by_driver(self) -> bool:
        """Whether all that is known is what a driver's web server shows: no next watermark, no times, no sources."""
        return self.report is not None and self.report.tap == "driver"

    @property
    def begun(self) -> CheckpointFacts | None:
        """The checkpoint, if a batch has begun in it."""
        return self.checkpoint if self.stored.batch is not None else None

    @property
    def batch(self) -> int | None:
        """The last batch that has begun."""
        reported = (one.batch for one in (self.progress, self.run.running) if one is not None)
        return max(known(self.stored.batch, *reported), default=None)

    @property
    def running(self) -> RunningBatch | None:
        """The batch that it reports to be running, or ended in, not yet in the checkpoint; in real-time mode any."""
        running, shown = self.run.running, self.stored.batch
        return running if running is not None and (shown is None or running.batch > shown) else None

    @property
    def is_slowest_clock(self) -> bool:
        """Whether the plan's clock is that of the slowest partition."""
        return self.plan is not None and self.plan.slowest_clock

    @property
    def history(self) -> Sequence[RecordedBatch]:
        """The recorded batches, the newest last: those of the last run if its start is known."""
        since_ms = self.run.started_ms or 0  # a batch that it replays has an older time in the checkpoint
        own = (batch for batch in self.stored.history if batch.begin_ms >= since_ms)
        return sorted({batch.batch: batch for batch in (*own, *self.run.history)}.values(), key=lambda one: one.batch)
