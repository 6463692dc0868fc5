"""The values of the `--explain` columns in one batch, by Spark's expressions: for machines without wmtop."""

from typing import TYPE_CHECKING, Any

from ..core.explain import MOST_OF_BATCH, SeenValue, SeenValues
from ..core.explain_clocks import DelayPoint, weighted_median
from ..core.late_records import LateRecords
from .explain_columns import LONGEST
from .late_rows import LateRows
from .sources.base import ARRIVAL, NO_CHANNEL, TIME
from .sources.record_columns import EXPLAINED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def seen_values(batch: "DataFrame", rows: LateRows, late: LateRecords, now_ms: int | None) -> SeenValues:
    """The values of a batch's records, and how many of each are late.

    Arrival is each record's own in a replay, else the batch's processing time `now_ms`. Distances behind W0 and the
    values of single channels are not counted.
    """
    from pyspark.sql import functions as F

    arrival = ARRIVAL if ARRIVAL in batch.columns else "cast(null as bigint)" if now_ms is None else f"{now_ms}L"
    counted = (
        rows.flagged(batch, late)
        .where(f"{TIME} is not null")
        .selectExpr("is_late", TIME, f"{arrival} - {TIME} as delay", f"posexplode({EXPLAINED}) as (number, raw)")
        .selectExpr("is_late", TIME, "delay", "number", f"coalesce(left(raw, {LONGEST}), '{NO_CHANNEL}') as value")
        .groupBy("number", "value")
    )
    table = counted.agg(
        F.expr("count(1) as records"),
        F.expr("sum(if(is_late, 1L, 0L)) as late"),
        F.expr("percentile_approx(delay, array(0.05D, 0.5D, 0.95D), 200) as delays"),
        F.expr(f"cast(avg({TIME}) as bigint) as at"),
    )
    ranked = table.selectExpr(
        "*", "row_number() over (partition by number order by late desc, records desc, value) as place"
    )
    found: list[dict[str, Any]] = ranked.where(f"place <= {MOST_OF_BATCH + 1}").toArrow().to_pylist()
    reported = [row for row in found if row["place"] <= MOST_OF_BATCH]
    left = {row["number"]: row["records"] for row in found if row["place"] > MOST_OF_BATCH}
    columns = 1 + max((row["number"] for row in found), default=-1)
    return SeenValues(_relative(reported), unreported=[left.get(number, 0) for number in range(columns)])


def _relative(rows: list[dict[str, Any]]) -> list[SeenValue]:
    """The values, with distances relative to the usual one of their column in the batch."""
    seen: list[SeenValue] = []
    for number in {row["number"] for row in rows}:
        mine = [row for row in rows if row["number"] == number]
        usual = weighted_median([(row["delays"][1], row["records"]) for row in mine if row["delays"]])
        at = int(weighted_median([(row["at"], row["records"]) for row in mine]))
        for row in mine:
            points = (
                (DelayPoint(at, row["records"], *(delay - usual for delay in row["delays"])),) if row["delays"] else ()
            )
            seen.append(SeenValue(number, row["value"], row["records"], row["late"], points))
    return seen
