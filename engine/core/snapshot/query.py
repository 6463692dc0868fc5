"""A Spark query: its watermarks, stateful operators and progress."""

from typing import Literal

from msgspec import Struct

from .lateness import WhatIf

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
"""`Snapshot.origin` of a delay that only the state's schema has: as the query was first started."""


class WatermarkNode(Struct, frozen=True):
    """One `withWatermark` of an attached query, as far as it is known."""

    column: str | None
    delay_ms: int | None
    watermark_ms: int | None = None
    """What it alone would make of Spark's clock."""
    holds: bool = False
    """Of several, the one that sets the query's watermark."""
    pinned: Literal["no_input", "own_output"] | None = None
    """It has never had a record and keeps the query at 1970: its source is empty, or it waits for rows that an
    operator below it emits only when this watermark moves."""
    after_state: bool = False
    """Its rows come out of a stateful operator: it is not on the source."""
    above: list[int] = []
    """The other watermarks (places in the list) that its rows have passed before."""
    sources: list[int] | None = None
    """The sources (places in `Snapshot.sources`) that feed it; None: not known."""


class StatefulOperator(Struct, frozen=True, kw_only=True):
    """A stateful operator of an attached query."""

    operator: int | None
    """The number of its state."""
    kind: OperatorKind
    output_mode: OutputMode | None = None
    windowed: bool | None = None
    """An aggregation by time windows; None: not known, or not an aggregation."""
    evicts: bool | None = None
    """The watermark makes it remove state; None: not known."""
    watermarks: list[int] | None = None
    """The watermarks (places in `SparkProgress.nodes`) that its rows have passed; None: not known."""
    rows: int | None = None
    dropped: int | None = None
    """Late rows that its last batch dropped, counted after partial aggregation."""


class SiblingQuery(Struct, frozen=True):
    """Another query of the same application."""

    name: str
    id: str
    state: Literal["running", "stopped", "failed"]
    error: str | None = None


class BarrelRule(Struct, frozen=True):
    """What the slowest channel would give of an attached query, where Spark's one clock goes by the fastest."""

    watermark_ms: int | None
    """The least event time that all channels have reached, minus the delay."""
    holder: str | None
    """The slowest channel."""
    below: list[str]
    """The channels whose event time lies at or below Spark's watermark, the most behind first: all that
    they send is late, and dropped once its window has closed."""
    whatif: list[WhatIf] | None = None
    """`Snapshot.whatif` by this rule; that one goes by Spark's rule."""


UnmovedReason = Literal["no_event_time", "before_1970", "delay_too_long"]
"""Why a watermark stays at 1970: every event time is null, or earlier, or the delay reaches back to before 1970."""


class SparkProgress(Struct, frozen=True):
    """What Spark says of the query (wall-clock rates and ms)."""

    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    batch_ms: int | None = None
    phases_ms: dict[str, int] = {}
    watermark_ms: int | None = None
    """Of an attached query: what its next batch will use."""
    dropped_at_least: int | None = None
    batch_watermark_ms: int | None = None
    """In force in the last batch."""
    batch_timestamp_ms: int | None = None
    """When the input of the last batch was fixed."""
    in_flight: bool | None = None
    """The last batch has begun and not ended: it runs, or the query died in it."""
    nodes: list[WatermarkNode] | None = None
    policy: Literal["min", "max"] | None = None
    """How the watermarks of several nodes become one."""
    state_rows: int | None = None
    """Rows and bytes of memory in the state of its stateful operators, of an attached query."""
    state_bytes: int | None = None
    output_mode: OutputMode | None = None
    """How an attached query emits; None: not known."""
    operators: list[StatefulOperator] | None = None
    """Of an attached query, from its sink to its sources; None: not known."""
    has_watermark: bool | None = None
    """Of an attached query: it has a `withWatermark`; None: not known."""
    never_moved: bool | None = None
    """Of an attached query: it has a watermark and has read rows, and the watermark is still at 1970."""
    unmoved: UnmovedReason | None = None
    """Why `never_moved`, where the query has one watermark and says what event times it has read; None: not known."""
    max_event_ms: int | None = None
    """The greatest event time that an attached query with one watermark has reported (epoch ms)."""
    frozen_ms: int | None = None
    """The watermark is above what its records give (after a restart with a longer delay): by so much event time."""
    query_id: str | None = None
    """Of an attached query, as the next one."""
    query_name: str | None = None
