"""What of a topic is unread, and how far a reader is behind its end; what is not known is None, never 0."""

from collections.abc import Iterable

from . import PartitionFacts, TopicFacts


def unread_now(partition: PartitionFacts, facts: TopicFacts) -> int | None:
    """The partition's unread records; None also while the broker does not answer: what it once said is not so now."""
    return None if facts.trouble is not None else partition.unread


def unread_of_all(partitions: Iterable[PartitionFacts]) -> int | None:
    """The unread records of the partitions together; None if those of any are not known."""
    total = 0
    for partition in partitions:
        unread = partition.unread
        if unread is None:
            return None
        total += unread
    return total


def least_unread(partitions: Iterable[PartitionFacts]) -> int:
    """The unread records of those partitions of which they are known: a lower bound for all."""
    return sum(partition.unread or 0 for partition in partitions)


def behind_end_ms(partition: PartitionFacts, event_ms: int | None) -> int | None:
    """How far an event time is behind the partition's newest one; None: one of them is not known."""
    if event_ms is None or partition.newest_ms is None:
        return None
    return max(0, partition.newest_ms - event_ms)
