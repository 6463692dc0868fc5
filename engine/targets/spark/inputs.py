"""The inputs of an attached query: its channels, its sources, and input that left the watermark as it was. Pure.

Channels come from the query's taps, or else are the partitions that the broker reports.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...snapshot import UNCOUNTED, ChannelView, SourcePosition, SparkProgress, WhatIf
from ..topic import PartitionFacts, TopicFacts
from ..topic.unread import behind_end_ms, unread_now, unread_of_all
from .checkpoint import CheckpointFacts
from .facts import QueryFacts, SourceProgress
from .files import SourceOffsets, decode_source
from .nodes import Nodes
from .operators import operators_of, output_mode_of
from .tapped import InputBatch, InputFacts

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
    inputs = facts.run.inputs
    views = channels_of_taps(inputs, nodes, now_ms)
    origin: Literal["tap", "broker"] | None = "tap" if views else None
    without_times = False
    if not views and facts.topics is not None:
        origin, without_times = "broker", facts.topics.assumed
        views = channels_of_topics(facts.topics, nodes.delay_ms, without_times=without_times)
    taps = nodes.only.taps if nodes.only is not None else ()
    tap = taps[0] if len(taps) == 1 else None  # with several on one clock, no tap knows the others' effect
    counts = tap.lateness if tap is not None and not facts.is_slowest_clock else None  # by the fastest channel's clock
    operators = None if facts.plan is None else operators_of(facts.plan, facts.progress, None)
    drops = SparkProgress(output_mode=output_mode_of(facts.plan, None, {}), operators=operators).drops_late
    return Channels(
        views=views,
        origin=origin,
        without_times=without_times,
        inputs=inputs,
        whatif=_whatif(tap, counts.delays_ms, counts.spark, drops=drops) if tap and counts else None,
        barrel_whatif=_whatif(tap, counts.delays_ms, counts.barrel, drops=drops) if tap and counts else None,
        bucket_ms=counts.bucket_ms if counts else None,
    )


def channels_of_taps(inputs: Sequence[InputFacts], nodes: Nodes, now_ms: int) -> list[ChannelView]:
    """The channels of taps; if several inputs have channels, a channel's name begins with its input's."""
    delays = {tap.name: node.delay_ms for node in nodes.nodes for tap in node.taps}
    taps = [tap for tap in inputs if tap.channels]
    views: list[ChannelView] = []
    for tap in taps:
        delay_ms = delays.get(tap.name)
        last_seen = {name: batch.timestamp_ms for batch in tap.recent for name in batch.channels}
        rates = _rates(tap.recent[-_RATE_BATCHES:])
        for name, channel in tap.channels.items():
            seen_ms = last_seen.get(name)
            view = replace(
                UNCOUNTED,
                channel=f"{tap.name}/{name}" if len(taps) > 1 else name,
                watermark_ms=None if delay_ms is None else channel.max_ms - delay_ms,
                max_event_ms=channel.max_ms,
                records=channel.rows,
                quiet_ms=None if seen_ms is None else max(0, now_ms - seen_ms),
                rate=None if rates is None else rates.get(name, 0.0),
            )
            views.append(view)
    return views


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
    """The partitions as far as the query has read them, with the watermark of Spark's clock by each alone."""
    is_named = len({partition.topic for partition in topics.partitions}) > 1

    def view(partition: PartitionFacts) -> ChannelView:
        event_ms = None if without_times else partition.event_ms
        unread = unread_now(partition, topics)
        has_data = event_ms is not None or bool(partition.position)  # what was read may be deleted
        return replace(
            UNCOUNTED,
            channel=f"{partition.topic}-{partition.partition}" if is_named else str(partition.partition),
            watermark_ms=None if event_ms is None or delay_ms is None else event_ms - delay_ms,
            max_event_ms=event_ms,
            state="active" if has_data else "never_seen",
            backlog=unread,
            behind_end_ms=None if unread is None else behind_end_ms(partition, event_ms),
        )

    return [view(partition) for partition in topics.partitions]


def _whatif(
    tap: InputFacts, delays_ms: Sequence[int], counts: Sequence[int] | None, *, drops: bool
) -> list[WhatIf] | None:
    """The rows that would have been late at each delay: none where the query `drops` none."""
    rows = tap.rows - tap.nulls
    if counts is None or not rows:
        return None
    return [
        WhatIf(delay_ms, late := drops * behind, late / rows, delay_ms=None, behind_watermark=behind)
        for delay_ms, behind in zip(delays_ms, counts, strict=True)
    ]


_DESCRIPTIONS = {
    "files": "files",
    "number": "a counter",
    "json": "offsets of its own form",
    "nothing": "nothing read yet",
    "unreadable": "offsets that cannot be read",
}


class Unmoved(Struct, frozen=True):
    """Completed batches with new input after which the watermark was the same as before, of those recorded."""

    batches: int | None = None
    """None: not known, or there is no watermark."""
    by_source: tuple[int, ...] = ()
    """The same for each source, in the query's order; empty: not known."""


def offsets_of(facts: QueryFacts) -> list[SourceOffsets]:
    """The position of each source: in the checkpoint, or at the end of the last reported batch."""
    if facts.stored.sources:
        return list(facts.stored.sources)
    reported = facts.progress.sources if facts.progress is not None else ()
    return [
        decode_source(str(number), "-" if source.end is None else source.end) for number, source in enumerate(reported)
    ]


def positions_of(facts: QueryFacts, unmoved: Sequence[int]) -> list[SourcePosition]:
    """The sources, in the query's own order if it has reported them; `unmoved` as `Unmoved.by_source`."""
    offsets = offsets_of(facts)
    sources = facts.progress.sources if facts.progress is not None else ()
    reported = sources if len(sources) == len(offsets) else [None] * len(offsets)
    counted = unmoved if len(unmoved) == len(offsets) else [None] * len(offsets)
    positions: list[SourcePosition] = []
    for source, progress, batches in zip(offsets, reported, counted, strict=True):
        read, position = source.offsets or {}, source.text
        if source.kind == "kafka":
            topics = sorted({name.rpartition("/")[0] for name in read})
            text, position = f"kafka {', '.join(topics)}, {len(read):,} partition{'s' * (len(read) != 1)}", read
        else:
            text = (progress.description if progress is not None else "") or _DESCRIPTIONS[source.kind]
            if source.kind in ("files", "number", "nothing"):
                position = next(iter(read.values()), None)
        text = f"source {source.source}: {text}" if len(offsets) > 1 else text
        positions.append(SourcePosition(text, position, _backlog(facts, source, progress), batches))
    return positions


def _backlog(facts: QueryFacts, source: SourceOffsets, progress: SourceProgress | None) -> int | None:
    """The unread records of a source, by the broker, else by the source's own report; None: not known."""
    if facts.topics is None or source.kind != "kafka":
        is_real_time = facts.plan is not None and facts.plan.real_time_ms is not None
        return None if progress is None else _reported_backlog(progress, is_real_time=is_real_time)
    if facts.topics.trouble is not None:  # what the query once reported is not so now
        return None
    read = source.offsets or {}
    return unread_of_all(part for part in facts.topics.partitions if f"{part.topic}/{part.partition}" in read)


def _reported_backlog(source: SourceProgress, *, is_real_time: bool) -> int | None:
    """Unread records by the source's own report at the start of its last batch, if it has one.

    In real-time mode a batch reads on from there: only one that read nothing shows that nothing is left.
    """
    if source.end is None or source.latest is None:
        return None
    end, latest = decode_source("", source.end), decode_source("", source.latest)
    if end.kind != "kafka" or latest.kind != "kafka" or end.offsets is None or latest.offsets is None:
        return None  # other sources count files, seconds, or anything
    unread = sum(max(0, offset - end.offsets.get(name, 0)) for name, offset in latest.offsets.items())
    return None if is_real_time and not unread and source.num_input_rows else unread


def unmoved_of(facts: QueryFacts, watermark_ms: int | None) -> Unmoved:
    """The input that left the watermark as it was: by the offsets in a checkpoint, else by the reported rows."""
    if watermark_ms is None:
        return Unmoved()
    if len(facts.stored.history) > 1:
        return _unmoved_by_offsets(facts.stored, watermark_ms)
    run = facts.run
    if run.progress is None or not run.history:
        return Unmoved()
    return Unmoved(run.unmoved if run.progress.watermark_ms == watermark_ms or run.unmoved is None else 0)


def _unmoved_by_offsets(checkpoint: CheckpointFacts, watermark_ms: int) -> Unmoved:
    sources, committed = len(checkpoint.sources), checkpoint.committed
    pairs = [
        (before, after)
        for before, after in pairwise(checkpoint.history)
        if len(before.inputs) == len(after.inputs) == sources
    ]
    if not pairs or committed is None:
        return Unmoved()
    changed = [
        tuple(old != new for old, new in zip(before.inputs, after.inputs, strict=True))
        for before, after in pairs
        if after.watermark_ms == watermark_ms and after.batch <= committed
    ]
    by_source = tuple(sum(batch[place] for batch in changed) for place in range(sources))
    return Unmoved(sum(map(any, changed)), by_source)
