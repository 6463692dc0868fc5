"""End offsets, probed beside the query and never in its way: what is unread, and what changed in the topics."""

import threading
import time
from collections.abc import Callable

from ..errors import RunError, UsageError
from .cluster import Cluster
from .config import KafkaConfig
from .offsets import Positions, TopicPartition

EVERY_S = 1.0
TOPICS_EVERY_S = 5.0
AHEAD_EVERY_S = 10.0


class Probe:
    """Looks at topics once a second in a thread of its own; `note` gets a line for each thing worth telling."""

    def __init__(self, config: KafkaConfig, topics: list[str], note: Callable[[str], None]) -> None:
        self.look_ahead: Callable[[Cluster, Positions], None] | None = None
        """Also called now and then, with the ends."""
        self._config = config
        self._topics = topics
        self._note = note
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="wmtop-kafka-probe", daemon=True)
        self._ids: dict[str, str | None] = {}
        self._missing: set[str] = set()
        self._told_lost: Positions = {}
        self._partitions: list[TopicPartition] = []
        self.ends: Positions | None = None
        """The end of each partition; None while they are not known."""
        self.read_to: Positions = {}
        """The next offset to read of each partition; whoever reads sets it."""
        self.rereads = True
        """Whether a topic that is created anew is read from its start (Spark's connector goes on at its end)."""
        self.silent_since: float | None = None
        """Since when (monotonic s) the cluster has not answered; None: it does."""

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def _watch(self) -> None:
        cluster: Cluster | None = None
        looked_s = ahead_s = float("-inf")
        while not self._stop.is_set():
            try:
                cluster = cluster or Cluster(self._config)
                if time.monotonic() - looked_s > TOPICS_EVERY_S:
                    partitions = self._look_at_topics(cluster)
                    self._look_for_lost(cluster.earliest(partitions))
                    looked_s = time.monotonic()
                self._heard()
                self.ends = self._latest(cluster)
                if self.look_ahead is not None and self.ends is not None and time.monotonic() - ahead_s > AHEAD_EVERY_S:
                    ahead_s = time.monotonic()
                    self.look_ahead(cluster, self.ends)
                looked_s = looked_s if self.ends is not None else float("-inf")
            except (RunError, UsageError) as error:
                looked_s = float("-inf")
                self._silent(str(error))
            self._stop.wait(EVERY_S)
        if cluster is not None:
            cluster.close()

    def _latest(self, cluster: Cluster) -> Positions | None:
        """The ends; None where a partition has just gone or has no leader: the next look at the topics tells."""
        try:
            return cluster.latest(self._partitions)
        except RunError:
            return None

    def _look_at_topics(self, cluster: Cluster) -> list[TopicPartition]:
        topics = cluster.topics(self._topics)
        partitions = [partition for topic in topics.values() for partition in topic.partitions]
        for name in self._topics:
            if name not in topics and name not in self._missing and name in self._ids:
                self._note(f"topic {name} is gone; waiting for it to come back")
            if name in topics:
                told = topics[name]
                if told.id != self._ids.get(name, told.id):
                    how = "from its start" if self.rereads else "from where it ends now: its first records are not read"
                    self._note(f"topic {name} was deleted and created anew: it is read {how}")
                self._ids[name] = told.id
        self._missing = set(self._topics) - topics.keys()
        known = {partition.topic for partition in self._partitions}
        for partition in sorted(set(partitions) - set(self._partitions)):
            if partition.topic in known:
                self._note(f"partition {partition.partition} of {partition.topic} is new")
        self._partitions = partitions
        return partitions

    def _look_for_lost(self, earliest: Positions) -> None:
        """Records that retention deleted before they were read."""
        for partition, first in earliest.items():
            at = self.read_to.get(partition)
            if at is not None and first > at and self._told_lost.get(partition) != first:
                self._told_lost[partition] = first
                self._note(
                    f"{first - at:,} records of partition {partition.partition} of {partition.topic} were deleted by "
                    "its retention before they were read"
                )

    def _silent(self, why: str) -> None:
        self.ends = None
        if self.silent_since is None:
            self.silent_since = time.monotonic()
            self._note(f"{why}; asking again")

    def _heard(self) -> None:
        if self.silent_since is not None:
            gone_s = time.monotonic() - self.silent_since
            self.silent_since = None
            self._note(f"the Kafka cluster answers again after {gone_s:.0f} s")
