"""CSV and JSON lines that tasks read as columns give what Spark's reader gives, and go to it where they might not."""

import gzip
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from wmtop.engine.run.column_groups import Work, groups_of_share
from wmtop.engine.run.groups import Levels
from wmtop.engine.run.sources.columns import Columns
from wmtop.engine.run.sources.file_rows import NotReadableError, ParquetRows, Piece, TextRows
from wmtop.engine.run.sources.files import Files
from wmtop.engine.watermarks.settings import Settings

from .test_parquet_columns import InRows, OneFileABatch, assert_same_counts, monitor_of
from .time_cases import TEXT, UNTYPED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMES = [text for text, _ in TEXT if text is not None and not set(text) & set('",\n\r\\\0\t')]
UNITS = [text for text, _ in UNTYPED if text is not None and not set(text) & set('",\n\r\0')]
CSV = {
    b"at,who\n" + b"".join(f"{text},c{i % 3}\n".encode() for i, text in enumerate(UNITS)): True,
    b"at,who\n1,a\n\n2,b": True,
    b"at,who\n1,\n,\n 3 , a \n4,NA\n5,\\N\n6,null\n": True,
    "at,who\n1,é\n2,\u2028\n3,\x1f\n".encode(): True,
    b"at,who\n": True,
    b'at,who\n1,"a"\n': False,
    b'at,who\n1,a"b\n': False,
    b"at,who\r\n1,a\r\n": False,
    b"at,who\n1,a\rb\n": False,
    b"at,who\n1\n2,a,b\n3,c\n": False,
    b"at,who\n1,\xff\n": False,
}
"""Files, and whether they are read as columns."""
NUMBERS = {
    b'{"at":1,"who":"a"}\n{"who":null,"at":2}\n{}\n{"at":null}': True,
    b'{"at":-0,"other":{"at":5},"At":7}\n{"at":9223372036854775807,"who":""}\n': True,
    b'{"at":1,"who":"\\u00e9\\n\\"\\/"}\n{"at":2,"who":"\xc3\xa9"}\n': True,
    b'{ "at" : 3 , "x" : [1, {"at": 4}, NaN] }\n': True,
    b'{"at":1}\n\n{"at":2}\n': False,
    b'{"at":1.5}\n': False,
    b'{"at":1e3}\n': False,
    b'{"at":"1970-01-01T00:00:01Z"}\n{"at":true}\n': False,
    b'{"at":99999999999999999999}\n': False,
    b'{"at":1}{"at":2}\n{"at":3}\n': False,
    b'{"at":1,"who":5}\n{"at":2,"who":{"a": 1}}\n': False,
    b'{"at":1,"at":2}\n': False,
    b'{"at":1}\nbroken\n[{"at":2}]\n': False,
    b'{"at":1,"who":"\xff"}\n': False,
    b'{"at":1,"who":"a\tb"}\n': False,
    b'{"at":1,"who":"\\ud800"}\n': False,
    b"{'at':1}\n": False,
    b'{"at":1,"x":' + b"9" * 2_000 + b"}\n": False,
    b'{"at":1,"x":' + b"[" * 1_200 + b"]" * 1_200 + b"}\n": False,
    b'\xef\xbb\xbf{"at":1}\n': False,
}
TEXTS = {b"".join(b'{"at":"%s"}\n' % text.encode() for text in TIMES): True, b'{"at":5}\n': False}


@pytest.mark.parametrize(
    ("name", "first", "cases"),
    [
        ("csv", b"at,who\n1,a\n", CSV),
        ("jsonl", b'{"at":1,"who":"a"}\n', NUMBERS),
        ("jsonl", b'{"at":"1970-01-01","who":"a"}\n', TEXTS),
    ],
    ids=["csv", "numbers", "texts"],
)
def test_both_read_the_same(
    spark: "SparkSession", tmp_path: Path, name: str, first: bytes, cases: dict[bytes, bool]
) -> None:
    (tmp_path / f"first.{name}").write_bytes(first)
    reader = Files(tmp_path, Columns(time="at", channel="who"), once=True).columns_of(spark)
    assert reader is not None
    files: list[str] = []
    ours: list[tuple[str, int | None]] = []
    for number, (content, readable) in enumerate(cases.items()):
        file = tmp_path / f"other-{number}.{name}{'.gz' if number % 2 else ''}"
        file.write_bytes(gzip.compress(content) if number % 2 else content)
        try:
            tables = list(reader.read(Piece(str(file), 1)))
        except NotReadableError:
            assert not readable, content[:80]
            continue
        assert readable, content[:80]
        files.append(str(file))
        ours += [(row["channel"], row["ts"]) for table in tables for row in table.to_pylist()]
    theirs = [(row["channel"], row["ts"]) for row in reader.rows_of(files).toArrow().to_pylist()]
    assert Counter(ours) == Counter(theirs)


def test_a_file_without_rows_gives_no_groups(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,who\n")
    (tmp_path / "a.jsonl").write_text("\n")
    pq.write_table(pa.table({"at": pa.array([], pa.int64()), "who": pa.array([], pa.string())}), tmp_path / "a.parquet")
    names = ("at", "who", None, "ms")
    for name, read in {
        "a.csv": TextRows("csv", ("at", "who"), ",", *names),
        "a.jsonl": TextRows("json", (), ",", *names, ("at",)),
        "a.parquet": ParquetRows(*names, {"at": "int64", "who": "string"}),
    }.items():
        answer = groups_of_share([Piece(str(tmp_path / name), 0)], Work(read, Settings(), [0, 10], Levels(0, 0, 0)))
        assert answer is not None
        assert pa.ipc.open_stream(answer).read_all().num_rows == 0


def test_a_first_file_that_spark_must_read_keeps_the_run_in_rows(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "first.csv").write_text('at,who\n1,"a"\n')
    assert Files(tmp_path, Columns(time="at", channel="who"), once=True).columns_of(spark) is None


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_a_run_is_the_same_either_way(spark: "SparkSession", tmp_path: Path, name: str) -> None:
    """Also with a file that Spark has to read."""
    directory = tmp_path / "in"
    directory.mkdir()
    for number in range(3):
        base = 10_000 + number * 300
        rows = [(base + i * 37 % 500, f"c{i % 7}") for i in range(200)]
        quote = '"' if number == 1 else ""
        csv = "at,who\n" + "".join(f"{at},{quote}{who}{quote}\n" for at, who in rows) + "never,c1\n"
        lines = "".join(f'{{"at": {at}, "who": "{who}"}}\n' for at, who in rows) + ("{}\n" if number != 1 else "no\n")
        file = directory / f"{number} a%20b*.{name}"
        file.write_text(csv if name == "csv" else lines)
        os.utime(file, (number + 1, number + 1))
    columns = Columns(time="at", channel="who")
    ours = monitor_of(spark, OneFileABatch(directory, columns, once=True), tmp_path / "columns")
    theirs = monitor_of(spark, InRows(directory, columns, once=True), tmp_path / "rows")
    assert (ours.rows, ours.batch, ours.level) == (603, 2, theirs.level)
    assert_same_counts(ours, theirs)
