"""A PySpark job that knows nothing of wmtop: its queries of all kinds, and what they report of themselves.

`python http_job.py DIRECTORY PORT NAME=VALUE…`: its web server is at the port, its event log and checkpoints are in the
directory, further settings follow; `NAME.ndjson` there has the reports of a query. The file `stop` there ends one
query, `quit` the job.
"""

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""The same files without a fork for each."""


def main(directory: Path, port: str, *settings: str) -> None:
    builder = (
        SparkSession.builder.master("local[1]")
        .appName("shop")
        .config("spark.ui.port", port)
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.streaming.numRecentProgressUpdates", "5000")
        .config("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINTS)
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", (directory / "logs").as_uri())
        .config("spark.eventLog.compress", "true")
    )
    for name, _, value in (setting.partition("=") for setting in settings):
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")

    def rows(delay: str) -> DataFrame:
        source = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
        late = F.col("timestamp") - F.expr("INTERVAL 30 SECONDS") * (F.col("value") % 3)
        return source.select(late.alias("t"), "value").withWatermark("t", delay)

    def start(name: str, frame: DataFrame, mode: str, trigger: str = "1 second") -> Any:
        writer = frame.writeStream.format("noop").outputMode(mode).queryName(name)
        return writer.option("checkpointLocation", str(directory / name)).trigger(processingTime=trigger).start()

    def use(frame: DataFrame) -> None:
        frame.write.format("noop").mode("append").save()

    def start_for_each_batch() -> Any:
        counts = rows("7 seconds").groupBy(F.window("t", "10 seconds")).count()
        writer = counts.writeStream.outputMode("update").queryName("each").trigger(processingTime="1 second")
        # Of two uses of its rows Spark reports the sum.
        writer = writer.foreachBatch(lambda frame, number: [use(frame), use(frame)])
        return writer.option("checkpointLocation", str(directory / "each")).start()

    fails = F.when(F.col("value") > 30, F.raise_error(F.lit("no such shop"))).otherwise(F.col("t"))
    queries = [
        start("counts", rows("1500 milliseconds").groupBy(F.window("t", "10 seconds")).count(), "update"),
        start("plain", rows("45 seconds").filter("value % 2 = 0"), "append"),
        start("seen", rows("2 seconds").dropDuplicates(["t"]), "append"),
        start_for_each_batch(),
        start("hourly", rows("3 seconds").dropDuplicates(["t"]), "append", "1 hour"),
        start("broken", rows("2 seconds").select(fails.alias("t")), "append"),
    ]

    written = dict.fromkeys(queries, 0)

    def report() -> None:
        for query in queries:
            reports = query._jsq.recentProgress()  # the new ones alone: `recentProgress` parses all again
            new = [reports[number].json() for number in range(written[query], len(reports))]
            with (directory / f"{query.name}.ndjson").open("a") as file:
                file.write("".join(f"{report}\n" for report in new))
            written[query] += len(new)

    while not (directory / "quit").exists():
        report()
        if (directory / "stop").exists():
            next(query for query in queries if query.name == "seen").stop()
        time.sleep(0.5)
    with suppress(Exception):
        for query in queries:
            query.stop()
    report()
    with suppress(Exception):
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
