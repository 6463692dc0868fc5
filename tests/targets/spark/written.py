"""Checkpoints that real queries wrote, with what Spark itself says of them."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

START_MS = 1_700_000_000_000
FILES = 6
ROWS = 40
STREAMING = "spark.sql.streaming."
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    STREAMING + "stateStore.maintenanceInterval": "100ms",
    STREAMING + "stateStore.minDeltasForSnapshot": "1",
}
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

State = dict[tuple[int, int, tuple[str | None, ...]], int]
"""Counts by start and end (ms) of the window and by the other key columns."""


@dataclass
class Written:
    """A query's checkpoint and the progress of each of its batches."""

    path: Path
    progress: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])

    @property
    def last(self) -> int:
        return max(map(int, filter(str.isdigit, os.listdir(self.path / "offsets"))))

    def watermark_ms(self, batch: int) -> int | None:
        """What the progress of the batch says was in force in it."""
        shown = self.progress[batch].get("eventTime", {}).get("watermark")
        return None if shown is None else int(datetime.fromisoformat(shown).timestamp() * 1000) or None

    def copy(self, to: Path, last: int | None = None) -> "Written":
        """A copy of it; with `last`, as it was when that batch had been committed."""
        shutil.copytree(self.path, to, ignore=shutil.ignore_patterns(".*"))
        if last is not None:
            for log in ("offsets", "commits"):
                for name in os.listdir(to / log):
                    if int(name) > last:
                        (to / log / name).unlink()
        return Written(to, self.progress)

    def aged(self, to: Path, by_ms: int) -> "Written":
        """A copy of it whose batches began so much earlier."""
        copy = self.copy(to)
        for log in (to / "offsets").iterdir():
            version, metadata, *ends = log.read_text().split("\n")
            facts = json.loads(metadata)
            facts["batchTimestampMs"] -= by_ms
            log.write_text("\n".join([version, json.dumps(facts), *ends]))
        return copy


class Writer:
    """Runs queries over the same few files and keeps their checkpoints."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.written: dict[str, Written] = {}
        self._spark = spark
        self._directory = directory
        self._input = directory / "input"
        self._input.mkdir()
        for number in range(FILES):
            self.put(number)

    def put(self, number: int) -> None:
        """One more file: 28 s of event time, 8 s of them before what the one before it ended with."""
        times = [START_MS + number * 20_000 + row * 700 for row in range(ROWS)]
        keys = [None if row % 7 == 0 else f"key {row % 5} ∆" for row in range(ROWS)]
        table = pa.table(
            {
                "ts": pa.array([1000 * time for time in times], pa.timestamp("us", tz="UTC")),
                "key": keys,
                "i": pa.array([row % 3 - 1 for row in range(ROWS)], pa.int32()),
                "x": [row / 4 for row in range(ROWS)],
            }
        )
        path = self._input / f"{number}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1000 + number, 1000 + number))

    def read(self, files: int = 3) -> DataFrame:
        """The stream, `files` files a batch."""
        stream = self._spark.readStream.schema("ts timestamp, key string, i int, x double")
        return stream.option("maxFilesPerTrigger", files).parquet(str(self._input))

    def late(self, files: int = 3, delay: str = "30 seconds") -> DataFrame:
        """The stream with a watermark."""
        return self.read(files).withWatermark("ts", delay)

    def run(self, name: str, query: DataFrame, *, mode: str = "append", **settings: str) -> Written:
        """Run a query over all files; `settings` are Spark's, without their common beginning and `_` for `.`."""
        written = self.written.setdefault(name, Written(self._directory / name))
        conf = SETTINGS | {STREAMING + key.replace("_", "."): value for key, value in settings.items()}
        with configured(self._spark, conf):
            writer = query.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
            running = writer.option("checkpointLocation", str(written.path)).start()
            running.awaitTermination()
            ran = [json.loads(progress.json) for progress in running.recentProgress]
        written.progress |= {progress["batchId"]: progress for progress in ran}
        return written

    def wait_for_snapshots(self, *names: str) -> None:
        """Until maintenance has written a snapshot of every partition."""
        deadline = time.monotonic() + 60
        partitions = [path for name in names for path in (self.written[name].path / "state/0").glob("[0-9]*")]
        while not all(any(path.glob("*.snapshot")) for path in partitions):
            assert time.monotonic() < deadline, f"no snapshots in {names}"
            time.sleep(0.05)

    def stop_maintenance(self) -> None:
        """Nothing moves in the checkpoints any more; the next query starts it again, with its own interval."""
        jvm: Any = self._spark._jvm  # pyright: ignore[reportPrivateUsage]
        getattr(getattr(jvm.org.apache.spark.sql.execution.streaming.state, "StateStore$"), "MODULE$").stop()


@contextmanager
def configured(spark: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def write_all(spark: SparkSession, directory: Path) -> dict[str, Written]:
    """One checkpoint of each kind."""
    writer = Writer(spark, directory)
    writer.stop_maintenance()
    count = F.count("*").alias("how_many")
    window = F.window("ts", "10 seconds")
    writer.run("counts", writer.late(1).groupBy(window, "key", "i").agg(count))
    writer.run("purged", writer.late(1).groupBy(window, "key").count(), minBatchesToRetain="2")
    writer.wait_for_snapshots("counts", "purged")
    writer.stop_maintenance()
    writer.run("types", typed(writer.late(), window, count), stateStore_compression_codec="zstd")
    sliding = writer.late().groupBy("i", F.window("ts", "10 seconds", "5 seconds"))
    several = sliding.agg(F.sum("x"), F.avg("x"), F.count("key"), count, F.max("key"))
    writer.run("several", several, aggregation_stateFormatVersion="1", offsetLog_formatVersion="2")
    writer.run("checksummed", writer.late().groupBy(window).count(), stateStore_rowChecksum_enabled="true")
    writer.run("uncounted", writer.late().groupBy(window, "key").agg(F.sum("x")))
    outer = F.window(F.col("window"), "1 minute")
    again = writer.late().groupBy(window, "key").count().groupBy(outer).agg(F.sum("count"), F.count("*"))
    writer.run("chained", again)
    writer.run("rocksdb", writer.late(FILES).groupBy(window).count(), stateStore_providerClass=ROCKSDB)
    writer.run("sessions", writer.late(FILES).groupBy(F.session_window("ts", "10 seconds"), "key").count())
    left, right = writer.late(FILES).alias("left"), writer.late(FILES, "1 minute").alias("right")
    writer.run("join", left.join(right, F.expr("left.ts = right.ts")).select("left.ts"))
    writer.run("deduplicated", writer.late(FILES).dropDuplicates(["key", "ts"]))
    writer.run("unwindowed", writer.read(FILES).groupBy("key").count(), mode="update")
    writer.run("stateless", writer.late().select("key"), multipleWatermarkPolicy="max")
    writer.run("plain", writer.read().select("key"))
    writer.run("restarted", writer.late(delay="10 seconds").groupBy(window, "key").count())
    writer.put(FILES)
    writer.run("restarted", writer.late(delay="2 minutes").groupBy(window, "key").count())
    writer.stop_maintenance()
    return writer.written


def typed(stream: DataFrame, window: Column, count: Column) -> DataFrame:
    """A column of every type that a key may have."""
    types = ("bigint", "smallint", "tinyint", "float", "decimal(10,2)", "decimal(30,3)", "boolean")
    numbers = {kind.split("(")[0] + str(n): F.col("i").cast(kind) for n, kind in enumerate(types)}
    columns = numbers | {
        "x": F.col("x"),
        "day": F.col("ts").cast("date"),
        "time": F.col("ts").cast("timestamp"),
        "local": F.col("ts").cast("timestamp_ntz"),
        "bytes": F.col("key").cast("binary"),
        "sometimes": F.when(F.col("i") == 1, F.col("key")),
        "pair": F.struct("i", "key"),
        "list": F.array("key"),
    }
    named: list[Column] = [column.alias(name) for name, column in columns.items()]
    return stream.select("ts", *named).groupBy(*columns, window).agg(count)


def state_by_spark(spark: SparkSession, written: Written, batch: int, operator: int = 0) -> State:
    """What Spark's own reader finds in the state after a batch."""
    reader = spark.read.format("statestore").option("operatorId", operator).option("batchId", batch)
    state = reader.load(str(written.path))
    key: Any = state.schema["key"].dataType
    shown = [_shown(name, key[name].dataType.typeName()) for name in key.names if name != "window"]
    edges = [F.unix_millis(F.col(f"key.window.{edge}")) for edge in ("start", "end")]
    value: Any = state.schema["value"].dataType
    numbered = T.StructType([T.StructField(str(at), column.dataType) for at, column in enumerate(value)])
    values = F.col("value").cast(numbered)  # several columns may have one name
    counts = [values.getItem(str(at)) for at, name in enumerate(value.names) if name == "count"]
    count = F.greatest(*counts, *counts) if counts else F.lit(0)
    rows = state.select(*edges, F.array(*shown) if shown else F.lit(None), count).collect()
    return {(start, end, tuple(key or ())): number for start, end, key, number in rows}


def _shown(name: str, kind: str) -> Column:
    if kind in ("struct", "array"):
        return F.lit(f"<{kind}>")
    column = F.col(f"key.{name}")
    return F.lower(F.hex(column)) if kind == "binary" else column.cast("string")
