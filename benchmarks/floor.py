"""The time of a small batch, by step: a replay in batches of 500 rows (goal: 0.12 s on two cores)."""

import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from wmtop.engine.run import query as query_module
from wmtop.engine.run.durable_state import StateDirectory
from wmtop.engine.run.observe import Observer
from wmtop.engine.run.query import Run
from wmtop.engine.run.session import build_session, stop_session
from wmtop.engine.run.sources.columns import Columns
from wmtop.engine.run.sources.replay import Replay
from wmtop.engine.watermarks.settings import Settings

from .machine import tree_cpu_s

BATCHES, WARM_UP, ROWS, CHANNELS = 80, 20, 500, 16


def main() -> None:
    """Print the table: medians of the batches after the warm-up."""
    spark = build_session(master="local[2]")
    with tempfile.TemporaryDirectory() as path:
        directory = Path(path)
        spent: dict[str, list[float]] = defaultdict(list)
        _time(Observer, "observe", "our groups", spent)
        _time(query_module.Monitor, "apply", "our monitor", spent)
        _time(StateDirectory, "save", "our saved state", spent)
        _time(Run, "update_progress", "asking Spark for its report", spent)
        before = tree_cpu_s()
        reports = _run(spark, _file(directory), directory)
        cpu = (tree_cpu_s() - before) / BATCHES
    stop_session(spark)
    phases: dict[str, list[float]] = defaultdict(list)
    for report in reports[WARM_UP:]:
        for name, took in report["durationMs"].items():
            phases[f"Spark: {name}"].append(took)
    phases |= {name: times[WARM_UP:] for name, times in spent.items()}
    print(f"{len(reports)} batches of {ROWS} rows; CPU of the process tree, its start included: {cpu:.2f} s each\n")
    print("| part | median | quartiles |\n| --- | --- | --- |")
    for name, times in sorted(phases.items(), key=lambda item: -statistics.median(item[1])):
        low, middle, high = statistics.quantiles(times, n=4)
        print(f"| {name} | {middle:.0f} ms | {low:.0f}-{high:.0f} ms |")


def _run(spark: Any, file: Path, directory: Path) -> list[dict[str, Any]]:
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(2 * BATCHES))
    source = Replay([file], Columns(time="t", channel="c", arrival="a"), directory / "staged", batch_rows=ROWS)
    source.prepare(lambda text: None)
    state = StateDirectory(directory / "state")
    state.lock()
    run = Run(source, Settings(), state, None, lambda: None)
    run.load(spark)
    run.start()
    while not run.exhausted:
        run.check()
        time.sleep(0.1)
    query: Any = run._query
    reports = [report for report in query.recentProgress if "addBatch" in report["durationMs"]]
    run.stop()
    state.unlock()
    return reports


def _file(directory: Path) -> Path:
    rng = np.random.default_rng(1)
    arrivals = np.sort(rng.integers(0, 86_400_000, BATCHES * ROWS))
    times = arrivals - rng.exponential(60_000, len(arrivals)).astype(np.int64)
    channels = np.char.add("c", rng.integers(0, CHANNELS, len(arrivals)).astype(str))
    path = directory / "rows.parquet"
    pq.write_table(pa.table({"t": times, "a": arrivals, "c": channels}), path)
    return path


def _time(owner: Any, name: str, as_name: str, spent: dict[str, list[float]]) -> None:
    """Note how long each call of a method takes (ms)."""
    timed: Callable[..., Any] = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return timed(*arguments, **named)
        finally:
            spent[as_name].append((time.perf_counter() - began) * 1000)

    setattr(owner, name, call)


if __name__ == "__main__":
    main()
