"""Running a source's query in a test: what each batch held."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from wmtop.engine.pipeline.sources.base import Source

Row = dict[str, Any]
PATIENCE_S = 120


def read_batches(
    spark: "SparkSession", source: "Source", checkpoint: Path, *, batches: int | None = None, rows: int | None = None
) -> dict[int, list[Row]]:
    """Rows by batch, in order of offset; until the query ends by itself, or has given `batches` or `rows` in all."""
    seen: dict[int, list[Row]] = {}

    def note(frame: "DataFrame", batch: int) -> None:
        seen[batch] = frame.orderBy("offset").toArrow().to_pylist()

    query = (
        source.load(spark)
        .writeStream.foreachBatch(note)
        .option("checkpointLocation", str(checkpoint))
        .trigger(**source.trigger())
        .start()
    )
    until = time.monotonic() + PATIENCE_S
    while query.isActive and not (_enough(seen, batches, rows) and (checkpoint / f"commits/{max(seen)}").exists()):
        assert time.monotonic() < until, f"no end after {PATIENCE_S} s: {seen}"
        time.sleep(0.02)
    error = query.exception()
    query.stop()
    if error is not None:
        raise error
    return seen


def _enough(seen: dict[int, list[Row]], batches: int | None, rows: int | None) -> bool:
    if batches is not None and len(seen) >= batches:
        return True
    return rows is not None and sum(map(len, list(seen.values()))) >= rows
