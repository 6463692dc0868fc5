"""`run kafka`: topics by Spark's connector or by kafka-python, and `demo --kafka` with a broker of its own."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from ...kafka.client_settings import FETCH_WAIT_MS, KafkaConfig
from ...kafka.cluster import (
    Cluster,
    Offsets,
    Positions,
    TopicPartition,
    look_for_times,
    may_not_read,
    offsets_of,
    positions_of,
)
from ...kafka.feeder import Feed, feeder_command, make_topic
from ...kafka.local_broker import LocalBroker
from ...kafka.log_guard import LogGuard
from ...snapshot import SourceView
from ...system.child import Child
from ...system.errors import RunError, UsageError
from ...system.files import PrivateDirectory, replace_file
from ...system.json_values import JsonPath
from ...watermarks.observation import MalformedRecord, Offender
from ..tasks import TaskNeeds, start_workers
from .base import NOTHING_MORE, Batch, BatchReader, Source, canonical_rows
from .kafka_balance import KafkaBalancer
from .kafka_columns import KafkaColumns, explained_sql
from .kafka_malformed import malformed_record
from .kafka_progress import KafkaProgress
from .shared_files import SharedFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .kafka_stream import ReaderOptions

Reader = Literal["auto", "connector", "python"]
Start = Literal["earliest", "latest", "committed"] | int
"""Where to start; a number is a record timestamp (ms)."""

_POLL_MS = {"connector": 100, "python": 200}
"""How often (ms) Spark asks for new records: kafka-python's answer costs more, its batches less time."""
_MOST = 300_000
"""Records per batch, for both readers, so that they make the same batches: four seconds for kafka-python."""
_MAX_BALANCED = 20_000
"""Records per batch with balanced reading: drift is only visible between batches."""
_TOPIC_PAUSES_S = (1.0, 1.0, 2.0, 4.0, 8.0)
"""Pauses (s) between two polls for a topic: after no failure, after one, two …; the last one for all further."""
_STARTED = "started.json"
_LOGS = "logs.json"
_CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
HOW_TO_CONNECT = "give it with --packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION or --jars"


class _Started(Struct, frozen=True):
    """Where a run started that was asked to start there."""

    asked: str
    offsets: Offsets


class Kafka(Source):
    """A `Source` of topics; with `once` it ends at the offsets found at the start."""

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
        directory: Path | None,
        keep: bool = False,
        resuming: bool = False,
    ) -> None:
        """`directory` is for files shared by the processes of the run, deleted at the end unless `keep`; None: a
        private temporary one.
        """
        super().__init__()
        self._config = config
        self._topics = sorted(set(topics))
        self._columns = columns
        self._start: Start = start
        self._group = group
        self._asked_reader: Reader = reader
        self._reader: Literal["connector", "python"] | None = None if reader == "auto" else reader
        self._once = once
        self._batch_records = batch_records or (_MOST if max_drift_ms is None else _MAX_BALANCED)
        self._shared = SharedFiles(directory, keep=keep)
        self._keep = keep
        self._resuming = resuming
        self._cluster_id: str | None = None
        self._read_as: str | None = None if columns.unit == "auto" else f"epoch {columns.unit}"
        """As what times in the latest values are read."""
        self.bounded = once
        self.ticks = not once  # there is no time between batches with fixed end offsets
        self.progress = self._progress = self._new_progress()
        self.retry_after_s = self._progress.retry_after_s
        if columns.by_partition:
            self.channel_of_part = self._progress.channel_of_part
        else:
            self.part_name = self._progress.part_name
        self._balancer: KafkaBalancer | None = None
        if max_drift_ms is not None:
            self._balancer = self._new_balancer(max_drift_ms)
            self.balance = self._balancer.balance

    def _new_progress(self) -> KafkaProgress:
        return KafkaProgress(
            self._topics,
            self.notes.add,
            self._look_ahead,
            channels_are_partitions=self._columns.by_partition,
            once=self._once,
            guard=LogGuard(lambda: self._shared.path / _LOGS),
        )

    def _new_balancer(self, max_drift_ms: int) -> KafkaBalancer:
        balancer = KafkaBalancer(
            self._config, self._progress, self._columns, max_drift_ms=max_drift_ms, shared=self._shared
        )
        balancer.enforced = self._asked_reader == "python"
        return balancer

    def check(self) -> None:
        """Check the cluster, the topics and their latest records; `UsageError` for anything that cannot be read."""
        for name in self.more.explain:
            explained_sql(name)
        with contextlib.closing(Cluster(self._config)) as cluster:
            self._cluster_id = cluster.id()
            existing = cluster.topics(self._topics)
            missing = [topic for topic in self._topics if topic not in existing]
            if missing and self._once:
                raise UsageError(f"no topic {missing[0]} at {self._config.bootstrap}; {cluster.near(missing[0])}")
            for topic in existing.values():
                if not topic.may_read:
                    raise UsageError(may_not_read(topic.name))
            if self._start == "committed" and not self._resuming and not cluster.committed(self._group or ""):
                raise UsageError(
                    f"--from committed: the group {self._group} has committed nothing; use --from earliest"
                )
            self._recognise_times(cluster, [p for topic in existing.values() for p in topic.partitions])

    def identity(self) -> dict[str, Any]:
        """Cluster, topics and columns; not the reader, since both read the same records."""
        columns = {
            name: str(value) if isinstance(value, JsonPath) else value
            for name, value in msgspec.structs.asdict(self._columns).items()
        }
        columns["unit"] = None if self._columns.unit == "auto" else self._columns.unit  # as in older states
        return {"kind": "kafka", "cluster": self._cluster_id, "topics": self._topics, **columns}

    def describe(self) -> SourceView:
        balancer = self._balancer
        return SourceView(
            kind="kafka",
            description=f"{', '.join(self._topics)} at {self._config.bootstrap}",
            reader=self._reader,
            bootstrap=self._config.bootstrap,
            cluster=self._cluster_id or UNSET,
            time_column="timestamp" if self._columns.time is None else str(self._columns.time),
            time_unit=self._read_as,
            backlog=self._progress.unread().records,
            max_drift_ms=balancer and balancer.max_drift_ms,
            drift_ms=balancer and balancer.drift_ms(),
            drift_unbalanced_ms=balancer and balancer.unbalanced_drift_ms(),
        )

    def prepare(self, report: Callable[[str], None]) -> None:
        """Wait until the topics exist, and find the start offsets."""
        self._shared.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._balancer is not None:
            self._balancer.begin()
        with contextlib.closing(Cluster(self._config)) as cluster:
            partitions = self._wait_for_topics(cluster, report)
            self._progress.begin(self._start_offsets(cluster, partitions), cluster)
            self._progress.earliest = cluster.earliest(partitions)
        self._progress.start(self._config)

    def has_columns(self, spark: "SparkSession") -> bool:
        """With kafka-python, where all that is needed of a record are its partition and timestamp."""
        return self._columns.plain and self.more == NOTHING_MORE and self._by_python(spark)

    def load(self, spark: "SparkSession", *, as_columns: bool) -> BatchReader:
        """The stream of records; `UsageError` if the connector is required and missing."""
        self._settle_reader(spark)
        raw = self._from_connector(spark) if self._reader == "connector" else self._from_python(spark)
        if not as_columns:
            return BatchReader(self._canonical(raw))
        from .kafka_stream import ranges_reader

        self.counted_by_spark = False  # tasks read the records
        options, progress = self._reader_options(spark), self._progress
        return ranges_reader(raw, options, progress.starts, progress.channel_of, self._canonical)

    def _settle_reader(self, spark: "SparkSession") -> None:
        if self._asked_reader == "connector" and not _has_connector(spark):
            raise UsageError(f"--reader connector: Spark's Kafka connector is not on the class path; {HOW_TO_CONNECT}")
        self._reader = "python" if self._by_python(spark) else "connector"
        self._progress.reader_rewinds = self._reader == "python"
        if self._balancer is not None:
            self._balancer.enforced = self._reader == "python"
            if not self._balancer.enforced:
                self.notes.add("max_drift_ignored")

    def _canonical(self, raw: "DataFrame") -> "DataFrame":
        text = raw.selectExpr(*self._columns.text_sql(self.more))
        return canonical_rows(text, self._columns.canonical_sql(self._topics, self.more), self._columns.marker)

    def malformed_of(self, batch: Batch, last: Offender) -> MalformedRecord | None:
        return malformed_record(self._config, self._columns, self._progress, last)

    def in_tasks(self, spark: "SparkSession") -> TaskNeeds:
        modules = (f"{__package__}.kafka_stream", "wmtop.engine.run.column_groups")
        return TaskNeeds(modules) if self._by_python(spark) else TaskNeeds()

    def trigger(self) -> dict[str, Any]:
        poll_ms = _POLL_MS[self._reader or "python"]
        return {"availableNow": True} if self._once else {"processingTime": f"{poll_ms} milliseconds"}

    def close(self) -> None:
        """Stop probing the cluster, and delete the temporary files of this run."""
        self._progress.stop()
        if self._balancer is not None:
            self._balancer.close()
        self._shared.remove()

    @property
    def _ids_file(self) -> Path:
        return self._shared.path / "topics.json"

    def _wait_for_topics(self, cluster: Cluster, report: Callable[[str], None]) -> list[TopicPartition]:
        noted, failures = False, 0
        while True:
            try:
                existing = cluster.topics(self._topics)
                missing = [topic for topic in self._topics if topic not in existing]
                if not missing:
                    return [partition for topic in existing.values() for partition in topic.partitions]
                if not noted:
                    self.notes.add("topic_missing", topic=missing[0], near=cluster.near(missing[0]))
                    noted = True
                report(f"waiting for the topic {missing[0]}")
                failures = 0
            except RunError as error:  # at once if the cluster refuses: without a pause this would be a busy loop
                report(str(error))
                failures += 1
            time.sleep(_TOPIC_PAUSES_S[min(failures, len(_TOPIC_PAUSES_S) - 1)])

    def _start_offsets(self, cluster: Cluster, partitions: list[TopicPartition]) -> Positions:
        """Where the run starts; a run that resumes before its first batch was saved starts where it did first."""
        file, asked = self._shared.path / _STARTED, str(self._start)
        if self._keep and file.exists():
            with contextlib.suppress(msgspec.DecodeError):
                started = msgspec.json.decode(file.read_bytes(), type=_Started)
                if started.asked == asked:
                    return positions_of(started.offsets)
        first = self._first_offsets(cluster, partitions)
        if self._keep:
            replace_file(file, msgspec.json.encode(_Started(asked, offsets_of(first))))
        return first

    def _first_offsets(self, cluster: Cluster, partitions: list[TopicPartition]) -> Positions:
        first = cluster.earliest(partitions)
        if self._start == "earliest":
            return first
        if self._start == "latest":
            return cluster.latest(partitions)
        if self._start == "committed":
            return first | {p: max(o, first[p]) for p, o in cluster.committed(self._group or "").items() if p in first}
        return cluster.at_time(partitions, self._start)

    def _recognise_times(self, cluster: Cluster, partitions: list[TopicPartition]) -> None:
        """See as what times in the value are read; `UsageError` if no record has the field."""
        path = self._columns.time
        if path is None:
            return
        try:
            self._read_as = look_for_times(cluster, partitions, path, self._columns.unit) or self._read_as
        except UsageError as error:
            if not self._resuming:
                raise
            self.notes.add("time_not_found", why=str(error))

    def _from_connector(self, spark: "SparkSession") -> "DataFrame":
        self._ids_file.unlink(missing_ok=True)  # else the Python reader would rewind if a topic is recreated now
        rows = (
            spark.readStream.format("kafka")
            .option("kafka.fetch.max.wait.ms", FETCH_WAIT_MS)
            .options(**self._config.for_connector())
            .option("subscribe", ",".join(self._topics))
            .option("startingOffsets", msgspec.json.encode(offsets_of(self._progress.starts)).decode())
            .option("failOnDataLoss", "false")
            .option("maxOffsetsPerTrigger", self._batch_records)
            .option("kafka.isolation.level", "read_committed")
            .option("includeHeaders", self.more.whole)
            .load()
        )
        stamp = "nullif(unix_millis(timestamp), -1L) as timestamp_ms"
        headers = ["headers"] if self.more.whole else []
        return rows.selectExpr("topic", "partition", "offset", stamp, "key", "value", *headers)

    def _from_python(self, spark: "SparkSession") -> "DataFrame":
        from .kafka_stream import FORMAT, KafkaDataSource

        start_workers(spark, self.in_tasks(spark))
        spark.dataSource.register(KafkaDataSource)
        options = msgspec.json.encode(self._reader_options(spark)).decode()
        return spark.readStream.format(FORMAT).option("reader", options).load()

    def _reader_options(self, spark: "SparkSession") -> "ReaderOptions":
        from .kafka_stream import ReaderOptions

        return ReaderOptions(
            config=self._config,
            topics=self._topics,
            start=offsets_of(self._progress.starts),
            most=self._batch_records,
            tasks=spark.sparkContext.defaultParallelism,
            keys=self._columns.needs_key or self.more.whole or "key" in self.more.explain,
            values=self._columns.needs_value or self.more.whole or bool(self.more.explain),
            headers=self.more.whole,
            held=None if self._balancer is None else str(self._balancer.file),
            known_topics=str(self._ids_file),
        )

    def _by_python(self, spark: "SparkSession") -> bool:
        """Whether kafka-python reads instead of Spark's connector."""
        return self._asked_reader == "python" or not _has_connector(spark)

    def _look_ahead(self, cluster: Cluster, ends: Positions) -> None:
        """Recognise times once there are records, and find the newest of them for balanced reading."""
        if self._read_as is None and self._columns.time is not None:
            self._recognise_times(cluster, [p for p, end in ends.items() if end])
        if self._balancer is not None:
            self._balancer.look_ahead(cluster, ends)


class KafkaDemo(Kafka):
    """A `Source` with its own topic, on its own broker, that a feeder fills as `feed` says."""

    def __init__(self, feed: Feed) -> None:
        self._work = PrivateDirectory("wmtop-kafka-")
        columns = KafkaColumns(time=JsonPath((feed.time,)))
        super().__init__(KafkaConfig(feed.bootstrap), [feed.topic], columns, directory=self._work.path / "run")
        self._feed = feed
        self._broker: LocalBroker | None = None
        self._feeder: Child | None = None

    def check(self) -> None:
        """Nothing to check before the broker runs."""

    def describe(self) -> SourceView:
        return replace(super().describe(), speed=self._feed.speed)

    def prepare(self, report: Callable[[str], None]) -> None:
        """Start a broker, or find one that runs, and make the topic."""
        self._feed = replace(self._feed, bootstrap=self._find_broker(report))
        self._config = KafkaConfig(self._feed.bootstrap)
        make_topic(self._feed.bootstrap, self._feed.topic, self._feed.partitions)
        super().prepare(report)

    def starting(self) -> None:
        """Start the feeder only with the query, so that there is no backlog."""
        self._feeder = Child("the feeder", feeder_command(self._feed), self._work.path / "feeder.log")

    def close(self) -> None:
        super().close()
        if self._feeder is not None:
            self._feeder.end()
        if self._broker is not None:
            self._broker.stop()
        self._work.remove()

    def _find_broker(self, report: Callable[[str], None]) -> str:
        broker = LocalBroker(self._work.path / "broker")
        try:
            broker.start(report)
        except UsageError as error:  # neither jars nor Maven
            try:
                Cluster(self._config).close()
            except UsageError:
                raise error from None
            return self._config.bootstrap
        self._broker = broker
        return broker.bootstrap


def _has_connector(spark: "SparkSession") -> bool:
    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_CONNECTOR)
    except Exception:  # py4j wraps the ClassNotFoundException
        return False
    return True
