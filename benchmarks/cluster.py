"""How much faster two workers of a cluster are than one: Parquet files in batches of 8M rows, 1,000 channels.

Standalone clusters on this machine, from the installed PySpark; their workers have one core each. Driver, master and
the other worker share the machine with them, so on two cores this shows the least of it.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from wmtop.engine.run.durable_state import StateDirectory
from wmtop.engine.run.query import Run
from wmtop.engine.run.session import build_session, stop_session
from wmtop.engine.run.sources.columns import Columns
from wmtop.engine.run.tasks import prepare_executors
from wmtop.engine.watermarks.settings import Settings

from tests.run.clusters import local_cluster

from .throughput import FILES, ROWS, FilesABatch, make_files, phases

WORKERS, FILES_A_BATCH, ROUNDS = (1, 2), 8, 2


def batches_ms(url: str, files: Path) -> tuple[list[int], float]:
    """The batches of some runs, the first run left out, and the seconds of a run."""
    conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1", "spark.pyspark.python": sys.executable}
    spark = build_session(master=url, conf=conf, archive=False)
    found: list[int] = []
    took: list[float] = []
    try:
        for number in range(ROUNDS + 1):
            with tempfile.TemporaryDirectory() as path:
                state = StateDirectory(Path(path))
                state.lock()
                source = FilesABatch(files, Columns(time="time", channel="channel"), once=True)
                source.check()
                run = Run(source, Settings(), state, None, lambda: None)
                prepare_executors(spark, run.in_tasks(spark), lambda text: None)
                began = time.monotonic()
                run.load(spark)
                run.start()
                assert run._query is not None
                run._query.awaitTermination()
                if number:
                    took.append(time.monotonic() - began)
                    reports = list(run._query.recentProgress)
                    found += [phase["triggerExecution"] for phase in phases(reports)]
                assert run._observer is not None
                assert run._observer.by_columns, "the executors cannot read columns"
                run.stop()
                state.unlock()
                assert run.monitor.rows == FILES * ROWS
    finally:
        stop_session(spark)
    return found, statistics.median(took)


def main() -> None:
    """Print the table."""
    FilesABatch.files = FILES_A_BATCH
    with tempfile.TemporaryDirectory() as path:
        files = Path(path, "files")
        spark = build_session(master="local[2]", archive=False)
        make_files(spark, files)
        stop_session(spark)
        print("| workers of one core | batch of 8M rows, median (least-greatest) | a run |\n| --- | --- | --- |")
        for workers in WORKERS:
            place = Path(path, f"of-{workers}")
            place.mkdir()
            with local_cluster(place, workers) as cluster:
                found, run_s = batches_ms(cluster.url, files)
            print(
                f"| {workers} | {statistics.median(found):.0f} ms ({min(found)}-{max(found)}) | {run_s:.1f} s |",
                flush=True,
            )


if __name__ == "__main__":
    main()
