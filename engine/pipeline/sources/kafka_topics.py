"""Which topics are read: a topic that was deleted and made anew has another id, and is read from its start."""

from pathlib import Path

import msgspec

from ...kafka.cluster import Topic
from ...kafka.offsets import Positions, TopicPartition


class KnownTopics:
    """The ids of the topics that are read, in a file that outlives the query.

    A new id is written down only once Spark's offsets are back at 0, so that a crash in between loses nothing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ids: dict[str, str] = {}
        if path.exists():
            self._ids = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
        self._anew: dict[str, str] = {}

    def look(self, topics: dict[str, Topic]) -> None:
        """Take the topics as they are now; old brokers give no ids, and nothing can be told of theirs."""
        for name, topic in topics.items():
            if topic.id is None:
                continue
            if name not in self._ids:
                self._ids[name] = topic.id
                self._write()
            elif self._ids[name] != topic.id:
                self._anew[name] = topic.id

    def rewind(self, start: Positions) -> None:
        """Spark's offsets are these: topics that are back at their start are known by their new id from now on."""
        for name in [name for name in self._anew if not any(at for p, at in start.items() if p.topic == name)]:
            self._ids[name] = self._anew.pop(name)
            self._write()

    def made_anew(self, partition: TopicPartition) -> bool:
        """Whether offsets of the partition are those of a topic that is gone."""
        return partition.topic in self._anew

    def _write(self) -> None:
        part = self._path.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(self._ids))
        part.replace(self._path)
