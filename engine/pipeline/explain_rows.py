"""The values of the columns of `--explain` in one batch: one grouping by Spark of each record's values."""

from typing import TYPE_CHECKING, Any

from ..core.explain import MOST_OF_BATCH, Delays, SeenValue
from ..core.late_records import LateRecords
from .late_rows import LateRows
from .sources.base import ARRIVAL, NO_CHANNEL, TIME
from .sources.record_columns import EXPLAINED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LONGEST = 200
"""Longer values are cut to so many characters."""


def seen_values(batch: "DataFrame", rows: LateRows, late: LateRecords, now_ms: int | None) -> list[SeenValue]:
    """What the values of a batch's records are, and how many of each are late.

    Arrival is each record's own in a replay, else the batch's processing time `now_ms`.
    """
    arrival = ARRIVAL if ARRIVAL in batch.columns else "cast(null as bigint)" if now_ms is None else f"{now_ms}L"
    counted = (
        rows.flagged(batch, late)
        .where(f"{TIME} is not null")
        .selectExpr("is_late", f"{arrival} - {TIME} as delay", f"posexplode({EXPLAINED}) as (number, raw)")
        .selectExpr("is_late", "delay", "number", f"coalesce(left(raw, {_LONGEST}), '{NO_CHANNEL}') as value")
        .groupBy("number", "value")
    )
    from pyspark.sql import functions as F

    table = counted.agg(
        F.expr("count(1) as records"),
        F.expr("sum(if(is_late, 1L, 0L)) as late"),
        F.expr("percentile_approx(delay, array(0.05D, 0.5D, 0.95D), 200) as delays"),
    )
    ranked = table.selectExpr(
        "*", "row_number() over (partition by number order by late desc, records desc, value) as place"
    )
    found: list[dict[str, Any]] = ranked.where(f"place <= {MOST_OF_BATCH}").drop("place").toArrow().to_pylist()
    return [
        SeenValue(row["number"], row["value"], row["records"], row["late"], _delays(row["delays"])) for row in found
    ]


def _delays(values: list[int] | None) -> Delays | None:
    return Delays(*map(float, values)) if values else None
