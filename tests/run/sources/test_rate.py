"""The synthetic source: an exact number of rows that follow from number, seed and start alone."""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from wmtop.engine.run.sources.base import Batch
from wmtop.engine.run.sources.rate import Rate, synthetic_sql

from .streams import Row, read_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = 1_700_000_000_000
RATE, CHANNELS, ROWS = 100_000, 20, 30_000


def records(spark: "SparkSession", rows: int, seed: int, rate: float = RATE) -> list[Row]:
    """The records by themselves, without a stream."""
    frame = spark.range(rows).selectExpr("id as row", f"{START}L as start_ms")
    for step in synthetic_sql(CHANNELS, rate, seed):
        frame = frame.selectExpr("*", *step)
    return frame.select("channel", "ts", "offset").orderBy("offset").toArrow().to_pylist()


def test_a_stream_has_exactly_its_rows_and_they_are_its_seeds(spark: "SparkSession", tmp_path: Path) -> None:
    source = Rate(channels=CHANNELS, rows_per_second=RATE, rows=ROWS, seed=3, start_ms=START)
    source.check()
    batches = read_batches(spark, source, tmp_path / "checkpoint", rows=ROWS)
    rows = [row for batch in batches.values() for row in batch]
    assert all(batches.values())
    assert rows == records(spark, ROWS, seed=3)
    assert rows != records(spark, ROWS, seed=4)


def test_the_records_are_as_described(spark: "SparkSession") -> None:
    rate = 1_000
    rows = records(spark, 300_000, seed=1, rate=rate)
    came: dict[str, list[int]] = {f"c{i:02}": [] for i in range(CHANNELS)}
    delays: list[int] = []
    for row in rows:
        arrival = START + row["offset"] * 1_000 // rate
        came[row["channel"]].append(arrival)
        delays.append(arrival - row["ts"])
    counts = {channel: len(times) for channel, times in came.items()}
    assert counts["c00"] > 1.3 * counts["c01"] > 1.3 * counts["c05"] > 1.3 * counts["c18"] > 0
    gaps = {channel: max(later - time for time, later in pairwise(times)) for channel, times in came.items()}
    assert [channel for channel, gap in gaps.items() if gap >= 45_000] == ["c04", "c09", "c14", "c19"]
    assert max(gap for gap in gaps.values() if gap < 45_000) < 5_000
    delays.sort()
    assert delays[0] == 0
    assert delays[len(rows) // 2] < 100
    assert 1_000 < delays[len(rows) * 99 // 100] < 10_000
    assert delays[-1] > 60_000


def test_rows_are_due_by_the_rate_and_no_more_than_there_are() -> None:
    slow = Rate(rows_per_second=1e-9, rows=10, start_ms=START)
    assert slow.next_end(0) == slow.next_end(1) == 1
    fast = Rate(rows_per_second=1e12, rows=10, start_ms=START)
    until = 0
    for _ in range(3):
        until = fast.next_end(until)
    assert until == fast.next_end(until) == 10


def test_a_batch_has_its_rows_once(spark: "SparkSession") -> None:
    rows = Rate(start_ms=START).rows(Batch(spark.range(1), 5, ["100005"]))
    rows = rows.select("offset").toArrow()["offset"].to_pylist()
    assert sorted(rows) == list(range(5, 100_005))
