"""Offsets of topics as Spark's Kafka source writes them, and how many records a batch takes of each partition."""

from math import ceil, floor
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:

    class TopicPartition(NamedTuple):
        """A partition of a topic; kafka-python's own has no types."""

        topic: str
        partition: int
else:
    from kafka import TopicPartition

Offsets = dict[str, dict[str, int]]
"""By topic, then partition as text (JSON has no other keys): the next offset to read."""
Positions = dict[TopicPartition, int]
"""The same by topic and partition."""


def positions_of(offsets: Offsets) -> Positions:
    """The offsets by partition."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def offsets_of(positions: Positions) -> Offsets:
    """The positions as nested names, in order."""
    offsets: Offsets = {}
    for partition, offset in sorted(positions.items()):
        offsets.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return offsets


def parse_offsets(text: str) -> Positions | None:
    """The positions in a source's line of the offset log; None where the line is of another kind of source."""
    try:
        return positions_of(msgspec.json.decode(text, type=Offsets))
    except (msgspec.DecodeError, ValueError):
        return None


def limited(start: Positions, end: Positions, most: int) -> Positions:
    """Where a batch of about `most` records ends: each partition in proportion to what it has unread.

    The same rule as Spark's `KafkaMicroBatchStream.rateLimit`, so that both readers make the same batches.
    """
    unread = {partition: max(0, offset - start.get(partition, offset)) for partition, offset in end.items()}
    total = sum(unread.values())
    if total <= most:
        return end
    ends: Positions = {}
    for partition, offset in end.items():
        share = most * (unread[partition] / total)
        ends[partition] = min(offset, start.get(partition, offset) + (ceil(share) if share < 1 else floor(share)))
    return ends
