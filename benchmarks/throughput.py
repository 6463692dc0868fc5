"""The engine against plain Spark on the same files: 1M rows a batch, 1,000 channels (goal: 1.0x).

Plain Spark runs `withWatermark + groupBy(window).count()`. The engine keeps every channel's state and both histograms
of the what-if; `no what-if` is the engine with a strategy that has none. The sides take turns in one session; a figure
is the median over the batches of all its rounds, the first batches of a round left out: a query lives for days, and the
JVM takes some twenty batches to compile what it runs.
"""

import statistics
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from wmtop.engine.core.settings import Settings
from wmtop.engine.pipeline.durable import StateDirectory
from wmtop.engine.pipeline.query import Run
from wmtop.engine.pipeline.session import build_session, stop_session
from wmtop.engine.pipeline.sources.columns import Columns
from wmtop.engine.pipeline.sources.files import Files
from wmtop.engine.pipeline.sources.table_files import TableFile

BATCHES, ROWS, CHANNELS, ROUNDS, COLD = 25, 1_000_000, 1_000, 2, 10
START_MS, EVERY_MS, MEAN_DELAY_MS = 1_700_000_000_000, 2, 120_000


class OneFileABatch(Files):
    """The files source with a file a batch, as plain Spark gets them."""

    def _options(self, file: TableFile) -> dict[str, str]:
        options = super()._options(file)
        del options["maxBytesPerTrigger"]
        return options | {"maxFilesPerTrigger": "1"}


def make_files(spark: SparkSession, directory: Path, files: int = BATCHES) -> None:
    """Zipf-like channels, exponential delays: the rows of each file are one batch."""
    for number in range(files):
        rows = spark.range(number * ROWS, (number + 1) * ROWS, numPartitions=1).selectExpr(
            f"concat('channel-', cast(floor(pow(rand(1), 3) * {CHANNELS}) as int)) as channel",
            f"{START_MS}L + id * {EVERY_MS}L - cast(-ln(1 - rand(2)) * {MEAN_DELAY_MS} as bigint) as time",
        )
        rows = rows.selectExpr("channel", "timestamp_millis(time) as time")
        rows.write.mode("append").parquet(str(directory))


def plain(spark: SparkSession, directory: Path) -> list[dict[str, int]]:
    """The phases (ms) of plain Spark's batches."""
    rows = spark.readStream.schema("channel string, time timestamp").option("maxFilesPerTrigger", 1)
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


def engine(spark: SparkSession, directory: Path, settings: Settings) -> list[dict[str, int]]:
    """The phases (ms) of the engine's batches."""
    with tempfile.TemporaryDirectory() as path:
        state = StateDirectory(Path(path))
        state.lock()
        source = OneFileABatch(directory, Columns(time="time", channel="channel"), once=True)
        source.check()
        run = Run(source, settings, state, None, lambda: None)
        run.load(spark)
        run.start()
        query: Any = run._query
        query.awaitTermination()
        assert run.monitor.rows == BATCHES * ROWS
        times = phases(query.recentProgress)
        run.stop()
        state.unlock()
        return times


def phases(reports: list[Any]) -> list[dict[str, int]]:
    """The batches that had data, without a round's cold start."""
    return [report["durationMs"] for report in reports if "addBatch" in report["durationMs"]][COLD:]


def main() -> None:
    """Print the table, and what of a batch each phase takes."""
    spark = build_session(master="local[2]", archive=False)
    sides: dict[str, list[dict[str, int]]] = {"plain Spark": [], "engine": [], "engine, no what-if": []}
    with tempfile.TemporaryDirectory() as path:
        directory = Path(path, "files")
        make_files(spark, directory)
        for _ in range(ROUNDS):
            sides["plain Spark"] += plain(spark, directory)
            sides["engine"] += engine(spark, directory, Settings())
            sides["engine, no what-if"] += engine(spark, directory, Settings(strategy="monotonous", lateness_ms=0))
    stop_session(spark)
    whole = {name: [batch["triggerExecution"] for batch in batches] for name, batches in sides.items()}
    base = statistics.median(whole["plain Spark"])
    shown = [name for name in sides["plain Spark"][0] if name != "triggerExecution"]
    print("| side | batch of 1M rows, median | min | ratio | " + " | ".join(shown) + " |")
    print("| --- " * (4 + len(shown)) + "|")
    for name, times in whole.items():
        middle = statistics.median(times)
        parts = [f"{statistics.median(batch.get(phase, 0) for batch in sides[name]):.0f} ms" for phase in shown]
        print(f"| {name} | {middle:.0f} ms | {min(times)} ms | {middle / base:.2f}x | {' | '.join(parts)} |")


if __name__ == "__main__":
    main()
