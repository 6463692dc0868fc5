"""What the gallery's jobs share: a session and files of their own, the truth by plain arithmetic, the script."""

import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

START_MS = 1_700_000_040_000
"""A whole minute and ten-second boundary, so that windows are easy to tell."""
Row = tuple[float, str]
"""Seconds after START_MS, and a key."""
Truth = dict[str, Any]
STREAMING = "spark.sql.streaming."
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

JOBS: dict[str, Callable[["Job"], Truth]] = {}
NEEDS: dict[str, str] = {}
"""The Spark version from which on a job can run, where 3.5 cannot."""


def job(run: Callable[["Job"], Truth]) -> Callable[["Job"], Truth]:
    JOBS[run.__name__] = run
    return run


def since(version: str) -> Callable[[Callable[["Job"], Truth]], Callable[["Job"], Truth]]:
    def mark(run: Callable[["Job"], Truth]) -> Callable[["Job"], Truth]:
        NEEDS[run.__name__] = version
        return run

    return mark


STEADY: list[list[Row]] = [
    [(0, "a"), (5, "b"), (12, "a"), (18, "b")],
    [(20, "a"), (26, "a"), (33, "b"), (41, "b")],
    [(38, "a"), (47, "b"), (52, "a"), (64, "b")],
]
"""Three batches, up to 64 s, none late with a delay of 10 s."""


@dataclass
class Job:
    """What a job gets: a session, and a directory of its own."""

    spark: SparkSession
    directory: Path
    tap: Callable[[DataFrame, str], DataFrame] = lambda df, time: df

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    def write(self, files: Iterable[list[Row]], name: str = "input") -> None:
        """Add files, in the order in which they are to be read."""
        directory = self.directory / name
        directory.mkdir(parents=True, exist_ok=True)
        first = len(list(directory.iterdir()))
        for number, rows in enumerate(files, first):
            path = directory / f"{number}.json"
            lines = (json.dumps({"t": START_MS / 1000 + second, "key": key}) for second, key in rows)
            path.write_text("".join(line + "\n" for line in lines))
            os.utime(path, (1000 + number, 1000 + number))

    def read(self, files: Iterable[list[Row]] = (), name: str = "input", kind: str = "timestamp") -> DataFrame:
        """A stream with the columns ts and key, a file a batch."""
        self.write(files, name)
        stream = self.spark.readStream.schema("t double, key string").option("maxFilesPerTrigger", 1)
        events = stream.json(str(self.directory / name)).select(F.col("t").cast("timestamp").alias("ts"), "key")
        return events if kind == "timestamp" else events.withColumn("ts", F.col("ts").cast(kind))

    def late(self, files: Iterable[list[Row]] = (), delay: str = "10 seconds", name: str = "input") -> DataFrame:
        """The same with a watermark."""
        return self.tap(self.read(files, name), "ts").withWatermark("ts", delay)

    def start(self, df: DataFrame, mode: str = "append", each: Any = None, **conf: str) -> StreamingQuery:
        """Start it; `conf` are streaming settings with `_` for `.`."""
        for key, value in conf.items():
            self.spark.conf.set(STREAMING + key.replace("_", "."), value)
        writer = df.writeStream.outputMode(mode).queryName(self.directory.name)
        writer = writer.format("noop") if each is None else writer.foreachBatch(each)
        writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        query = writer.start()
        if conf:
            query.awaitTermination()  # the settings are read when its first batch is planned
            for key in conf:
                self.spark.conf.unset(STREAMING + key.replace("_", "."))
        return query

    def run(self, df: DataFrame, mode: str = "append", each: Any = None, **conf: str) -> Truth:
        """Run it to its end, and say what Spark said of it."""
        query = self.start(df, mode, each, **conf)
        query.awaitTermination()
        return reported(query, mode)


def reported(query: StreamingQuery, mode: str) -> Truth:
    """What the query's own progress says."""
    progress = [one if isinstance(one, dict) else json.loads(one.json) for one in query.recentProgress]  # 3.5: dicts
    states = [state for one in progress for state in one["stateOperators"]]
    has_batch = any("addBatch" in one["durationMs"] for one in progress)  # a trigger without one is reported, too
    return {
        "id": str(query.id),
        "mode": mode,
        "batches": len(progress),
        "dropped": sum(state["numRowsDroppedByWatermark"] for state in states) if has_batch else None,
        "emitted": sum(max(one["sink"]["numOutputRows"], 0) for one in progress),
        "operators": [state["operatorName"] for state in progress[-1]["stateOperators"]] if progress else [],
        "state_rows": sum(state["numRowsTotal"] for state in progress[-1]["stateOperators"]) if progress else 0,
    }


def ms(second: float) -> int:
    return round(START_MS + 1000 * second)


def windows(rows: Iterable[Row], size: int, slide: int | None = None, after: float = -1e9) -> list[list[int]]:
    """The windows [start, end, records] of the rows that end after second `after`, by plain arithmetic."""
    slide = slide or size
    counts: dict[int, int] = {}
    for second, _ in rows:
        start = int(second // slide) * slide
        while start > second - size:
            counts[start] = counts.get(start, 0) + 1
            start -= slide
    return [[ms(start), ms(start + size), number] for start, number in sorted(counts.items()) if start + size > after]


ALL = [row for file in STEADY for row in file]


def by_window(df: DataFrame, size: str = "10 seconds", slide: str | None = None) -> DataFrame:
    return df.groupBy(F.window("ts", size, slide), "key").count()


def wait_for(query: StreamingQuery) -> None:
    try:
        query.awaitTermination()
    except Exception:
        return


def main(
    prepare: Callable[[SparkSession], None] = lambda spark: None,
    tap: Callable[[DataFrame, str], DataFrame] = lambda df, time: df,
) -> None:
    """Run the jobs that the command line names; `prepare` gets the session, `tap` each input and its time column."""
    directory = Path(sys.argv[1])
    names = sys.argv[2:] or list(JOBS)
    (directory / "log").mkdir(parents=True)
    builder = SparkSession.builder.master("local[2]").appName("gallery")
    if pyspark.__version__.startswith("4.3."):  # the same files without a fork for each; its package has moved
        manager = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        builder = builder.config(STREAMING + "checkpointFileManagerClass", manager)
    for key, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(directory / "log"),
        STREAMING + "numRecentProgressUpdates": "1000",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    prepare(spark)
    here = tuple(map(int, spark.version.split(".")[:2]))
    for name in names:
        if here >= tuple(map(int, NEEDS.get(name, "3.5").split("."))):
            try:
                truth = JOBS[name](Job(spark, directory / name, tap))
            except Exception as error:
                truth = {"broken": str(error)[:2000]}
            print(json.dumps({"job": name} | truth), flush=True)
    spark.stop()
