"""The channels of an attached query: from its taps, or else the partitions that the broker reports. Pure."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from ...snapshot import ChannelView, WhatIf
from ..topic.topic_facts import PartitionFacts, TopicFacts
from .facts import QueryFacts
from .nodes import Nodes
from .query_runs import InputBatch, InputFacts

_RATE_BATCHES = 8
"""Batches over which a channel's rate is measured."""


class Channels(Struct, frozen=True, kw_only=True):
    """The channels of a query, and what its taps count."""

    views: list[ChannelView] = []
    origin: Literal["tap", "broker"] | None = None
    """Where the channels come from; None: no tap or broker reports them."""
    without_times: bool = False
    """The broker's event times are left out: it is not known which column the watermark uses."""
    inputs: tuple[InputFacts, ...] = ()
    """The tapped inputs."""
    whatif: list[WhatIf] | None = None
    """The cost of other delays by Spark's rule, as upper bounds; None if the taps do not report it."""
    barrel_whatif: list[WhatIf] | None = None
    """The same with a clock driven by the slowest channel."""
    bucket_ms: int | None = None
    """The width of the what-if's buckets."""


def channels_of(facts: QueryFacts, nodes: Nodes, now_ms: int) -> Channels:
    """The channels at `now_ms` (epoch ms), with watermarks by the delays of the nodes."""
    inputs = facts.run.inputs if facts.run is not None else ()
    views, topics = channels_of_taps(inputs, nodes, now_ms), facts.topics
    origin: Literal["tap", "broker"] | None = "tap" if views else "broker" if topics is not None else None
    without_times = origin == "broker" and topics is not None and topics.assumed
    if origin == "broker" and topics is not None:
        views = channels_of_topics(topics, nodes.delay_ms, without_times=without_times)
    tap = nodes.only_tap
    return Channels(
        views=views,
        origin=origin,
        without_times=without_times,
        inputs=inputs,
        whatif=None if tap is None or tap.lateness is None else _whatif(tap, tap.lateness.spark),
        barrel_whatif=None if tap is None or tap.lateness is None else _whatif(tap, tap.lateness.barrel),
        bucket_ms=None if tap is None or tap.lateness is None else tap.lateness.bucket_ms,
    )


def channels_of_taps(inputs: Sequence[InputFacts], nodes: Nodes, now_ms: int) -> list[ChannelView]:
    """The channels of taps; if several inputs have channels, a channel's name begins with its input's."""
    delays = {tap.name: node.delay_ms for node in nodes.nodes for tap in node.taps}
    taps = [tap for tap in inputs if tap.channels]
    return [
        view for tap in taps for view in _channels_of_tap(tap, delays.get(tap.name), now_ms, is_named=len(taps) > 1)
    ]


def _channels_of_tap(tap: InputFacts, delay_ms: int | None, now_ms: int, *, is_named: bool) -> Iterator[ChannelView]:
    last_seen = {name: batch.timestamp_ms for batch in tap.recent for name in batch.channels}
    rates = _rates(tap.recent[-_RATE_BATCHES:])
    for name, channel in tap.channels.items():
        seen_ms = last_seen.get(name)
        yield ChannelView(
            channel=f"{tap.name}/{name}" if is_named else name,
            watermark_ms=None if delay_ms is None else channel.max_ms - delay_ms,
            max_event_ms=channel.max_ms,
            state="active",
            records=channel.rows,
            behind_watermark=None,
            late=None,
            malformed=None,
            future=None,
            quiet_ms=None if seen_ms is None else max(0, now_ms - seen_ms),
            flaps=None,
            rate=None if rates is None else rates.get(name, 0.0),
        )


def _rates(batches: Sequence[InputBatch]) -> dict[str, float] | None:
    """Rows per second by channel: those of all batches but the first, over the time since the first began."""
    times = [batch.timestamp_ms for batch in batches if batch.timestamp_ms is not None]
    if len(times) < 2 or any(after <= before for before, after in pairwise(times)):
        return None
    rows: dict[str, int] = {}
    for batch in batches[1:]:
        for name, channel in batch.channels.items():
            rows[name] = rows.get(name, 0) + channel.rows
    seconds = (times[-1] - times[0]) / 1000
    return {name: number / seconds for name, number in rows.items()}


def channels_of_topics(topics: TopicFacts, delay_ms: int | None, *, without_times: bool = False) -> list[ChannelView]:
    """The partitions, as far as the query has read them, with the watermark that Spark's clock would have by each
    alone.
    """
    is_named = len({partition.topic for partition in topics.partitions}) > 1
    return [
        _channel_of_partition(
            partition, delay_ms, is_named=is_named, is_current=topics.trouble is None, without_times=without_times
        )
        for partition in topics.partitions
    ]


def _channel_of_partition(
    partition: PartitionFacts, delay_ms: int | None, *, is_named: bool, is_current: bool, without_times: bool
) -> ChannelView:
    event_ms = None if without_times else partition.event_ms
    newest_ms = None if without_times else partition.newest_ms
    unread = partition.unread if is_current else None
    has_data = event_ms is not None or (without_times and bool(partition.position))
    return ChannelView(
        channel=f"{partition.topic}-{partition.partition}" if is_named else str(partition.partition),
        watermark_ms=None if event_ms is None or delay_ms is None else event_ms - delay_ms,
        max_event_ms=event_ms,
        state="active" if has_data else "never_seen",
        records=None,
        behind_watermark=None,
        late=None,
        malformed=None,
        future=None,
        flaps=None,
        backlog=unread,
        behind_end_ms=None if event_ms is None or newest_ms is None or unread is None else max(0, newest_ms - event_ms),
    )


def _whatif(tap: InputFacts, counts: Sequence[int] | None) -> list[WhatIf] | None:
    """The rows that would have been late at each delay."""
    rows = tap.rows - tap.nulls
    if tap.lateness is None or counts is None or not rows:
        return None
    return [
        WhatIf(lateness_ms=delay_ms, late=late, late_share=late / rows, delay_ms=None, behind_watermark=late)
        for delay_ms, late in zip(tap.lateness.delays_ms, counts, strict=True)
    ]
