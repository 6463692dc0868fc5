"""The engine against plain Spark as in `throughput`, with other channels, windows, and Spark's other state store.

Batches of 1M rows. Each line is a comparison of its own: the sides take turns, the first round and each round's first
batches left out.
"""

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from wmtop.engine.run.session import build_session, stop_session
from wmtop.engine.run.sources.columns import Columns
from wmtop.engine.watermarks.settings import Session, Settings, Sliding

from .throughput import ROWS, FilesABatch, InRows, make_files, phases, run_to_end

FILES, ROUNDS, COLD = 8, 2, 3
HOUR_MS = 3_600_000
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DEFAULT = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


class Variant(Struct, frozen=True):
    """One comparison."""

    name: str
    channels: int
    settings: Settings
    window: Callable[[], list[Column]]
    """What plain Spark groups by."""
    store: str = DEFAULT


def tumbling() -> list[Column]:
    """Windows of an hour."""
    return [F.window("time", "1 hour")]


def sessions() -> list[Column]:
    """Sessions of a channel."""
    return [F.session_window("time", "10 minutes"), F.col("channel")]


def variants() -> list[Variant]:
    """All comparisons."""
    sliding, session = Settings(window=Sliding(HOUR_MS, HOUR_MS // 4)), Settings(window=Session(HOUR_MS // 6))
    by_slide = Variant("sliding by 15 min", 256, sliding, lambda: [F.window("time", "1 hour", "15 minutes")])
    # Spark has no sessions in a stream without another key.
    by_gap = Variant(
        "sessions of a channel", 256, session, lambda: [F.session_window("time", "10 minutes"), F.col("channel")]
    )
    hours = [Variant("tumbling", channels, Settings(), tumbling) for channels in (16, 256, 4_096)]
    return [*hours, Variant("tumbling, RocksDB", 256, Settings(), tumbling, ROCKS_DB), by_slide, by_gap]


def plain(spark: SparkSession, directory: Path, variant: Variant) -> list[dict[str, int]]:
    """The phases (ms) of plain Spark's batches."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", variant.store)
    rows = spark.readStream.schema("channel string, time timestamp").option("maxFilesPerTrigger", 1)
    counts = rows.parquet(str(directory)).withWatermark("time", "30 minutes").groupBy(*variant.window()).count()
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = counts.writeStream.format("noop").outputMode("append").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return phases(query.recentProgress)


def compare(spark: SparkSession, directory: Path, variant: Variant) -> None:
    """Print the line of a variant."""
    columns = Columns(time="time", channel="channel")

    def engine(source: type[FilesABatch]) -> list[dict[str, int]]:
        monitor, reports = run_to_end(spark, source(directory, columns, once=True), variant.settings)
        assert monitor.rows == FILES * ROWS
        return phases(reports)

    sides: dict[str, Callable[[], list[dict[str, int]]]] = {
        "plain": lambda: plain(spark, directory, variant),
        "columns": lambda: engine(FilesABatch),
        "rows": lambda: engine(InRows),
    }
    found: dict[str, list[int]] = {name: [] for name in sides}
    for round_ in range(ROUNDS):
        for name, run in sides.items():
            reports = run()
            if round_:
                found[name] += [report["triggerExecution"] for report in reports[COLD:]]
    base = statistics.median(found["plain"])
    cells: list[Any] = [f"{base:.0f} ms ({min(found['plain'])}-{max(found['plain'])})"]
    for name in ("columns", "rows"):
        median = statistics.median(found[name])
        cells.append(f"{median:.0f} ms ({min(found[name])}-{max(found[name])}), {median / base:.2f}x")
    print(f"| {variant.channels} | {variant.name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print the table."""
    FilesABatch.files = 1
    spark = build_session(master="local[2]", archive=False)
    print("| channels | windows | plain Spark | engine, columns | engine, rows |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as path:
        for variant in variants():
            directory = Path(path, str(variant.channels))
            if not directory.exists():
                make_files(spark, directory, FILES, variant.channels)
            compare(spark, directory, variant)
    stop_session(spark)


if __name__ == "__main__":
    main()
