"""The cost of `publish` and `tap` for a job with ordinary work: all variants in one run, in turn.

The job reads JSON lines, joins a small table, counts and sums by window and key, and writes Parquet. Goals: `publish`
below 1.02x of the job without it, `tap` of 12 channels below 1.25x. Times of batches spread by a tenth here, so the CPU
time of the whole process tree is shown, too: it does not wait for others. It still spreads more than `publish` costs:
that is measured where it is spent, in the Python process (which only waits otherwise) and in Spark's listener threads.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from wmtop.engine import publish, tap
from wmtop.engine.run.session import build_session, stop_session

from .machine import scratch, tree_cpu_s

ROWS, FILES, ROUNDS, WARM_UP_RUNS = 150_000, 4, 4, 1
EVENTS = FILES + 1
"""Batches of a run: one a file, and one without data."""
START_S = 1_700_000_000
Tap = Callable[[DataFrame], DataFrame]

_NONE: Tap = lambda df: df  # noqa: E731
_TWELVE: Tap = lambda df: tap(df, "ts", channel="shop")  # noqa: E731


def main() -> None:
    """Print the table."""
    with scratch() as directory:
        _write_files(directory / "input")
        session = build_session(master="local[2]", app_name="watched job", conf={}, log=directory / "spark.log")
        try:
            published = session.newSession()
            publish(published)
            _table(directory, session, published)
        finally:
            stop_session(session)


def _table(directory: Path, session: SparkSession, published: SparkSession) -> None:
    variants = {
        "neither": (session, _NONE),
        "`publish`": (published, _NONE),
        "`tap` of 12 channels": (session, _TWELVE),
        "`publish` and `tap` of 12 channels": (published, _TWELVE),
    }
    for _ in range(WARM_UP_RUNS):
        for own, tapped in variants.values():
            _run(own, directory, tapped)
    batches: dict[str, list[int]] = {name: [] for name in variants}
    cpu: dict[str, list[float]] = {name: [] for name in variants}
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    threads = _listener_threads(session)
    for number in range(ROUNDS):
        order = list(variants) if number % 2 == 0 else list(variants)[::-1]
        for name in order:
            before, listening, python = tree_cpu_s(), _cpu_ms(session, threads), time.process_time()
            own, tapped = variants[name]
            batches[name] += _run(own, directory, tapped)
            python = time.process_time() - python
            listening = _cpu_ms(session, threads) - listening
            spent[name].append((1000 * python / EVENTS, listening / EVENTS))
            cpu[name].append(tree_cpu_s() - before)
    plain_ms, plain_s = statistics.median(batches["neither"]), statistics.median(cpu["neither"])
    print(f"| an ordinary job, {ROWS:,} rows a batch | median batch | of 'neither' | CPU of a run | of 'neither' |")
    print("| --- | --- | --- | --- | --- |")
    for name in variants:
        low, median, high = statistics.quantiles(batches[name], n=4)
        seconds = statistics.median(cpu[name])
        print(
            f"| {name} | {median:.0f} ms ({low:.0f}-{high:.0f}) | {median / plain_ms:.2f}x "
            f"| {seconds:.2f} s ({min(cpu[name]):.2f}-{max(cpu[name]):.2f}) | {seconds / plain_s:.2f}x |",
            flush=True,
        )
    print("\n| CPU time a batch | Python | listener threads | whole process tree |")
    print("| --- | --- | --- | --- |")
    for name, times in spent.items():
        parts = [
            f"{statistics.median(part):.1f} ms ({min(part):.1f}-{max(part):.1f})" for part in zip(*times, strict=True)
        ]
        print(f"| {name} | {' | '.join(parts)} | {1000 * statistics.median(cpu[name]) / EVENTS:.0f} ms |", flush=True)


def _listener_threads(session: SparkSession) -> list[int]:
    """The JVM's threads that call listeners, by their ids."""
    bean = _threads(session)
    infos = bean.getThreadInfo(bean.getAllThreadIds())
    return [info.getThreadId() for info in infos if info is not None and "listener-group" in info.getThreadName()]


def _cpu_ms(session: SparkSession, threads: list[int]) -> float:
    bean = _threads(session)
    return sum(bean.getThreadCpuTime(thread) for thread in threads) / 1e6


def _threads(session: SparkSession) -> Any:
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    return jvm.java.lang.management.ManagementFactory.getThreadMXBean()


def _run(session: SparkSession, directory: Path, tapped: Tap) -> list[int]:
    """How long (ms) the batches of one run took, all but the first."""
    raw = session.readStream.option("maxFilesPerTrigger", 1).text(str(directory / "input"))
    parsed = raw.select(F.from_json("value", "at double, shop string, item int, price double").alias("j")).select("j.*")
    events = parsed.withColumn("ts", F.col("at").cast("timestamp")).where("price > 1")
    items = session.range(1000).select(F.col("id").cast("int").alias("item"), (F.col("id") % 20).alias("kind"))
    counts = (
        tapped(events)
        .withWatermark("ts", "30 seconds")
        .join(F.broadcast(items), "item")
        .groupBy(F.window("ts", "1 minute"), "shop", "kind")
        .agg(F.count("*").alias("n"), F.sum("price").alias("sum"), F.max("price").alias("top"))
    )
    place = tempfile.mkdtemp(dir=directory, prefix="run-")
    writer = counts.writeStream.format("parquet").option("checkpointLocation", f"{place}/checkpoint")
    writer = writer.option("path", f"{place}/out")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    read = [progress for progress in query.recentProgress if progress.numInputRows]
    return [progress.durationMs["triggerExecution"] for progress in read[1:]]


def _write_files(directory: Path) -> None:
    directory.mkdir()
    rng = np.random.default_rng(3)
    for number in range(FILES):
        times = START_S + number * 60 + rng.random(ROWS) * 60
        shops, items = rng.integers(0, 12, ROWS), rng.integers(0, 1000, ROWS)
        prices = rng.random(ROWS) * 100
        path = directory / f"{number}.txt"
        with path.open("w") as file:
            for at, shop, item, price in zip(times, shops, items, prices, strict=True):
                line = {"at": round(at, 3), "shop": f"shop-{shop}", "item": int(item), "price": round(price, 2)}
                file.write(json.dumps(line) + "\n")
        os.utime(path, (1_000 + number, 1_000 + number))


if __name__ == "__main__":
    started = time.monotonic()
    main()
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
