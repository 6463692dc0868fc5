"""Jobs with other state than windows, and without any."""

from typing import Any

from pyspark.sql import functions as F

from .job import ALL, ROCKSDB, START_MS, STEADY, Job, Row, Truth, by_window, job, ms, since, windows

LATE: list[list[Row]] = [*STEADY, [(1, "a"), (2, "a"), (2, "b"), (80, "a")]]
"""Three late rows, two of them of one key."""


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
def dedup_then_windows(job: Job) -> Truth:
    df = job.late([*STEADY, STEADY[2]]).dropDuplicatesWithinWatermark(["key", "ts"])
    shown = job.run(df.groupBy(F.window("ts", "10 seconds")).count())
    return shown | {"watermark_ms": ms(54), "open": windows(ALL, 10, after=54), "at": 0}


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
        job.late(LATE)
        .groupBy("key")
        .applyInPandasWithState(count, "key string", "number long", "append", GroupStateTimeout.EventTimeTimeout)
    )
    return job.run(df) | {"watermark_ms": ms(70), "open": None, "late": 3}


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

    df = job.late(LATE).groupBy("key")
    df = df.transformWithStateInPandas(Count(), "key string", "Append", "EventTime")
    return job.run(df, stateStore_providerClass=ROCKSDB) | {"watermark_ms": ms(70), "open": None, "late": 3}


@job
def key_lacks_window(job: Job) -> Truth:
    shown = job.run(job.late(STEADY).groupBy("key").count(), "update")
    return shown | {"watermark_ms": ms(54), "open": None, "keeps_forever": True}


@job
def no_watermark(job: Job) -> Truth:
    return job.run(job.read(STEADY)) | {"watermark_ms": None, "open": None, "no_watermark": True}


@job
def stateless_watermark(job: Job) -> Truth:
    return job.run(job.late(STEADY).select("key")) | {"watermark_ms": ms(54), "open": None}


@job
def rocksdb(job: Job) -> Truth:
    shown = job.run(by_window(job.late(STEADY)), stateStore_providerClass=ROCKSDB)
    return shown | {"watermark_ms": ms(54), "open": None, "by_spark": windows(ALL, 10, after=54)}


@job
@since("4.0")
def new_formats(job: Job) -> Truth:
    shown = job.run(
        by_window(job.late(STEADY)), stateStore_checkpointFormatVersion="2", stateStore_providerClass=ROCKSDB
    )
    return shown | {"watermark_ms": ms(54), "open": None, "by_spark": windows(ALL, 10, after=54)}


@job
def dedup_within_watermark_late(job: Job) -> Truth:
    files = [*STEADY, [(1, "x"), (2, "x"), (2, "y"), (80, "a")]]
    shown = job.run(job.late(files).dropDuplicatesWithinWatermark(["key"]))
    return shown | {"watermark_ms": ms(70), "open": None, "late": 3}


@job
def dedup_without_the_time(job: Job) -> Truth:
    """The watermark is not among the columns: no key is ever forgotten."""
    shown = job.run(job.late(STEADY).dropDuplicates(["key"]))
    return shown | {"watermark_ms": ms(54), "open": None, "keeps_forever": True}
