"""The cost of `--late-output` and `--explain` for a stream without late records: all sides in one session, in turn.

CPU is that of the whole process tree over a whole run, starting and stopping the query included: it does not wait for
others.
"""

import statistics
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from wmtop.engine.run.session import build_session, stop_session
from wmtop.engine.run.sources.base import RecordColumns
from wmtop.engine.run.sources.columns import Columns
from wmtop.engine.watermarks.settings import Settings

from .machine import tree_cpu_s
from .throughput import FilesABatch, run_to_end

FILES, ROWS, ROUNDS = 4, 500_000, 4
START_MS, EVERY_MS, MEAN_DELAY_MS = 1_700_000_000_000, 2, 20_000
NEVER_LATE = Settings(lateness_ms=86_400_000)
SIDES: dict[str, tuple[bool, tuple[str, ...]]] = {
    "neither": (False, ()),
    "`--late-output`": (True, ()),
    "`--late-output --explain` of 2 columns": (True, ("device", "version")),
}


def main() -> None:
    """Print the table."""
    spark = build_session(master="local[2]", archive=False)
    try:
        with tempfile.TemporaryDirectory(prefix="wmtop-bench-") as name:
            _write_files(Path(name, "files"))
            for side in SIDES:  # the JVM compiles their common code
                _run(spark, Path(name), side)
            _table(spark, Path(name))
    finally:
        stop_session(spark)


def _table(spark: SparkSession, directory: Path) -> None:
    cpu: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(ROUNDS):
        for side in list(SIDES) if number % 2 == 0 else list(SIDES)[::-1]:
            before = tree_cpu_s()
            _run(spark, directory, side)
            cpu[side].append(tree_cpu_s() - before)
    print(f"| {FILES} batches of {ROWS:,} rows | CPU of a run | of 'neither', round by round |")
    print("| --- | --- | --- |")
    for side, spent in cpu.items():
        ratios = [own / other for own, other in zip(spent, cpu["neither"], strict=True)]
        print(
            f"| {side} | {statistics.median(spent):.2f} s ({min(spent):.2f}-{max(spent):.2f}) "
            f"| {statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f}) |",
            flush=True,
        )


def _run(spark: SparkSession, directory: Path, side: str) -> None:
    """One run."""
    kept, explain = SIDES[side]
    source = FilesABatch(directory / "files", Columns(time="time", channel="channel"), once=True)
    source.more = RecordColumns(whole=kept, explain=explain)
    output = tempfile.mkdtemp(dir=directory) if kept else None
    monitor, _ = run_to_end(spark, source, NEVER_LATE, output)
    assert monitor.rows == FILES * ROWS
    assert not any(counts.late for counts in monitor.counts.values())


def _write_files(directory: Path) -> None:
    directory.mkdir()
    rng = np.random.default_rng(5)
    for number in range(FILES):
        times = START_MS + np.arange(number * ROWS, (number + 1) * ROWS) * EVERY_MS
        times = times - rng.exponential(MEAN_DELAY_MS, ROWS).astype(np.int64)
        columns = {
            "time": pa.array(times, pa.timestamp("ms")),
            "channel": [f"channel-{n}" for n in rng.integers(0, 16, ROWS)],
            "device": [f"device-{n}" for n in rng.zipf(1.5, ROWS) % 5_000],
            "version": [f"4.{n}" for n in rng.integers(0, 8, ROWS)],
            "amount": rng.random(ROWS),
        }
        pq.write_table(pa.table(columns), directory / f"{number}.parquet")
