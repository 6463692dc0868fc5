"""What tests put into a topic, and the types of the fixtures that do it."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

FULL = 1_500
"""The records in `full_topic`."""


class Record(NamedTuple):
    """A record to produce; `timestamp_ms` None is now."""

    value: bytes | None = b""
    partition: int = 0
    timestamp_ms: int | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class CreateTopic(Protocol):
    """Makes a topic with a name of its own; returns the name."""

    def __call__(self, partitions: int = 1, config: dict[str, str] | None = None) -> str: ...


class Produce(Protocol):
    """Sends records, each partition's in their order, and waits until they are there; returns their offsets."""

    def __call__(self, topic: str, records: Iterable[Record]) -> list[int]: ...


class Transact(Protocol):
    """Sends records in one transaction, which is committed or aborted."""

    def __call__(self, topic: str, records: Iterable[Record], *, commit: bool = True) -> None: ...
