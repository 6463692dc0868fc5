"""Foreign jobs: plain PySpark queries that import nothing of wmtop, each with the truth about itself.

`python jobs.py DIRECTORY [NAME ...]` runs them one after the other in one application with an event log (in
`DIRECTORY/log`), each on its own files (`DIRECTORY/NAME`), one file a batch, until everything is read. For each it
prints one line of JSON: its name and its truth. All times are epoch milliseconds.

The truth is known from the input and from what Spark reported to the job itself: `watermark_ms` is the one that the
next batch would use, `open` the windows (start, end, records) or null where the job has none, `dropped` the rows that
Spark counted as late.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
            time.sleep(0.2)  # the query has taken its settings when its first batch is planned
            query.awaitTermination()
            for key in conf:
                self.spark.conf.unset(STREAMING + key.replace("_", "."))
        return query

    def run(self, df: DataFrame, mode: str = "append", each: Any = None, **conf: str) -> Truth:
        """Run it to its end, and say what Spark said of it."""
        query = self.start(df, mode, each, **conf)
        query.awaitTermination()
        return told(query, mode)


def told(query: StreamingQuery, mode: str) -> Truth:
    """What the query's own progress says."""
    progress = [one if isinstance(one, dict) else json.loads(one.json) for one in query.recentProgress]  # 3.5: dicts
    states = [state for one in progress for state in one["stateOperators"]]
    return {
        "id": str(query.id),
        "mode": mode,
        "batches": len(progress),
        "dropped": sum(state["numRowsDroppedByWatermark"] for state in states),
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


@job
def tumbling_append(job: Job) -> Truth:
    return job.run(by_window(job.late(STEADY))) | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54)}


@job
def tumbling_late(job: Job) -> Truth:
    files = [*STEADY, [(1, "a"), (2, "b"), (3, "c"), (70, "a")]]
    shown = job.run(by_window(job.late(files)))
    return shown | {"watermark_ms": ms(60), "open": [[ms(60), ms(70), 1], [ms(70), ms(80), 1]], "late": 3}


@job
def sliding_append(job: Job) -> Truth:
    shown = job.run(by_window(job.late(STEADY), "20 seconds", "10 seconds"))
    return shown | {"watermark_ms": ms(54), "open": windows(ALL, 20, 10, after=54)}


@job
def several_aggregates(job: Job) -> Truth:
    df = job.late(STEADY).groupBy(F.window("ts", "10 seconds")).agg(F.sum(F.length("key")), F.max("key"))
    opened = [[start, end, None] for start, end, _ in windows(ALL, 10, after=54)]
    return job.run(df) | {"watermark_ms": ms(54), "open": opened}


@job
def tumbling_complete(job: Job) -> Truth:
    shown = job.run(by_window(job.late(STEADY)), "complete")
    opened = windows(ALL, 10, after=54)
    return shown | {"watermark_ms": ms(54), "open": opened, "kept": len(windows(ALL, 10)) - len(opened)}


@job
def tumbling_update(job: Job) -> Truth:
    shown = job.run(by_window(job.late(STEADY)), "update")
    return shown | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54)}


@job
def session_append(job: Job) -> Truth:
    files = [[(0, "a"), (3, "a"), (1, "b")], [(30, "a"), (34, "a"), (36, "c"), (33, "d")], [(35, "b"), (38, "a")]]
    df = job.late(files).groupBy(F.session_window("ts", "5 seconds"), "key").count()
    opened = [[ms(30), ms(43), 3], [ms(33), ms(38), 1], [ms(35), ms(40), 1], [ms(36), ms(41), 1]]
    return job.run(df) | {"watermark_ms": ms(28), "open": opened}


def joined(job: Job, right: list[list[Row]], kind: str = "inner") -> DataFrame:
    """Two inputs on key within a minute; the left one is STEADY."""
    left = job.late(STEADY, "10 seconds", "left").select(F.col("ts").alias("lts"), F.col("key").alias("lkey"))
    other = job.late(right, "20 seconds", "right").select(F.col("ts").alias("rts"), F.col("key").alias("rkey"))
    near = F.expr("lkey = rkey and rts between lts and lts + interval 1 minute")
    return left.join(other, near, kind)


RIGHT: list[list[Row]] = [[(0, "a"), (4, "b")], [(10, "a"), (31, "c")], [(44, "b")]]


@job
def join_min(job: Job) -> Truth:
    return job.run(joined(job, RIGHT)) | {"watermark_ms": ms(24), "open": None, "held_by": 1}


@job
def join_max(job: Job) -> Truth:
    shown = job.run(joined(job, RIGHT), multipleWatermarkPolicy="max")
    return shown | {"watermark_ms": ms(54), "open": None, "held_by": 0, "policy": "max"}


@job
def join_left_outer(job: Job) -> Truth:
    return job.run(joined(job, RIGHT, "leftOuter")) | {"watermark_ms": ms(24), "open": None, "held_by": 1}


@job
def join_empty_input(job: Job) -> Truth:
    return job.run(joined(job, [])) | {"watermark_ms": None, "open": None, "pinned": 1}


@job
def union_two_watermarks(job: Job) -> Truth:
    both = job.late(STEADY, "10 seconds", "left").union(job.late(RIGHT, "20 seconds", "right"))
    rows = [*ALL, *(row for file in RIGHT for row in file)]
    return job.run(by_window(both)) | {"watermark_ms": ms(24), "open": windows(rows, 10, after=24), "held_by": 1}


@job
def chained_windows(job: Job) -> Truth:
    first = by_window(job.late(STEADY))
    second = first.groupBy(F.window(F.window_time("window"), "30 seconds")).agg(F.sum("count"))
    inner = windows(ALL, 10, after=54)
    outer = [[ms(30), ms(60), None]]
    return job.run(second) | {"watermark_ms": ms(54), "open": inner, "outer": outer}


@job
def chained_second_watermark(job: Job) -> Truth:
    first = by_window(job.late(STEADY)).select(F.col("window.end").alias("end"), "count")
    second = first.withWatermark("end", "5 seconds").groupBy(F.window("end", "30 seconds")).agg(F.sum("count"))
    shown = job.run(second)
    return shown | {"watermark_ms": None, "open": windows(ALL, 10), "pinned": 0}


@job
def watermark_after_aggregation(job: Job) -> Truth:
    df = by_window(job.read(STEADY)).select(F.col("window.start").alias("start"), "count")
    shown = job.run(df.withWatermark("start", "10 seconds"), "update")
    return shown | {"watermark_ms": ms(50), "open": windows(ALL, 10, after=50), "kept": 5, "keeps_forever": True}


@job
def key_lacks_window(job: Job) -> Truth:
    shown = job.run(job.late(STEADY).groupBy("key").count(), "update")
    return shown | {"watermark_ms": ms(54), "open": None, "keeps_forever": True}


@job
def watermark_overwritten(job: Job) -> Truth:
    rounded = job.late(STEADY).withColumn("ts", F.date_trunc("second", "ts"))
    shown = job.run(by_window(rounded), "update")
    return shown | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54), "kept": 5, "keeps_forever": True}


@job
def dedup(job: Job) -> Truth:
    return job.run(job.late([*STEADY, STEADY[2]]).dropDuplicates(["key", "ts"])) | {
        "watermark_ms": ms(54),
        "open": None,
    }


@job
def dedup_within_watermark(job: Job) -> Truth:
    shown = job.run(job.late(STEADY).dropDuplicatesWithinWatermark(["key"]))
    return shown | {"watermark_ms": ms(54), "open": None}


@job
def dedup_without_watermark(job: Job) -> Truth:
    shown = job.run(job.read(STEADY).dropDuplicates(["key"]))
    return shown | {"watermark_ms": None, "open": None, "no_watermark": True, "keeps_forever": True}


@job
def no_watermark(job: Job) -> Truth:
    return job.run(job.read(STEADY)) | {"watermark_ms": None, "open": None, "no_watermark": True}


@job
def aggregation_without_watermark(job: Job) -> Truth:
    shown = job.run(by_window(job.read(STEADY)), "update")
    return shown | {
        "watermark_ms": None,
        "open": windows(ALL, 10),
        "no_watermark": True,
        "kept": 0,
        "keeps_forever": True,
    }


@job
def stateless_watermark(job: Job) -> Truth:
    return job.run(job.late(STEADY).select("key")) | {"watermark_ms": ms(54), "open": None}


@job
def restart_longer_delay(job: Job) -> Truth:
    job.run(by_window(job.late(STEADY)))
    job.write([[(50, "a"), (41, "b"), (70, "b")], [(45, "c"), (90, "b")]])
    shown = job.run(by_window(job.late(delay="1 minute")))
    opened = windows([(52, "a"), (64, "b"), (50, "a"), (70, "b"), (90, "b")], 10)  # 41 and 45 come too late
    return shown | {"watermark_ms": ms(54), "open": opened, "frozen_ms": 24_000, "delay_ms": 60_000}


@job
def restart_shorter_delay(job: Job) -> Truth:
    job.run(by_window(job.late(STEADY)))
    job.write([[(66, "a")]])
    shown = job.run(by_window(job.late(delay="1 second")))
    return shown | {"watermark_ms": ms(65), "open": windows([(64, "b"), (66, "a")], 10), "delay_ms": 1000}


@job
def failed_query(job: Job) -> Truth:
    def fail(batch: DataFrame, number: int) -> None:
        batch.count()
        if number == 1:
            raise ValueError("no such customer: 17")

    query = job.start(job.late(STEADY), each=fail)
    wait_for(query)
    return told(query, "append") | {"watermark_ms": ms(8), "open": None, "error": "no such customer: 17"}


@job
def failed_sibling(job: Job) -> Truth:
    """Two queries of one application; the one that failed is another one than the one that is looked at."""
    other = Job(job.spark, job.directory / "sibling", job.tap)
    wait_for(other.start(other.late(STEADY), each=_raise))
    shown = job.run(by_window(job.late(STEADY)))
    return shown | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54), "sibling": "sibling"}


def _raise(batch: DataFrame, number: int) -> None:
    raise RuntimeError("the disk is full")


def wait_for(query: StreamingQuery) -> None:
    try:
        query.awaitTermination()
    except Exception:
        return


@job
def failed_in_its_first_batch(job: Job) -> Truth:
    """It has reported no batch: only its end says why."""
    query = job.start(by_window(job.late(STEADY)), each=_raise)
    wait_for(query)
    return told(query, "append") | {"watermark_ms": None, "open": None, "error": "the disk is full"}


@job
def failed_then_restarted(job: Job) -> Truth:
    """The second run replays the batch in which the first one failed: its failure is over."""
    failing = [True]

    def each(batch: DataFrame, number: int) -> None:
        if number == 1 and failing:
            failing.clear()
            raise ValueError("no such customer: 17")
        batch.count()

    df = by_window(job.late(STEADY))
    wait_for(job.start(df, each=each))
    return job.run(df, each=each) | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54)}


@job
def rerun_without_data(job: Job) -> Truth:
    """Started again with nothing new to read, as a scheduled AvailableNow query is: the run has no batch."""
    df = by_window(job.late(STEADY))
    job.run(df)
    return job.run(df) | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54), "mode": None}


@job
def windows_of_a_join(job: Job) -> Truth:
    """Windows above a join with a time bound close later than the watermark passes their end."""
    df = joined(job, RIGHT).groupBy(F.window("lts", "10 seconds")).count()
    shown = job.run(df)
    pairs = [(at, 0) for at, key in ALL for then, other in (row for file in RIGHT for row in file)
             if key == other and at <= then <= at + 60]  # fmt: skip
    rows: list[Row] = [(at, "") for at, _ in pairs]
    return shown | {"watermark_ms": ms(24), "open": "any", "upper": windows(rows, 10), "held_by": 1}


@job
def dedup_then_windows(job: Job) -> Truth:
    df = job.late([*STEADY, STEADY[2]]).dropDuplicatesWithinWatermark(["key", "ts"])
    shown = job.run(df.groupBy(F.window("ts", "10 seconds")).count())
    return shown | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54), "at": 0}


@job
def filter_behind_the_watermark(job: Job) -> Truth:
    """Spark moves the filter in front of the watermark: only rows that pass it drive the clock."""
    shown = job.run(by_window(job.late(STEADY).where("key = 'a'")))
    rows = [row for row in ALL if row[1] == "a"]
    return shown | {"watermark_ms": ms(42), "open": windows(rows, 10, after=42)}


@job
def totals_complete(job: Job) -> Truth:
    shown = job.run(job.read(STEADY).groupBy("key").count().orderBy("count"), "complete")
    return shown | {"watermark_ms": None, "open": None, "no_watermark": True, "kept": None}


@job
def totals_update(job: Job) -> Truth:
    shown = job.run(job.read(STEADY).groupBy("key").count(), "update")
    return shown | {"watermark_ms": None, "open": None, "no_watermark": True, "keeps_forever": True}


@job
def stream_limit(job: Job) -> Truth:
    return job.run(job.read(STEADY).limit(5)) | {"watermark_ms": None, "open": None, "no_watermark": True}


@job
def rate_source(job: Job) -> Truth:
    options = {"rowsPerBatch": 10, "numPartitions": 1, "startTimestamp": START_MS, "advanceMillisPerBatch": 5000}
    stream = job.spark.readStream.format("rate-micro-batch").options(**options).load()
    df = stream.withWatermark("timestamp", "2 seconds").groupBy(F.window("timestamp", "10 seconds")).count()
    query = df.writeStream.format("noop").queryName(job.directory.name).trigger(processingTime="0 seconds")
    running = query.option("checkpointLocation", str(job.checkpoint)).start()
    while len(running.recentProgress) < 3:
        time.sleep(0.05)
    running.stop()
    return told(running, "append") | {"watermark_ms": "any", "open": "any"}


@job
def window_of_local_time(job: Job) -> Truth:
    """The windows are of a local time that is made of the event time: nothing ties them to the watermark."""
    df = job.late(STEADY).withColumn("local", F.col("ts").cast("timestamp_ntz"))
    shown = job.run(df.groupBy(F.window("local", "10 seconds")).count(), "update")
    return shown | {"watermark_ms": ms(54), "open": "any", "keeps_forever": True}


@job
def join_without_bound(job: Job) -> Truth:
    """Two inputs on their key alone: every row is kept for ever."""
    left = job.late(STEADY, "10 seconds", "left").select(F.col("ts").alias("lts"), F.col("key").alias("lkey"))
    right = job.late(RIGHT, "20 seconds", "right").select(F.col("ts").alias("rts"), F.col("key").alias("rkey"))
    shown = job.run(left.join(right, F.expr("lkey = rkey")))
    return shown | {"watermark_ms": ms(24), "open": None, "held_by": 1, "keeps_forever": True}


@job
def nothing_to_read(job: Job) -> Truth:
    return job.run(by_window(job.late([]))) | {"watermark_ms": None, "open": None}


@job
def null_times(job: Job) -> Truth:
    """Rows whose event time is null: they pass the watermark, and belong to no window."""
    df = job.read(STEADY).withColumn("ts", F.when(F.col("key") == "a", F.col("ts"))).withWatermark("ts", "10 seconds")
    rows = [row for row in ALL if row[1] == "a"]
    return job.run(by_window(df)) | {"watermark_ms": ms(42), "open": windows(rows, 10, after=42)}


@job
def rocksdb(job: Job) -> Truth:
    shown = job.run(by_window(job.late(STEADY)), stateStore_providerClass=ROCKSDB)
    return shown | {"watermark_ms": ms(54), "open": None, "by_spark": windows(ALL, 10, after=54)}


@job
def foreach_batch(job: Job) -> Truth:
    shown = job.run(by_window(job.late(STEADY)), each=lambda batch, number: batch.count())
    return shown | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54)}


@job
def deleted_checkpoint(job: Job) -> Truth:
    import shutil

    shown = job.run(by_window(job.late(STEADY)))
    shutil.rmtree(job.checkpoint)
    return shown | {"watermark_ms": ms(54), "open": None, "gone": True}


@job
def ahead_of_clock(job: Job) -> Truth:
    later = (time.time() + 7200) // 60 * 60 - START_MS / 1000
    files: list[list[Row]] = [[(0, "a"), (later, "a")]]
    return job.run(by_window(job.late(files))) | {
        "watermark_ms": ms(later - 10),
        "open": windows(files[0], 10, after=60),
    }


@job
def static_join(job: Job) -> Truth:
    names = job.spark.createDataFrame([("a", "Ann"), ("b", "Bob")], "key string, name string")
    df = job.late(STEADY).join(names, "key").groupBy(F.window("ts", "10 seconds"), "name").count()
    return job.run(df) | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54)}


@job
@since("4.0")
def new_formats(job: Job) -> Truth:
    shown = job.run(
        by_window(job.late(STEADY)), stateStore_checkpointFormatVersion="2", stateStore_providerClass=ROCKSDB
    )
    return shown | {"watermark_ms": ms(54), "open": None, "by_spark": windows(ALL, 10, after=54)}


@job
def pandas_state(job: Job) -> Truth:
    """applyInPandasWithState with an event-time timeout."""
    from pyspark.sql.streaming.state import GroupStateTimeout

    def count(key: Any, pieces: Any, state: Any) -> Any:
        if state.hasTimedOut:
            state.remove()
            return
        state.update(((state.get[0] if state.exists else 0) + sum(map(len, pieces)),))
        state.setTimeoutTimestamp(START_MS + 3_600_000)
        yield from ()

    df = (
        job.late(STEADY)
        .groupBy("key")
        .applyInPandasWithState(count, "key string", "number long", "append", GroupStateTimeout.EventTimeTimeout)
    )
    return job.run(df) | {"watermark_ms": ms(54), "open": None}


@job
@since("4.0")
def transform_with_state(job: Job) -> Truth:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.number = handle.getValueState("number", "number long")

        def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any:  # noqa: N802
            before = self.number.get()[0] if self.number.exists() else 0
            self.number.update((before + sum(len(row) for row in rows),))
            self.handle.registerTimer(START_MS + 3_600_000)
            yield from ()

        def close(self) -> None:
            pass

    df = job.late(STEADY).groupBy("key")
    df = df.transformWithStateInPandas(Count(), "key string", "Append", "EventTime")
    return job.run(df, stateStore_providerClass=ROCKSDB) | {"watermark_ms": ms(54), "open": None}


def main(
    prepare: Callable[[SparkSession], None] = lambda spark: None,
    tap: Callable[[DataFrame, str], DataFrame] = lambda df, time: df,
) -> None:
    """Run the jobs that the command line names; `prepare` gets the session, `tap` each input and its time column."""
    directory = Path(sys.argv[1])
    names = sys.argv[2:] or list(JOBS)
    (directory / "log").mkdir(parents=True)
    builder = SparkSession.builder.master("local[2]").appName("gallery")
    for key, value in {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
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


if __name__ == "__main__":
    main()
