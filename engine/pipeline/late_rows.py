"""The late records of a batch as rows: the same rules as the monitor's counts, as native expressions.

Values that change from batch to batch are data, not code, so that Spark does not compile again for each batch (as in
`aggregate`).
"""

from typing import TYPE_CHECKING

from ..core.late_records import LateRecords
from ..core.settings import Session, Settings
from ..core.times import MAX
from .aggregate import SHORT_NAME_SQL, start_sql
from .sources.base import CHANNEL, TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LATE_CHANNEL, LATE_TIME, LATE_WATERMARK, LATE_WINDOW_END, LATE_BY = ADDED = (
    "wmtop_channel",
    "wmtop_time_ms",
    "wmtop_watermark_ms",
    "wmtop_window_end_ms",
    "wmtop_late_by_ms",
)
"""Columns added to a late record's own (all bigint ms except the channel): the watermark that dropped it (as shown:
plus 1 under Spark's rule; null after the end of stream), the end of its last window (null in a gap between windows),
and the watermark minus that window's greatest timestamp (in a gap: minus the record's own).
"""


class LateRows:
    """The expressions of one run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def of(self, batch: "DataFrame", late: LateRecords) -> "DataFrame":
        """The late records of a batch, with `ADDED` besides the columns of `batch`."""
        level = shown = _constant(late.level)
        if self._settings.strategy == "spark":
            shown = f"{level} + 1L"
        if late.level == MAX:  # never shown as a number
            level = shown = "cast(null as bigint)"
        return (
            self._placed(batch, late, "inner")
            .where("is_late")
            .selectExpr(
                *batch.columns,
                f"{CHANNEL} as {LATE_CHANNEL}",
                f"{TIME} as {LATE_TIME}",
                f"{shown} as {LATE_WATERMARK}",
                f"_end as {LATE_WINDOW_END}",
                f"try_subtract({level}, coalesce(_end - 1L, {TIME})) as {LATE_BY}",
            )
        )

    def flagged(self, batch: "DataFrame", late: LateRecords) -> "DataFrame":
        """All records of a batch with `is_late` (boolean) besides the columns of `batch`."""
        if not late.records:
            return batch.selectExpr("*", "false as is_late")
        return self._placed(batch, late, "left").selectExpr(*batch.columns, "coalesce(is_late, false) as is_late")

    def _placed(self, batch: "DataFrame", late: LateRecords, join: str) -> "DataFrame":
        """The batch with the end of each record's last window (`_end`), and whether that window is gone (`is_late`)."""
        from pyspark.sql import functions as F

        window = self._settings.spec
        rows = batch.withColumn(CHANNEL, F.expr(SHORT_NAME_SQL)).selectExpr("*", f"{start_sql(window)} as _start")
        if isinstance(window, Session):
            return self._in_sessions(rows, late, join)
        return self._in_windows(rows, late)

    def _in_windows(self, rows: "DataFrame", late: LateRecords) -> "DataFrame":
        window = self._settings.spec
        assert not isinstance(window, Session)
        end = f"_start + {window.size_ms}L"
        if window.slide_ms > window.size_ms:
            end = f"if({TIME} < {end}, {end}, null)"
        # Saturates like the windows: at the end of stream everything is late.
        limit = late.level if late.level == MAX else late.level - self._settings.allowed_lateness_ms
        rows = rows.selectExpr("*", f"{end} as _end")
        return rows.selectExpr("*", f"coalesce(_end - 1L, {TIME}) <= {_constant(limit)} as is_late")

    def _in_sessions(self, rows: "DataFrame", late: LateRecords, join: str) -> "DataFrame":
        import pyarrow as pa

        sessions = late.sessions or {}
        cells = pa.table(
            {"_start": pa.array(list(sessions), pa.int64()), "_end": pa.array(list(sessions.values()), pa.int64())}
        )
        created = rows.sparkSession.createDataFrame(cells)  # pyright: ignore[reportArgumentType, reportCallIssue]
        dropped = created.selectExpr("*", "true as is_late").hint("broadcast")  # pyright: ignore[reportUnknownMemberType]
        return rows.join(dropped, "_start", join)


def _constant(value: int) -> str:
    """A number that Spark reads from data at run time instead of compiling it into the code."""
    return f"element_at(array({value}L), cast({TIME} & 0L as int) + 1)"
