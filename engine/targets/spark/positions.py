"""Positions and unread records of an existing query's sources. Pure."""

from collections.abc import Sequence

from msgspec.structs import replace

from ...snapshot import SourcePosition
from ..topic.topic_facts import TopicFacts
from .checkpoint.checkpoint import CheckpointFacts
from .checkpoint.offset_log import SourceOffsets, decode_source
from .events.query_runs import QueryRun, SourceProgress

_WORDS = {
    "files": "files",
    "number": "a counter",
    "json": "offsets of its own form",
    "nothing": "nothing read yet",
    "unreadable": "offsets that cannot be read",
}


def offsets_of(checkpoint: CheckpointFacts | None, run: QueryRun | None) -> list[SourceOffsets]:
    """The position of each source: in the checkpoint, or at the end of the last reported batch."""
    if checkpoint is not None and checkpoint.sources:
        return [fact.offsets for fact in checkpoint.sources]
    reported = run.progress.sources if run is not None and run.progress is not None else ()
    return [
        decode_source(str(number), "-" if source.end is None else source.end) for number, source in enumerate(reported)
    ]


def positions(
    checkpoint: CheckpointFacts | None, run: QueryRun | None, topics: TopicFacts | None, unmoved: Sequence[int] = ()
) -> list[SourcePosition]:
    """The sources for the snapshot, in the query's own order if it has reported them; `unmoved` is as in `Unmoved`."""
    reported = run.progress.sources if run is not None and run.progress is not None else ()
    offsets = offsets_of(checkpoint, run)
    several = len(offsets) > 1
    return [
        replace(
            _position(offset, reported[place] if len(reported) == len(offsets) else None, topics, several),
            batches_unmoved=unmoved[place] if len(unmoved) == len(offsets) else None,
        )
        for place, offset in enumerate(offsets)
    ]


def _position(
    offsets: SourceOffsets, reported: SourceProgress | None, topics: TopicFacts | None, several: bool
) -> SourcePosition:
    shown = reported.description if reported is not None else ""
    what = _topics(offsets.offsets or {}) if offsets.kind == "kafka" else shown or _WORDS[offsets.kind]
    at: dict[str, int] | int | str | None = offsets.offsets if offsets.kind == "kafka" else offsets.text
    if offsets.kind in ("files", "number"):
        at = next(iter((offsets.offsets or {}).values()), None)
    unread = _unread_there(offsets, topics)
    if unread is None and (topics is None or offsets.kind != "kafka") and reported is not None:
        unread = _unread_said(reported)  # of a broker that does not answer: what the query once said is not so now
    return SourcePosition(
        description=f"source {offsets.source}: {what}" if several else what,
        offsets=None if offsets.kind == "nothing" else at,
        backlog=unread,
    )


def _topics(offsets: dict[str, int]) -> str:
    topics = sorted({name.rpartition("/")[0] for name in offsets})
    return f"kafka {', '.join(topics)}, {len(offsets):,} partition{'s' * (len(offsets) != 1)}"


def _unread_there(offsets: SourceOffsets, topics: TopicFacts | None) -> int | None:
    """Unread Kafka records of a source; None if the broker does not report them."""
    if topics is None or topics.trouble is not None or offsets.kind != "kafka":
        return None
    own = offsets.offsets or {}
    unread = [p.unread for p in topics.partitions if f"{p.topic}/{p.partition}" in own]
    known = [number for number in unread if number is not None]
    return sum(known) if len(known) == len(unread) else None


def _unread_said(source: SourceProgress) -> int | None:
    """Unread records by the source's own report at the start of its last batch, if it has one."""
    if source.end is None or source.latest is None:
        return None
    end, latest = decode_source("", source.end), decode_source("", source.latest)
    if end.kind != "kafka" or latest.kind != "kafka" or end.offsets is None or latest.offsets is None:
        return None  # other sources count files, seconds, or anything
    return sum(max(0, offset - end.offsets.get(name, 0)) for name, offset in latest.offsets.items())
