"""A foreign job in real-time mode: three queries from Kafka to Kafka, with an event log, also published;
and one in micro-batches that waits for more records than there are.

`python -m tests.gallery.realtime_job DIRECTORY BOOTSTRAP JARS` runs until a line comes on its standard input, then
prints what Spark told it of each query's batches: one line of JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from wmtop.engine import publish, tap


def main(directory: Path, bootstrap: str, jars: str) -> None:
    builder = SparkSession.builder.master("local[16]").appName("real time")
    for key, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.jars": jars,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(directory / "log"),
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    publish(spark)

    def read(topic: str, **options: str) -> DataFrame:
        stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        records = stream.option("subscribe", topic).option("startingOffsets", "earliest").options(**options).load()
        value = F.col("value").cast("string")
        seconds = F.get_json_object(value, "$.t").cast("double")
        return records.select(F.timestamp_seconds(seconds).alias("ts"), value.alias("text"), "partition")

    marked = tap(read("windows"), "ts", channel="partition").withWatermark("ts", "5 seconds")
    frames = {
        "windows": marked.groupBy(F.window("ts", "10 seconds")).count(),
        "dedup": read("dedup").withWatermark("ts", "0 seconds").dropDuplicates(["text", "ts"]),
        "plain": read("plain"),
    }

    def writer(frame: DataFrame) -> Any:  # Spark's own types do not know the trigger `realTime` yet
        return frame.select(F.to_json(F.struct("*")).alias("value")).writeStream.format("kafka")

    queries: list[StreamingQuery] = [
        writer(frame)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", f"{name}-out")
        .option("checkpointLocation", str(directory / name))
        .queryName(name)
        .outputMode("update")
        .trigger(realTime="5 seconds")
        .start()
        for name, frame in frames.items()
    ]
    held = read("held", minOffsetsPerTrigger="1000", maxTriggerDelay="1h").writeStream.format("noop").queryName("held")
    held.option("checkpointLocation", str(directory / "held")).start()
    sys.stdin.readline()
    print(json.dumps({str(query.name): [json.loads(p.json) for p in query.recentProgress] for query in queries}))
    for query in spark.streams.active:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
