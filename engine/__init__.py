"""wmtop's engine: watermark semantics (core), the Spark pipeline, and the stream that screens read.

Jobs import `publish` and `tap` from here; that import loads nothing else of wmtop.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["publish", "tap"]


def publish(spark: "SparkSession") -> None:
    """Make the streaming queries of this session visible to `wmtop attach`; costs about half a millisecond of Python
    per batch.

    Call it once per session; a second call does nothing. It never waits for a reader and never raises: failures are
    logged as warnings, and the job continues. Needs a session of its own JVM (not Spark Connect).
    """
    from .job.publish import publish

    publish(spark)


def tap(
    df: "DataFrame",
    time: str,
    channel: "str | Column | None" = None,
    *,
    name: str | None = None,
    bucket_ms: int = 10_000,
    explain: "Sequence[str]" = (),
) -> "DataFrame":
    """`df` with one `observe` of its event time: greatest and least per channel, and how many records would be late.

    Put it in front of `withWatermark`, once per input: `tap(events, "event_time", channel="partition")`. The result is
    in Spark's event log and in what `publish` writes. `name` identifies the input (default: the time column). Delays
    are exact to `bucket_ms`. A null or empty channel is `(none)`. UsageError for a column that is not a timestamp.

    `explain=["device"]` (up to 4 columns, from Spark 4.3) also counts which of their values are behind the watermark:
    exact up to 4,096 pairs of value and event-time bucket per batch; beyond that, from a fair sample of the pairs.
    """
    from .job.tap import tap

    return tap(df, time, channel, name=name, bucket_ms=bucket_ms, explain=explain)
