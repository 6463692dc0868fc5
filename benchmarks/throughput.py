"""The engine against plain Spark on the same files: 1,000 channels, 1M and 8M rows a batch (goal: 0.33x; rows: 1.0x).

Plain Spark runs `withWatermark + groupBy(window).count()`. The engine keeps every channel's state and both histograms
of the what-if: `columns` is what it does with Parquet files, `rows` what it does with any other source; `no what-if` is
`rows` with a strategy that has none. The sides take turns, a short round each, in one session; a figure is the median
over the batches of all its rounds, the first batches of a round and the first round left out: a query lives for days,
and the JVM takes some twenty batches to compile what it runs. Events per CPU-second count the CPU of the whole process
tree (JVM, workers and driver) over whole rounds, starting and stopping the query included.
"""

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from wmtop.engine.run.durable_state import StateDirectory
from wmtop.engine.run.query import Run
from wmtop.engine.run.session import build_session, stop_session
from wmtop.engine.run.sources.columns import Columns
from wmtop.engine.run.sources.files import Files
from wmtop.engine.run.sources.table_files import TableFile
from wmtop.engine.watermarks.monitor import Monitor
from wmtop.engine.watermarks.settings import Settings

from .machine import tree_cpu_s

FILES, ROWS, CHANNELS, ROUNDS, COLD = 24, 1_000_000, 1_000, 3, 3
FILES_A_BATCH = (1, 8)
START_MS, EVERY_MS, MEAN_DELAY_MS = 1_700_000_000_000, 2, 120_000


class FilesABatch(Files):
    """The files source with `files` files per batch, like plain Spark's."""

    files = 1

    def _options(self, file: TableFile) -> dict[str, str]:
        options = super()._options(file)
        del options["maxBytesPerTrigger"]
        return options | {"maxFilesPerTrigger": str(self.files)}


class InRows(FilesABatch):
    """The same records as Spark's rows, like any source that cannot be read as columns."""

    def has_columns(self, spark: SparkSession) -> bool:
        """No columnar way."""
        return False


def make_files(spark: SparkSession, directory: Path, files: int = FILES, channels: int = CHANNELS) -> None:
    """Zipf-like channels, exponential delays: the rows of each file are one batch."""
    for number in range(files):
        rows = spark.range(number * ROWS, (number + 1) * ROWS, numPartitions=1).selectExpr(
            f"concat('channel-', cast(floor(pow(rand(1), 3) * {channels}) as int)) as channel",
            f"{START_MS}L + id * {EVERY_MS}L - cast(-ln(1 - rand(2)) * {MEAN_DELAY_MS} as bigint) as time",
        )
        rows = rows.selectExpr("channel", "timestamp_millis(time) as time")
        rows.write.mode("append").parquet(str(directory))


def plain(spark: SparkSession, directory: Path, files: int) -> list[dict[str, int]]:
    """The phases (ms) of plain Spark's batches."""
    rows = spark.readStream.schema("channel string, time timestamp").option("maxFilesPerTrigger", files)
    counts = (
        rows.parquet(str(directory)).withWatermark("time", "30 minutes").groupBy(F.window("time", "1 hour")).count()
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            counts.writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return phases(query.recentProgress)


def engine(spark: SparkSession, source: Files, settings: Settings) -> list[dict[str, int]]:
    """The phases (ms) of the engine's batches."""
    monitor, reports = run_to_end(spark, source, settings)
    assert monitor.rows == FILES * ROWS
    return phases(reports)


def run_to_end(
    spark: SparkSession, source: Files, settings: Settings, late_output: str | None = None
) -> tuple[Monitor, list[Any]]:
    """The monitor at the end of a run of its own, and Spark's report of each batch."""
    with tempfile.TemporaryDirectory() as path:
        state = StateDirectory(Path(path))
        state.lock()
        source.check()
        run = Run(source, settings, state, None, lambda: None, late_output=late_output)
        run.load(spark)
        run.start()
        query: Any = run._query
        query.awaitTermination()
        reports = query.recentProgress
        run.stop()
        state.unlock()
        return run.monitor, reports


def phases(reports: list[Any]) -> list[dict[str, int]]:
    """The batches that had data."""
    return [report["durationMs"] for report in reports if "addBatch" in report["durationMs"]]


def main() -> None:
    """Print a table for each size of batches, with the time of each phase."""
    spark = build_session(master="local[2]", archive=False)
    with tempfile.TemporaryDirectory() as path:
        directory = Path(path, "files")
        make_files(spark, directory)
        for files in FILES_A_BATCH:
            compare(spark, directory, files)
    stop_session(spark)


def compare(spark: SparkSession, directory: Path, files: int) -> None:
    """Compare all sides with `files` files per batch."""
    FilesABatch.files = files
    columns = Columns(time="time", channel="channel")
    without = Settings(strategy="monotonous", lateness_ms=0)
    sides: dict[str, Callable[[], list[dict[str, int]]]] = {
        "plain Spark": lambda: plain(spark, directory, files),
        "engine, columns": lambda: engine(spark, FilesABatch(directory, columns, once=True), Settings()),
        "engine, rows": lambda: engine(spark, InRows(directory, columns, once=True), Settings()),
        "engine, rows, no what-if": lambda: engine(spark, InRows(directory, columns, once=True), without),
    }
    batches: dict[str, list[dict[str, int]]] = {name: [] for name in sides}
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for round_ in range(ROUNDS):
        for name, run in sides.items():
            before = tree_cpu_s()
            reports = run()
            if round_:
                rates[name].append(FILES * ROWS / (tree_cpu_s() - before) / 1e6)
                batches[name] += reports[COLD if files == 1 else 1 :]
    shown = [name for name in batches["plain Spark"][0] if name != "triggerExecution"]
    base = statistics.median(batch["triggerExecution"] for batch in batches["plain Spark"])
    print(f"| {files}M rows a batch | median | quartiles | ratio | events per CPU-second | " + " | ".join(shown) + " |")
    print("| --- " * (5 + len(shown)) + "|")
    for name, reports in batches.items():
        low, middle, high = statistics.quantiles([batch["triggerExecution"] for batch in reports], n=4)
        parts = [f"{statistics.median(batch.get(phase, 0) for batch in reports):.0f} ms" for phase in shown]
        rate = f"{statistics.median(rates[name]):.1f}M"
        print(
            f"| {name} | {middle:.0f} ms | {low:.0f}-{high:.0f} ms | {middle / base:.2f}x | {rate} | "
            + " | ".join(parts) + " |", flush=True
        )  # fmt: skip


if __name__ == "__main__":
    main()
