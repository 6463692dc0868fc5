"""Jobs of several inputs: joins and unions, under both policies."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .job import ALL, STEADY, Job, Row, Truth, by_window, job, ms, windows

RIGHT: list[list[Row]] = [[(0, "a"), (4, "b")], [(10, "a"), (31, "c")], [(44, "b")]]
RIGHT_ROWS = [row for file in RIGHT for row in file]


def joined(job: Job, right: list[list[Row]], kind: str = "inner") -> DataFrame:
    """Two inputs on key within a minute; the left one is STEADY."""
    left = job.late(STEADY, "10 seconds", "left").select(F.col("ts").alias("lts"), F.col("key").alias("lkey"))
    other = job.late(right, "20 seconds", "right").select(F.col("ts").alias("rts"), F.col("key").alias("rkey"))
    near = F.expr("lkey = rkey and rts between lts and lts + interval 1 minute")
    return left.join(other, near, kind)


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
    """Restarted with another policy, which has no effect: a checkpoint keeps that of its first start."""
    df = joined(job, [])
    job.run(df)
    job.write([[(80, "a")], [(90, "a")]], "left")
    return job.run(df, multipleWatermarkPolicy="max") | {"watermark_ms": None, "open": None, "pinned": 1}


@job
def union_two_watermarks(job: Job) -> Truth:
    both = job.late(STEADY, "10 seconds", "left").union(job.late(RIGHT, "20 seconds", "right"))
    rows = [*ALL, *(row for file in RIGHT for row in file)]
    opened = windows(rows, 10, after=24)
    return job.run(by_window(both)) | {"watermark_ms": ms(24), "open": opened, "held_by": 1, "several_delays": True}


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
def join_without_bound(job: Job) -> Truth:
    """Two inputs on their key alone: every row is kept for ever."""
    left = job.late(STEADY, "10 seconds", "left").select(F.col("ts").alias("lts"), F.col("key").alias("lkey"))
    right = job.late(RIGHT, "20 seconds", "right").select(F.col("ts").alias("rts"), F.col("key").alias("rkey"))
    shown = job.run(left.join(right, F.expr("lkey = rkey")))
    return shown | {"watermark_ms": ms(24), "open": None, "held_by": 1, "keeps_forever": True}


@job
def join_full_outer(job: Job) -> Truth:
    return job.run(joined(job, RIGHT, "fullOuter")) | {"watermark_ms": ms(24), "open": None, "held_by": 1}


@job
def join_left_semi(job: Job) -> Truth:
    return job.run(joined(job, RIGHT, "leftSemi")) | {"watermark_ms": ms(24), "open": None, "held_by": 1}


@job
def join_left_outer_max(job: Job) -> Truth:
    shown = job.run(joined(job, RIGHT, "leftOuter"), multipleWatermarkPolicy="max")
    return shown | {"watermark_ms": ms(54), "open": None, "held_by": 0, "policy": "max"}


@job
def join_of_aggregates(job: Job) -> Truth:
    """Windows of two inputs, joined by window: the right ones are kept by operator 2."""
    left = job.late(STEADY, "10 seconds", "left").groupBy(F.window("ts", "10 seconds").alias("lw")).count()
    right = job.late(RIGHT, "20 seconds", "right").groupBy(F.window("ts", "10 seconds").alias("rw")).count()
    both = left.select("lw", F.col("count").alias("l")).join(right.select("rw", "count"), F.expr("lw = rw"))
    opened = windows(RIGHT_ROWS, 10, after=24)
    return job.run(both) | {"watermark_ms": ms(24), "open": opened, "at": 2, "held_by": 1}


def three(job: Job, third: list[list[Row]]) -> DataFrame:
    """Three inputs with delays of their own, united."""
    first = job.late(STEADY, "10 seconds", "left").union(job.late(RIGHT, "20 seconds", "right"))
    return by_window(first.union(job.late(third, "5 seconds", "third")))


@job
def union_of_three(job: Job) -> Truth:
    """Spark's state keeps one delay of the three: from a checkpoint none of them is the query's."""
    third: list[list[Row]] = [[(30, "z")]]
    opened = windows([*ALL, *RIGHT_ROWS, *third[0]], 10, after=24)
    return job.run(three(job, third)) | {"watermark_ms": ms(24), "open": opened, "several_delays": True}


@job
def union_without_state(job: Job) -> Truth:
    """No batch without data follows, no plan names a checkpoint, and the left input hides the right one: the event log
    does not show the next watermark. That of its only batch is at 1970.
    """
    df = job.late(STEADY[:1], "1 minute", "left").union(job.late(RIGHT[:1], "20 seconds", "right"))
    return job.run(df) | {"watermark_ms": "any", "open": None, "never_held_by": 1}


@job
def union_of_three_one_empty(job: Job) -> Truth:
    opened = windows([*ALL, *RIGHT_ROWS], 10)
    return job.run(three(job, [])) | {"watermark_ms": None, "open": opened, "pinned": 2, "several_delays": True}


@job
def join_restarted_with_another_delay(job: Job) -> Truth:
    """Of the left input alone; the right one delivers nothing in the second run."""
    job.run(joined(job, RIGHT))
    job.write([[(45, "b")]], "left")
    left = job.late((), "2 minutes", "left").select(F.col("ts").alias("lts"), F.col("key").alias("lkey"))
    right = job.late((), "20 seconds", "right").select(F.col("ts").alias("rts"), F.col("key").alias("rkey"))
    shown = job.run(left.join(right, F.expr("lkey = rkey and rts between lts and lts + interval 1 minute")))
    return shown | {"watermark_ms": ms(24), "open": None, "frozen_ms": 99_000}


@job
def self_join_with_two_delays(job: Job) -> Truth:
    """One input read twice, each time with a watermark of its own: the longer delay holds it back."""
    events = job.tap(job.read(STEADY), "ts")
    first = events.select(F.col("ts").alias("t1"), F.col("key").alias("k1")).withWatermark("t1", "10 seconds")
    again = events.select(F.col("ts").alias("t2"), F.col("key").alias("k2")).withWatermark("t2", "30 seconds")
    both = first.join(again, F.expr("k1 = k2 and t2 between t1 and t1 + interval 20 seconds"))
    return job.run(both) | {"watermark_ms": ms(34), "open": None, "held_by": 1}


@job
def self_union_with_two_delays(job: Job) -> Truth:
    """One input read twice and united: each row counts twice, and the longer delay holds it back."""
    events = job.tap(job.read(STEADY), "ts")
    both = events.withWatermark("ts", "10 seconds").union(events.withWatermark("ts", "30 seconds"))
    opened = windows([*ALL, *ALL], 10, after=34)
    return job.run(by_window(both)) | {"watermark_ms": ms(34), "open": opened, "held_by": 1, "several_delays": True}


@job
def filter_empties_an_input(job: Job) -> Truth:
    """In the second batch nothing passes the left one's filter, and Spark reports the right one's times."""
    left = job.tap(job.read([[(0, "A"), (8, "B")], [(300, "noise")], [(20, "A")]], "left"), "ts")
    right = job.late([[(0, "a"), (10, "b")], [(200, "a")], [(210, "b")]], "10 seconds", "right")
    left = left.where("lower(key) < 'n'").withWatermark("ts", "10 seconds").select(F.col("ts").alias("lts"), "key")
    right = right.select(F.col("ts").alias("rts"), F.col("key").alias("rkey"))
    shown = job.run(left.join(right, F.expr("lower(key) = rkey and rts between lts and lts + interval 5 minutes")))
    return shown | {"watermark_ms": ms(10), "open": None, "never_held_by": 1}


@job
def checkpoint_inside_another(job: Job) -> Truth:
    """Another query keeps its checkpoint in this one's directory."""
    shown = job.run(by_window(job.late(STEADY)))
    inner = Job(job.spark, job.directory / "inner", job.tap)
    df = by_window(inner.late(RIGHT, "1 minute"))
    writer = df.writeStream.format("noop").option("checkpointLocation", str(job.checkpoint / "inner"))
    writer.queryName("inner").trigger(availableNow=True).start().awaitTermination()
    return shown | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54), "delay_ms": 10_000}
