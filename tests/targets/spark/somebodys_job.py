"""A job that somebody else runs, with an event log: started as a process of its own by `jobs.py`.

It runs until a line comes on its standard input, then says in `progress.json` what Spark told it of its queries.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from wmtop.engine import publish, tap

directory, kind = Path(sys.argv[1]), sys.argv[2]
LOG = {
    "rolled": {"spark.sql.streaming.noDataProgressEventInterval": "1s"},  # Spark's own choice: rolling, zstd
    "plain": {
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.sql.streaming.multipleWatermarkPolicy": "max",
    },
}
builder = SparkSession.builder.master("local[2]").appName(f"somebody's {kind} job")
for key, value in {
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.checkpointFileManagerClass": (  # the same files without a fork for each
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.pollingDelay": "100ms",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": str(directory / "log"),
    **LOG[kind],
}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
publish(spark)
publish(spark)
gateway: Any = spark.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
(directory / "jvm").write_text(str(gateway.proc.pid))


def read(name: str) -> DataFrame:
    """One of the inputs, a file a batch."""
    stream = spark.readStream.schema("ts timestamp, key string").option("maxFilesPerTrigger", 1)
    return stream.parquet(str(directory / "input" / name))


PASTED = {
    "rows": "count(1)",
    "nulls": "count(1) - count(ts)",
    "min_ms": "unix_millis(min(ts))",
    "max_ms": "unix_millis(max(ts))",
    "max_by_channel": "tuple_sketch_agg_double(key, double(unix_millis(ts)), 12, 'max')",
    "rows_by_channel": "tuple_sketch_agg_double(key, 1D, 12, 'sum')",
    "channel_names": "to_json(transform(approx_top_k(key, 1000, 2000), found -> found.item))",
    "bucket_ms": "max(10000)",
    "rows_by_bucket": "tuple_sketch_agg_double(unix_millis(ts) - pmod(unix_millis(ts), 10000), 1D, 12, 'sum')",
}
"""What the README tells those to paste who have no Python in their job."""


def start(df: DataFrame, name: str, **trigger: Any) -> StreamingQuery:
    writer = df.writeStream.format("noop").outputMode("append").queryName(name)
    writer = writer.trigger(**trigger) if trigger else writer
    return writer.option("checkpointLocation", str(directory / "checkpoints" / name)).start()


def windows() -> DataFrame:
    orders = tap(read("orders"), "ts", channel="key", name="orders", bucket_ms=1000)
    orders = orders.withWatermark("ts", "30 seconds")
    returns = tap(read("returns"), "ts", channel=F.upper("key")).withWatermark("ts", "1 minute 5 seconds")
    observed = orders.union(returns).observe("mine", F.max("key").alias("last"), F.count("*").alias("seen"))
    return observed.groupBy(F.window("ts", "10 seconds"), "key").count()


def fail(batch: DataFrame, number: int) -> None:
    if number == 1:
        raise ValueError("no such thing\nsecond line")


def hang(batch: DataFrame, number: int) -> None:
    batch.collect()
    if number == 1:
        print("hanging", flush=True)
        time.sleep(3600)


queries: dict[str, StreamingQuery] = {}
if kind == "rolled":
    queries["windows"] = start(windows(), "windows")
    queries["windows"].processAllAvailable()
    failing = read("orders").writeStream.foreachBatch(fail).queryName("failing").start()
    queries["failing"] = failing
    while failing.isActive:
        time.sleep(0.05)
    ticking = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    queries["ticking"] = start(tap(ticking, "timestamp"), "ticking", processingTime="400 milliseconds")
else:
    local = tap(read("local"), "ts", "key").withWatermark("ts", "10 seconds")
    local = local.observe("wmtop:pasted", *(F.expr(sql).alias(name) for name, sql in PASTED.items()))
    queries["local"] = start(local, "local", availableNow=True)
    queries["local"].awaitTermination()
    hanging = tap(read("orders"), "ts", "key").withWatermark("ts", "30 seconds").writeStream.foreachBatch(hang)
    hanging.queryName("hanging").option("checkpointLocation", str(directory / "checkpoints" / "hanging")).start()
    while spark.streams.active[0].lastProgress is None:
        time.sleep(0.05)
print("running", flush=True)
sys.stdin.readline()
for query in queries.values():
    query.stop()
said = {name: [json.loads(progress.json) for progress in query.recentProgress] for name, query in queries.items()}
(directory / "progress.json").write_text(json.dumps(said))
if kind == "rolled":
    spark.stop()
print("done", flush=True)
sys.stdin.readline()  # the plain one is killed here
