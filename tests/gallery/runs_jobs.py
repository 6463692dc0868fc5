"""Jobs that are restarted, fail, end, or have nothing to read."""

import time

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .job import ALL, START_MS, STEADY, Job, Truth, by_window, job, ms, reported, wait_for, windows


def _raise(batch: DataFrame, number: int) -> None:
    raise RuntimeError("the disk is full")


@job
def restart_longer_delay(job: Job) -> Truth:
    job.run(by_window(job.late(STEADY)))
    job.write([[(50, "a"), (41, "b"), (70, "b")], [(45, "c"), (90, "b")]])
    shown = job.run(by_window(job.late(delay="1 minute")))
    opened = windows([(52, "a"), (64, "b"), (50, "a"), (70, "b"), (90, "b")], 10)  # 41 and 45 come too late
    return shown | {"watermark_ms": ms(54), "open": opened, "frozen_ms": 24_000, "delay_ms": 60_000}


@job
def restart_with_older_rows(job: Job) -> Truth:
    """With the same delay; the first rows of the second run are older than the last ones of the first."""
    job.run(by_window(job.late(STEADY)))
    rows = [(58, "a"), (61, "c")]
    job.write([rows])
    shown = job.run(by_window(job.late()))
    return shown | {"watermark_ms": ms(54), "open": windows([*ALL, *rows], 10, after=54), "delay_ms": 10_000}


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
    return reported(query, "append") | {"watermark_ms": ms(8), "open": None, "error": "no such customer: 17"}


@job
def failed_sibling(job: Job) -> Truth:
    """Two queries of one application; the one that failed is another one than the one that is looked at."""
    other = Job(job.spark, job.directory / "sibling", job.tap)
    wait_for(other.start(other.late(STEADY), each=_raise))
    shown = job.run(by_window(job.late(STEADY)))
    return shown | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54), "sibling": "sibling"}


@job
def failed_in_its_first_batch(job: Job) -> Truth:
    """It has reported no batch: only its end says why."""
    query = job.start(by_window(job.late(STEADY)), each=_raise)
    wait_for(query)
    return reported(query, "append") | {"watermark_ms": None, "open": None, "error": "the disk is full"}


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
def rate_source(job: Job) -> Truth:
    options = {"rowsPerBatch": 10, "numPartitions": 1, "startTimestamp": START_MS, "advanceMillisPerBatch": 5000}
    stream = job.spark.readStream.format("rate-micro-batch").options(**options).load()
    df = stream.withWatermark("timestamp", "2 seconds").groupBy(F.window("timestamp", "10 seconds")).count()
    query = df.writeStream.format("noop").queryName(job.directory.name).trigger(processingTime="0 seconds")
    running = query.option("checkpointLocation", str(job.checkpoint)).start()
    while len(running.recentProgress) < 3:
        time.sleep(0.05)
    running.stop()
    return reported(running, "append") | {"watermark_ms": "any", "open": "any"}


@job
def foreach_batch(job: Job) -> Truth:
    shown = job.run(by_window(job.late(STEADY)), each=lambda batch, number: batch.count())
    return shown | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54)}


@job
def foreach_batch_twice(job: Job) -> Truth:
    """Each use of the rows computes them again, and Spark counts late ones again: 6. That there are some is known."""

    def twice(batch: DataFrame, number: int) -> None:
        batch.count()
        batch.count()

    files = [*STEADY, [(1, "a"), (2, "b"), (3, "c"), (70, "a")]]
    shown = job.run(by_window(job.late(files)), each=twice)
    open_windows = [[ms(60), ms(70), 1], [ms(70), ms(80), 1]]
    return shown | {"watermark_ms": ms(60), "open": open_windows, "late": 3, "dropped": 1}


@job
def deleted_checkpoint(job: Job) -> Truth:
    import shutil

    shown = job.run(by_window(job.late(STEADY)))
    shutil.rmtree(job.checkpoint)
    return shown | {"watermark_ms": ms(54), "open": None, "gone": True}


@job
def nothing_to_read(job: Job) -> Truth:
    return job.run(by_window(job.late([]))) | {"watermark_ms": None, "open": None}
