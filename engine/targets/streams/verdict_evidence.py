"""What a look at a Kafka Streams application shows: of each task whether its stream time moves."""

from collections.abc import Sequence

from msgspec.structs import replace

from ...snapshot import Clock, ConsumerGroup, Level, Snapshot, SourcePosition
from ...verdict.evidence import Picture, Task
from ..topic.verdict_evidence import evidence_of_group


def picture_of_application(shown: Snapshot, clocks: Sequence[Clock], positions: Sequence[SourcePosition]) -> Picture:
    """The application with each of its tasks as a group of its own, whose commits are their beats."""
    return Picture(
        shown,
        evidence_of_group(shown, positions),
        tuple(_task(shown, clock, offsets) for clock, offsets in zip(clocks, _offsets(clocks, positions), strict=True)),
    )


def _task(shown: Snapshot, clock: Clock, offsets: dict[str, int]) -> Task:
    """The application as if it had only this task: its clock is the watermark."""
    views = {view.channel: view for view in shown.channels}
    own = [SourcePosition("", offsets)]
    alone = replace(
        shown,
        level=Level(clock.time_ms),
        channels=[views[channel] for channel in clock.channels if channel in views],
        target=ConsumerGroup(own),
    )
    return Task(clock.channels, alone, evidence_of_group(alone, own))


def _offsets(clocks: Sequence[Clock], positions: Sequence[SourcePosition]) -> list[dict[str, int]]:
    """The offsets of each clock's channels: `orders-3`, in a position `orders/3`."""
    known = {
        place.replace("/", "-"): offset
        for position in positions
        if isinstance(position.offsets, dict)
        for place, offset in position.offsets.items()
    }
    return [{channel: known[channel] for channel in clock.channels if channel in known} for clock in clocks]
