"""Queries the broker about Kafka topics and a reader's position in them, without joining a group."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ...kafka.client_settings import KafkaConfig
from ...kafka.cluster import Cluster, Peek, Positions, Record, TopicPartition, look_for_times, may_not_read, time_in
from ...system.errors import RunError, UsageError
from ...system.json_values import JsonPath, parse_json_path
from . import RECORD, PartitionFacts, TopicFacts

EVERY_S = 1.0
"""Seconds between two queries for an attached query."""
TOPIC_EVERY_S = 5.0

MAX_BACK, BACK_IN_ALL = 200, 10_000
"""Records before an offset that are read for the greatest event time, at most: per partition, and in all."""

_Known = dict[TopicPartition, tuple[int, int | None]]
"""The greatest event time (ms) found before an offset, by partition: from the last records, or from an earlier poll."""


def reported_id(cluster: Cluster) -> str | UnsetType:
    """The cluster's own id; UNSET where it may not be asked for."""
    try:
        return cluster.id() or UNSET
    except (RunError, UsageError):
        return UNSET


class TopicTap:
    """Queries once per poll, unchanged partitions not; event times are the records' own, or in their values."""

    def __init__(
        self, config: KafkaConfig, topics: Sequence[str], *, group: str | None = None, path: JsonPath | None = None
    ) -> None:
        self._config = config
        self._topics = list(topics)
        self._group = group
        self._path = path
        self._cluster: Cluster | None = None
        self._peek = Peek(config)
        self._partitions: list[TopicPartition] = []
        self._looked_s = float("-inf")
        self._ends: Positions = {}
        self._newest: dict[TopicPartition, int] = {}
        self._before_end: _Known = {}
        self._before_position: _Known = {}
        self._last = TopicFacts()
        self.cluster: str | UnsetType = UNSET
        """The cluster's own id, once it is open and if the cluster reports it."""

    def open(self) -> str | None:
        """Connect, and find the format of times in used values; UsageError for a topic that cannot be watched."""
        cluster = self._cluster = Cluster(self._config)
        self.cluster = reported_id(cluster)
        found = cluster.topics(self._topics)
        for name in self._topics:
            if name not in found:
                raise UsageError(f"there is no topic {name} at {self._config.bootstrap}; {cluster.near(name)}")
            if not found[name].may_read:
                raise UsageError(may_not_read(name))
        partitions = [partition for topic in found.values() for partition in topic.partitions]
        if self._group is not None and not self._committed(cluster, self._group, partitions):
            on, near = ", ".join(self._topics), cluster.near(self._group, group=True)
            raise UsageError(f"the group {self._group} has committed nothing on {on}; {near}")
        return None if self._path is None else look_for_times(cluster, partitions, self._path)

    def watch(self, topics: Sequence[str]) -> None:
        """Query about these topics from now on."""
        if list(topics) != self._topics:
            self._topics = list(topics)
            self._looked_s = float("-inf")

    def poll(self, positions: Positions | None = None) -> TopicFacts:
        """The broker's present facts: for the group, for a reader at `positions`, or for no reader.

        While it does not answer, its last facts with the trouble.
        """
        assert self._cluster is not None
        try:
            self._last = self._ask(self._cluster, positions)
        except (RunError, UsageError) as error:
            self._looked_s = float("-inf")
            self._last = replace(self._last, trouble=str(error))
        return self._last

    def times_between(self, begins: Positions, ends: Positions) -> dict[TopicPartition, list[int | None]]:
        """The event times (ms) of the records from one offset up to another, by partition: of the last `MAX_BACK`."""
        back = {p: min(MAX_BACK, end - begins[p]) for p, end in ends.items()}
        tails = self._peek.tails(ends, begins, back)
        return {p: [self._time_of(record) for record in tails.get(p, ())] for p in ends}

    def close(self) -> None:
        """Disconnect."""
        self._peek.close()
        if self._cluster is not None:
            self._cluster.close()

    def _ask(self, cluster: Cluster, positions: Positions | None) -> TopicFacts:
        ids = self._look_at_topics(cluster)
        partitions = self._partitions
        ends, first = cluster.latest(partitions), cluster.earliest(partitions)
        stamps = cluster.greatest_timestamps(p for p in partitions if ends[p] != self._ends.get(p))
        self._newest |= {p: stamp for p, (stamp, _) in stamps.items()}
        self._ends = ends
        if self._group is not None:
            positions = self._committed(cluster, self._group, partitions)
        known = {p: at for p, at in (positions or {}).items() if p in ends}
        newest = self._newest if self._path is None else self._times_before(ends, first, self._before_end)
        reached = newest if positions is None else self._reached(known, ends, first)
        return TopicFacts(
            ids=ids,
            members=None if self._group is None else cluster.members(self._group),
            partitions=tuple(
                PartitionFacts(
                    topic=p.topic,
                    partition=p.partition,
                    end=ends[p],
                    newest_ms=newest.get(p),
                    arrived_ms=self._newest.get(p),
                    position=known.get(p),
                    event_ms=reached.get(p),
                    first=first[p],
                )
                for p in partitions
            ),
        )

    def _look_at_topics(self, cluster: Cluster) -> tuple[str | None, ...]:
        """Look up now and then: new partitions, topics that are gone or were recreated."""
        if time.monotonic() - self._looked_s <= TOPIC_EVERY_S:
            return self._last.ids
        found = cluster.topics(self._topics)
        if gone := [name for name in self._topics if name not in found]:
            raise RunError(f"the topic {gone[0]} is gone")
        topics = [found[name] for name in self._topics]
        ids = tuple(topic.id for topic in topics)
        if ids != self._last.ids:
            self._ends, self._newest, self._before_end, self._before_position = {}, {}, {}, {}
        self._partitions = [partition for topic in topics for partition in topic.partitions]
        self._looked_s = time.monotonic()
        return ids

    @staticmethod
    def _committed(cluster: Cluster, group: str, partitions: list[TopicPartition]) -> Positions:
        committed = cluster.committed(group)
        return {p: committed[p] for p in partitions if p in committed}

    def _reached(self, positions: Positions, ends: Positions, first: Positions) -> dict[TopicPartition, int]:
        """The event times before the positions; at a partition's end its greatest timestamp.

        None for a position beyond the end: its records are not there.
        """
        positions = {p: at for p, at in positions.items() if at <= ends[p]}
        if self._path is not None:
            return self._times_before(positions, first, self._before_position)
        inside = {p: at for p, at in positions.items() if at < ends[p]}
        before = self._before_position
        read = {
            p: ms
            for p, at in positions.items()
            if p in before and before[p][0] <= at and (ms := before[p][1]) is not None
        }
        at_end = {
            p: max(self._newest[p], read.get(p, self._newest[p]))
            for p in positions.keys() - inside.keys()
            if p in self._newest
        }
        self._before_position |= {p: (positions[p], ms) for p, ms in at_end.items()}  # it never goes back from there
        return self._times_before(inside, first, self._before_position) | at_end

    def _times_before(self, offsets: Positions, first: Positions, known: _Known) -> dict[TopicPartition, int]:
        """The greatest event time found before each offset; it goes back only with the offset, after a reset.

        Only partitions with changes are read again, and only their last records: one late record does not make its
        partition late.
        """
        moved = {p: at for p, at in offsets.items() if p not in known or known[p][0] != at}
        most = min(MAX_BACK, max(1, BACK_IN_ALL // max(1, len(moved))))
        passed = {p: known[p] for p, at in moved.items() if p in known and known[p][0] < at}
        back = {p: min(most, at - passed[p][0]) if p in passed else most for p, at in moved.items()}
        tails = self._peek.tails(moved, first, back)
        for partition, at in moved.items():
            times = [self._time_of(record) for record in tails.get(partition, ())]
            before = passed[partition][1] if partition in passed else None
            known[partition] = at, max((ms for ms in (*times, before) if ms is not None), default=None)
        return {p: found for p in offsets if (found := known[p][1]) is not None}

    def _time_of(self, record: Record) -> int | None:
        return record.timestamp_ms if self._path is None else time_in(record, self._path)


def time_path(time: str | None) -> JsonPath | None:
    """The place of event time: a field of the value; None: the record's own timestamp."""
    return None if time in (None, RECORD) else parse_json_path(time, "--time")


# The topics that an attached query reads, up to the offsets it has reached.


class ReadSource(Protocol):
    """A source of an attached query or job."""

    @property
    def kind(self) -> str:
        """Whether it is `kafka`, or another source."""
        ...

    @property
    def offsets(self) -> Mapping[str, int] | None:
        """The next offset to be read, by `topic/partition`; None for other sources."""
        ...


class BrokerTap:
    """Queries a broker on a thread of its own: a broker that does not answer must not delay reading the checkpoint."""

    def __init__(self, config: KafkaConfig, path: JsonPath | None, *, assumed: bool = False) -> None:
        """`assumed`: the user did not say where event time is; unless the query's plan shows it, it is not known."""
        self._config = config
        self._assumed = assumed
        self._path = path
        self._topics: list[str] = []
        self._planned: str | None = None
        self._tried: str | None = None
        self._tap: TopicTap | None = None
        self._positions: Positions = {}
        self._facts = TopicFacts()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def cluster(self) -> str | UnsetType:
        """The cluster's own id, once it is open and if the cluster reports it."""
        return UNSET if self._tap is None else self._tap.cluster

    def open(self, offsets: Sequence[ReadSource], time: str | None = None) -> None:
        """Connect and query once; `time` is the place of event time in a record by the plan.

        UsageError if the query reads nothing from Kafka, or the topics do not exist.
        """
        self._positions = _positions(offsets)
        topics = sorted({partition.topic for partition in self._positions})
        if not topics:
            raise UsageError("it has no offsets of Kafka: leave out --bootstrap, --time and --kafka-config")
        self._topics = topics
        if not self._take(time):
            self._tap = TopicTap(self._config, topics, path=self._path)
            self._tap.open()
        assert self._tap is not None
        self._facts = self._facts_of(self._tap)

    def poll(self, offsets: Sequence[ReadSource], time: str | None = None) -> TopicFacts:
        """The broker's last answer about the query's offsets at that time; `time` as in `open`."""
        self._positions = _positions(offsets) or self._positions
        self._planned = time
        if self._thread is None:
            self._thread = threading.Thread(target=self._ask, name="wmtop-broker", daemon=True)
            self._thread.start()
        return self._facts

    def close(self) -> None:
        """Stop querying."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(EVERY_S)
        if self._tap is not None and not (self._thread and self._thread.is_alive()):
            self._tap.close()

    def _take(self, time: str | None) -> bool:
        """Use the time that the plan names, once; returns whether there is a new tap for it."""
        if not self._assumed or time is None or time == self._tried:
            return False
        self._tried = time
        if time == RECORD:
            self._assumed = False
            return False
        tap = TopicTap(self._config, self._topics, path=parse_json_path(time, "--time"))
        try:
            tap.open()
        except UsageError:  # no record has the field
            tap.close()
            return False
        before, self._tap = self._tap, tap
        if before is not None:
            before.close()
        self._assumed = False
        return True

    def _facts_of(self, tap: TopicTap) -> TopicFacts:
        """The broker's present facts about the partitions that the query reads: perhaps only some (`assign`)."""
        facts = tap.poll(self._positions)
        read = tuple(one for one in facts.partitions if one.position is not None)
        return replace(facts, partitions=read, assumed=self._assumed)

    def _ask(self) -> None:
        assert self._tap is not None
        while not self._stop.wait(EVERY_S):
            try:
                self._take(self._planned)
                self._facts = self._facts_of(self._tap)
            except Exception as error:  # the checkpoint is still read
                self._facts = replace(self._facts, trouble=f"the broker is not asked any more: {error!r}")
                raise


def _positions(offsets: Sequence[ReadSource]) -> Positions:
    """The next offsets that the query reads in Kafka, after its last batch."""
    found: Positions = {}
    for source in offsets:
        if source.kind == "kafka":
            for name, offset in (source.offsets or {}).items():
                topic, _, partition = name.rpartition("/")
                found[TopicPartition(topic, int(partition))] = offset
    return found
