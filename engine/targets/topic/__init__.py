"""A Kafka topic or consumer group: the facts from a broker about topics, and a reader's position in them."""

from msgspec import Struct

RECORD = "timestamp"
"""The record's own timestamp as the place of event time; every other place is a JSON path into its value: `$.a.b`."""


class PartitionFacts(Struct, frozen=True):
    """A partition: offsets, and event times (ms) at them; None is not known."""

    topic: str
    partition: int
    end: int
    newest_ms: int | None
    """Its greatest event time; for times in the value, the greatest of its last records."""
    arrived_ms: int | None
    """Its greatest record timestamp: usually when its last record came."""
    position: int | None
    """The next offset to be read; None: nothing was committed here, or no reader is watched."""
    event_ms: int | None
    """The event time reached: the greatest of the last records before the position and of all earlier polls: it
    goes back only with the position; without a reader `newest_ms`.
    """
    first: int = 0
    """The first offset that is still there."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no record: then nothing of it is unread, with or without a commit."""
        return self.end <= self.first

    @property
    def is_unread(self) -> bool:
        """Whether the reader begins here with its first record, and has not read one."""
        return self.position is not None and self.position <= self.first < self.end and self.event_ms is None

    @property
    def unread(self) -> int | None:
        """How many unread records still exist; None for a position beyond the end: the topic was recreated or cut."""
        if self.position is None or self.position > self.end:
            return None
        return self.end - max(self.position, self.first)  # those before are deleted, and no reader commits past them


class TopicFacts(Struct, frozen=True, kw_only=True):
    """The broker's facts about the topics at one moment."""

    ids: tuple[str | None, ...] = ()
    """The topics' ids, which change when a topic is deleted and recreated."""
    partitions: tuple[PartitionFacts, ...] = ()
    assumed: bool = False
    """The times are the records' own, but neither user nor plan confirms that the watermark uses them."""
    members: int | None = None
    """The members of the watched group; None: no group is watched, or it is not known to have had any."""
    trouble: str | None = None
    """Why there is nothing newer, in one line."""
