"""A directory through Spark gives what the replay makes of the same files."""

import datetime
import gzip
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from wmtop.engine.run.sources import staging
from wmtop.engine.run.sources.columns import Columns
from wmtop.engine.run.sources.event_time_sql import to_ms_sql
from wmtop.engine.run.sources.files import Files
from wmtop.engine.run.sources.staged import PREFIX, read_rows
from wmtop.engine.run.sources.table_files import look_at

from .streams import read_batches
from .time_cases import TEXT, UNTYPED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NANOS = pa.array([1_360_333_930_123_999_999, -1, None], pa.int64()).cast(pa.timestamp("ns"))


def replayed(file: Path, columns: Columns, directory: Path) -> list[tuple[str, int | None]]:
    """Channel and time of each row, as the replay stages them."""
    staged = staging.stage([look_at(file)], columns, "origin", directory, lambda text: None)
    rows = [row for batch in read_rows(directory, 0, staged.rows) for row in batch.to_pylist()]
    return [(row.get(f"{PREFIX}channel", "all"), row[f"{PREFIX}ts"]) for row in rows]


def write(path: Path, table: Any) -> Path:
    path.parent.mkdir()
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".csv":
        pa_csv.write_csv(table, path)
    else:
        path.write_bytes(gzip.compress("\n".join(json.dumps(row) for row in table.to_pylist()).encode()))
    return path


TEXTS = [text for text, _ in TEXT]
WHO = [f"c{i}" if i % 7 else None for i in range(len(TEXTS))]
NUMBERS = [text for text, _ in UNTYPED]


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("text.parquet", pa.table({"at": TEXTS, "who": WHO})),
        ("nanos.parquet", pa.table({"at": NANOS, "who": pa.array([1.0, 2.5, None])})),
        ("text.csv", pa.table({"other": range(len(NUMBERS)), "at": NUMBERS, "who": ["a\n\"b\",é", *NUMBERS[1:]]})),
        ("text.jsonl.gz", pa.table({"at": TEXTS, "who": WHO})),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_spark_reads_what_the_replay_reads(spark: "SparkSession", tmp_path: Path, name: str, table: Any) -> None:
    file = write(tmp_path / "in" / name, table)
    columns = Columns(time="at", channel="who")
    source = Files(file.parent, columns, once=True)
    source.check()
    rows = [row for batch in read_batches(spark, source, tmp_path / "checkpoint").values() for row in batch]
    assert list(rows[0]) == ["channel", "ts", "offset"]
    expected = replayed(file, columns, tmp_path / "staged")
    assert sorted((row["channel"], row["ts"] or 0) for row in rows) == sorted((who, at or 0) for who, at in expected)


def test_suffixes_of_either_case_are_read(spark: "SparkSession", tmp_path: Path) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    (directory / "A.CSV").write_text("at,who\n1,a\n")
    (directory / "b.Csv.gz").write_bytes(gzip.compress(b"at,who\n2,b\n"))
    (directory / "c.csv").write_text("at,who\n3,c\n")
    (directory / "d.csvx").write_text("at,who\n4,d\n")
    source = Files(directory, Columns(time="at", channel="who"), once=True)
    source.check()
    rows = [row for batch in read_batches(spark, source, tmp_path / "checkpoint").values() for row in batch]
    assert sorted((row["channel"], row["ts"]) for row in rows) == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize("name", ["A.CSV", "b.Jsonl", "C.JSON.gz"])
def test_a_directory_with_upper_case_names_alone_has_files(tmp_path: Path, name: str) -> None:
    content = b"at,who\n1,a\n" if name == "A.CSV" else b'{"at": 1}\n'
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    Files(tmp_path, Columns(time="at")).check()


def test_a_file_that_comes_later_is_read_alone(spark: "SparkSession", tmp_path: Path) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    first = directory / "a.jsonl"
    first.write_text('{"at": 1, "kind": "mark", "n": 5}\n{"at": "1970-01-01T00:00:02Z", "wm": 1}\nbroken\n')
    os.utime(first, (1, 1))
    (directory / "notes.txt").write_text("no data")
    (directory / "_tmp.jsonl").write_text('{"at": 99}')
    columns = Columns(time="at", channel="kind", watermark="wm", marker="kind = 'mark' and n > 4")
    source = Files(directory, columns, once=True)
    source.check()
    assert (source.bounded, source.ticks) == (True, False)
    rows = read_batches(spark, source, tmp_path / "checkpoint")[0]
    got = [(row["ts"], row["channel"], row["source_watermark"], row["marker"]) for row in rows]
    assert sorted(got, key=lambda row: row[0] or 0) == [
        (None, "(none)", None, False), (1, "mark", None, True), (2_000, "(none)", 1, False),
    ]  # fmt: skip
    (directory / "b.jsonl").write_text('{"at": 7, "kind": "row"}\n')
    again = Files(directory, columns, once=True)
    after = read_batches(spark, again, tmp_path / "checkpoint")
    assert [(row["ts"], row["channel"]) for batch in after.values() for row in batch] == [(7, "row")]


def test_parquet_types_mean_the_same_to_both(spark: "SparkSession", tmp_path: Path) -> None:
    at = datetime.datetime(2013, 2, 8, 14, 32, 10, 123_999)
    columns = {
        "date": (pa.array([at.date()]), 1_360_281_600_000),
        "naive": (pa.array([at], pa.timestamp("us")), 1_360_333_930_123),
        "zoned": (pa.array([1_360_333_930_123], pa.timestamp("ms", "Europe/Berlin")), 1_360_333_930_123),
        "wide": (pa.array([2**63 + 1], pa.uint64()), None),
        "small": (pa.array([7], pa.uint16()), 7),
        "half": (pa.array([1.5], pa.float32()), 1),
        "money": (pa.array([Decimal("-0.01")], pa.decimal128(9, 2)), -1),
    }
    file = write(tmp_path / "in" / "a.parquet", pa.table({name: values for name, (values, _) in columns.items()}))
    frame = spark.read.parquet(str(file))
    sql = [f"{to_ms_sql(name, frame.schema[name].dataType, 'ms')} as {name}" for name in columns]
    assert frame.selectExpr(*sql).collect()[0].asDict() == {name: ms for name, (_, ms) in columns.items()}
    for name, (_, ms) in columns.items():
        assert replayed(file, Columns(time=name), tmp_path / f"staged-{name}") == [("all", ms)], name
