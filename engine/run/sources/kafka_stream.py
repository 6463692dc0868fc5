"""Reads Kafka with kafka-python in Spark's tasks: a data source of rows, and ranges of offsets as Arrow columns."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (kafka-python and pyarrow are only partly typed.)

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from kafka.errors import OffsetOutOfRangeError
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ...kafka.client_settings import FETCH_WAIT_MS, KafkaConfig
from ...kafka.cluster import (
    Cluster,
    Offsets,
    Positions,
    Topic,
    TopicPartition,
    consumer_of,
    limited,
    offsets_of,
    positions_of,
)
from ...system.errors import RunError, UsageError
from ...system.files import replace_file
from ...watermarks.times import LAST_USABLE_MS
from .base import CHANNEL, OFFSET, TIME, Batch, BatchReader, divided, parts_of
from .kafka_batches import HEADERS, DecodedRecords, deliver_batches, records_of
from .kafka_progress import positions_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

FORMAT = "wmtop-kafka"
_SCHEMA_SQL = "topic string, partition int, offset bigint, timestamp_ms bigint, key binary, value binary"
_HEADERS_SQL = ", headers array<struct<key: string, value: binary>>"
_ARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
_RECORDS_PER_TASK = 20_000
_BATCHES_PER_POLL = 64
"""Record batches decoded at once: by default producers fill them to 16 kB."""
_FETCH_BYTES = 2 << 20
"""What a broker sends of a partition at once: where a range ends, most of an answer and all of the next are in vain."""
_POLL_MS = 1_000
_GONE_S = 5.0
"""Time (s) without a record after which a task checks that the topic still exists."""
_BEYOND_S = 2.0
"""How long (s) records polled beyond a range may be used."""
_SILENT_S = 30.0
"""Time (s) without a record of a partition after which a task gives up: the engine then starts the query again."""

_consumers: dict[bytes, Any] = {}
"""A worker's consumers by configuration: connecting costs more than reading a small range."""


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


class ReaderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options for planner and tasks; passed as one JSON option."""

    config: KafkaConfig
    topics: list[str]
    start: Offsets
    most: int
    """Records per batch."""
    tasks: int
    keys: bool
    values: bool
    headers: bool = False
    held: str | None
    """The file that names the paused partitions (balanced reading)."""
    known_topics: str
    """The file with the ids of the topics being read: a topic with another id was recreated."""

    def __repr__(self) -> str:
        return f"ReaderOptions({self.topics})"


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """Records [start, end) of a partition, for one task."""

    topic: str
    partition: int
    start: int
    end: int
    channel: str = ""
    """The channel that its partition is, where only that and the times are read."""


class KafkaDataSource(DataSource):
    """Option `reader`: `ReaderOptions` as JSON."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        """A record's place, time, key and value, null unless needed; headers only if needed."""
        return _SCHEMA_SQL + (_HEADERS_SQL if self._options().headers else "")

    def streamReader(self, schema: "StructType") -> "KafkaStreamReader":  # noqa: N802 (Spark's name)
        return KafkaStreamReader(self._options())

    def _options(self) -> ReaderOptions:
        return msgspec.json.decode(self.options["reader"], type=ReaderOptions)


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans offset ranges in one process, reads them in others."""

    def __init__(self, options: ReaderOptions) -> None:
        self._options = options
        self._cluster: Cluster | None = None
        self._ends_at_start: Positions | None = None
        self._topics = KnownTopics(Path(options.known_topics))

    def initialOffset(self) -> Offsets:  # noqa: N802
        return self._options.start

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end at the existing records."""
        self._ends_at_start = self._ends()

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        """The end of a bounded read, for Spark's progress report, from which the engine learns where partitions end."""
        return None if self._ends_at_start is None else offsets_of(self._ends_at_start)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """The end of the next batch, 0 where a topic was recreated; `start` while the cluster does not answer (the
        engine reports it).
        """
        began = positions_of(start)
        try:
            ends = self._ends() if self._ends_at_start is None else self._ends_at_start
        except (RunError, UsageError):
            return start
        self._topics.rewind(began)
        held = _read_held(self._options.held)
        free = {p: began.get(p, 0) if f"{p.topic}-{p.partition}" in held else end for p, end in ends.items()}
        if self._ends_at_start is None or any(end > began.get(p, 0) for p, end in free.items()):
            ends = free  # else they wait for partitions that have been read to their end, and the query would end
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.most
        ends = limited({p: began.get(p, 0) for p in ends}, ends, most)
        ends = {p: 0 if self._topics.was_recreated(p) else max(began.get(p, 0), end) for p, end in ends.items()}
        return offsets_of(began | ends)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[OffsetRange]:
        """Each partition's range, split so that all cores have work; none for a recreated one, which rewinds."""
        return ranges_of(positions_of(start), positions_of(end), self._options.tasks)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The records of a task as Arrow record batches, without those of aborted transactions."""
        assert isinstance(partition, OffsetRange)
        return (_batch(self._options, partition, records) for records in read_range(self._options, partition))

    def _ends(self) -> Positions:
        """The ends of all existing partitions."""
        if self._cluster is None:
            self._cluster = Cluster(self._options.config)
        topics = self._cluster.topics(self._options.topics)
        self._topics.look(topics)
        return self._cluster.latest(p for topic in topics.values() for p in topic.partitions)

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()


def _read_held(path: str | None) -> set[str]:
    if path is None:
        return set()
    try:
        return set(msgspec.json.decode(Path(path).read_bytes(), type=list[str]))
    except (OSError, msgspec.DecodeError):
        return set()


def ranges_of(start: Positions, end: Positions, tasks: int) -> list[OffsetRange]:
    """Each partition's range; those with more than half of a task's share of the records in parts."""
    records = sum(max(0, stop - start.get(p, 0)) for p, stop in end.items())
    most = max(_RECORDS_PER_TASK, -(-records // (2 * tasks)))
    return [part for p, stop in sorted(end.items()) for part in _parts(p, start.get(p, 0), stop, most)]


def _parts(partition: TopicPartition, start: int, end: int, most: int) -> list[OffsetRange]:
    count = max(1, -(-(end - start) // most))
    edges = parts_of(start, end, count)
    return [OffsetRange(partition.topic, partition.partition, low, high) for low, high in edges if low < high]


class Beyond(NamedTuple):
    """Batches that a worker's consumer polled beyond a range."""

    partition: TopicPartition
    end: int
    """The end of that range."""
    polled_s: float
    batches: list[Any]

    def of(self, partition: TopicPartition, start: int) -> list[Any]:
        """The batches if the next range begins at that end; old ones may be from a topic that was recreated."""
        fresh = time.monotonic() - self.polled_s < _BEYOND_S
        return self.batches if fresh and (self.partition, self.end) == (partition, start) else []


_beyond: dict[bytes, Beyond] = {}
"""By the consumer's configuration."""


def _consumer(config: KafkaConfig) -> Any:
    key = msgspec.json.encode(config)
    if key not in _consumers:
        consumer = _consumers[key] = consumer_of(
            config,
            client_id="wmtop-reader",
            auto_offset_reset="none",
            max_partition_fetch_bytes=_FETCH_BYTES,
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )
        deliver_batches(consumer)
    return _consumers[key]


def read_range(options: ReaderOptions, offsets: OffsetRange) -> Iterator[DecodedRecords]:
    """The records of a range, in order, some polls' worth at a time; none of aborted transactions."""
    consumer = _consumer(options.config)
    partition = TopicPartition(offsets.topic, offsets.partition)
    consumer.assign([partition])
    key = msgspec.json.encode(options.config)
    beyond = _beyond.pop(key, None)
    left = [] if beyond is None else beyond.of(partition, offsets.start)
    if not left:
        consumer.seek(partition, offsets.start)
    polled: list[Any] = []
    at, heard_s = offsets.start, time.monotonic()
    while at < offsets.end:
        try:
            polled, left = left, []
            polled = polled or consumer.poll(timeout_ms=_POLL_MS, max_records=_BATCHES_PER_POLL).get(partition, [])
            moved = consumer.position(partition, timeout_ms=_POLL_MS)
        except OffsetOutOfRangeError:
            # Retention deleted records, or the topic was recreated: continue with the rest of the range.
            first = consumer.beginning_offsets([partition])[partition]
            if not at < first < offsets.end:
                return
            polled, moved = [], first
            consumer.seek(partition, first)
        if moved is not None and moved > at:
            at, heard_s = moved, time.monotonic()
        elif time.monotonic() - heard_s > _GONE_S and offsets.partition not in _partitions(consumer, offsets.topic):
            return  # deleted before it was read: the engine's probe notes that
        elif time.monotonic() - heard_s > _SILENT_S:
            raise TimeoutError(
                f"partition {offsets.partition} of {offsets.topic} delivers no records; check that its broker is up"
            )
        yield from records_of(
            polled, offsets.start, offsets.end, keys=options.keys, values=options.values, headers=options.headers
        )
    if later := [batch for batch in polled if batch.offset >= offsets.end]:
        _beyond[key] = Beyond(partition, offsets.end, time.monotonic(), later)


def _partitions(consumer: Any, topic: str) -> set[int]:
    """The numbers of the topic's partitions; none if it does not exist."""
    return consumer.partitions_for_topic(topic) or set() if topic in consumer.topics() else set()


def _batch(options: ReaderOptions, offsets: OffsetRange, records: DecodedRecords) -> pa.RecordBatch:
    count = len(records.offsets)
    columns = [
        pa.nulls(count, pa.string()).fill_null(offsets.topic),
        pa.nulls(count, pa.int32()).fill_null(offsets.partition),
        pa.array(records.offsets, pa.int64()),
        pa.array(records.timestamps, pa.int64(), mask=records.timestamps < 0),
        records.keys,
        records.values,
    ]
    if not options.headers:
        return pa.RecordBatch.from_arrays(columns, schema=_ARROW)
    return pa.RecordBatch.from_arrays([*columns, records.headers], schema=_ARROW.append(pa.field("headers", HEADERS)))


def _tables(options: ReaderOptions, part: OffsetRange) -> "Iterator[pa.Table]":
    """Runs in tasks: the records of a range in the canonical columns, as tables, at least one."""
    nothing = np.zeros(0, np.int64)
    yield _table(part.channel, nothing, nothing)
    for records in read_range(options, part):
        yield _table(part.channel, records.offsets, records.timestamps)


def _table(channel: str, offsets: Any, timestamps: Any) -> "pa.Table":
    return pa.table(
        {
            CHANNEL: pa.DictionaryArray.from_arrays(np.zeros(len(offsets), np.int32), pa.array([channel])),
            TIME: pa.array(timestamps, pa.int64(), mask=(timestamps < 0) | (timestamps > LAST_USABLE_MS)),
            OFFSET: pa.array(offsets, pa.int64()),
        }
    )


def ranges_reader(
    frame: "DataFrame",
    options: ReaderOptions,
    first: Positions,
    channel_of: Callable[[TopicPartition], str],
    rows_of: "Callable[[DataFrame], DataFrame]",
) -> BatchReader:
    """Topics whose channels are partitions: Spark plans offsets, tasks read between them.

    `first`: where the run starts; `rows_of`: a frame in the canonical columns.
    """

    def shares(batch: Batch) -> list[list[OffsetRange]]:
        if batch.begins is None:
            return []  # Spark knows
        ranges = ranges_of(positions_in(batch.begins) or first, positions_in(batch.ends) or first, options.tasks)
        named = [replace(part, channel=channel_of(TopicPartition(part.topic, part.partition))) for part in ranges]
        return divided(named, options.tasks, lambda part: part.end - part.start)

    return BatchReader(frame, lambda batch: rows_of(batch.frame), shares, partial(_tables, options))
