"""The cost of each tap for the watched query, and for the machine: all in one run, the variants in turn.

The query is a windowed count over Parquet files of 1M rows, one a batch, into the noop sink: nearly free, so the worst
case for a tap that counts beside it. Its batches' own durations are compared. The second table is the CPU time of the
attached process, while the same query runs at one small batch a second.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from wmtop.engine import publish, tap
from wmtop.engine.run.session import build_session, stop_session

from .machine import process_cpu_s, scratch

ROWS, FILES, WARM_UP, ROUNDS = 1_000_000, 6, 2, 3
LOOK_S, SETTLE_S = 15.0, 5.0
START_US = 1_700_000_000_000_000
Tap = Callable[[DataFrame], DataFrame]

TAPS: dict[str, Tap] = {
    "no tap": lambda df: df,
    "tap of the input": lambda df: tap(df, "ts"),
    "tap of 12 channels": lambda df: tap(df, "ts", channel="few"),
    "tap of 2,000 channels": lambda df: tap(df, "ts", channel="many"),
}


def main() -> None:
    """Print both tables."""
    with scratch() as directory:
        _write_files(directory / "input")
        log = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(directory / "log")}
        (directory / "log").mkdir()
        session = build_session(master="local[2]", app_name="watched job", conf=log, log=directory / "spark.log")
        try:
            _costs_of_the_query(session, directory)
            _costs_of_the_machine(session, directory)
        finally:
            stop_session(session)


def _costs_of_the_query(session: SparkSession, directory: Path) -> None:
    """The batches' durations by tap, then all again with a job that publishes."""
    _durations(session, directory, TAPS["no tap"])  # the JVM warms up
    before = _rounds(session, directory, TAPS)
    publish(session)
    after = _rounds(session, directory, {name: TAPS[name] for name in ("no tap", "tap of 12 channels")})
    plain = statistics.median(before["no tap"])
    print("| the watched query, a batch of 1M rows | median | against none |\n| --- | --- | --- |")
    named = before | {f"{'publish' if name == 'no tap' else 'publish and ' + name}": ms for name, ms in after.items()}
    for name, durations in named.items():
        median = statistics.median(durations)
        print(f"| {name} | {median:.0f} ms | {median / plain:.2f}x |")


def _rounds(session: SparkSession, directory: Path, taps: dict[str, Tap]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {name: [] for name in taps}
    for _ in range(ROUNDS):
        for name, tapped in taps.items():
            found[name] += _durations(session, directory, tapped)
    return found


def _durations(session: SparkSession, directory: Path, tapped: Tap) -> list[int]:
    """How long (ms) each batch of one run took, the first ones left out."""
    query = _start(session, directory, tapped, availableNow=True)
    query.awaitTermination()
    batches = [progress for progress in query.recentProgress if progress.numInputRows]
    return [progress.durationMs["triggerExecution"] for progress in batches[WARM_UP:]]


def _start(session: SparkSession, directory: Path, tapped: Tap, **trigger: Any) -> StreamingQuery:
    stream = session.readStream.schema("ts timestamp, few string, many string").option("maxFilesPerTrigger", 1)
    rows = tapped(stream.parquet(str(directory / "input"))).withWatermark("ts", "30 seconds")
    counts = rows.groupBy(F.window("ts", "1 minute")).count()
    checkpoint = tempfile.mkdtemp(dir=directory, prefix="checkpoint-")
    writer = counts.writeStream.format("noop").option("checkpointLocation", checkpoint)
    return writer.trigger(**trigger).start()


def _costs_of_the_machine(session: SparkSession, directory: Path) -> None:
    """The CPU time of `wmtop attach` on a query that ticks once a second."""
    ticking = session.readStream.format("rate").option("rowsPerSecond", 100).load()
    channel = (F.col("value") % 12).cast("string")
    rows = tap(ticking, "timestamp", channel=channel, name="ticks").withWatermark("timestamp", "30 seconds")
    checkpoint = str(directory / "ticking")
    writer = rows.groupBy(F.window("timestamp", "10 seconds")).count().writeStream.format("noop").queryName("ticking")
    query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="1 second").start()
    try:
        time.sleep(10)
        [log] = [path for path in (directory / "log").iterdir() if not path.name.startswith(".")]
        print("\n| wmtop attach | CPU of one core |\n| --- | --- |")
        for name, target in {
            "the checkpoint alone (--state-reader none), and what the job publishes": [checkpoint, *_NO_STATE],
            "with the open windows from its state": [checkpoint],
            "the published query": ["ticking"],
            "the event log": [str(log), "--query", "ticking"],
        }.items():
            print(f"| {name} | {_share(target):.1%} |", flush=True)
    finally:
        query.stop()


_NO_STATE = ("--state-reader", "none")


def _share(target: list[str]) -> float:
    """The share of a core that the process takes once it is up."""
    command = [sys.executable, "-m", "wmtop.tui.cli", "attach", *target, "--headless"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        time.sleep(SETTLE_S)
        before, started = process_cpu_s(process.pid), time.monotonic()
        time.sleep(LOOK_S)
        return (process_cpu_s(process.pid) - before) / (time.monotonic() - started)
    finally:
        process.terminate()
        process.wait()


def _write_files(directory: Path) -> None:
    directory.mkdir()
    rng = np.random.default_rng(3)
    for number in range(FILES):
        times = START_US + number * 60_000_000 + rng.integers(0, 60_000_000, ROWS)
        few, many = (pa.array(rng.integers(0, keys, ROWS).astype(str)) for keys in (12, 2_000))
        table = pa.table({"ts": pa.array(times, pa.timestamp("us", tz="UTC")), "few": few, "many": many})
        pq.write_table(table, directory / f"{number}.parquet")
        os.utime(directory / f"{number}.parquet", (1_000 + number, 1_000 + number))


if __name__ == "__main__":
    main()
