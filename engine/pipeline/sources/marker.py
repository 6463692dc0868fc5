"""`--marker SQL`: evaluates a user's condition besides the canonical columns."""

from typing import TYPE_CHECKING

from ...errors import UsageError, first_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def marked(rows: "DataFrame", condition: str, canonical: list[str], name: str) -> "DataFrame":
    """`canonical` (SQL) and, as `name`, whether `condition` is true; `UsageError` if it does not fit `rows`."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        kind = rows.selectExpr(f"({condition}) as {name}").schema[name].dataType.typeName()
    except (AnalysisException, ParseException) as error:
        reason = first_line(error.getMessage() or error)
        raise UsageError(f"--marker: {condition!r} is not a condition on the columns: {reason}") from None
    if kind not in ("boolean", "void"):
        raise UsageError(f"--marker: {condition!r} is of type {kind}, not boolean; write it as in: kind = 'marker'")
    return rows.selectExpr(*canonical, f"coalesce(({condition}), false) as {name}")
