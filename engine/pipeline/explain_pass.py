"""The pass of `--explain` over a batch: tasks read a file's columns, or the rows that Spark reads.

On a cluster whose machines may not have wmtop, Spark's own expressions count (`explain_rows`).
"""

# pyright: reportUnknownMemberType=false
# (pyarrow is only partly typed.)

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from ..core.explain import SeenValues
from .arrow_map import map_in_arrow
from .columnar import tables_of
from .explain_columns import Explaining, seen_in, together
from .sources.base import ARRIVAL, CHANNEL, TIME
from .sources.parquet_rows import NotReadableError
from .sources.record_columns import EXPLAIN, EXPLAINED, STAMPED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS = 1 << 20
"""Rows processed together."""

Read = Callable[[Any], "Iterator[pa.Table]"]


def seen_in_shares(spark: "SparkSession", shares: list[list[Any]], read: Read, work: Explaining) -> SeenValues | None:
    """The report on a batch's shares; None if Spark's own reader must read them."""
    if not shares:
        return SeenValues(unreported=[0] * len(work.focus.values))
    answers: list[bytes | None] = (
        spark.sparkContext.parallelize(shares, len(shares)).mapPartitions(_share_task(read, work)).collect()
    )
    if None in answers:
        return None
    return _together([answer for answer in answers if answer is not None], work)


def seen_in_rows(batch: "DataFrame", work: Explaining) -> SeenValues:
    """The report on a batch's rows, in their order within Spark's partitions."""
    columns = len(work.focus.values)
    wanted = [CHANNEL, TIME, *(name for name in (ARRIVAL, STAMPED) if name in batch.columns)]
    rows = batch.selectExpr(*wanted, *(f"{EXPLAINED}[{number}] as {EXPLAIN}{number}" for number in range(columns)))
    found: Any = map_in_arrow(rows, _row_task(work), "seen binary").toArrow()
    return _together(found["seen"].to_pylist(), work)


def _together(answers: list[bytes], work: Explaining) -> SeenValues:
    reports = [report for answer in answers for report in msgspec.msgpack.decode(answer, type=list[SeenValues])]
    return together(reports, len(work.focus.values))


def _share_task(read: Read, work: Explaining) -> Callable[[Iterable[list[Any]]], Iterator[bytes | None]]:
    def run(shares: Iterable[list[Any]]) -> Iterator[bytes | None]:
        for share in shares:
            try:
                yield msgspec.msgpack.encode([seen_in(rows, work) for rows in tables_of(share, read)])
            except NotReadableError:
                yield None

    return run


def _row_task(work: Explaining) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    def run(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        reports: list[SeenValues] = []
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= _ROWS:
                reports.append(seen_in(pa.Table.from_batches(waiting), work))
                waiting, rows = [], 0
        if rows:
            reports.append(seen_in(pa.Table.from_batches(waiting), work))
        if reports:
            yield pa.RecordBatch.from_pydict({"seen": [msgspec.msgpack.encode(reports)]})

    return run
