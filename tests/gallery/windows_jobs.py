"""Jobs of one input with windows or sessions."""

import json
import os
import time
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import functions as F

from .job import ALL, START_MS, STEADY, Job, Row, Truth, by_window, job, ms, windows


@job
def tumbling_append(job: Job) -> Truth:
    return job.run(by_window(job.late(STEADY))) | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54)}


LATE: list[list[Row]] = [*STEADY, [(1, "a"), (2, "b"), (3, "c"), (70, "a")]]


@job
def tumbling_late(job: Job) -> Truth:
    shown = job.run(by_window(job.late(LATE)))
    return shown | {"watermark_ms": ms(60), "open": [[ms(60), ms(70), 1], [ms(70), ms(80), 1]], "late": 3}


@job
def late_rows_of_one_key(job: Job) -> Truth:
    """Spark counts them after they were aggregated: three rows are one."""
    shown = job.run(by_window(job.late([*STEADY, [(1, "a"), (2, "a"), (3, "a"), (70, "a")]])))
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
def count_of_a_column(job: Job) -> Truth:
    """It leaves out the rows without a value there."""
    df = job.late(STEADY).groupBy(F.window("ts", "10 seconds")).agg(F.count(F.when(F.col("key") == "b", 1)))
    counts = {start: number for start, _, number in windows([row for row in ALL if row[1] == "b"], 10)}
    opened = [[start, end, counts.get(start, 0)] for start, end, _ in windows(ALL, 10, after=54)]
    return job.run(df) | {"watermark_ms": ms(54), "open": opened}


@job
def tumbling_complete(job: Job) -> Truth:
    """It drops nothing, and its watermark starts no batch without data."""
    shown = job.run(by_window(job.late(LATE)), "complete")
    rows = [row for file in LATE for row in file]
    opened = windows(rows, 10, after=60)
    kept = len(windows(rows, 10)) - len(opened)
    return shown | {"watermark_ms": ms(60), "open": opened, "kept": kept, "late": 3}


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
def watermark_overwritten(job: Job) -> Truth:
    rounded = job.late(STEADY).withColumn("ts", F.date_trunc("second", "ts"))
    shown = job.run(by_window(rounded), "update")
    return shown | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54), "kept": 5, "keeps_forever": True}


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
def filter_behind_the_watermark(job: Job) -> Truth:
    """Spark moves the filter in front of the watermark: only rows that pass it drive the clock."""
    shown = job.run(by_window(job.late(STEADY).where("key = 'a'")))
    rows = [row for row in ALL if row[1] == "a"]
    return shown | {"watermark_ms": ms(42), "open": windows(rows, 10, after=42)}


@job
def window_of_local_time(job: Job) -> Truth:
    """The windows are of a local time that is made of the event time: nothing ties them to the watermark."""
    df = job.late(STEADY).withColumn("local", F.col("ts").cast("timestamp_ntz"))
    shown = job.run(df.groupBy(F.window("local", "10 seconds")).count(), "update")
    return shown | {"watermark_ms": ms(54), "open": "any", "keeps_forever": True}


@job
def null_times(job: Job) -> Truth:
    """Rows whose event time is null: they pass the watermark, and belong to no window."""
    df = job.read(STEADY).withColumn("ts", F.when(F.col("key") == "a", F.col("ts"))).withWatermark("ts", "10 seconds")
    rows = [row for row in ALL if row[1] == "a"]
    return job.run(by_window(df)) | {"watermark_ms": ms(42), "open": windows(rows, 10, after=42)}


@job
def only_null_times(job: Job) -> Truth:
    df = job.read(STEADY).withColumn("ts", F.lit(None).cast("timestamp")).withWatermark("ts", "10 seconds")
    return job.run(by_window(df)) | {"watermark_ms": None, "open": []}


@job
def ahead_of_clock(job: Job) -> Truth:
    later = (time.time() + 7200) // 60 * 60 - START_MS / 1000
    files: list[list[Row]] = [[(0, "a"), (later, "a")]]
    return job.run(by_window(job.late(files))) | {
        "watermark_ms": ms(later - 10),
        "open": windows(files[0], 10, after=60),
    }


@job
def before_1970(job: Job) -> Truth:
    """Spark's watermark starts at 1970: every row is late."""
    rows: list[Row] = [(at - START_MS / 1000 - 3600, key) for at, key in ALL]
    return job.run(by_window(job.late([rows[:6], rows[6:]]))) | {"watermark_ms": None, "open": []}


@job
def one_row_from_the_far_future(job: Job) -> Truth:
    """It takes the watermark along: from the file after the next on every row is late."""
    later = 253_402_300_000 - START_MS / 1000  # some minutes before the end of the year 9999
    files: list[list[Row]] = [[(0, "a"), (later, "x")], [(20, "a"), (30, "b")], [(40, "a")]]
    return job.run(by_window(job.late(files))) | {"watermark_ms": ms(later - 10), "open": windows(files[0][1:], 10)}


@job
def static_join(job: Job) -> Truth:
    names = job.spark.createDataFrame([("a", "Ann"), ("b", "Bob")], "key string, name string")
    df = job.late(STEADY).join(names, "key").groupBy(F.window("ts", "10 seconds"), "name").count()
    return job.run(df) | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54)}


@job
def windows_with_an_offset(job: Job) -> Truth:
    df = job.late(STEADY).groupBy(F.window("ts", "30 seconds", "10 seconds", "3 seconds"), F.expr("key as k"))
    shifted: list[Row] = [(at - 3, key) for at, key in ALL]
    opened = [[start + 3000, end + 3000, number] for start, end, number in windows(shifted, 30, 10, after=51)]
    return job.run(df.agg(F.avg(F.length("key")), F.count("*"))) | {"watermark_ms": ms(54), "open": opened}


@job
def sessions_with_a_gap_by_key(job: Job) -> Truth:
    """The gap depends on the row, sessions merge, a late row is dropped."""
    files: list[list[Row]] = [[(0, "a"), (8, "a")], [(4, "a"), (60, "b")], [(61, "b"), (3, "a")], [(66, "b")]]
    gap = F.when(F.col("key") == "a", "6 seconds").otherwise("20 seconds")
    df = job.late(files).groupBy(F.session_window("ts", gap), "key").count()
    return job.run(df) | {"watermark_ms": ms(56), "open": [[ms(60), ms(86), 3]]}


@job
def sets_in_windows(job: Job) -> Truth:
    """Nothing in the state counts rows."""
    df = job.late(STEADY).groupBy(F.window("ts", "10 seconds"))
    opened = [[start, end, None] for start, end, _ in windows(ALL, 10, after=54)]
    shown = job.run(df.agg(F.approx_count_distinct("key"), F.collect_set("key")))
    return shown | {"watermark_ms": ms(54), "open": opened}


@job
def event_time_inside_json(job: Job) -> Truth:
    """The event time is a text in a JSON value in a text file."""
    directory = job.directory / "text"
    directory.mkdir(parents=True)
    for number, rows in enumerate(STEADY):
        lines = [
            {"meta": {"at": f"{datetime.fromtimestamp(ms(at) / 1000, UTC):%FT%TZ}"}, "key": key} for at, key in rows
        ]
        path = directory / f"{number}.txt"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(path, (1000 + number, 1000 + number))
    raw = job.spark.readStream.option("maxFilesPerTrigger", 1).text(str(directory))
    parsed = raw.select(F.from_json("value", "meta struct<at string>, key string").alias("j"))
    df = parsed.select(F.to_timestamp("j.meta.at").alias("ts"), "j.key").withWatermark("ts", "10 seconds")
    return job.run(by_window(df)) | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54)}


@job
def python_function_behind_the_watermark(job: Job) -> Truth:
    """What a Python function returns has no watermark: its windows are kept for ever."""

    def same(frames: Any) -> Any:
        yield from frames

    df = job.late(STEADY).mapInPandas(same, "ts timestamp, key string")
    shown = job.run(by_window(df), "update")
    return shown | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54), "kept": 5, "keeps_forever": True}
