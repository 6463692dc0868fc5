"""The sample of the late records: its bounds, its order, what a repeated or damaged batch does to it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from wmtop.engine.run.late_output import MAX_IN_SAMPLE, LateSample
from wmtop.engine.snapshot import LateRecord


def write(directory: Path, batch: int, *files: list[int], kafka: bool = False) -> None:
    """A batch whose records are late by so many ms, file by file."""
    (directory / f"batch={batch}").mkdir(exist_ok=True)
    for number, late in enumerate(files):
        columns = {
            "value": pa.array([b"x" * 9] * len(late), pa.binary()),
            "wmtop_channel": ["t-0"] * len(late),
            "wmtop_time_ms": [1_000 - by for by in late],
            "wmtop_watermark_ms": [2_000] * len(late),
            "wmtop_window_end_ms": pa.array([None] * len(late), pa.int64()),
            "wmtop_late_by_ms": late,
        }
        if kafka:
            columns |= {"topic": ["t"] * len(late), "partition": [3] * len(late), "offset": list(range(len(late)))}
        pq.write_table(pa.table(columns), directory / f"batch={batch}" / f"part-{number}.parquet", row_group_size=1_000)


def places(sample: LateSample) -> list[tuple[int, int | None]]:
    assert sample.records is not None
    return [(record.batch, record.late_by_ms) for record in sample.records]


def test_the_newest_batch_comes_first_and_in_a_batch_the_record_that_is_most_late(tmp_path: Path) -> None:
    sample = LateSample(tmp_path, from_kafka=False)
    write(tmp_path, 3, [5, 9], [7])
    write(tmp_path, 8, list(range(1, 20)))
    sample.add(3)
    assert places(sample) == [(3, 9), (3, 7), (3, 5)]
    sample.add(8)
    expected = [*((8, by) for by in range(19, 0, -1)), (3, 9)]
    assert places(sample) == expected
    assert len(expected) == MAX_IN_SAMPLE
    resumed = LateSample(tmp_path, from_kafka=False)
    resumed.resume(["_wmtop.json", "batch=8", "batch=3"])
    assert places(resumed) == expected
    sample.drop(8)
    assert places(sample) == [(3, 9)]
    sample.add(8)
    sample.add(8)
    assert places(sample) == expected


def test_the_record_that_is_most_late_is_found_at_the_end_of_a_large_file(tmp_path: Path) -> None:
    rows = list(range(50_000))
    write(tmp_path, 1, rows, rows)
    sample = LateSample(tmp_path, from_kafka=False)
    sample.add(1)
    assert places(sample) == [(1, rows[-1] - place // 2) for place in range(MAX_IN_SAMPLE)]


def test_a_record_from_kafka_has_its_position_and_another_has_none(tmp_path: Path) -> None:
    write(tmp_path, 1, [4], kafka=True)
    kafka, files = (LateSample(tmp_path, from_kafka=from_kafka) for from_kafka in (True, False))
    for sample in (kafka, files):
        sample.add(1)
    record = LateRecord(1, "t-0", 996, 2_000, None, 4)
    assert files.records == [record]
    assert kafka.records == [LateRecord(1, "t-0", 996, 2_000, None, 4, "t", 3, 0)]


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    sample = LateSample(tmp_path, from_kafka=False)
    write(tmp_path, 1, [4])
    (tmp_path / "batch=1" / "part-0.parquet").write_bytes(b"no Parquet")
    sample.add(1)
    assert sample.records is None
    write(tmp_path, 2, [6])
    sample.add(2)
    assert places(sample) == [(2, 6)]
