"""What the pipeline reports to the monitor for one micro-batch: aggregates, never records."""

from typing import Literal

from msgspec import Struct

from .explain import Values

WhyNoTime = Literal[
    "missing", "not_json", "no_time", "out_of_range", "not_utf8", "too_deep", "too_long", "open_quote", "damaged"
]
"""Why a record has no usable event time; `out_of_range`: it is not within the years 1 to 9999. From `not_utf8` on the
whole row cannot be read, and the value is its beginning; of `damaged` it is what the file's library says.
"""
MAX_VALUE = 60
"""Characters of a value that are kept of a malformed record."""


class Offender(Struct, frozen=True):
    """The last record set aside: its channel, its position in the source, and its timestamp."""

    channel: str
    offset: int | None
    timestamp_ms: int | None
    part: str | None = None
    """The part of the source (`topic-partition`) of the offset, if the channel does not name it."""


class MalformedRecord(Struct, frozen=True):
    """A record without a usable event time: where it is, and what `column` has instead of one (`value`, cut)."""

    channel: str
    where: str
    column: str
    value: str | None
    why: WhyNoTime


class Group(Struct, frozen=True, gc=False):
    """The records of one batch that share channel, pane and late bucket (panes: see `windows`); all times ms.

    `start_ms` None: malformed rows, of which only `records` and `channel` mean anything.
    """

    channel: str
    start_ms: int | None
    """Start of the latest window that could hold them; for sessions the start of their cell of one gap."""
    head: bool
    """They lie in the first `size % slide` ms after that start, so one more window holds them; of sessions under
    Spark's rule: each record is late by its own session.
    """
    records: int
    future: int = 0
    """Records that the future guard kept from the generator."""
    behind: int = 0
    """Records with `ts <= level`, `level` as the batch started."""
    late_in_gap: int = 0
    """Records that lie in a gap between windows and have `ts + allowed_lateness <= level`."""
    min_ms: int = 0
    max_ms: int = 0
    max_event_ms: int | None = None
    """Greatest timestamp that reaches the generator."""
    emitted_ms: int | None = None
    """Greatest watermark that `on_event` emits for them (punctuated, source)."""
    late_bucket: int | None = None
    """Bucket of `W0 - (own end - 1) - allowed_lateness` for sessions and gaps, where the pane does not determine it."""


class Sequence(Struct, frozen=True):
    """The result of an order-dependent generator for a channel's records of the batch, in source order."""

    channel: str
    timestamps: list[int] = []
    """`smoothed`: the last timestamps (ms), at most as many as are averaged."""
    state: bytes | None = None
    """`custom`: the pickled generator after the records."""
    emitted_ms: int | None = None
    """`custom`: the greatest watermark that its `on_event` emitted."""


class BatchObservation(Struct, frozen=True, kw_only=True):
    """One micro-batch: its id, its processing time (epoch ms) and its groups."""

    batch: int
    now_ms: int | None
    """None: no record of a replay has an arrival time."""
    groups: list[Group]
    behind: dict[str, dict[int, int]] = {}
    """Records at or behind W0, by channel and bucket of `W0 - ts`."""
    sample: list[Group] | None = None
    """A sample of the groups from before groups of different distance from W0 were merged; None: all groups."""
    sequences: list[Sequence] = []
    values: list[Values] | None = None
    """Counts for each column of `--explain`."""
    late: int = 0
    """Number of late records; only counted together with `values`."""
    last_future: Offender | None = None
    last_malformed: Offender | None = None
    malformed_example: MalformedRecord | None = None


def greatest_times(groups: list[Group]) -> tuple[dict[str, int], dict[str, int]]:
    """By channel, in the order of the groups: the greatest timestamp (ms) of the usable records, and the greatest
    watermark (ms) emitted with them, if there is one.
    """
    events: dict[str, int] = {}
    emitted: dict[str, int] = {}
    for group in groups:
        time = group.max_event_ms
        if time is None:
            continue
        channel = group.channel
        known = events.get(channel)
        if known is None or time > known:
            events[channel] = time
        sent = group.emitted_ms
        if sent is not None:
            emitted[channel] = max(sent, emitted.get(channel, sent))
    return events, emitted
