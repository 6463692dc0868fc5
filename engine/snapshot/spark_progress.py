"""What Spark reports of a query: its watermarks, stateful operators and progress."""

from typing import Literal

from msgspec import Struct

OutputMode = Literal["append", "update", "complete"]


OperatorKind = Literal[
    "aggregation",
    "session",
    "join",
    "dedup",
    "dedup_within_watermark",
    "limit",
    "map_groups_with_state",
    "transform_with_state",
    "other",
]


STATE_SCHEMA = "state schema"
"""`Snapshot.origin` of a delay that is known only from the state's schema: the delay of the query's first start."""


class WatermarkNode(Struct, frozen=True):
    """One `withWatermark` of an attached query, as far as known."""

    column: str | None
    delay_ms: int | None
    watermark_ms: int | None = None
    """What Spark's clock would be with this node alone."""
    holds: bool = False
    """Among several nodes, the one that sets the query's watermark."""
    pinned: Literal["no_input", "own_output"] | None = None
    """It keeps the query at 1970, without a record: its source is empty, or it waits for its own output."""
    after_state: bool = False
    """Its rows come from a stateful operator, not directly from a source."""
    above: list[int] = []
    """The watermarks (places in the list) that its rows passed before this one."""
    sources: list[int] | None = None
    """The sources (places in `SparkQuery.sources`) that feed it; None: not known."""
    at_least_ms: int | None = None
    """Where `watermark_ms` is not known: a time that it has reached at least."""

    @property
    def reached_ms(self) -> int | None:
        """The watermark, or what it has reached at least; None: neither is known."""
        return self.at_least_ms if self.watermark_ms is None else self.watermark_ms


class StatefulOperator(Struct, frozen=True, kw_only=True):
    """A stateful operator of an attached query."""

    operator: int | None
    """The number of its state."""
    kind: OperatorKind
    output_mode: OutputMode | None = None
    windowed: bool | None = None
    """Whether it aggregates by time windows; None: not known, or not an aggregation."""
    evicts: bool | None = None
    """Whether the watermark removes its state; None: not known."""
    watermarks: list[int] | None = None
    """The watermarks (places in `SparkProgress.nodes`) that its rows have passed; None: not known."""
    rows: int | None = None
    dropped: int | None = None
    """Late rows that its last batch dropped, counted after partial aggregation."""


UnmovedReason = Literal["no_event_time", "before_1970", "delay_too_long"]
"""Why a watermark stays at 1970: all event times are null or before 1970, or the delay reaches back to before 1970."""


class SparkProgress(Struct, frozen=True):
    """What Spark reports about the query (rates per wall-clock second, durations in ms)."""

    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    batch_ms: int | None = None
    phases_ms: dict[str, int] = {}
    watermark_ms: int | None = None
    """The watermark of the next batch; None for own runs without Spark's rule."""
    dropped_at_least: int | None = None
    dropped_exact: bool = False
    """Whether that is the exact number."""
    dropped_at_watermark: int | None = None
    """Those of them whose event time was the watermark itself, at least; only for one watermark with a delay of 0."""
    dropped_behind_ms: int | None = None
    """How far, in a batch that dropped rows, the earliest event time was behind the greatest earlier one; only for an
    attached query with one watermark."""
    batch_watermark_ms: int | None = None
    """The watermark in force in the last batch: the next one compares late records with it."""
    batch_timestamp_ms: int | None = None
    """When the input of the last batch was fixed."""
    in_flight: bool | None = None
    """The last batch began and has not ended: it runs, or the query died in it; None: not known."""
    nodes: list[WatermarkNode] | None = None
    policy: Literal["min", "max"] | None = None
    """How the watermarks of several nodes are combined."""
    state_rows: int | None = None
    """Rows, and bytes of memory, in the state of an attached query's stateful operators."""
    state_bytes: int | None = None
    output_mode: OutputMode | None = None
    """The output mode of an attached query; None: not known."""
    operators: list[StatefulOperator] | None = None
    """The operators of an attached query, from its sink to its sources; None: not known."""
    has_watermark: bool | None = None
    """Whether an attached query has a `withWatermark`; None: not known."""
    real_time_ms: int | None = None
    """The length of a batch in real-time mode, in which rows leave at once; None: another mode, or not known."""
    trigger_ms: int | None = None
    """The interval of an attached query's trigger, 0: a batch follows the last one at once; None: not known."""
    writes: list[str] | None = None
    """The topics that an attached query's sink is set to write, as `kafka://broker:9092/orders`; None: not known, or
    another kind of sink.
    """
    slowest_clock: bool = False
    """The slowest partition drives the watermark: a setting of Databricks, for its real-time mode."""
    never_moved: bool | None = None
    """Whether an attached query has a watermark and has read rows, but the watermark is still at 1970."""
    unmoved: UnmovedReason | None = None
    """The reason of `never_moved`, if the query has one watermark and reports its event times; None: not known."""
    max_event_ms: int | None = None
    """The greatest event time (epoch ms) reported by an attached query with one watermark."""
    frozen_ms: int | None = None
    """The watermark is above what its records give (after a restart with a longer delay) by this much event time."""
    batches_unmoved: int | None = None
    """An attached query's completed batches with new input since the watermark has its value, of those recorded; None:
    not known."""
    query_id: str | None = None
    """The ids of an attached query and of its run."""
    query_name: str | None = None
    run_started_ms: int | None = None
    """When the last known run of an attached query started; None: not known, as by a checkpoint alone."""

    @property
    def drops_late(self) -> bool:
        """Whether it may drop late rows: not without state, nor if all it does is to aggregate in complete mode."""
        is_complete = self.output_mode == "complete" and all(one.kind == "aggregation" for one in self.operators or ())
        return self.operators != [] and not is_complete
