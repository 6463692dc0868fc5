"""Unread records of a Flink job's Kafka partitions, and how they explain its barrel. Pure."""

from msgspec import Struct
from msgspec.structs import replace

from .barrel import Barrel, BarrelChannel
from .samples import Sample, Split


class Unread(Struct, frozen=True):
    """A partition when the last metrics were taken; `read` is the number of records read between the last samples."""

    backlog: int
    behind_end_ms: int | None = None
    read: int | None = None


UnreadBySplit = dict[tuple[str, str], Unread]
"""By vertex and split: two sources may read the same partition."""


def splits_of(sample: Sample | None) -> list[tuple[str, Split]]:
    """The Kafka splits of a sample, each with its vertex's id."""
    vertices = sample.vertices if sample is not None else ()
    return [(one.vertex.id, s) for one in vertices for task in one.subtasks for s in task.splits if s.topic is not None]


def with_backlog(barrel: Barrel, unread: UnreadBySplit) -> Barrel:
    """The barrel, with unread records among the causes."""

    def known(one: BarrelChannel) -> BarrelChannel:
        there = None if one.split is None else unread.get(one.split)
        if there is None or not there.backlog:
            return one
        # Records read between two samples are not a backlog: they are gone with the next one.
        waits = one.cause in ("quiet", "stuck") or (
            one.cause in ("behind", "slow_reader") and there.read is not None and there.backlog > there.read
        )
        return replace(one, quiet_ms=None, cause="backlog" if waits and one.cause != "slow_reader" else one.cause)

    channels = tuple(known(one) for one in barrel.channels)
    held = barrel.held
    if held is not None and held.instance is not None:
        mine = (one.cause for one in channels if (one.name, one.instance) == (held.channel, held.instance))
        cause = next(mine, None)
        held = replace(held, cause=cause or held.cause)
    return replace(barrel, channels=channels, held=held)
