"""The values of the `--explain` columns in one batch: from Arrow columns that tasks read, or from rows by Spark.

Both yield `ValueRow`s, which `merged` adds up; each reports the values with most late records, then most records.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from ..watermarks.explain import LONGEST, MAX_VALUES, ValueRow, Values, merged
from ..watermarks.settings import Session, Settings
from ..watermarks.times import MAX
from ..watermarks.window_operator import LateRecords
from .arrow_tasks import Flags, Longs, starts_every
from .column_groups import longs, tables_of
from .late_output import LateRows
from .sources.base import EXPLAIN, EXPLAINED, NO_CHANNEL, TIME
from .sources.file_rows import NotReadableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[[Any], "Iterator[pa.Table]"]


class Explaining(Struct, frozen=True):
    """The input of every task: what makes a record late, and the number of columns."""

    settings: Settings
    late: LateRecords
    columns: int


def values_in_shares(
    spark: "SparkSession", shares: list[list[Any]], read: Read, work: Explaining
) -> list[Values] | None:
    """The counts of a batch's shares, read by tasks; None if Spark's own reader must read them."""
    reports: list[list[ValueRow]] = []
    if shares:
        tasks = spark.sparkContext.parallelize(shares, len(shares)).mapPartitions(_share_task(read, work))
        for report in tasks.collect():
            if report is None:
                return None
            reports.append(report)
    return merged(reports, work.columns)


def _share_task(read: Read, work: Explaining) -> Callable[[Iterable[list[Any]]], Iterator[list[ValueRow] | None]]:
    def run(shares: Iterable[list[Any]]) -> Iterator[list[ValueRow] | None]:
        for share in shares:
            try:
                yield from [value_rows(rows, work) for rows in tables_of(share, read)]
            except NotReadableError:
                yield None

    return run


def values_in_rows(batch: "DataFrame", work: Explaining) -> list[Values]:
    """The counts of a batch's rows, by Spark's expressions."""
    from pyspark.sql import functions as F

    counted = (
        LateRows(work.settings)
        .flagged(batch, work.late)
        .where(f"{TIME} is not null")
        .selectExpr("is_late", f"posexplode({EXPLAINED}) as (number, raw)")
        .groupBy("number", F.expr(f"coalesce(left(raw, {LONGEST}), '{NO_CHANNEL}')").alias("value"))
        .agg(F.expr("count_if(is_late) as late"), F.expr("count(1) as records"))
    )
    place = "row_number() over (partition by number order by late desc, records desc, value)"
    kept = (
        counted.selectExpr("*", f"{place} <= {MAX_VALUES} as kept")
        .groupBy("number", F.expr("if(kept, value, null)").alias("value"))
        .agg(F.expr("max(if(kept, late, 0L)) as late"), F.expr("max(records) as records"))
    )
    found: list[dict[str, Any]] = kept.toArrow().to_pylist()
    return merged([[(row["number"], row["value"], row["late"], row["records"]) for row in found]], work.columns)


def value_rows(rows: "pa.Table", work: Explaining) -> list[ValueRow]:
    """The same of a table with the time, and each column's values (text, null: no value) under its number."""
    if rows[TIME].null_count:
        rows = rows.filter(rows[TIME].is_valid())
    late = pa.array(_late(longs(rows[TIME])[0], work.settings, work.late))
    return [row for number in range(work.columns) for row in _column(number, rows[f"{EXPLAIN}{number}"], late)]


def _column(number: int, values: Any, late: Any) -> Iterator[ValueRow]:
    each: Any = pa.table({"value": values, "late": late, "records": pa.repeat(1, len(late))}).unify_dictionaries()
    found = _sums(each.combine_chunks())
    names: Any = pc.utf8_slice_codeunits(found["value"].cast(pa.string()), 0, LONGEST)
    found = _sums(found.set_column(0, "value", names.fill_null(NO_CHANNEL)))  # cut values may coincide
    found = found.sort_by([("late", "descending"), ("records", "descending"), ("value", "ascending")])
    for row in found.slice(0, MAX_VALUES).to_pylist():
        yield number, row["value"], row["late"], row["records"]
    if found.num_rows > MAX_VALUES:
        yield number, None, 0, pc.max(found["records"].slice(MAX_VALUES)).as_py()


def _sums(rows: Any) -> Any:
    sums = rows.group_by("value", use_threads=False).aggregate([("late", "sum"), ("records", "sum")])
    return sums.select(["value", "late_sum", "records_sum"]).rename_columns(["value", "late", "records"])


def _late(times: Longs, settings: Settings, late: LateRecords) -> Flags:
    """Which records with these event times (ms) are dropped: `LateRows` for columns."""
    if not late.records:
        return np.zeros(len(times), np.bool_)
    window = settings.spec
    every, offset = starts_every(settings)
    starts = (times - offset) // every * every + offset
    if isinstance(window, Session):
        return np.isin(starts, np.array(list(late.sessions or ()), np.int64))
    limit = late.level if late.level == MAX else late.level - settings.allowed_lateness_ms
    last = starts + window.size_ms - 1
    if window.slide_ms > window.size_ms:
        last = np.where(times <= last, last, times)
    return last <= limit
