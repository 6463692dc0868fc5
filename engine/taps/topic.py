"""A Kafka topic, and how far a consumer group has come in it, asked of the broker: nothing is joined or read along."""

import time
from difflib import get_close_matches

from msgspec import Struct
from msgspec.structs import replace

from ..errors import RunError, UsageError
from ..event_time import TimeUnit
from ..json_path import JsonPath
from ..kafka.cluster import Cluster, Record, may_not_read
from ..kafka.config import KafkaConfig
from ..kafka.offsets import Positions, TopicPartition
from ..kafka.peek import Peek
from ..kafka.values import look_for_times, time_in

TOPIC_EVERY_S = 5.0


class PartitionFacts(Struct, frozen=True):
    """A partition: offsets, and event times (ms) at them; None is not known."""

    partition: int
    end: int
    newest_ms: int | None
    """The greatest event time in it; of times in the value that of its last record."""
    arrived_ms: int | None
    """The greatest record timestamp in it: as a rule when its last record came."""
    position: int | None
    """What the group reads next; None: it has committed nothing here, or no group is watched."""
    event_ms: int | None
    """The event time that has been reached: of the last record before the position, without a group `newest_ms`."""

    @property
    def unread(self) -> int | None:
        """How many records the group has not read."""
        return None if self.position is None else max(0, self.end - self.position)


class TopicFacts(Struct, frozen=True, kw_only=True):
    """What the broker says of the topic at one moment."""

    topic_id: str | None = None
    """Another one after it was deleted and created anew."""
    partitions: tuple[PartitionFacts, ...] = ()
    trouble: str | None = None
    """Why nothing newer is known, in one line."""


class TopicTap:
    """Asks once a poll; what has not moved is not asked again."""

    def __init__(self, config: KafkaConfig, topic: str, group: str | None, path: JsonPath | None) -> None:
        self._config = config
        self._topic = topic
        self._group = group
        self._path = path
        self._unit: TimeUnit | None = None
        self._cluster: Cluster | None = None
        self._peek = Peek(config)
        self._partitions: list[TopicPartition] = []
        self._looked_s = float("-inf")
        self._ends: Positions = {}
        self._newest: dict[TopicPartition, int] = {}
        self._known: dict[TopicPartition, tuple[int, int | None]] = {}
        self._at_end: dict[TopicPartition, tuple[int, int | None]] = {}
        self._last = TopicFacts()

    def open(self) -> str | None:
        """Connect; how times in the values read, if they are looked at. UsageError for what cannot be looked at."""
        cluster = self._cluster = Cluster(self._config)
        found = cluster.topics([self._topic])
        if self._topic not in found:
            raise UsageError(
                f"there is no topic {self._topic} at {self._config.bootstrap}; {cluster.near(self._topic)}"
            )
        topic = found[self._topic]
        if not topic.may_read:
            raise UsageError(may_not_read(self._topic))
        if self._group is not None and not self._positions(cluster, topic.partitions):
            raise UsageError(
                f"the group {self._group} has committed nothing on {self._topic}; {_near(cluster, self._group)}"
            )
        return None if self._path is None else look_for_times(cluster, topic.partitions, self._path)

    def poll(self) -> TopicFacts:
        """What the broker says now; while it is silent what it last said, with the trouble."""
        assert self._cluster is not None
        try:
            self._last = self._ask(self._cluster)
        except (RunError, UsageError) as error:
            self._looked_s = float("-inf")
            self._last = replace(self._last, trouble=str(error))
        return self._last

    def close(self) -> None:
        """Hang up."""
        self._peek.close()
        if self._cluster is not None:
            self._cluster.close()

    def _ask(self, cluster: Cluster) -> TopicFacts:
        topic_id = self._last.topic_id
        if time.monotonic() - self._looked_s > TOPIC_EVERY_S:
            topic = cluster.topics([self._topic]).get(self._topic)
            if topic is None:
                raise RunError(f"the topic {self._topic} is gone")
            if topic.id != topic_id:
                topic_id = topic.id
                self._forget()
            self._partitions = topic.partitions
            self._looked_s = time.monotonic()
        partitions = self._partitions
        ends = cluster.latest(partitions)
        moved = [p for p in partitions if ends[p] != self._ends.get(p)]
        first = cluster.earliest(partitions)
        stamps = cluster.greatest_timestamps(moved)
        self._newest |= {p: stamp for p, (stamp, _) in stamps.items()}
        self._ends = ends
        positions = self._positions(cluster, partitions)
        newest = self._newest if self._path is None else self._times_before(ends, first, self._at_end)
        reached = newest if self._group is None else self._reached(positions, ends, first)
        return TopicFacts(
            topic_id=topic_id,
            partitions=tuple(
                PartitionFacts(
                    partition=p.partition,
                    end=ends[p],
                    newest_ms=newest.get(p),
                    arrived_ms=self._newest.get(p),
                    position=positions.get(p),
                    event_ms=reached.get(p),
                )
                for p in partitions
            ),
        )

    def _forget(self) -> None:
        for known in (self._ends, self._newest, self._known, self._at_end):
            known.clear()

    def _positions(self, cluster: Cluster, partitions: list[TopicPartition]) -> Positions:
        if self._group is None:
            return {}
        committed = cluster.committed(self._group)
        return {p: committed[p] for p in partitions if p in committed}

    def _reached(self, positions: Positions, ends: Positions, first: Positions) -> dict[TopicPartition, int]:
        """The event times before the group's positions; at the end of a partition its greatest timestamp."""
        read_up = {p for p, at in positions.items() if at >= ends[p]} if self._path is None else set[TopicPartition]()
        looked_up = {p: at for p, at in positions.items() if p not in read_up}
        times = self._times_before(looked_up, first, self._known)
        return times | {p: self._newest[p] for p in read_up if p in self._newest}

    def _times_before(
        self, offsets: Positions, first: Positions, known: dict[TopicPartition, tuple[int, int | None]]
    ) -> dict[TopicPartition, int]:
        """The event time of the last record before each offset; only those that have moved are read."""
        moved = {p: at for p, at in offsets.items() if p not in known or known[p][0] != at}
        records = self._peek.before(moved, first)
        for partition, at in moved.items():
            found = self._time_of(records.get(partition))
            if found is None and partition in known:
                found = known[partition][1]
            known[partition] = at, found
        return {p: found for p in offsets if (found := known[p][1]) is not None}

    def _time_of(self, record: Record | None) -> int | None:
        if record is None:
            return None
        return record.timestamp_ms if self._path is None else time_in(record, self._path, None)


def _near(cluster: Cluster, group: str) -> str:
    """A hint after a group that is not there."""
    groups = cluster.groups()
    near = get_close_matches(group, groups, 3) or groups[:5]
    return f"there are: {', '.join(near)}" if near else "the cluster has no groups"
