"""The events of a Spark application about its streaming queries: the same in its event log and in the job itself."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta, Struct

from ...system.errors import one_line
from .checkpoint_files import Int64
from .files import UnreadableError, decode_json

_LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$"
_EXECUTION_START = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Rate = float | str | None
"""Spark writes "NaN" and "Infinity" as strings."""
Count = Annotated[int, Meta(ge=-(2**44), le=2**44)]
"""Bounded so that sums fit 64 bits; negative counts mean "not counted"."""
Batch = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class ApplicationStart(Struct, frozen=True, tag_field="Event", tag="SparkListenerApplicationStart"):
    """The application has started."""

    name: str = msgspec.field(name="App Name")
    time_ms: Int64 = msgspec.field(name="Timestamp")


class ApplicationEnd(Struct, frozen=True, tag_field="Event", tag="SparkListenerApplicationEnd"):
    """The application has ended by itself."""

    time_ms: Int64 = msgspec.field(name="Timestamp")


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
    memory_bytes: Count = msgspec.field(name="memoryUsedBytes", default=0)
    dropped_at_least: Count = msgspec.field(name="numRowsDroppedByWatermark", default=0)
    """Rows that the batch dropped as late: they are counted after partial aggregation."""

    @property
    def rows(self) -> int | None:
        """Its rows; None: the state store does not count them."""
        return self.num_rows_total if self.num_rows_total >= 0 else None


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


class QueryTerminated(Struct, frozen=True, rename="camel", tag_field="Event", tag=_LISTENER + "QueryTerminatedEvent"):
    """A query has ended; the event does not say when."""

    id: str
    run_id: str
    exception: str | None = None


ApplicationEvent = ApplicationStart | ApplicationEnd | EnvironmentUpdate
QueryEvent = ExecutionStart | QueryStarted | QueryProgress | QueryIdle | QueryTerminated


class PlanNode(Struct, frozen=True, rename="camel"):
    """A node of an executed plan."""

    simple_string: str = ""
    children: tuple["PlanNode", ...] = ()


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


def decode_plan(plan: bytes | msgspec.Raw) -> PlanNode:
    """The plan in an `ExecutionStart`."""
    return decode_json(bytes(plan), PlanNode)


def time_ms(text: str | None) -> int | None:
    """An ISO time in Spark's form; None for anything else."""
    try:
        return None if text is None else (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, TypeError, OverflowError):
        return None


def _sum(rates: Iterable[Rate]) -> float | None:
    known = [rate for rate in rates if isinstance(rate, float) and math.isfinite(rate)]
    return sum(known) if known else None
