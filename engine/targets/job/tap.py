"""`tap(df, time, channel)`: one `observe` before a watermark, which shows event time input by input.

Sketches count in one pass without a shuffle, exactly up to 4,096 keys per batch; beyond that they keep a fair sample of
the keys and report it. Their arguments are columns computed before, in generated code: inside such an aggregate Spark
interprets an expression row by row. Channels are hashed as bytes: strings would be encoded twice.
"""

import itertools
import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import functions as F

from ...system.errors import UsageError, one_line
from ..spark.plan import TAP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NO_CHANNEL = "(none)"
LOG_KEYS = 12
"""Base-2 logarithm of the number of keys up to which sketches are exact."""
NAMES = 1000
"""Channels known by name, at most; others are known by a hash."""

_MS, _MS_DOUBLE, _BUCKET = "__wmtop_ms", "__wmtop_ms_double", "__wmtop_bucket"
_CHANNEL, _CHANNEL_KEY = "__wmtop_channel", "__wmtop_channel_key"
_log = logging.getLogger("wmtop")
_numbers: dict[str, Iterator[int]] = {}


def tap(
    df: "DataFrame",
    time: str,
    channel: "str | Column | None" = None,
    *,
    name: str | None = None,
    bucket_ms: int = 10_000,
) -> "DataFrame":
    """See `wmtop.engine.tap`."""
    if bucket_ms < 1:
        raise UsageError(f"tap: bucket_ms={bucket_ms!r} is not a width, e.g. 10_000", code="no_width")
    sketches = hasattr(F, "tuple_sketch_agg_double")
    if not sketches:
        _log.warning(
            "wmtop tap: Spark %s has no tuple sketches (new in 4.3): %s is seen as a whole, not by channel",
            pyspark.__version__,
            one_line(name or time),
        )
    ms = F.col(_MS)
    steps: list[dict[str, Column]] = [{_MS: _milliseconds(df, time)}]
    measures = [
        F.count(F.lit(1)).alias("rows"),
        (F.count(F.lit(1)) - F.count(ms)).alias("nulls"),
        F.min(ms).alias("min_ms"),
        F.max(ms).alias("max_ms"),
    ]
    if sketches:
        steps.append({_BUCKET: ms - F.pmod(ms, F.lit(bucket_ms))})
        measures += [
            F.max(F.lit(bucket_ms)).alias("bucket_ms"),
            _by(_BUCKET, F.lit(1.0), "sum").alias("rows_by_bucket"),
        ]
    if sketches and channel is not None:
        column = F.col(channel) if isinstance(channel, str) else channel
        named = F.coalesce(F.nullif(column.cast("string"), F.lit("")), F.lit(NO_CHANNEL))
        steps[1] |= {_CHANNEL: F.when(ms.isNotNull(), named), _MS_DOUBLE: ms.cast("double")}
        steps.append({_CHANNEL_KEY: F.col(_CHANNEL).cast("binary")})
        names = F.expr(f"to_json(transform(approx_top_k({_CHANNEL}, {NAMES}, {2 * NAMES}), found -> found.item))")
        measures += [
            _by(_CHANNEL_KEY, F.col(_MS_DOUBLE), "max").alias("max_by_channel"),
            _by(_CHANNEL_KEY, F.lit(1.0), "sum").alias("rows_by_channel"),
            names.alias("channel_names"),
        ]
    prepared = df
    for columns in steps:
        prepared = prepared.withColumns(columns)
    return prepared.observe(TAP + _name(name or time), *measures).drop(*(name for step in steps for name in step))


def _by(key: str, value: "Column", mode: str) -> "Column":
    return F.tuple_sketch_agg_double(key, value, LOG_KEYS, mode)


def _milliseconds(df: "DataFrame", time: str) -> "Column":
    kind = df.select(time).schema[0].dataType.simpleString()
    if kind != "timestamp":
        ntz = f"; convert it first: to_timestamp({time})" if kind == "timestamp_ntz" else ""
        raise UsageError(
            f"tap: {time!r} is of type {kind}: give the event-time column that withWatermark gets{ntz}", code="no_time"
        )
    return F.unix_millis(time)


def _name(wanted: str) -> str:
    """The input's name, unique in this process: a query refuses two observes with the same name."""
    clean = re.sub(r"[\s,]+", " ", wanted).strip()[:80]
    number = next(_numbers.setdefault(clean, itertools.count(1)))
    return clean if number == 1 else f"{clean}-{number}"
