"""What an application reports of its streaming queries: its events in Spark's form, and the facts from them (times ms).

The facts are the same records from its event log and from the job itself.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ...snapshot import OperatorKind, OutputMode
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

_KINDS = (
    *(kind.__struct_config__.tag for kind in (ApplicationStart, ApplicationEnd, EnvironmentUpdate)),
    *(kind.__struct_config__.tag for kind in (ExecutionStart, QueryStarted, QueryProgress, QueryIdle, QueryTerminated)),
)
STARTS = tuple(f'{{"Event":"{kind}"'.encode() for kind in _KINDS)
"""The beginnings of lines with one of these events."""


def decode_event(line: bytes) -> ApplicationEvent | QueryEvent:
    """The event of a line that begins with one of `STARTS`; UnreadableError if the line is invalid."""
    try:
        return _event.decode(line)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(one_line(str(error))) from None


def decode_progress(text: str) -> Progress:
    """The JSON of a `StreamingQueryProgress`; UnreadableError for anything else."""
    return decode_json(text, Progress)


def decode_plan(plan: bytes | msgspec.Raw) -> PlanNode:
    """The plan in an `ExecutionStart`."""
    return decode_json(bytes(plan), PlanNode)


def time_ms(text: str | None) -> int | None:
    """An ISO time in Spark's form; None for anything else."""
    try:
        return None if text is None else (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, TypeError, OverflowError):
        return None


class PlannedWatermark(Struct, frozen=True):
    """One `withWatermark` of the plan."""

    column: str
    delay_ms: int
    inputs: tuple[str, ...] = ()
    """The taps (`InputFacts.name`) whose rows it sees."""
    sources: tuple[int, ...] = ()
    """The leaves of the plan whose rows it sees, counted from the left."""
    above: tuple[int, ...] = ()
    """The other watermarks of the plan that its rows passed before."""
    after_state: bool = False
    """Its rows come from a stateful operator."""
    filtered: bool = False
    """Rows of its sources may not reach it, because of a filter or a join below it."""
    filtered_taps: bool = False
    """The same for its taps."""
    twin: int | None = None
    """The plan's first watermark with the same rows, in a query with one source: both read it in the same way."""
    record_time: str | None = None
    """The place of its column in Kafka's records (`plan.record_time`); None: not proved, or another source."""


class PlannedOperator(Struct, frozen=True, kw_only=True):
    """One stateful operator of the plan."""

    operator: int | None
    """The number under which its state is kept."""
    kind: OperatorKind
    output_mode: OutputMode | None
    windowed: bool | None
    """Whether it is an aggregation with a time window among its keys; None: not known, or not an aggregation."""
    evicts: bool | None
    """Whether the watermark removes its state; None: not known."""
    watermarks: tuple[int, ...]
    """The watermarks (places in `PlanFacts.nodes`) that its rows have passed."""


class PlanFacts(Struct, frozen=True):
    """The facts from the query's plan, from its sink down to its sources."""

    nodes: tuple[PlannedWatermark, ...] = ()
    checkpoint: str | None = None
    """Its directory, or a URI if it is on no local file system; None: not known (a query without state)."""
    operators: tuple[PlannedOperator, ...] = ()
    leaves: int = 0
    """The number of the plan's leaves: its sources, and tables that it joins."""
    trigger_ms: int | None = None
    """The trigger's interval; 0: a batch begins as soon as the last one has ended; None: not known (plans do not show
    it).
    """


class EventMax(Struct, frozen=True):
    """The greatest event time (ms) reported by batches in which exactly these `sources` delivered rows."""

    sources: tuple[int, ...]
    max_ms: int


class SourceProgress(Struct, frozen=True):
    """A source in the last batch; offsets are JSON as text, in the source's own form."""

    description: str
    end: str | None
    latest: str | None
    """The end of the available input; None: the source does not report it."""


class StateFacts(Struct, frozen=True):
    """A stateful operator after the last batch."""

    operator: str
    rows: int | None
    """Rows; None: the state store does not count them."""
    memory_bytes: int
    dropped_at_least: int
    """Rows that the last batch dropped as late: they are counted after partial aggregation."""


class BatchProgress(Struct, frozen=True, kw_only=True):
    """The last reported batch."""

    batch: int
    timestamp_ms: int | None
    """When its trigger started."""
    duration_ms: int | None
    phases_ms: dict[str, int]
    input_rows_per_second: float | None
    """Over all sources, as is the next field."""
    processed_rows_per_second: float | None
    watermark_ms: int | None
    """The watermark in force in this batch; None: there is none, or it has not moved since the start."""
    sources: tuple[SourceProgress, ...]
    states: tuple[StateFacts, ...]


class ProgressPoint(Struct, frozen=True, array_like=True):
    """A point of the query's history: one batch, or `batches` neighbours of a long one."""

    timestamp_ms: int
    batch: int
    watermark_ms: int | None
    rows: int
    """The rows of all its batches."""
    duration_ms: int
    """The duration of its longest batch."""
    batches: int = 1


class ChannelFacts(Struct, frozen=True, array_like=True):
    """A channel of a tapped input, since the query started."""

    max_ms: int
    rows: int


class Sampled(Struct, frozen=True):
    """There were too many channels to keep: `kept` of about `of`, with exact counts."""

    kept: int
    of: int


class LatenessCounts(Struct, frozen=True, kw_only=True):
    """The rows that would have been late at each constant delay: at or before their batch's watermark.

    A count is at least the true one at its delay, and at most the true one at a delay shorter by a bucket.
    """

    bucket_ms: int
    """The width of the counted buckets of event time."""
    delays_ms: tuple[int, ...]
    spark: tuple[int, ...]
    """By Spark's rule: one clock, driven by the greatest event time of all channels."""
    barrel: tuple[int, ...] | None
    """With a clock driven by the slowest channel, none idle; None: not all channels are known."""


class InputBatch(Struct, frozen=True):
    """One batch's rows of one input, by channel."""

    timestamp_ms: int | None
    channels: dict[str, ChannelFacts]


class InputFacts(Struct, frozen=True, kw_only=True):
    """An input with a tap before its watermark, since the query started."""

    name: str
    rows: int
    nulls: int
    """Rows without an event time."""
    max_ms: int | None
    """The greatest event time, which drives Spark's clock."""
    barrel_ms: int | None
    """The event time of the slowest channel, none idle; None: no channels, or not all known."""
    channels: dict[str, ChannelFacts]
    """Channels by name; a channel with an unknown name by `#` and its hash."""
    sampled: Sampled | None
    lateness: LatenessCounts | None
    recent: tuple[InputBatch, ...]
    """The last batches, oldest first."""
    trouble: str | None = None
    """One line on what could not be read."""


class RunningBatch(Struct, frozen=True):
    """A batch that has begun and is not reported yet."""

    batch: int
    since_ms: int


class QueryRun(Struct, frozen=True, kw_only=True):
    """One run of a query: `id` survives restarts, `run_id` does not."""

    id: str
    run_id: str
    name: str | None
    last_event_ms: int | None
    """The last time in its events, by the query's clock."""
    idle_ms: int | None
    """When it last reported that it had nothing to do; None: not since its last batch."""
    ended: bool
    error: str | None
    """Why it ended, unless it was stopped: the exception's first line."""
    running: RunningBatch | None
    progress: BatchProgress | None
    plan: PlanFacts | None
    """None: not seen (yet)."""
    watermark_policy: str | None
    """How the watermarks of several nodes are combined: min or max; None: not known."""
    max_event_ms: int | None
    """The greatest event time of all batches, from any node."""
    event_max: tuple[EventMax, ...] = ()
    """The same by the sources with rows: Spark reports the plan's first watermark that had rows."""
    silent: tuple[int, ...] | None = None
    """The sources without a row in this run; None before its first report."""
    dropped_at_least: int
    """Late rows dropped since this run started."""
    dropped_behind_ms: int | None = None
    """How far the earliest event time of a batch that dropped rows lay behind the greatest of the batches before it."""
    history: tuple[ProgressPoint, ...]
    """Its whole history, coarser the longer it is."""
    recent: tuple[ProgressPoint, ...] = ()
    """Its last batches, one point each."""
    inputs: tuple[InputFacts, ...]
    continuous: bool = False
    """Continuous processing: it reports no batches, and has no watermark."""
    pause_ms: int | None = None
    """Its longest pause between two batches, or between a batch and an idle report, except the first pause.

    None: there was none yet.
    """
