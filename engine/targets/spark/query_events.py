"""Events of streaming queries, and of the application, in the form of Spark's event log."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ...system.errors import one_line
from .checkpoint_files import Int64
from .files import UnreadableError

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


class SourceReport(Struct, frozen=True, rename="camel"):
    """A source in a batch; offsets are text with JSON in a log, JSON in a listener's event."""

    description: str = ""
    end_offset: Any = None
    latest_offset: Any = None
    num_input_rows: Count = 0
    input_rows_per_second: Rate = None
    processed_rows_per_second: Rate = None


class StateReport(Struct, frozen=True, rename="camel"):
    """A stateful operator after a batch."""

    operator_name: str = ""
    num_rows_total: Count = 0
    memory_used_bytes: Count = 0
    num_rows_dropped_by_watermark: Count = 0


class Progress(Struct, frozen=True, rename="camel"):
    """A query's report on a batch."""

    id: str
    run_id: str
    batch_id: Batch
    name: str | None = None
    timestamp: str | None = None
    batch_duration: Int64 | None = None
    duration_ms: dict[str, Int64] = {}
    event_time: dict[str, str] = {}
    state_operators: tuple[StateReport, ...] = ()
    sources: tuple[SourceReport, ...] = ()
    observed_metrics: dict[str, Any] = {}


class QueryProgress(Struct, frozen=True, tag_field="Event", tag=_LISTENER + "QueryProgressEvent"):
    """A batch has been carried out."""

    progress: Progress


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
_progress = msgspec.json.Decoder(Progress)
_plan = msgspec.json.Decoder(PlanNode)

_KINDS = (
    *(kind.__struct_config__.tag for kind in (ApplicationStart, ApplicationEnd, EnvironmentUpdate)),
    *(kind.__struct_config__.tag for kind in (ExecutionStart, QueryStarted, QueryProgress, QueryIdle, QueryTerminated)),
)
STARTS = tuple(f'{{"Event":"{kind}"'.encode() for kind in _KINDS)
"""The beginnings of lines with one of these events."""


def decode_event(line: bytes) -> ApplicationEvent | QueryEvent:
    """The event of a line that begins with one of `STARTS`; UnreadableError if the line is invalid."""
    return _decoded(_event, line)


def decode_progress(text: str) -> Progress:
    """The JSON of a `StreamingQueryProgress`; UnreadableError for anything else."""
    return _decoded(_progress, text)


def decode_plan(plan: bytes | msgspec.Raw) -> PlanNode:
    """The plan in an `ExecutionStart`."""
    return _decoded(_plan, bytes(plan))


def time_ms(text: str | None) -> int | None:
    """An ISO time in Spark's form; None for anything else."""
    try:
        return None if text is None else (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, TypeError, OverflowError):
        return None


def _decoded(decoder: msgspec.json.Decoder[Any], content: bytes | str) -> Any:
    try:
        return decoder.decode(content)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(one_line(str(error))) from None
