"""Parquet files that tasks read as columns give what Spark's own reader gives, and go to it where they might not."""

import datetime
import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import asdict
from wmtop.engine.run.durable_state import StateDirectory
from wmtop.engine.run.query import Run
from wmtop.engine.run.sources.columns import Columns
from wmtop.engine.run.sources.file_rows import NotReadableError, Piece, is_legacy, pieces_of
from wmtop.engine.run.sources.files import Files
from wmtop.engine.run.sources.table_files import TableFile
from wmtop.engine.watermarks.settings import Settings, Tumbling

from .time_cases import TEXT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from wmtop.engine.watermarks.monitor import Monitor

WHOLE = [0, -1, 1, 999, -1_001, 1_360_333_930_123, -(2**63) + 1, 2**63 - 1, None]
TIMES = {
    "text": pa.array([text for text, _ in TEXT]),
    "int64": pa.array(WHOLE, pa.int64()),
    "int32": pa.array([0, -1, 2**31 - 1, None], pa.int32()),
    "double": pa.array([0.001, -0.0005, 1e300, float("nan"), float("inf"), None, 1_360_333_930.1239]),
    "us": pa.array(list(WHOLE), pa.int64()).cast(pa.timestamp("us")),
    "ms-zone": pa.array(WHOLE[:6], pa.int64()).cast(pa.timestamp("ms", "America/New_York")),
    "ns": pa.array(WHOLE, pa.int64()).cast(pa.timestamp("ns")),
    "date": pa.array([datetime.date(1, 1, 1), datetime.date(1500, 3, 1), datetime.date(9999, 12, 31), None]),
}
CHANNELS = {
    "text": pa.array(["a", None, "", "é", "(none)"]),
    "encoded": pa.array(["a", None, "b"]).dictionary_encode(),
    "int64": pa.array([1, -(2**63), None], pa.int64()),
    "int8": pa.array([1, -128, None], pa.int8()),
    "bool": pa.array([True, False, None]),
}
NOT_OURS = {
    "decimal": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
    "float": pa.array([1.5, None]),
    "binary": pa.array([b"\xff", None]),
    "uint8": pa.array([1, None], pa.uint8()),
    "date": TIMES["date"],
}


def write(directory: Path, table: Any, **how: Any) -> Path:
    directory.mkdir()
    pq.write_table(table, directory / "a.parquet", **how)
    return directory / "a.parquet"


def same(spark: "SparkSession", file: Path, columns: Columns) -> list[tuple[str, int | None]]:
    """The rows as both read them."""
    reader = Files(file.parent, columns, once=True).columns_of(spark)
    assert reader is not None
    theirs = [(row["channel"], row["ts"]) for row in reader.rows_of([str(file)]).toArrow().to_pylist()]
    tables = reader.read(Piece(str(file), 1))
    ours = [(row["channel"], row["ts"]) for table in tables for row in table.to_pylist()]
    assert ours == theirs
    return ours


@pytest.mark.parametrize("int96", [False, True])
def test_times(spark: "SparkSession", tmp_path: Path, int96: bool) -> None:
    kinds = [name for name in TIMES if not int96 or name in ("us", "ns")]
    for name in kinds:
        values = TIMES[name].slice(0, 6) if int96 else TIMES[name]
        file = write(tmp_path / name, pa.table({"at": values}), use_deprecated_int96_timestamps=int96)
        unit = "s" if name == "double" else "ms"
        assert len({at for _, at in same(spark, file, Columns(time="at", unit=unit))}) > 1


def test_channels(spark: "SparkSession", tmp_path: Path) -> None:
    for name, values in CHANNELS.items():
        file = write(tmp_path / name, pa.table({"at": range(len(values)), "who": values}))
        assert "(none)" in {who for who, _ in same(spark, file, Columns(time="at", channel="who"))}
    for name, values in NOT_OURS.items():
        file = write(tmp_path / f"not-{name}", pa.table({"at": range(len(values)), "who": values}))
        assert Files(file.parent, Columns(time="at", channel="who"), once=True).columns_of(spark) is None


def test_a_condition_is_evaluated_by_spark(spark: "SparkSession", tmp_path: Path) -> None:
    file = write(tmp_path / "in", pa.table({"at": [1]}))
    assert Files(file.parent, Columns(time="at", marker="at > 0"), once=True).columns_of(spark) is None


def test_files_from_another_calendar_are_sparks(tmp_path: Path) -> None:
    version, legacy = "org.apache.spark.version", "org.apache.spark.legacyDateTime"
    theirs = [{version: "2.4.8"}, {version: "3.0.1"}, {version: "3.5.1", legacy: ""}]
    for number, metadata in enumerate([*theirs, {version: "3.5.1"}, {version: "10.0"}, {}]):
        file = write(tmp_path / str(number), pa.table({"at": [1]}).replace_schema_metadata(metadata))
        assert is_legacy(pq.ParquetFile(file)) == (number < len(theirs)), metadata


def test_large_files_are_divided_by_row_groups(tmp_path: Path) -> None:
    file = write(tmp_path / "in", pa.table({"at": range(5)}), row_group_size=1)
    large = 100 << 20
    shares = pieces_of([(str(file), large), ("small", 10), (str(tmp_path / "gone"), large // 2)], 2)
    gone = Piece(str(tmp_path / "gone"), large // 2)
    halves = {Piece(str(file), large // 2, (0, 1)), Piece(str(file), large // 2, (2, 3, 4))}
    assert {piece for share in shares for piece in share} == {*halves, Piece("small", 10), gone}
    assert sorted(sum(piece.size for piece in share) for share in shares) == [large // 2 + 10, large]


def test_what_arrow_cannot_read_is_left_to_spark(spark: "SparkSession", tmp_path: Path) -> None:
    file = write(tmp_path / "in", pa.table({"at": [1, 2], "who": ["a", "b"]}))
    reader = Files(file.parent, Columns(time="at", channel="who"), once=True).columns_of(spark)
    assert reader is not None
    other = tmp_path / "other.parquet"
    for table in ({"at": [1]}, {"AT": [1], "who": ["a"]}, {"at": ["1"], "who": ["a"]}, {"at": [1], "who": [2]}):
        pq.write_table(pa.table(table), other)
        with pytest.raises(NotReadableError):
            list(reader.read(Piece(str(other), 1)))
    other.write_bytes(b"PAR1 damaged")
    with pytest.raises(NotReadableError):
        list(reader.read(Piece(str(other), 1)))


class OneFileABatch(Files):
    """A file a batch."""

    def _options(self, file: TableFile) -> dict[str, str]:
        options = super()._options(file)
        del options["maxBytesPerTrigger"]
        return options | {"maxFilesPerTrigger": "1"}


class InRows(OneFileABatch):
    """The same, always through Spark's reader."""

    def columns_of(self, spark: "SparkSession") -> None:
        return None


def monitor_of(spark: "SparkSession", source: Files, path: Path) -> "Monitor":
    source.check()
    state = StateDirectory(path)
    state.lock()
    run = Run(source, Settings(lateness_ms=50, window=Tumbling(100)), state, None, lambda: None)
    run.load(spark)
    run.start()
    assert run._query is not None
    run._query.awaitTermination()
    run.end()
    run.stop()
    state.unlock()
    return run.monitor


def assert_same_counts(ours: "Monitor", theirs: "Monitor") -> None:
    """Both have counted the same, and some records were late."""
    assert {name: asdict(counts) for name, counts in ours.counts.items()} == {
        name: asdict(counts) for name, counts in theirs.counts.items()
    }
    assert sum(counts.late for counts in ours.counts.values()) > 0
    assert ours.whatif is not None
    assert theirs.whatif is not None
    assert (ours.whatif.late, ours.whatif.behind) == (theirs.whatif.late, theirs.whatif.behind)
    assert ours.operator == theirs.operator


def test_a_run_is_the_same_either_way(spark: "SparkSession", tmp_path: Path) -> None:
    """Also with names that only look like patterns, and with a file that Spark has to read."""
    directory = tmp_path / "in"
    directory.mkdir()
    for number in range(5):
        base = 10_000 + number * 300
        at = pa.array([base + i * 37 % 500 for i in range(200)] + [None], pa.int32() if number == 2 else pa.int64())
        file = directory / f"{number} a%20b*.parquet"
        pq.write_table(pa.table({"at": at, "who": [f"c{i % 7}" for i in range(201)]}), file, row_group_size=60)
        os.utime(file, (number + 1, number + 1))
    columns = Columns(time="at", channel="who")
    theirs = monitor_of(spark, InRows(directory, columns, once=True), tmp_path / "rows")
    ours = monitor_of(spark, OneFileABatch(directory, columns, once=True), tmp_path / "columns")
    assert (ours.rows, ours.batch, ours.level) == (1_005, 4, theirs.level)
    assert_same_counts(ours, theirs)
