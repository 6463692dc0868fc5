"""The pipeline of `wmtop demo --chain` on this machine: flights -> Spark -> delays -> Flink -> reports -> a consumer.

Three topics of a real broker, and a process for each that reads or writes them; all end with this one. Run as
`python -m wmtop.engine.run.demo_pipeline JOB` it is the Spark job: delays per carrier.
"""

import queue
import sys
import threading
from contextlib import closing
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from kafka import KafkaConsumer
from msgspec import Struct

from ...sample_data import ARRIVAL, TIME
from ..kafka.feeder import Feed, feeder_command, make_topic
from ..kafka.local_broker import HOST, LocalBroker, free_ports
from ..system.child import Child, obey
from ..system.errors import RunError, UsageError, first_line
from ..system.files import PrivateDirectory
from ..system.java import fetched_jars, find_java
from ..targets.flink.demo import JAVA_OPTIONS, compile_job, flink_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FLIGHTS, DELAYS, REPORTS = "flights", "delays", "reports"
SPARK_JOB, FLINK_JOB, CONSUMER = "carrier-delays", "hourly-report", "board"
LATENESS = "lateness"
HELD_PARTITION = 1
LATENESS_FACTOR = 10
_HELD = {
    FLIGHTS: f"flights-{HELD_PARTITION} (JFK) gets no records",
    SPARK_JOB: "Spark's trigger is 30s",
    LATENESS: "Spark's watermark delay is tenfold",
    FLINK_JOB: "Flink's source is paused",
    CONSUMER: "the consumer is stopped",
}
"""What a key can hold, and what that means."""
_PARTITIONS = {FLIGHTS: 3, DELAYS: 2, REPORTS: 1}
_TRIGGER_S, _SLOW_TRIGGER_S = 1, 30
_FLINK_LATENESS_MS = 1_800_000
_START_S = 180.0
_STARTED = "the query has started"
_END = "end"
_SCHEMA = "scheduled TIMESTAMP, departed TIMESTAMP, carrier STRING"
_WINDOW = "10 minutes"
_POLL_MS = 200
_JOB = Path(__file__).with_name("ReportJob.java")
_SPARK_JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)
_FLINK_JARS = ("org.apache.flink:flink-connector-kafka:5.0.0-2.2", "org.apache.kafka:kafka-clients:4.1.0")


class Reader(threading.Thread):
    """The last consumer: reads the reports as a group and commits what it has read, until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="wmtop-board", daemon=True)
        self.stopping = threading.Event()
        self._consumer: Any = KafkaConsumer(
            REPORTS, bootstrap_servers=bootstrap, group_id=CONSUMER, auto_offset_reset="earliest",
            enable_auto_commit=False,
        )  # fmt: skip

    def run(self) -> None:
        with closing(self._consumer):
            while not self.stopping.is_set():
                self._consumer.poll(timeout_ms=_POLL_MS)
                self._consumer.commit()


class Pipeline:
    """Started by `start` on a thread of its own, ended by `close`; the flights come at `speed` from `start_ms` on."""

    def __init__(self, file: Path, *, speed: float | None, start_ms: int, lateness_ms: int) -> None:
        self._replay = (file, speed, start_ms)
        self._lateness_ms = lateness_ms
        self._work = PrivateDirectory("wmtop-chain-")
        self._broker = LocalBroker(self._work.path / "broker")
        [self._flink_port] = free_ports(1)
        self._children: dict[str, Child] = {}
        self._reader: Reader | None = None
        self._held: set[str] = set()
        self._step = "starting"
        self.failed: str | None = None
        """Why it did not start, in one line."""
        self._thread = threading.Thread(target=self._start, name="wmtop-demo", daemon=True)

    @property
    def bootstrap(self) -> str:
        """The address of the broker."""
        return self._broker.bootstrap

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of the Spark job."""
        return self._work.path / "checkpoint"

    @property
    def flink(self) -> str:
        """The address of Flink's REST API, as a target."""
        return f"flink://{HOST}:{self._flink_port}"

    @property
    def has_started(self) -> bool:
        """Whether all of it runs, and can be attached to: the Spark job has ended a batch."""
        is_started = self.failed is None and FLIGHTS in self._children
        return is_started and any(self.checkpoint.glob("commits/[0-9]*"))

    def start(self) -> None:
        """Start all of it; returns at once."""
        self._thread.start()

    def status(self) -> str:
        """What is held, else what it does."""
        held = "; ".join(text for name, text in _HELD.items() if name in self._held)
        step = "running" if self.has_started else self._step
        return self.failed or (f"held: {held}" if held else step)

    def toggle(self, name: str) -> str:
        """Hold a hop, or raise the `lateness`, or let it go; returns what to say."""
        if name not in _HELD:
            return f"{name} cannot be held: hold the job that writes it"
        if not self.has_started:
            return f"{name} does not run yet"
        self._held ^= {name}
        self._hold(name, is_held=(is_held := name in self._held))
        return f"{'held' if is_held else 'no longer'}: {_HELD[name]}"

    def close(self) -> None:
        """End all of it, and remove its files."""
        self._stop_reader()
        for child in self._children.values():
            child.end()
        self._broker.stop()
        self._work.remove()

    def _hold(self, name: str, *, is_held: bool) -> None:
        if name == FLIGHTS:
            self._children[FLIGHTS].send(f"{'hold' if is_held else 'release'} {HELD_PARTITION}")
        elif name == SPARK_JOB:
            self._children[SPARK_JOB].send(f"trigger {_SLOW_TRIGGER_S if is_held else _TRIGGER_S} seconds")
        elif name == LATENESS:
            delay_ms = self._lateness_ms * (LATENESS_FACTOR if is_held else 1)
            self._children[SPARK_JOB].send(f"delay {delay_ms} milliseconds")
        elif name == FLINK_JOB:
            self._children[FLINK_JOB].send("hold" if is_held else "release")
        elif is_held:
            self._stop_reader()
        else:
            self._start_reader()

    def _start(self) -> None:
        try:
            self._start_all()
        except (UsageError, RunError, OSError) as error:
            self.failed = first_line(error)

    def _start_all(self) -> None:
        """The flights last, so that nothing begins with a backlog."""
        spark_jars = self._connector("spark-kafka-4.2.0", _SPARK_JARS, "Spark's Kafka connector")
        flink = [flink_jars(), self._connector("flink-kafka-5.0.0", _FLINK_JARS, "Flink's Kafka connector")]
        self._broker.start(self._report)
        for topic, partitions in _PARTITIONS.items():
            make_topic(self.bootstrap, topic, partitions)
        self._report("starting Spark and Flink")
        self._start_flink(flink)
        self._start_spark(spark_jars)
        self._start_reader()
        self._start_flights()
        self._report("waiting for the first records")

    def _report(self, step: str) -> None:
        self._step = step

    def _connector(self, name: str, artifacts: tuple[str, ...], what: str) -> Path:
        """Fetched alone: Spark and Flink have what it depends on."""
        doing, instead = f"fetching {what} (10 MB, once)", "run the demo without --chain"
        return fetched_jars(name, artifacts, doing, self._report, what=what, instead=instead, alone=True)

    def _start_child(self, name: str, command: list[str]) -> Child:
        child = self._children[name] = Child(name, command, self._work.path / f"{name}.log")
        return child

    def _start_flights(self) -> None:
        file, speed, start_ms = self._replay
        feed = Feed(
            bootstrap=self.bootstrap, topic=FLIGHTS, partitions=_PARTITIONS[FLIGHTS], file=str(file),
            time=TIME, arrival=ARRIVAL, channel="origin", speed=speed, start_ms=start_ms,
        )  # fmt: skip
        self._start_child(FLIGHTS, feeder_command(feed))

    def _start_spark(self, jars: Path) -> None:
        job = SparkJob(
            name=SPARK_JOB, bootstrap=self.bootstrap, reads=FLIGHTS, partitions=_PARTITIONS[FLIGHTS], writes=DELAYS,
            checkpoint=str(self.checkpoint), jars=[str(jar) for jar in sorted(jars.glob("*.jar"))],
            trigger=f"{_TRIGGER_S} seconds", delay=f"{self._lateness_ms} milliseconds",
        )  # fmt: skip
        self._start_child(SPARK_JOB, job.command()).wait_for(lambda said: _STARTED in said, _START_S)

    def _start_flink(self, jars: list[Path]) -> None:
        java, classes = str(find_java().home / "bin" / "java"), self._work.path / "classes"
        compile_job(java, jars, [_JOB], classes)
        class_path = ":".join([str(classes), *(f"{place}/*" for place in jars)])
        command = [java, *JAVA_OPTIONS, f"-Djava.io.tmpdir={self._work.path}", "-cp", class_path, "ReportJob"]
        arguments = [self._flink_port, self.bootstrap, DELAYS, REPORTS, _FLINK_LATENESS_MS]
        self._start_child(FLINK_JOB, [*command, *map(str, arguments)])

    def _start_reader(self) -> None:
        self._reader = Reader(self.bootstrap)
        self._reader.start()

    def _stop_reader(self) -> None:
        if self._reader is not None:
            self._reader.stopping.set()
            self._reader.join()
            self._reader = None


class SparkJob(Struct, frozen=True, kw_only=True):
    """The Spark job: what it reads and writes, and how.

    Each partition of the flights is an input with a watermark of its own, and Spark's is their minimum: an airport
    without data holds back the query. Commands on its standard input restart the query: `trigger 30 seconds`.
    """

    name: str
    bootstrap: str
    reads: str
    partitions: int
    writes: str
    checkpoint: str
    jars: list[str]
    trigger: str
    delay: str

    def command(self) -> list[str]:
        """The command that runs the job as a process."""
        return [sys.executable, "-P", "-m", __name__, msgspec.json.encode(self).decode()]


def _flights(spark: "SparkSession", job: SparkJob, delay: str, partition: int) -> "DataFrame":
    from pyspark.sql import functions as F

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.bootstrap)
        .option("assign", msgspec.json.encode({job.reads: [partition]}).decode())
        .option("startingOffsets", "earliest")
        .load()
    )
    flight = F.from_json(F.col("value").cast("string"), _SCHEMA)
    return records.select(flight.alias("flight")).select("flight.*").withWatermark("scheduled", delay)


def _delays(flights: "DataFrame") -> "DataFrame":
    """The delays of each carrier in each window, as JSON; `time` is the last ms of the window."""
    from pyspark.sql import functions as F

    late_s = F.unix_seconds("departed") - F.unix_seconds("scheduled")
    windows = flights.groupBy(F.window("scheduled", _WINDOW), "carrier")
    delays = windows.agg(F.count("*").alias("flights"), F.round(F.avg(late_s) / 60, 1).alias("delay_minutes"))
    time = (F.unix_millis("window.end") - 1).alias("time")
    return delays.select(
        F.col("carrier").alias("key"), F.to_json(F.struct(time, "carrier", "flights", "delay_minutes")).alias("value")
    )


def _start_query(spark: "SparkSession", job: SparkJob, trigger: str, delay: str) -> "StreamingQuery":
    flights = map(partial(_flights, spark, job, delay), range(job.partitions))
    return (
        _delays(reduce(lambda one, other: one.union(other), flights))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", job.bootstrap)
        .option("topic", job.writes)
        .option("checkpointLocation", job.checkpoint)
        .queryName(job.name)
        .trigger(processingTime=trigger)
        .start()
    )


def main() -> None:
    """Run the query until the standard input ends; restart it when a command says so.

    At the end it is stopped: else its last report would look like that of a job that died.
    """
    from ..targets.job import publish
    from .session import build_session

    job = msgspec.json.decode(sys.argv[1], type=SparkJob)
    commands: queue.Queue[str] = queue.Queue()
    obey(commands.put, partial(commands.put, _END))
    # The console of a demo needs no more than two cores.
    spark = build_session(master="local[2]", app_name=job.name, jars=job.jars, log=None)
    publish(spark)
    settings = {"trigger": job.trigger, "delay": job.delay}
    while True:
        query = _start_query(spark, job, **settings)
        print(_STARTED, flush=True)
        what, _, value = commands.get().partition(" ")
        query.stop()
        if what == _END:
            spark.stop()  # passes on that the query has ended
            return
        settings[what] = value


if __name__ == "__main__":
    main()
