"""The Kafka topics that an attached query reads, up to the offsets it has reached."""

import threading
from collections.abc import Sequence

from msgspec.structs import replace

from ...errors import UsageError
from ...json_path import JsonPath
from ...kafka.config import KafkaConfig
from ...kafka.offsets import Positions, TopicPartition
from ..checkpoint.offset_log import SourceOffsets
from .topic import TopicTap
from .topic_facts import TopicFacts

EVERY_S = 1.0


class BrokerTap:
    """Asks on a thread of its own: a broker that is silent must not keep the checkpoint from being read."""

    def __init__(self, config: KafkaConfig, path: JsonPath | None, *, assumed: bool = False) -> None:
        """`assumed`: nobody said where event time is; the records' own timestamps may be something else."""
        self._config = config
        self._assumed = assumed
        self._path = path
        self._tap: TopicTap | None = None
        self._positions: Positions = {}
        self._facts = TopicFacts()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self, offsets: Sequence[SourceOffsets]) -> None:
        """Connect and ask once; UsageError where the query reads nothing from Kafka, or the topics are not there."""
        self._positions = _positions(offsets)
        topics = sorted({partition.topic for partition in self._positions})
        if not topics:
            raise UsageError("it has no offsets of Kafka: leave out --bootstrap, --time and --kafka-config")
        self._tap = TopicTap(self._config, topics, path=self._path)
        self._tap.open()
        self._facts = self._tap.poll(self._positions)

    def poll(self, offsets: Sequence[SourceOffsets]) -> TopicFacts:
        """What the broker has last said of the offsets that the query had reached then."""
        self._positions = _positions(offsets) or self._positions
        if self._thread is None:
            self._thread = threading.Thread(target=self._ask, name="wmtop-broker", daemon=True)
            self._thread.start()
        return replace(self._facts, assumed=self._assumed)

    def close(self) -> None:
        """Ask no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(EVERY_S)
        if self._tap is not None and not (self._thread and self._thread.is_alive()):
            self._tap.close()

    def _ask(self) -> None:
        assert self._tap is not None
        while not self._stop.wait(EVERY_S):
            try:
                self._facts = self._tap.poll(self._positions)
            except Exception as error:  # the checkpoint is still read
                self._facts = replace(self._facts, trouble=f"the broker is not asked any more: {error!r}")
                raise


def _positions(offsets: Sequence[SourceOffsets]) -> Positions:
    """Where the query reads next in Kafka, once its last batch has ended."""
    found: Positions = {}
    for source in offsets:
        if source.kind == "kafka":
            for name, offset in (source.offsets or {}).items():
                topic, _, partition = name.rpartition("/")
                found[TopicPartition(topic, int(partition))] = offset
    return found
