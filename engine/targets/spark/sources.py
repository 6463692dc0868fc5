"""The sources of an attached query: positions, unread records, and input that left the watermark as it was. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from ...snapshot import SourcePosition
from ..topic import TopicFacts
from .checkpoint import CheckpointFacts
from .checkpoint_files import SourceOffsets, decode_source
from .facts import QueryFacts
from .query_runs import SourceProgress

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


class Sources(Struct, frozen=True):
    """The sources of a query, in its own order if it has reported them."""

    positions: list[SourcePosition]
    batches_unmoved: int | None
    """As `Unmoved.batches`."""
    rows_per_second: float | None
    """The rate of the input in the last batch."""


def sources_of(facts: QueryFacts, watermark_ms: int | None) -> Sources:
    """The sources of a query with that watermark (epoch ms)."""
    unmoved = unmoved_of(facts, watermark_ms)
    return Sources(_positions(facts, unmoved.by_source), unmoved.batches, _rows_per_second(facts))


def offsets_of(facts: QueryFacts) -> list[SourceOffsets]:
    """The position of each source: in the checkpoint, or at the end of the last reported batch."""
    if facts.checkpoint is not None and facts.checkpoint.sources:
        return [source.offsets for source in facts.checkpoint.sources]
    reported = facts.progress.sources if facts.progress is not None else ()
    return [
        decode_source(str(number), "-" if source.end is None else source.end) for number, source in enumerate(reported)
    ]


def _positions(facts: QueryFacts, unmoved: Sequence[int]) -> list[SourcePosition]:
    offsets = offsets_of(facts)
    sources = facts.progress.sources if facts.progress is not None else ()
    reported = sources if len(sources) == len(offsets) else [None] * len(offsets)
    counted = unmoved if len(unmoved) == len(offsets) else [None] * len(offsets)
    return [
        _position(source, progress, facts.topics, batches_unmoved=batches, is_numbered=len(offsets) > 1)
        for source, progress, batches in zip(offsets, reported, counted, strict=True)
    ]


def _position(
    source: SourceOffsets,
    progress: SourceProgress | None,
    topics: TopicFacts | None,
    *,
    batches_unmoved: int | None,
    is_numbered: bool,
) -> SourcePosition:
    offsets: dict[str, int] | int | str | None = source.text
    if source.kind == "kafka":
        description, offsets = _topics(source.offsets or {}), source.offsets
    else:
        description = (progress.description if progress is not None else "") or _DESCRIPTIONS[source.kind]
        if source.kind == "nothing":
            offsets = None
        elif source.kind in ("files", "number"):
            offsets = next(iter((source.offsets or {}).values()), None)
    return SourcePosition(
        description=f"source {source.source}: {description}" if is_numbered else description,
        offsets=offsets,
        backlog=_backlog(source, progress, topics),
        batches_unmoved=batches_unmoved,
    )


def _topics(offsets: dict[str, int]) -> str:
    topics = sorted({name.rpartition("/")[0] for name in offsets})
    return f"kafka {', '.join(topics)}, {len(offsets):,} partition{'s' * (len(offsets) != 1)}"


def _backlog(source: SourceOffsets, progress: SourceProgress | None, topics: TopicFacts | None) -> int | None:
    """The unread records of a source, by the broker, else by the source's own report; None: not known."""
    if topics is None or source.kind != "kafka":
        return None if progress is None else _reported_backlog(progress)
    if topics.trouble is not None:  # what the query once reported is not so now
        return None
    read = source.offsets or {}
    unread = [part.unread for part in topics.partitions if f"{part.topic}/{part.partition}" in read]
    known = [number for number in unread if number is not None]
    return sum(known) if len(known) == len(unread) else None


def _reported_backlog(source: SourceProgress) -> int | None:
    """Unread records by the source's own report at the start of its last batch, if it has one."""
    if source.end is None or source.latest is None:
        return None
    end, latest = decode_source("", source.end), decode_source("", source.latest)
    if end.kind != "kafka" or latest.kind != "kafka" or end.offsets is None or latest.offsets is None:
        return None  # other sources count files, seconds, or anything
    return sum(max(0, offset - end.offsets.get(name, 0)) for name, offset in latest.offsets.items())


def _rows_per_second(facts: QueryFacts) -> float | None:
    """The rate by the query's report, or by Kafka's offsets: other sources' counters count files, seconds, or
    anything.
    """
    if facts.progress is not None:
        return facts.progress.input_rows_per_second
    if facts.checkpoint is None:
        return None
    sources = facts.checkpoint.sources
    rates = [source.per_second for source in sources if source.offsets.kind == "kafka"]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known and len(known) == len(sources) else None


def unmoved_of(facts: QueryFacts, watermark_ms: int | None) -> Unmoved:
    """The input that left the watermark as it was: by the offsets in a checkpoint, else by the reported rows."""
    if watermark_ms is None:
        return Unmoved()
    if facts.checkpoint is not None and len(facts.checkpoint.history) > 1:
        return _unmoved_by_offsets(facts.checkpoint, watermark_ms)
    if facts.run is None or not facts.run.recent:
        return Unmoved()
    return Unmoved(sum(point.watermark_ms == watermark_ms and point.rows > 0 for point in facts.run.recent))


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
