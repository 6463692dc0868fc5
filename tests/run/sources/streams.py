"""Running a source's query in a test: what each batch held."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmtop.engine.run.sources.base import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from wmtop.engine.run.sources.base import Source

Row = dict[str, Any]
PATIENCE_S = 120


def read_batches(
    spark: "SparkSession",
    source: "Source",
    checkpoint: Path,
    *,
    batches: int | None = None,
    rows: int | None = None,
    first_row: int = 0,
) -> dict[int, list[Row]]:
    """Rows by batch, in order of offset; until the query ends by itself, or has given `batches` or `rows` (of a replay:
    all from `first_row` on).
    """
    seen: dict[int, list[Row]] = {}
    read = first_row
    reader = source.load(spark, as_columns=False)

    def note(frame: "DataFrame", batch: int) -> None:
        nonlocal read
        end = None
        while source.planner is not None and (end := source.planner.plan(batch, read)) is None:
            frame.sparkSession._jvm.java.lang.Thread.sleep(20)
        rows, read = reader.rows(Batch(frame, read, [str(end)])), end or 0
        seen[batch] = rows.orderBy("offset").toArrow().to_pylist()

    if source.planner is not None:
        source.planner.resume(max(map(int, listed(checkpoint / "commits")), default=None))
    query = (
        reader.frame.writeStream.foreachBatch(note)
        .option("checkpointLocation", str(checkpoint))
        .trigger(**source.trigger())
        .start()
    )
    until = time.monotonic() + PATIENCE_S
    rows = source.rows_in_all - first_row if rows is None and source.rows_in_all is not None else rows
    while query.isActive and not (_enough(seen, batches, rows) and (checkpoint / f"commits/{max(seen)}").exists()):
        if source.planner is not None and source.planner.ended:
            break
        assert time.monotonic() < until, f"no end after {PATIENCE_S} s: {seen}"
        time.sleep(0.02)
    error = query.exception()
    query.stop()
    if error is not None:
        raise error
    return seen


def listed(directory: Path) -> list[str]:
    """The names of the files of Spark's log."""
    return [file.name for file in directory.iterdir() if file.name.isdecimal()] if directory.exists() else []


def _enough(seen: dict[int, list[Row]], batches: int | None, rows: int | None) -> bool:
    if batches is not None and len(seen) >= batches:
        return True
    return rows is not None and sum(map(len, list(seen.values()))) >= rows
