"""What a Kafka broker reports about topics, and how far a reader has come in them."""

from msgspec import Struct


class PartitionFacts(Struct, frozen=True):
    """A partition: offsets, and event times (ms) at them; None is not known."""

    topic: str
    partition: int
    end: int
    newest_ms: int | None
    """The greatest event time in it; of times in the value the greatest of its last records."""
    arrived_ms: int | None
    """The greatest record timestamp in it: as a rule when its last record came."""
    position: int | None
    """What is read next; None: nothing has been read here, or no reader is watched."""
    event_ms: int | None
    """The event time that has been reached: the greatest of the last records before the position and of all earlier
    looks, so that it never goes back; without a reader `newest_ms`."""

    @property
    def unread(self) -> int | None:
        """How many records have not been read."""
        return None if self.position is None else max(0, self.end - self.position)


class TopicFacts(Struct, frozen=True, kw_only=True):
    """What the broker says of the topics at one moment."""

    ids: tuple[str | None, ...] = ()
    """They change when a topic is deleted and recreated."""
    partitions: tuple[PartitionFacts, ...] = ()
    assumed: bool = False
    """The times are the records' own, and neither user nor plan says that the watermark goes by them."""
    trouble: str | None = None
    """Why nothing newer is known, in one line."""
