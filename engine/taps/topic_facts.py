"""What a Kafka broker says of topics, and of how far somebody has come in them."""

from msgspec import Struct


class PartitionFacts(Struct, frozen=True):
    """A partition: offsets, and event times (ms) at them; None is not known."""

    topic: str
    partition: int
    end: int
    newest_ms: int | None
    """The greatest event time in it; of times in the value that of its last record."""
    arrived_ms: int | None
    """The greatest record timestamp in it: as a rule when its last record came."""
    position: int | None
    """What is read next; None: nothing has been read here, or nobody is watched."""
    event_ms: int | None
    """The event time that has been reached: of the last record before the position, of nobody's `newest_ms`."""

    @property
    def unread(self) -> int | None:
        """How many records have not been read."""
        return None if self.position is None else max(0, self.end - self.position)


class TopicFacts(Struct, frozen=True, kw_only=True):
    """What the broker says of the topics at one moment."""

    ids: tuple[str | None, ...] = ()
    """Others after a topic was deleted and created anew."""
    partitions: tuple[PartitionFacts, ...] = ()
    trouble: str | None = None
    """Why nothing newer is known, in one line."""
