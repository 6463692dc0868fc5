"""wmtop's engine: watermark semantics (core), the Spark pipeline, and the stream that screens read.

Jobs import `publish` and `tap` from here; that import loads nothing else of wmtop.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["publish", "tap"]


def publish(spark: "SparkSession") -> None:
    """Make the streaming queries of this session visible to `wmtop attach`; costs about half a millisecond of Python
    per batch.

    Call it once per session; a second call does nothing. It never waits for a reader and never raises: failures are
    logged as warnings, and the job continues. Needs a session of its own JVM (not Spark Connect).
    """
    from .targets.job import publish

    publish(spark)


def tap(
    df: "DataFrame",
    time: str,
    channel: "str | Column | None" = None,
    *,
    name: str | None = None,
    bucket_ms: int = 10_000,
) -> "DataFrame":
    """`df` with one `observe` of its event time: greatest and least per channel, and how many records would be late.

    Put it in front of `withWatermark`, once per input: `tap(events, "event_time", channel="partition")`. The result is
    in Spark's event log and in what `publish` writes. `name` identifies the input (default: the time column). Delays
    are exact to `bucket_ms`. A null or empty channel is `(none)`. UsageError for a column that is not a timestamp.
    """
    from .targets.job import tap

    return tap(df, time, channel, name=name, bucket_ms=bucket_ms)
