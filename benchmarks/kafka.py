"""One topic read by plain Spark with the connector, and by the engine with the connector and with kafka-python.

Plain Spark runs `withWatermark + groupBy(window).count()`. The sides take turns in one session, each with the records'
own timestamps and with a field of their JSON; a rate is the median over the batches of all rounds, each round's first
left out.
Then the kafka-python reader in this process, with one consumer: the CPU time that each of its steps takes.
"""

import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import pyarrow as pa
from kafka.admin import KafkaAdminClient
from kafka.record import default_records
from kafka.record._crc32c import crc as crc32c_in_python
from kafka.record.default_records import DefaultRecordBatch
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from wmtop.engine.kafka.client_settings import FETCH_WAIT_MS, KafkaConfig
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.run.durable_state import StateDirectory
from wmtop.engine.run.query import Run
from wmtop.engine.run.session import build_session, stop_session
from wmtop.engine.run.sources import kafka_stream
from wmtop.engine.run.sources.kafka import Kafka
from wmtop.engine.run.sources.kafka_columns import KafkaColumns
from wmtop.engine.run.sources.kafka_stream import OffsetRange
from wmtop.engine.system.json_values import JsonPath
from wmtop.engine.watermarks.settings import Settings

from tests.kafka.connector import connector_jars

TOPIC, PARTITIONS, RECORDS, BATCH, ROUNDS, COLD = "records", 4, 400_000, 100_000, 2, 1
START_MS, EVERY_MS, MEAN_DELAY_MS = 1_700_000_000_000, 20, 120_000
RANGES = {"50,000": (50_000, True), "5,000": (5_000, True), "5,000, check sums in Python": (5_000, False)}
"""Sizes of the reader's tasks in a large and in a small batch; whether kafka-python has the C library."""
TIMES = {
    "the record's timestamp": (KafkaColumns(), "timestamp"),
    "a field of its JSON": (
        KafkaColumns(time=JsonPath(("ts",))),
        "timestamp_millis(cast(get_json_object(cast(value as string), '$.ts') as bigint))",
    ),
}

Batch = tuple[int, int]
"""Number of records, ms."""


@contextmanager
def cluster() -> Generator[tuple[str, SparkSession]]:
    """A broker, by its address, and a session with the connector."""
    with tempfile.TemporaryDirectory() as path, LocalBroker(Path(path)) as broker:
        spark = build_session(master="local[2]", jars=[str(jar) for jar in connector_jars()], archive=False)
        try:
            yield broker.bootstrap, spark
        finally:
            stop_session(spark)


def fill(bootstrap: str, topic: str, partitions: int, records: DataFrame) -> None:
    """Make a topic and send it `partition`, `ts` and `id` as JSON of about 100 bytes; each partition in its order."""
    admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap)
    wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
    admin.create_topics({topic: wanted}, wait_for_metadata=True)
    admin.close()
    value = """concat('{"ts":', ts, ',"id":', id, ',"user":"user-', id * 7919 % 5000,
        '","page":"/products/', id * 31 % 20000, '","took_ms":', id % 997, ',"ok":true}') as value"""
    rows = records.selectExpr(f"'{topic}' as topic", "partition", value)
    rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).save()


def disordered(spark: SparkSession) -> DataFrame:
    """The same event times in each partition, with exponential delays."""
    sent = f"{START_MS}L + id * {PARTITIONS} % {RECORDS} * {EVERY_MS}L"
    delay = f"cast(-ln(1 - rand(2)) * {MEAN_DELAY_MS} as bigint)"
    return spark.range(0, RECORDS, numPartitions=PARTITIONS).selectExpr(
        "id", "spark_partition_id() as partition", f"{sent} - {delay} as ts"
    )


def plain(spark: SparkSession, bootstrap: str, time_sql: str) -> list[Batch]:
    """Plain Spark's batches."""
    rows = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", TOPIC)
    rows = rows.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", BATCH)
    rows = rows.option("kafka.fetch.max.wait.ms", FETCH_WAIT_MS).load()  # as the engine: else the last batch waits
    times = rows.selectExpr(f"{time_sql} as time").withWatermark("time", "30 minutes")
    counts = times.groupBy(F.window("time", "1 hour")).count()
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = counts.writeStream.format("noop").outputMode("update").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return batches(query)


def engine(
    spark: SparkSession, bootstrap: str, columns: KafkaColumns, reader: Literal["connector", "python"]
) -> list[Batch]:
    """The engine's batches."""
    with tempfile.TemporaryDirectory() as path:
        state = StateDirectory(Path(path))
        state.lock()
        options: dict[str, Any] = {"reader": reader, "once": True, "batch_records": BATCH}
        source = Kafka(KafkaConfig(bootstrap), [TOPIC], columns, directory=Path(path, "source"), **options)
        source.check()
        run = Run(source, Settings(), state, None, lambda: None)
        source.prepare(lambda text: None)
        run.load(spark)
        run.start()
        query: Any = run._query
        query.awaitTermination()
        assert run.monitor.rows == RECORDS
        # Spark does not count what tasks read as columns; with a limit of BATCH all batches are full.
        found = [(BATCH, ms) for _, ms in batches(query, counted=source.counted_by_spark)]
        run.stop()
        source.close()
        state.unlock()
        return found


def batches(query: Any, *, counted: bool = True) -> list[Batch]:
    """The batches with data, without the cold start of a round."""
    ran = [report for report in query.recentProgress if "addBatch" in report["durationMs"]]
    found = [(report["numInputRows"], report["durationMs"]["triggerExecution"]) for report in ran]
    return [(records, ms) for records, ms in found if records or not counted][COLD:]


def compare(spark: SparkSession, bootstrap: str) -> None:
    """Print how fast each side reads."""
    print("| event time | side | records/s | ratio | batches (ms) |\n| --- | --- | --- | --- | --- |")
    for name, (columns, time_sql) in TIMES.items():
        sides: dict[str, list[Batch]] = {"plain Spark": [], "engine, connector": [], "engine, kafka-python": []}
        for _ in range(ROUNDS):
            sides["plain Spark"] += plain(spark, bootstrap, time_sql)
            sides["engine, connector"] += engine(spark, bootstrap, columns, "connector")
            sides["engine, kafka-python"] += engine(spark, bootstrap, columns, "python")
        rates = {side: rate(found) for side, found in sides.items()}
        for side, found in sides.items():
            spent = ", ".join(str(ms) for _, ms in found)
            ratio = rates[side] / rates["plain Spark"]
            print(f"| {name} | {side} | {rates[side]:,.0f} | {ratio:.2f}x | {spent} |", flush=True)


def rate(found: list[Batch]) -> float:
    """Records a second of the median batch."""
    return statistics.median(records / ms * 1000 for records, ms in found)


class Stopwatch:
    """CPU seconds, of all threads of this process, spent in functions."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its time added under a name."""

        def with_time(*arguments: Any, **named: Any) -> Any:
            began = time.process_time()
            try:
                return function(*arguments, **named)
            finally:
                self.spent[name] += time.process_time() - began

        return with_time


def profile(bootstrap: str) -> None:
    """Print the time of each step of the kafka-python reader per record of one partition."""
    options = kafka_stream.ReaderOptions(
        config=KafkaConfig(bootstrap),
        topics=[TOPIC],
        start={},
        most=BATCH,
        tasks=1,
        keys=False,
        values=True,
        held=None,
        known_topics="not-there.json",
    )
    consumer = kafka_stream._consumer(options.config)
    parts = [
        (consumer, "poll"),
        (DefaultRecordBatch, "validate_crc"),
        (kafka_stream, "records_of"),
        (consumer, "position"),
        (kafka_stream, "_batch"),
    ]
    print("| range | poll | of it check sums | decoding | position | to Arrow | rest | to Spark (Arrow) |")
    print("| --- " * 8 + "|")
    read(options, RANGES["50,000"][0], Stopwatch())  # connects, and loads what Arrow loads late
    for name, (size, in_c) in RANGES.items():
        watch = Stopwatch()
        with ExitStack() as stack:
            if not in_c:
                stack.enter_context(mock.patch.object(default_records, "calc_crc32c", crc32c_in_python))
            for place, function in parts:
                timed = watch.timed(function, getattr(place, function))
                stack.enter_context(mock.patch.object(place, function, timed))
            read(options, size, watch)
        us = {step: spent * 1e6 * PARTITIONS / RECORDS for step, spent in watch.spent.items()}
        rest = us["all"] - sum(us[step] for step in ("poll", "records_of", "position", "_batch", "stream"))
        steps = [*(us[step] for _, step in parts), rest, us["stream"]]
        print(f"| {name} | " + " | ".join(f"{step:.2f} us" for step in steps) + " |")
    kafka_stream._consumers.clear()
    consumer.close()


def read(options: kafka_stream.ReaderOptions, size: int, watch: Stopwatch) -> None:
    """Read partition 0 in ranges as workers do, into an Arrow stream without a reader."""
    with open(os.devnull, "wb") as nowhere, pa.ipc.new_stream(nowhere, kafka_stream._ARROW) as stream:
        write = watch.timed("stream", stream.write_batch)

        def read_all() -> None:
            end = RECORDS // PARTITIONS
            for low in range(0, end, size):
                for batch in kafka_stream.KafkaStreamReader(options).read(
                    OffsetRange(TOPIC, 0, low, min(low + size, end))
                ):
                    write(batch)

        watch.timed("all", read_all)()


def main() -> None:
    """Print both tables."""
    with cluster() as (bootstrap, spark):
        fill(bootstrap, TOPIC, PARTITIONS, disordered(spark))
        compare(spark, bootstrap)
        print()
        profile(bootstrap)


if __name__ == "__main__":
    main()
