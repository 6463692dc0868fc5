"""`run kafka`: topics of a real cluster, through Spark's connector where it is there, else through kafka-python."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ...core.snapshot import SourceView
from ...core.times import MIN
from ...core.unread import Unread
from ...errors import RunError, UsageError
from ...json_path import JsonPath
from ...kafka.cluster import Cluster, may_not_read
from ...kafka.config import KafkaConfig
from ...kafka.offsets import Positions, TopicPartition, offsets_of, parse_offsets
from ...kafka.peek import Peek
from ...kafka.probe import Probe
from ...kafka.values import look_for_times, time_in
from .base import MARKER, LiveSource
from .kafka_columns import KafkaColumns
from .marker import marked
from .workers import start_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Reader = Literal["auto", "connector", "python"]
Start = Literal["earliest", "latest", "committed"] | int
"""Where to begin; a number is a record timestamp (ms)."""

_POLL_MS = 200
_MOST = 300_000
"""Records of a batch, the same for both readers so that they make the same batches: four seconds of kafka-python."""
_MOST_BALANCED = 20_000
"""With balanced reading: drift can only be seen between batches."""
FETCH_WAIT_MS = 10
"""How long the broker may wait for new records before it answers a fetch. The connector asks for a partition's ends
behind a fetch that is under way: with Kafka's 500 ms every task at a topic's end takes half a second.
"""
_TOPIC_EVERY_S = 1.0
_GIVE_UP_AFTER = 3
_RETRY_S = 0.5
"""Before the first retry; longer before later ones."""
_CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
HOW_TO_CONNECT = "give it with --packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION or --jars"


class Kafka(LiveSource):
    """A `Source` of topics; with `once` it ends with what is there at the start."""

    rows_in_all = None

    def __init__(
        self,
        config: KafkaConfig,
        topics: list[str],
        columns: KafkaColumns,
        *,
        start: Start = "earliest",
        group: str | None = None,
        reader: Reader = "auto",
        max_drift_ms: int | None = None,
        once: bool = False,
        batch_records: int | None = None,
        directory: Path,
        keep: bool = False,
        resuming: bool = False,
    ) -> None:
        """`directory` is for files between the processes of the run, deleted at the end unless `keep`."""
        self._config = config
        self._topics = sorted(set(topics))
        self._columns = columns
        self._start: Start = start
        self._group = group
        self._asked_reader: Reader = reader
        self._reader: Literal["connector", "python"] | None = None if reader == "auto" else reader
        self._max_drift_ms = max_drift_ms
        self._once = once
        self._batch_records = batch_records or (_MOST if max_drift_ms is None else _MOST_BALANCED)
        self._directory = directory
        self._keep = keep
        self._resuming = resuming
        self._cluster_id: str | None = None
        self._unit: str | None = None if columns.unit is None else f"epoch {columns.unit}"
        self._positions: Positions = {}
        self._notes: list[str] = []
        self._say: Callable[[str], None] = lambda text: None
        self._probe = Probe(config, self._topics, self._note)
        self._peek = Peek(config)
        self._held: frozenset[str] = frozenset()
        self._come_to: dict[str, int] = {}
        """How far (ms) each channel that is not idle has been read."""
        self._newest: dict[str, int] = {}
        """How far (ms) event time goes in partitions with unread records (balanced reading)."""
        self._passing: Positions = {}
        """How many records of each partition the last batch took."""

    @property
    def ticks(self) -> bool:
        """Not while a fixed set of offsets is read."""
        return not self._once

    @property
    def bounded(self) -> bool:
        """With `--once`: the query ends with the offsets found at the start."""
        return self._once

    def check(self) -> None:
        """Look at the cluster, the topics and their latest records; `UsageError` for what cannot be read."""
        cluster = Cluster(self._config)
        try:
            self._cluster_id = cluster.id()
            found = cluster.topics(self._topics)
            missing = [topic for topic in self._topics if topic not in found]
            if missing and self._once:
                raise UsageError(
                    f"there is no topic {missing[0]} at {self._config.bootstrap}; {cluster.near(missing[0])}"
                )
            for topic in found.values():
                if not topic.may_read:
                    raise UsageError(may_not_read(topic.name))
            if self._start == "committed" and not self._resuming and not cluster.committed(self._group or ""):
                raise UsageError(
                    f"--from committed: the group {self._group} has committed nothing; use --from earliest"
                )
            self._recognise_times(cluster, [p for topic in found.values() for p in topic.partitions])
        finally:
            cluster.close()

    def identity(self) -> dict[str, Any]:
        """Cluster, topics and columns; the reader does not matter, both read the same records."""
        columns = {
            name: str(value) if isinstance(value, JsonPath) else value
            for name, value in msgspec.structs.asdict(self._columns).items()
        }
        return {"kind": "kafka", "cluster": self._cluster_id, "topics": self._topics, **columns}

    def describe(self) -> SourceView:
        """The topics, where, and how they are read."""
        return SourceView(
            kind="kafka",
            description=f"{', '.join(self._topics)} at {self._config.bootstrap}",
            reader=self._reader,
            time_column="timestamp" if self._columns.time is None else str(self._columns.time),
            time_unit=self._unit,
            max_drift_ms=self._max_drift_ms,
            backlog=None if (unread := self.unread()) is None else unread.records,
            drift_ms=self._drift(self._come_to.values()),
            drift_unbalanced_ms=self._drift([*self._come_to.values(), *self._newest.values()]),
        )

    def prepare(self, report: Callable[[str], None]) -> None:
        """Wait until the topics are there, and find the offsets to begin with."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._held_file.unlink(missing_ok=True)  # that of a run before this one
        cluster = Cluster(self._config)
        try:
            partitions = self._wait_for_topics(cluster, report)
            self._positions = self._begin(cluster, partitions)
            self._probe.earliest = cluster.earliest(partitions)
        finally:
            cluster.close()
        self._probe.read_to = dict(self._positions)
        self._probe.look_ahead = self._look_ahead
        self._probe.start()

    def load(self, spark: "SparkSession") -> "DataFrame":
        """The stream of records; `UsageError` where the connector is asked for and not there."""
        there = _has_connector(spark)
        if self._asked_reader == "connector" and not there:
            raise UsageError(f"--reader connector: Spark's Kafka connector is not on the class path; {HOW_TO_CONNECT}")
        self._reader = "connector" if there and self._asked_reader != "python" else "python"
        self._probe.rereads = self._reader == "python"
        if self._max_drift_ms is not None and self._reader == "connector":
            self._note("--max-drift is not enforced: Spark's connector reads all partitions alike; use --reader python")
        raw = self._from_connector(spark) if self._reader == "connector" else self._from_python(spark)
        text = raw.selectExpr(*self._columns.text_sql())
        canonical = self._columns.canonical_sql(self._topics)
        if self._columns.marker is not None:
            return marked(text, self._columns.marker, canonical, MARKER)
        return text.selectExpr(*canonical)

    def trigger(self) -> dict[str, Any]:
        """With `once`: what is there, then the end."""
        return {"availableNow": True} if self._once else {"processingTime": f"{_POLL_MS} milliseconds"}

    def channels(self) -> list[str]:
        """The partitions that are there, where they are the channels."""
        if not self._columns.by_partition:
            return []
        return [self._name(partition) for partition in (self._probe.ends or self._positions)]

    def part_name(self, part: int) -> str | None:
        """`topic-partition` of a number that `KafkaColumns.canonical_sql` gave; None where the channel says it."""
        return None if self._columns.by_partition else f"{self._topics[part >> 32]}-{part & 0xFFFFFFFF}"

    def resumed(self, ends: list[str]) -> None:
        """Note how far each partition was read before."""
        self._probe.read_to = _positions(ends) or self._probe.read_to

    def applied(self, ends: list[str]) -> None:
        """Note how far each partition has been read, and what of it was not there any more."""
        read_to = _positions(ends)
        if read_to is None:
            return
        before, earliest = self._probe.read_to, self._probe.earliest
        for partition, end in read_to.items():
            start = before.get(partition, 0)
            lost = min(earliest.get(partition, 0), end) - start
            if lost > 0:
                self._note(
                    f"{lost:,} records of partition {partition.partition} of {partition.topic} were deleted by its "
                    "retention before they were read"
                )
        self._passing = {partition: max(0, end - before.get(partition, 0)) for partition, end in read_to.items()}
        self._probe.read_to = read_to

    def left_by(self, ends: list[str], time_ms: int) -> Unread | None:
        """What a batch did not take of what was there when it was planned."""
        read_to = _positions(ends)
        return None if read_to is None else self._unread(self._probe.ends_at(time_ms), read_to)

    def balance(self, max_event_ms: Mapping[str, int | None]) -> None:
        """Hold back the partitions that are further ahead of the slowest than allowed (Flink's watermark alignment)."""
        unread = self.unread()
        if self._max_drift_ms is not None:
            self._come_to = {channel: time_ms for channel, time_ms in max_event_ms.items() if time_ms is not None}
        if self._max_drift_ms is None or self._reader != "python" or unread is None or unread.by_channel is None:
            return
        # A partition without records and known to have no unread ones has no part in it, nor has one that is idle, nor
        # one of which nothing read so far had a usable time.
        untouched = {self._name(p) for p, at in self._probe.read_to.items() if at <= self._positions.get(p, 0)}
        slowest = [
            time_ms
            for channel, time_ms in max_event_ms.items()
            if time_ms is not None or (unread.of(channel) != 0 and channel in untouched)
        ]
        known = [time_ms for time_ms in slowest if time_ms is not None]
        # Someone has unread records and nothing read yet: everybody else waits for the first of them.
        limit = min(known) + self._max_drift_ms if known and len(known) == len(slowest) else MIN
        held = frozenset(c for c, time_ms in max_event_ms.items() if time_ms is not None and time_ms > limit)
        if held != self._held:
            self._held = held
            self._write_held([f"{p.topic}-{p.partition}" for p in self._probe.read_to if self._name(p) in held])

    def unread(self) -> Unread | None:
        """Records between what has been read and the end of each partition."""
        return self._unread(self._probe.fresh_ends(), self._probe.read_to)

    def _unread(self, ends: Positions | None, read_to: Positions) -> Unread:
        there = {p for p in read_to if p.topic not in self._probe.missing}
        if ends is None or not there <= ends.keys():
            return Unread(None, {} if self._columns.by_partition else None, self._held)
        lags = {partition: max(0, end - read_to.get(partition, 0)) for partition, end in ends.items()}
        passing = {self._name(p): records for p, records in self._passing.items()}
        return Unread(
            records=sum(lags.values()),
            by_channel={self._name(p): lag for p, lag in lags.items()} if self._columns.by_partition else None,
            held_back=self._held,
            passing=sum(passing.values()),
            passing_by_channel=passing,
        )

    def tell(self, say: Callable[[str], None]) -> None:
        """From now on `say` gets each of the `notes` as it comes."""
        self._say = say

    def notes(self) -> list[str]:
        """New and lost partitions, a silent cluster, what retention took."""
        return list(self._notes)

    def retry_after_s(self, failures: int, why: str) -> float | None:
        """While the cluster is silent: as long as it takes; else a few times."""
        if self._probe.silent_since is None and failures > _GIVE_UP_AFTER:
            return None
        if failures == 1:
            self._note(f"reading failed ({why[:200]}); it is tried again")
        return _RETRY_S * min(2**failures, 16)

    def close(self) -> None:
        """Stop looking at the cluster, and delete what was only for this run."""
        self._probe.stop()
        self._peek.close()
        if not self._keep:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _note(self, text: str) -> None:
        stamp = time.strftime("%H:%M:%S", time.gmtime())
        self._notes = [*self._notes, f"{stamp} {text}"][-20:]
        self._say(text)

    def _name(self, partition: TopicPartition) -> str:
        several = len(self._topics) > 1
        return f"{partition.topic}-{partition.partition}" if several else str(partition.partition)

    def _wait_for_topics(self, cluster: Cluster, report: Callable[[str], None]) -> list[TopicPartition]:
        told = False
        while True:
            try:
                found = cluster.topics(self._topics)
            except RunError as error:
                report(str(error))
                continue  # it has taken its time to give no answer
            missing = [topic for topic in self._topics if topic not in found]
            if not missing:
                return [partition for topic in found.values() for partition in topic.partitions]
            if not told:
                self._note(f"waiting for the topic {missing[0]}, which is not there yet; {cluster.near(missing[0])}")
                told = True
            report(f"waiting for the topic {missing[0]}")
            time.sleep(_TOPIC_EVERY_S)

    def _begin(self, cluster: Cluster, partitions: list[TopicPartition]) -> Positions:
        first = cluster.earliest(partitions)
        if self._start == "earliest":
            return first
        if self._start == "latest":
            return cluster.latest(partitions)
        if self._start == "committed":
            return first | {p: max(o, first[p]) for p, o in cluster.committed(self._group or "").items() if p in first}
        return cluster.at_time(partitions, self._start)

    def _recognise_times(self, cluster: Cluster, partitions: list[TopicPartition]) -> None:
        """Recognise the unit of times in the value; `UsageError` where no record has the field."""
        path = self._columns.time
        if path is None:
            return
        try:
            recognised = look_for_times(cluster, partitions, path)
        except UsageError as error:
            if not self._resuming:
                raise
            self._note(str(error))
            return
        if self._unit is None and recognised is not None:
            self._unit = f"{recognised} (recognised)"

    def _from_connector(self, spark: "SparkSession") -> "DataFrame":
        self._ids_file.unlink(missing_ok=True)  # whatever is made anew meanwhile, the other reader goes on after us
        rows = (
            spark.readStream.format("kafka")
            .option("kafka.fetch.max.wait.ms", FETCH_WAIT_MS)
            .options(**self._config.for_connector())
            .option("subscribe", ",".join(self._topics))
            .option("startingOffsets", msgspec.json.encode(offsets_of(self._positions)).decode())
            .option("failOnDataLoss", "false")
            .option("maxOffsetsPerTrigger", self._batch_records)
            .option("kafka.isolation.level", "read_committed")
            .load()
        )
        stamp = "nullif(unix_millis(timestamp), -1L) as timestamp_ms"
        return rows.selectExpr("topic", "partition", "offset", stamp, "key", "value")

    def _from_python(self, spark: "SparkSession") -> "DataFrame":
        from .kafka_stream import FORMAT, KafkaDataSource, ReaderOptions

        start_workers(spark)
        spark.dataSource.register(KafkaDataSource)
        options = ReaderOptions(
            config=self._config,
            topics=self._topics,
            start=offsets_of(self._positions),
            most=self._batch_records,
            tasks=spark.sparkContext.defaultParallelism,
            keys=self._columns.needs_key,
            values=self._columns.needs_value,
            held=None if self._max_drift_ms is None else str(self._held_file),
            known_topics=str(self._ids_file),
        )
        return spark.readStream.format(FORMAT).option("reader", msgspec.json.encode(options).decode()).load()

    @property
    def _ids_file(self) -> Path:
        return self._directory / "topics.json"

    @property
    def _held_file(self) -> Path:
        return self._directory / "held-back.json"

    def _drift(self, times_ms: Iterable[int]) -> int | None:
        known = list(times_ms)
        return max(known) - min(known) if self._max_drift_ms is not None and known else None

    def _look_ahead(self, cluster: Cluster, ends: Positions) -> None:
        """The unit of times, where it is not known yet; how far event time goes in what balanced reading holds back."""
        if self._unit is None and self._columns.time is not None:
            self._recognise_times(cluster, [p for p, end in ends.items() if end])
        if self._max_drift_ms is None:
            return
        unread = {p: end for p, end in ends.items() if end > self._probe.read_to.get(p, 0)}
        path = self._columns.time
        if path is None:
            newest = {p: stamp for p, (stamp, _) in cluster.greatest_timestamps(unread).items()}
        else:
            last = self._peek.before(unread, self._probe.earliest)
            times = {partition: time_in(record, path, self._columns.unit) for partition, record in last.items()}
            newest = {partition: time_ms for partition, time_ms in times.items() if time_ms is not None}
        self._newest = {self._name(partition): time_ms for partition, time_ms in newest.items()}

    def _write_held(self, partitions: list[str]) -> None:
        """For the planner, which is a process of its own."""
        part = self._held_file.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(partitions))
        part.replace(self._held_file)


def _positions(ends: list[str]) -> Positions | None:
    """The offsets of the query's one source."""
    return next((found for text in ends if (found := parse_offsets(text)) is not None), None)


def _has_connector(spark: "SparkSession") -> bool:
    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_CONNECTOR)
    except Exception:  # py4j wraps the ClassNotFoundException
        return False
    return True
