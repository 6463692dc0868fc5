"""The topics being read: a topic that was deleted and recreated has another id, and is read from its start."""

from pathlib import Path

import msgspec

from ...durable_file import replace_file
from ...kafka.cluster import Topic
from ...kafka.offsets import Positions, TopicPartition


class KnownTopics:
    """The ids of the topics being read, in a file that outlives the query.

    A new id is saved only once Spark's offsets are back at 0, so that a crash in between loses nothing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ids: dict[str, str] = {}
        if path.exists():
            self._ids = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
        self._recreated: dict[str, str] = {}

    def look(self, topics: dict[str, Topic]) -> None:
        """Compare with the present topics; old brokers give no ids, so a recreated topic goes unnoticed there."""
        for name, topic in topics.items():
            if topic.id is None:
                continue
            if name not in self._ids:
                self._ids[name] = topic.id
                self._write()
            elif self._ids[name] != topic.id:
                self._recreated[name] = topic.id

    def rewind(self, start: Positions) -> None:
        """Given Spark's offsets: topics that are back at their start have their new id from now on."""
        for name in [name for name in self._recreated if not any(at for p, at in start.items() if p.topic == name)]:
            self._ids[name] = self._recreated.pop(name)
            self._write()

    def was_recreated(self, partition: TopicPartition) -> bool:
        """Whether offsets of the partition belong to a deleted topic."""
        return partition.topic in self._recreated

    def _write(self) -> None:
        replace_file(self._path, msgspec.json.encode(self._ids))
