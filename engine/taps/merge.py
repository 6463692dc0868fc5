"""What the taps on one Spark query say, merged into the snapshot that every reader gets. Pure.

A tap gives facts; what no tap gives is null in the snapshot, never 0.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Literal

from msgspec import Struct

from ..core.settings import Settings, WindowSpec
from ..core.snapshot import (
    ChannelView,
    EngineState,
    Level,
    OpenWindow,
    Snapshot,
    SourcePosition,
    SourceView,
    SparkProgress,
    Totals,
    WatermarkNode,
    Windows,
)
from ..core.view import MOST_OPEN_WINDOWS
from .checkpoint import CheckpointFacts, SourceFacts
from .offset_log import SourceOffsets
from .open_windows import OpenWindows
from .topic_facts import PartitionFacts, TopicFacts

STALE_AFTER_MS = 30_000
STALE_AFTER_BATCHES = 3
"""A query is stale when no batch has begun for so long, and for so many times its usual distance between two."""
NOTHING_KNOWN = Totals(None, None, None, None, None, None)


class QueryFacts(Struct, frozen=True, kw_only=True):
    """What the taps on one query say at one moment; None: there is no such tap on it."""

    checkpoint: CheckpointFacts
    windows: tuple[OpenWindows, ...] | None = None
    window: WindowSpec | None = None
    """What the windows seen so far tell of how they are made."""
    topics: TopicFacts | None = None
    """What the broker says of the query's topics."""


def snapshot_of_query(
    facts: QueryFacts, *, name: str, source: SourceView, now_ms: int, before: Snapshot | None = None
) -> Snapshot:
    """The picture at `now_ms` (epoch ms), `before` it the last one."""
    checkpoint = facts.checkpoint
    state, said = _state(checkpoint, now_ms)
    settings = _settings(checkpoint, facts.window)
    channels = [] if facts.topics is None else _channels(facts.topics, settings.lateness_ms)
    level = _level(checkpoint, settings, channels, now_ms, before)
    silent = facts.topics.trouble if facts.topics else None
    windows = _windows(facts.windows, level.watermark_ms)
    return Snapshot(
        name=name,
        state="partial" if state == "live" and silent else state,
        batch=checkpoint.batch,
        now_ms=now_ms,
        wall_ms=now_ms,
        settings=settings,
        source=source,
        level=level,
        channels=channels,
        windows=windows,
        totals=NOTHING_KNOWN,
        spark=_spark(checkpoint, level.watermark_ms, flows=state != "stale"),
        sources=[_position(fact, facts.topics, alone=len(checkpoint.sources) == 1) for fact in checkpoint.sources],
        origin=_origin(settings, windows, facts.topics),
        notes=[note for note in (said, checkpoint.trouble, silent, windows.unknown) if note],
    )


def _state(facts: CheckpointFacts, now_ms: int) -> tuple[EngineState, str | None]:
    """How the query stands, and in one line what of that cannot be told from a checkpoint."""
    age_ms = facts.age_ms(now_ms)
    if facts.batch is None:
        return "stale", "no batch has begun yet" if facts.trouble is None else None
    if age_ms is None:
        return "partial", None
    if age_ms <= max(STALE_AFTER_MS, STALE_AFTER_BATCHES * _usual_ms(facts)):
        return "partial" if facts.trouble else "live", None
    if facts.in_flight:
        return "stale", f"batch {facts.batch} has not ended: it takes long, or the query died in it"
    return "stale", "no new batch: the query is idle, or it has stopped; a checkpoint tells no more"


def _usual_ms(facts: CheckpointFacts) -> float:
    """The usual time between the beginnings of two batches."""
    times = [mark.timestamp_ms for mark in facts.history]
    return median([after - before for before, after in pairwise(times)] or [0])


def _settings(facts: CheckpointFacts, window: WindowSpec | None) -> Settings:
    """Spark's own rules, with the delay where the state knows one and no more than one."""
    delays = {delay.delay_ms for delay in facts.delays}
    return Settings(
        strategy="spark",
        lateness_ms=delays.pop() if len(delays) == 1 else None,
        idle_after_ms=None,
        future_guard_ms=None,
        emit_every_ms=0,
        window=window,
    )


def _channels(topics: TopicFacts, delay_ms: int | None) -> list[ChannelView]:
    """The partitions, as far as the query has read them; what each alone would have made of Spark's clock."""
    several = len({partition.topic for partition in topics.partitions}) > 1
    return [_channel(partition, delay_ms, several, known=topics.trouble is None) for partition in topics.partitions]


def _channel(partition: PartitionFacts, delay_ms: int | None, several: bool, *, known: bool) -> ChannelView:
    event_ms, newest_ms = partition.event_ms, partition.newest_ms
    unread = partition.unread if known else None
    return ChannelView(
        channel=f"{partition.topic}-{partition.partition}" if several else str(partition.partition),
        watermark_ms=None if event_ms is None or delay_ms is None else event_ms - delay_ms,
        max_event_ms=event_ms,
        state="never_seen" if event_ms is None else "active",
        records=None,
        behind_watermark=None,
        late=None,
        malformed=None,
        future=None,
        backlog=unread,
        behind_end_ms=None if None in (event_ms, newest_ms, unread) else max(0, (newest_ms or 0) - (event_ms or 0)),
    )


def _level(
    facts: CheckpointFacts, settings: Settings, channels: list[ChannelView], now_ms: int, before: Snapshot | None
) -> Level:
    """What the next batch will use: it is not known before the one in flight has ended."""
    level = facts.watermark_ms if facts.next_watermark_ms is None else facts.next_watermark_ms
    if level is None:
        return Level()
    fastest = [view.watermark_ms for view in channels if view.watermark_ms is not None]
    since = _moved_ms(facts, level)
    if before is not None and before.level.watermark_ms == level and before.level.since_ms is not None:
        since = before.level.since_ms if since is None else min(since, before.level.since_ms)
    return Level(
        watermark_ms=level,
        behind_fastest_ms=max(0, max(fastest) - level) if fastest else None,
        behind_clock_ms=now_ms - level,
        since_ms=since,
        at_zero_lateness_ms=None if settings.lateness_ms is None else level + settings.lateness_ms,
    )


def _moved_ms(facts: CheckpointFacts, level: int) -> int | None:
    """When the batch began whose end made the level what it is, at the latest: older ones may not be on record."""
    for mark in reversed(facts.history):
        if mark.watermark_ms != level:
            return mark.timestamp_ms
    return facts.history[0].timestamp_ms if facts.history else None


def _windows(found: Sequence[OpenWindows] | None, level_ms: int | None) -> Windows:
    """The open windows of all operators that could be read, and why others could not."""
    if found is None:
        return _no_windows("the state is not looked at")
    if not found:
        return _no_windows("no state is there")
    reasons = [
        f"operator {operator.operator}: {operator.reason}" if len(found) > 1 else operator.reason
        for operator in found
        if operator.reason
    ]
    known = [operator for operator in found if operator.batch is not None]
    if not known:
        return _no_windows(reasons[0] if reasons else "nothing could be read")
    listed = [
        OpenWindow(
            start_ms=window.start_ms,
            end_ms=window.end_ms,
            records=window.records,
            waits_for=None,
            short_ms=None if level_ms is None else max(window.end_ms - level_ms, 0),
            operator=operator.operator if len(found) > 1 else None,
        )
        for operator in known
        for window in operator.windows
    ]
    listed.sort(key=lambda window: (window.end_ms, window.start_ms, window.operator or 0))
    return Windows(
        open=listed[:MOST_OPEN_WINDOWS],
        open_count=sum(operator.open for operator in known),
        fired=None,
        late_firings=None,
        unknown=reasons[0] if reasons else None,
    )


def _no_windows(why: str) -> Windows:
    return Windows(open_count=None, fired=None, late_firings=None, unknown=why)


def _spark(facts: CheckpointFacts, level_ms: int | None, *, flows: bool) -> SparkProgress:
    policies: dict[str | None, Literal["min", "max"]] = {"min": "min", "max": "max"}
    rates = [source.per_second for source in facts.sources if source.offsets.kind == "kafka"]
    counted = [rate for rate in rates if rate is not None]
    return SparkProgress(
        # Other sources' counters count files, seconds, or whatever they like.
        input_rows_per_second=sum(counted) if flows and counted and len(counted) == len(facts.sources) else None,
        watermark_ms=level_ms,
        batch_watermark_ms=facts.watermark_ms,
        batch_timestamp_ms=facts.batch_timestamp_ms,
        in_flight=facts.in_flight,
        nodes=_nodes(facts),
        policy=policies.get(facts.watermark_policy),
    )


def _nodes(facts: CheckpointFacts) -> list[WatermarkNode] | None:
    """The nodes that the state knows; several operators may carry the delay of one."""
    known = {(None if delay.windowed else delay.column, delay.delay_ms) for delay in facts.delays}
    named = {delay_ms for column, delay_ms in known if column is not None}
    nodes = [node for node in known if node[0] is not None or node[1] not in named]
    return [WatermarkNode(column, delay_ms) for column, delay_ms in sorted(nodes, key=str)] or None


def _position(fact: SourceFacts, topics: TopicFacts | None, *, alone: bool) -> SourcePosition:
    offsets = fact.offsets
    what = {
        "files": "files",
        "number": "a counter",
        "json": "offsets of its own form",
        "nothing": "nothing read yet",
        "unreadable": "offsets that cannot be read",
    }.get(offsets.kind) or _topics(offsets.offsets or {})
    at: dict[str, int] | int | str | None = offsets.offsets if offsets.kind == "kafka" else offsets.text
    if offsets.kind in ("files", "number"):
        at = next(iter((offsets.offsets or {}).values()), None)
    return SourcePosition(
        description=what if alone else f"source {offsets.source}: {what}",
        offsets=None if offsets.kind == "nothing" else at,
        backlog=_unread(offsets, topics),
    )


def _topics(offsets: dict[str, int]) -> str:
    topics = sorted({name.rpartition("/")[0] for name in offsets})
    return f"kafka {', '.join(topics)}, {len(offsets):,} partition{'s' * (len(offsets) != 1)}"


def _unread(offsets: SourceOffsets, topics: TopicFacts | None) -> int | None:
    """How many records of Kafka a source has not read; None where the broker does not say it."""
    if topics is None or topics.trouble is not None or offsets.kind != "kafka":
        return None
    own = offsets.offsets or {}
    return sum(p.unread for p in topics.partitions if p.unread is not None and f"{p.topic}/{p.partition}" in own)


def _origin(settings: Settings, windows: Windows, topics: TopicFacts | None) -> dict[str, str]:
    """Which tap each part comes from."""
    origin = {"batch": "checkpoint", "level": "checkpoint", "sources": "checkpoint"}
    if settings.lateness_ms is not None:
        origin["lateness"] = "state schema, as the query was first started"
    if topics is not None:
        origin["channels"] = "broker"
    if windows.open_count is not None:
        origin["windows"] = "state files"
    return origin
