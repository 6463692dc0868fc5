"""Probes end offsets without delaying the query: unread records, and changes of the topics."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ..snapshot import NoteCode
from ..system import clock
from ..system.errors import RunError
from .client_settings import KafkaConfig
from .cluster import Cluster, Ends, Positions, TopicPartition

EVERY_S = 1.0
TOPICS_EVERY_S = 5.0
AHEAD_EVERY_S = 10.0
STALE_MS = 4_000
_KEPT = 120


LookAhead = Callable[[Cluster, Positions], None]


class TakeNote(Protocol):
    """Takes a note: its code and its arguments."""

    def __call__(self, code: NoteCode, **args: str | int | None) -> None: ...


class Probe:
    """Polls topics once a second in a thread of its own; `note` gets events that a user should know."""

    def __init__(self, topics: list[str], note: TakeNote, look_ahead: LookAhead) -> None:
        """`look_ahead` gets the ends every `AHEAD_EVERY_S`, for facts that only some sources need."""
        self._topics = topics
        self._note = note
        self._look_ahead = look_ahead
        self._stop = threading.Event()
        self._ids: dict[str, str | None] = {}
        self.missing: set[str] = set()
        """Topics missing at the last poll."""
        self._history: deque[tuple[int, Positions]] = deque(maxlen=_KEPT)
        self._partitions: list[TopicPartition] = []
        self.there: frozenset[TopicPartition] | None = None
        """The existing partitions, also those missing only at the last poll; None before the first poll.

        A broker that has just restarted may not know a topic for a moment.
        """
        self.ends: Positions | None = None
        """The end of each partition; None: not known."""
        self.earliest: Positions = {}
        """The first available offset of each partition, at the last poll."""
        self.read_to: Positions = {}
        """The next offset to read of each partition; the reader sets it."""
        self.silent_since: float | None = None
        """Since when (monotonic s) the cluster has not answered; None: it answers."""

    def ends_at(self, time_ms: int) -> Positions | None:
        """The ends as known at a time (epoch ms), or soon after; None: not known."""
        known = list(self._history)
        if not known or self.ends is None:
            return None
        return next((ends for stamp, ends in reversed(known) if stamp <= time_ms), known[0][1])

    def fresh_ends(self) -> Positions | None:
        """The ends; None if they are not known, or were last fetched too long ago."""
        stamp = self._history[-1][0] if self._history else 0
        return self.ends if _now_ms() - stamp <= STALE_MS else None

    def start(self, config: KafkaConfig) -> None:
        """Begin to poll the cluster."""
        threading.Thread(target=self._watch, args=(config,), name="wmtop-kafka-probe", daemon=True).start()

    def compare(self, cluster: Cluster, ends: Ends) -> None:
        """Called with the ends of each poll: whether the logs are still those that were read."""

    def stop(self) -> None:
        """Stop polling."""
        self._stop.set()

    def _watch(self, config: KafkaConfig) -> None:
        cluster: Cluster | None = None
        looked_s = ahead_s = float("-inf")
        while not self._stop.is_set():
            try:
                cluster = cluster or Cluster(config)
                if time.monotonic() - looked_s > TOPICS_EVERY_S:
                    self.earliest = cluster.earliest(self._look_at_topics(cluster))
                    # A missing partition is looked up again at once: it is gone if two polls in a row miss it.
                    looked_s = time.monotonic() if self.there == frozenset(self._partitions) else float("-inf")
                self._heard()
                self._look_at_ends(cluster)
                if self.ends is not None and time.monotonic() - ahead_s > AHEAD_EVERY_S:
                    ahead_s = time.monotonic()
                    self._look_ahead(cluster, self.ends)
                looked_s = looked_s if self.ends is not None else float("-inf")
            except Exception as error:  # any error: this thread must not die with its last answer still shown
                looked_s = float("-inf")
                self._silent(str(error) or type(error).__name__)
            self._stop.wait(EVERY_S)
        if cluster is not None:
            cluster.close()

    def _look_at_ends(self, cluster: Cluster) -> None:
        """Ask for the ends; they are not known if a partition has just gone or has no leader: the next poll of the
        topics shows which.
        """
        try:
            found = cluster.ends(self._partitions)
        except RunError:
            self._note_ends(None)
            return
        self._note_ends({partition: end for partition, (end, _) in found.items()})
        self.compare(cluster, found)

    def _note_ends(self, ends: Positions | None) -> None:
        self.ends = ends
        if ends is not None:
            self._history.append((_now_ms(), ends))

    def _look_at_topics(self, cluster: Cluster) -> list[TopicPartition]:
        topics = cluster.topics(self._topics)
        partitions = [partition for topic in topics.values() for partition in topic.partitions]
        for name in self._topics:
            if name not in topics and name not in self.missing and name in self._ids:
                self._note("topic_gone", topic=name, unread=self._unread(name))
            if name in topics:
                topic = topics[name]
                if topic.id != self._ids.get(name, topic.id):
                    self._note("topic_recreated", topic=name, from_start=1)
                self._ids[name] = topic.id
        self.missing = set(self._topics) - topics.keys()
        known = {partition.topic for partition in self._partitions}
        for partition in sorted(set(partitions) - set(self._partitions)):
            if partition.topic in known:
                self._note("partition_added", topic=partition.topic, partition=partition.partition)
        self.there = frozenset(partitions) | frozenset(self._partitions)
        self._partitions = partitions
        return partitions

    def _unread(self, topic: str) -> int:
        """How many unread records the topic had when it was last seen."""
        last = self._history[-1][1] if self._history else {}
        return sum(max(0, end - self.read_to.get(p, 0)) for p, end in last.items() if p.topic == topic)

    def _silent(self, why: str) -> None:
        self.ends = None
        if self.silent_since is None:
            self.silent_since = time.monotonic()
            self._note("cluster_silent", why=why)

    def _heard(self) -> None:
        if self.silent_since is not None:
            silent_s = time.monotonic() - self.silent_since
            self.silent_since = None
            self._note("cluster_answers", silent_ms=int(silent_s * 1_000))


def _now_ms() -> int:
    return clock.now_ms()
