"""The channels of an existing query: from its taps, or else the partitions that the broker reports. Pure."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from ...snapshot import BarrelRule, ChannelView, WhatIf
from ..topic.topic_facts import PartitionFacts, TopicFacts
from .events.query_runs import InputBatch, InputFacts, QueryRun
from .nodes import Node, Policy, barrel_level, delay_of

_RATE_OVER = 8
"""Batches over which a channel's rate is measured."""


class Tapped(Struct, frozen=True):
    """An input with a tap, and the delay (ms) of the node that it flows into."""

    tap: InputFacts
    delay_ms: int | None


def tapped_inputs(nodes: Sequence[Node], run: QueryRun | None) -> list[Tapped]:
    """Every input with a report."""
    delays = {tap.name: node.delay_ms for node in nodes for tap in node.taps}
    return [Tapped(tap, delays.get(tap.name)) for tap in run.inputs] if run is not None else []


def channels_of_taps(inputs: Sequence[Tapped], now_ms: int) -> list[ChannelView]:
    """The channels of taps; if several inputs have channels, a channel's name begins with its input's."""
    speaking = [one for one in inputs if one.tap.channels]
    return [view for one in speaking for view in _views(one, now_ms, prefix=len(speaking) > 1)]


def _views(one: Tapped, now_ms: int, *, prefix: bool) -> Iterable[ChannelView]:
    tap, recent = one.tap, one.tap.recent
    last_seen = {name: batch.timestamp_ms for batch in recent for name in batch.channels}
    rates = _rates(recent[-_RATE_OVER:])
    for name, channel in tap.channels.items():
        seen_ms = last_seen.get(name)
        yield ChannelView(
            channel=f"{tap.name}/{name}" if prefix else name,
            watermark_ms=None if one.delay_ms is None else channel.max_ms - one.delay_ms,
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


def _rates(recent: Sequence[InputBatch]) -> dict[str, float] | None:
    """Rows per second by channel: those of all batches but the first, over the time since the first began."""
    times = [batch.timestamp_ms for batch in recent if batch.timestamp_ms is not None]
    if len(times) < 2 or any(after <= before for before, after in pairwise(times)):
        return None
    rows: dict[str, int] = {}
    for batch in recent[1:]:
        for name, channel in batch.channels.items():
            rows[name] = rows.get(name, 0) + channel.rows
    seconds = (times[-1] - times[0]) / 1000
    return {name: number / seconds for name, number in rows.items()}


def channels_of_topics(topics: TopicFacts, delay_ms: int | None, *, withheld: bool = False) -> list[ChannelView]:
    """The partitions, as far as the query has read them, with the watermark that Spark's clock would have by each
    alone.
    """
    several = len({partition.topic for partition in topics.partitions}) > 1
    known = topics.trouble is None
    partitions = without_times(topics).partitions if withheld else topics.partitions
    return [_partition(one, delay_ms, several, known=known, withheld=withheld) for one in partitions]


def without_times(topics: TopicFacts) -> TopicFacts:
    """The same without event times, because the watermark uses others."""
    bare = (replace(one, newest_ms=None, event_ms=None) for one in topics.partitions)
    return replace(topics, partitions=tuple(bare))


def _partition(
    partition: PartitionFacts, delay_ms: int | None, several: bool, *, known: bool, withheld: bool
) -> ChannelView:
    """`withheld`: its event time is missing because its column is not known, not because it has no data."""
    event_ms, newest_ms = partition.event_ms, partition.newest_ms
    unread = partition.unread if known else None
    return ChannelView(
        channel=f"{partition.topic}-{partition.partition}" if several else str(partition.partition),
        watermark_ms=None if event_ms is None or delay_ms is None else event_ms - delay_ms,
        max_event_ms=event_ms,
        state="never_seen" if event_ms is None and not (withheld and partition.position) else "active",
        records=None,
        behind_watermark=None,
        late=None,
        malformed=None,
        future=None,
        flaps=None,
        backlog=unread,
        behind_end_ms=None if None in (event_ms, newest_ms, unread) else max(0, (newest_ms or 0) - (event_ms or 0)),
    )


def barrel_rule(
    nodes: Sequence[Node], channels: Sequence[ChannelView], level_ms: int | None, policy: Policy | None
) -> BarrelRule | None:
    """The watermark by the slowest channel; None if no channel is known."""
    if not channels:
        return None
    reached = [(view.max_event_ms, view.channel) for view in channels if view.max_event_ms is not None]
    below = sorted((event_ms, name) for event_ms, name in reached if level_ms is not None and event_ms <= level_ms)
    slowest = min(channels, key=_reached)
    if any(node.taps for node in nodes):
        barrel_ms = barrel_level(nodes, policy)
    else:  # the partitions of the only node's source: one without a record keeps the barrel empty
        delay_ms = delay_of(nodes) if len(nodes) == 1 else None
        seen = [event_ms for event_ms, _ in reached]
        barrel_ms = min(seen) - delay_ms if delay_ms is not None and len(seen) == len(channels) else None
    known = barrel_ms is not None or slowest.state == "never_seen"
    return BarrelRule(
        watermark_ms=barrel_ms,
        holder=slowest.channel if known else None,
        below=[name for _, name in below],
        whatif=_whatif(nodes, barrel=True),
    )


def _reached(view: ChannelView) -> float:
    """A channel's watermark; if no delay is known, its event time."""
    time = view.max_event_ms if view.watermark_ms is None else view.watermark_ms
    return float("-inf") if time is None else time


def whatif_by_spark(nodes: Sequence[Node]) -> list[WhatIf] | None:
    """The cost of other delays by Spark's rule, as upper bounds; None if the taps do not report it."""
    return _whatif(nodes, barrel=False)


def bucket_of(nodes: Sequence[Node]) -> int | None:
    """The width (ms) of the what-if's buckets."""
    tap = _alone(nodes)
    return tap.lateness.bucket_ms if tap is not None and tap.lateness is not None else None


def _alone(nodes: Sequence[Node]) -> InputFacts | None:
    """The tap, if there is one node with one tap: with several on one clock, no tap knows the others' effect."""
    return nodes[0].taps[0] if len(nodes) == 1 and len(nodes[0].taps) == 1 else None


def _whatif(nodes: Sequence[Node], *, barrel: bool) -> list[WhatIf] | None:
    tap = _alone(nodes)
    if tap is None or tap.lateness is None:
        return None
    counts = tap.lateness.barrel if barrel else tap.lateness.spark
    rows = tap.rows - tap.nulls
    if counts is None or not rows:
        return None
    return [
        WhatIf(lateness_ms=delay_ms, late=late, late_share=late / rows, delay_ms=None, behind_watermark=late)
        for delay_ms, late in zip(tap.lateness.delays_ms, counts, strict=True)
    ]
