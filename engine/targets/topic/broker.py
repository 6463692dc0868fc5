"""The Kafka topics that an attached query reads, up to the offsets it has reached."""

import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from ...kafka.client_settings import KafkaConfig
from ...kafka.cluster import Positions, TopicPartition
from ...system.errors import UsageError
from ...system.json_path import JsonPath, parse_json_path
from .topic import TopicTap
from .topic_facts import RECORD, TopicFacts

EVERY_S = 1.0


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
