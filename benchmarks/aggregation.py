"""Where the engine's pass over a batch spends its time: the same 1M rows, with one more expression in each line."""

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from wmtop.engine.run.groups import Levels
from wmtop.engine.run.row_groups import Aggregation
from wmtop.engine.run.session import build_session, stop_session
from wmtop.engine.watermarks.lateness import bucket_edges
from wmtop.engine.watermarks.settings import Settings

from . import throughput

RUNS, COLD = 24, 12
HOUR = "ts - pmod(ts, 3600000L) as start"


def main() -> None:
    """Print the table."""
    spark = build_session(master="local[2]", archive=False)
    with tempfile.TemporaryDirectory() as path:
        directory = Path(path, "files")
        throughput.make_files(spark, directory, files=1)
        rows = spark.read.parquet(str(directory)).selectExpr(
            "channel", "unix_millis(time) as ts", "cast(null as bigint) as offset"
        )
        w0 = throughput.START_MS + throughput.ROWS * throughput.EVERY_MS * 9 // 10
        levels = Levels(w0 - 60_000, w0, w0)
        lines: dict[str, Callable[[], DataFrame]] = {
            "plain: `groupBy(window).count()`": lambda: _plain(rows),
            "count by start": lambda: rows.selectExpr("*", HOUR).groupBy("start").count(),
            "count by channel and start": lambda: rows.selectExpr("*", HOUR).groupBy("channel", "start").count(),
        }
        for name, guard, edges in (
            ("+ greatest time, behind, malformed", None, []),
            ("+ future guard", 300_000, []),
            ("+ bucket of W0 - ts: all that the engine does", 300_000, bucket_edges(60_000)),
        ):
            aggregation = Aggregation(Settings(lateness_ms=60_000, future_guard_ms=guard), edges, rows.columns)
            lines[name] = partial(aggregation.grouped, rows, levels)
        times: dict[str, list[float]] = {name: [] for name in lines}
        counts: dict[str, int] = {}
        for run in range(RUNS):
            for name, frame in lines.items():
                fresh = frame()  # one that was run before would only read its shuffle files
                began = time.perf_counter()
                counts[name] = fresh.toArrow().num_rows
                times[name] += [(time.perf_counter() - began) * 1000] if run >= COLD else []
    stop_session(spark)
    base = statistics.median(next(iter(times.values())))
    print("| 1M rows, 1,000 channels | groups | median | ratio |\n| --- | --- | --- | --- |")
    for name, spent in times.items():
        middle = statistics.median(spent)
        print(f"| {name} | {counts[name]:,} | {middle:.0f} ms | {middle / base:.2f}x |")


def _plain(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.window(F.timestamp_millis("ts"), "1 hour")).count()


if __name__ == "__main__":
    main()
