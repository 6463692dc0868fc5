"""The invariants of semantics 11.1 on a real Spark query that runs meanwhile, look by look at its checkpoint."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import window
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.targets.open import open_target
from wmtop.engine.targets.target import AttachedTarget, Follower

from tests.one_truth import check_all

PATIENCE_MS = 2_500
LOOK_S = 0.3
WITHIN_S = 90.0
START_S = 1_700_000_000


class Input:
    """A directory of files that the query reads, a record a file."""

    def __init__(self, directory: Path) -> None:
        self.directory, self._files, self._newest_s = directory, 0, START_S
        directory.mkdir()

    def newer(self) -> None:
        self._newest_s += 20
        self._write(self._newest_s)

    def old(self) -> None:
        self._write(START_S)

    def _write(self, second: int) -> None:
        self._files += 1
        hidden = self.directory / f".{self._files}"
        pq.write_table(pa.table({"ts": pa.array([second * 1_000_000], pa.timestamp("us", tz="UTC"))}), hidden)
        hidden.rename(self.directory / f"{self._files}.parquet")


@pytest.fixture
def records(tmp_path: Path) -> Input:
    found = Input(tmp_path / "in")
    found.newer()
    return found


def test_no_look_at_a_running_query_contradicts_itself(spark: SparkSession, records: Input, tmp_path: Path) -> None:
    counts = (
        spark.readStream.schema("ts timestamp")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(records.directory))
        .withWatermark("ts", "10 seconds")
        .groupBy(window("ts", "10 seconds"))
        .count()
    )
    checkpoint = tmp_path / "ckpt"
    query = counts.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    try:
        query.processAllAvailable()
        opened = open_target(str(checkpoint))
        assert isinstance(opened, AttachedTarget)
        follower = Follower(opened.target, "q", PATIENCE_MS)
        opened.target.open()

        def until(wanted: set[str], feed: Callable[[], object]) -> Iterator[Snapshot]:
            deadline = time.monotonic() + WITHIN_S
            while True:
                feed()
                time.sleep(LOOK_S)
                yield (snapshot := follower.snapshot(opened.target.poll()))
                if snapshot.verdict.verdict in wanted:
                    return
                assert time.monotonic() < deadline, snapshot.verdict

        def looks() -> Iterator[Snapshot]:
            yield from until({"moving"}, records.newer)
            yield from until({"stalled", "unknown", "waiting"}, records.old)
            yield from until({"moving"}, records.newer)
            yield from until({"stalled", "unknown", "waiting"}, lambda: None)

        seen = check_all(looks())
        opened.target.close()
    finally:
        query.stop()
    assert seen["moving"] >= 2
    assert len(seen) > 1
