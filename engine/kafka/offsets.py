"""Offsets of topics in the format of Spark's Kafka source, and how many records a batch takes from each partition."""

from math import ceil, floor
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:

    class TopicPartition(NamedTuple):
        """A partition of a topic; kafka-python's own class has no types."""

        topic: str
        partition: int
else:
    from kafka import TopicPartition

Offsets = dict[str, dict[str, int]]
"""The next offset to read, by topic, then by partition as text (JSON has no other keys)."""
Positions = dict[TopicPartition, int]
"""The next offset to read, by topic and partition."""


def positions_of(offsets: Offsets) -> Positions:
    """The offsets by partition."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def offsets_of(positions: Positions) -> Offsets:
    """The positions as nested dictionaries, in order."""
    offsets: Offsets = {}
    for partition, offset in sorted(positions.items()):
        offsets.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return offsets


def parse_offsets(text: str) -> Positions | None:
    """The positions in a source's line of the offset log; None if the line belongs to another kind of source."""
    try:
        return positions_of(msgspec.json.decode(text, type=Offsets))
    except (msgspec.DecodeError, ValueError):
        return None


def limited(start: Positions, end: Positions, most: int) -> Positions:
    """The end of a batch of about `most` records: each partition in proportion to its unread records.

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
