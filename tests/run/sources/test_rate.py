"""The synthetic source: an exact number of rows that follow from number, seed and start alone."""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from wmtop.engine.run.sources.rate import Rate, RateStreamReader, synthetic_sql

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
    reader = RateStreamReader(1e-9, 10, START, 2)
    start = reader.initialOffset()
    one = reader.latestOffset(start, None)
    assert one == {"row": 1, "start_ms": START}
    assert reader.latestOffset(one, None) == one
    fast = RateStreamReader(1e12, 10, START, 2)
    assert fast.latestOffset(start, None)["row"] <= 10
    until = start
    for _ in range(3):
        until = fast.latestOffset(until, None)
    assert until["row"] == 10
    assert fast.latestOffset(until, None) == until


def test_blocks_cover_a_batch_once() -> None:
    reader = RateStreamReader(1.0, None, START, 3)
    parts = reader.partitions({"row": 5, "start_ms": 0}, {"row": 100_005, "start_ms": START})
    assert len(parts) == 3
    rows: list[int] = []
    for part in parts:
        for batch in reader.read(part):
            for block in batch.to_pylist():
                assert block["start_ms"] == START
                rows.extend(range(block["first"], block["last"] + 1))
    assert rows == list(range(5, 100_005))
    assert reader.partitions({"row": 5, "start_ms": 0}, {"row": 5, "start_ms": 0}) == []
