"""A directory gives what the replay makes of the same files, as columns and as rows."""

import datetime
import gzip
import json
import os
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from msgspec.structs import asdict
from wmtop.engine.run.durable_state import StateDirectory
from wmtop.engine.run.query import Run
from wmtop.engine.run.sources import staging
from wmtop.engine.run.sources.columns import PREFIX, Columns
from wmtop.engine.run.sources.files import Files, Piece, pieces_of
from wmtop.engine.run.sources.staging import StagedRows
from wmtop.engine.run.sources.table_files import look_at
from wmtop.engine.watermarks.settings import Settings, Tumbling

from .streams import read_batches
from .time_cases import TEXT, UNTYPED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from wmtop.engine.watermarks.monitor import Monitor

NANOS = pa.array([1_360_333_930_123_999_999, -1, None], pa.int64()).cast(pa.timestamp("ns"))


def replayed(file: Path, columns: Columns, directory: Path) -> list[tuple[str, int | None]]:
    """Channel and time of each row, as the replay stages them."""
    staging.stage([look_at(file)], columns, "origin", directory, lambda text: None)
    rows = [
        row
        for table in StagedRows(str(directory)).tables(0, len(staging.arrivals_of(directory)))
        for row in table.to_pylist()
    ]
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
    columns = Columns(time="at", unit="ms", channel="who")
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
    source = Files(directory, Columns(time="at", unit="ms", channel="who"), once=True)
    source.check()
    rows = [row for batch in read_batches(spark, source, tmp_path / "checkpoint").values() for row in batch]
    assert sorted((row["channel"], row["ts"]) for row in rows) == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize("name", ["A.CSV", "b.Jsonl", "C.JSON.gz"])
def test_a_directory_with_upper_case_names_alone_has_files(tmp_path: Path, name: str) -> None:
    content = b"at,who\n1,a\n" if name == "A.CSV" else b'{"at": 1}\n'
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    Files(tmp_path, Columns(time="at", unit="ms")).check()


def test_a_file_that_comes_later_is_read_alone(spark: "SparkSession", tmp_path: Path) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    first = directory / "a.jsonl"
    first.write_text('{"at": 1, "kind": "mark", "n": 5}\n{"at": "1970-01-01T00:00:02Z", "wm": 1}\nbroken\n')
    os.utime(first, (1, 1))
    (directory / "notes.txt").write_text("no data")
    (directory / "_tmp.jsonl").write_text('{"at": 99}')
    columns = Columns(time="at", unit="ms", channel="kind", watermark="wm", marker="kind = 'mark' and n > 4")
    plan = tmp_path / "files.log"
    source = Files(directory, columns, once=True, plan=plan)
    source.check()
    assert (source.bounded, source.ticks) == (True, False)
    rows = read_batches(spark, source, tmp_path / "checkpoint")[0]
    got = [(row["ts"], row["channel"], row["source_watermark"], row["marker"]) for row in rows]
    assert sorted(got, key=lambda row: row[0] or 0) == [
        (None, "(none)", None, False), (1, "mark", None, True), (2_000, "(none)", 1, False),
    ]  # fmt: skip
    (directory / "b.jsonl").write_text('{"at": 7, "kind": "row"}\n')
    again = Files(directory, columns, once=True, plan=plan)
    after = read_batches(spark, again, tmp_path / "checkpoint")
    assert [(row["ts"], row["channel"]) for batch in after.values() for row in batch] == [(7, "row")]


def test_parquet_types_are_times_in_either_way(spark: "SparkSession", tmp_path: Path) -> None:
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
    for name, (_, ms) in columns.items():
        assert replayed(file, Columns(time=name, unit="ms"), tmp_path / f"staged-{name}") == [("all", ms)], name
        reader = Files(file.parent, Columns(time=name, unit="ms"), once=True).load(spark, as_columns=True)
        assert reader.read is not None
        assert [row["ts"] for table in reader.read(Piece(str(file), 1)) for row in table.to_pylist()] == [ms]


FIRST = {
    "csv": b"at,who\n1,a\n",
    "jsonl": b'{"at":1,"who":"a"}\n',
    "parquet": pa.table({"at": [1], "who": ["a"]}),
}  # fmt: skip
LATER: dict[str, list[tuple[Any, list[tuple[int | None, str]]]]] = {
    "csv": [
        (b"at,who\n", []),
        (b"who,at\na,1\n", [(1, "a")]),
        (b"at,who\n1,a\n\n2,b", [(1, "a"), (2, "b")]),
        (b'at,who\r\n1,"a\nb"\r\n3,"c"\r\n', [(1, "a\nb"), (3, "c")]),
        (b"at,who\n1\n2,a,b\n,\xff\n", [(1, "(none)"), (2, "a"), (None, "\ufffd")]),
    ],
    "jsonl": [
        (b"\n", []),
        (b'{"at":1,"who":"a"}\n{"who":null,"at":2}\n{}\n', [(1, "a"), (2, "(none)"), (None, "(none)")]),
        (b'{"at":"1970-01-01T00:00:01Z","who":5}\n\n{"at":1.5,"who":{"a": 1}}', [(1_000, "5"), (1, '{"a":1}')]),
        (b'broken\n[{"at":2}]\n', [(None, "(none)"), (None, "(none)")]),
    ],
    "parquet": [
        (pa.table({"at": pa.array([], pa.int64()), "who": pa.array([], pa.string())}), []),
        (pa.table({"at": [1]}), [(1, "(none)")]),
        (pa.table({"at": ["1970-01-02"], "who": [2]}), [(86_400_000, "2")]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", FIRST)
def test_files_that_differ_from_the_first_are_read_alike_in_either_way(
    spark: "SparkSession", tmp_path: Path, kind: str
) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    expected = [(1, "a")]
    source = Files(directory, Columns(time="at", unit="ms", channel="who"), once=True)
    for number, (content, rows) in enumerate([(FIRST[kind], []), *LATER[kind]]):
        file = directory / f"{number}.{kind}{'.gz' if number and number % 2 and kind != 'parquet' else ''}"
        if kind == "parquet":
            pq.write_table(content, file)
        else:
            file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
        os.utime(file, (number + 1, number + 1))
        expected += rows
        if not number:
            source.check()
    read = source.load(spark, as_columns=True).read
    assert read is not None
    tables = [table for file in directory.iterdir() for table in read(Piece(str(file), 1))]
    assert sorted((row["ts"] or -1, row["channel"]) for table in tables for row in table.to_pylist()) == sorted(
        (at if at is not None else -1, who) for at, who in expected
    )
    batches = read_batches(spark, source, tmp_path / "checkpoint").values()
    assert sorted((row["ts"] or -1, row["channel"]) for batch in batches for row in batch) == sorted(
        (at if at is not None else -1, who) for at, who in expected
    )


def test_a_damaged_file_is_a_malformed_record(spark: "SparkSession", tmp_path: Path) -> None:
    pq.write_table(FIRST["parquet"], tmp_path / "a.parquet")
    reader = Files(tmp_path, Columns(time="at", unit="ms"), once=True).load(spark, as_columns=True)
    assert reader.read is not None
    (tmp_path / "b.parquet").write_bytes(b"PAR1 damaged")
    rows = [row for table in reader.read(Piece(str(tmp_path / "b.parquet"), 1)) for row in table.to_pylist()]
    assert [row["ts"] for row in rows] == [None]


def test_large_files_are_divided_by_row_groups(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"at": range(5)}), file, row_group_size=1)
    large = 100 << 20
    shares = pieces_of([(str(file), large), ("small", 10), (str(tmp_path / "gone"), large // 2)], 2)
    gone = Piece(str(tmp_path / "gone"), large // 2)
    halves = {Piece(str(file), large // 2, (0, 1)), Piece(str(file), large // 2, (2, 3, 4))}
    assert {piece for share in shares for piece in share} == {*halves, Piece("small", 10), gone}
    assert sorted(sum(piece.size for piece in share) for share in shares) == [large // 2 + 10, large]


class OneFileABatch(Files):
    """A file a batch."""

    bytes_per_batch = 1


class InRows(OneFileABatch):
    """The same, as rows."""

    def has_columns(self, spark: "SparkSession") -> bool:
        return False


def monitor_of(spark: "SparkSession", source: Files, path: Path) -> "Monitor":
    source.check()
    state = StateDirectory(path)
    state.lock()
    run = Run(source, Settings(lateness_ms=50, window=Tumbling(100)), state, None, lambda: None)
    run.load(spark)
    run.start()
    assert run._query is not None
    while not run.exhausted:
        run.check()
        time.sleep(0.05)
    run.end()
    run.stop()
    state.unlock()
    return run.monitor


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_a_run_is_the_same_either_way(spark: "SparkSession", tmp_path: Path, kind: str) -> None:
    """Also with names that only look like patterns."""
    directory = tmp_path / "in"
    directory.mkdir()
    for number in range(3):
        base = 10_000 + number * 300
        rows = [(base + i * 37 % 500, f"c{i % 7}") for i in range(200)]
        file = directory / f"{number} a%20b*.{kind}"
        if kind == "parquet":
            at = pa.array([*(at for at, _ in rows), None], pa.int32() if number == 2 else pa.int64())
            pq.write_table(pa.table({"at": at, "who": [*(who for _, who in rows), "c1"]}), file, row_group_size=60)
        elif kind == "csv":
            file.write_text("at,who\n" + "".join(f"{at},{who}\n" for at, who in rows) + "never,c1\n")
        else:
            file.write_text("".join(f'{{"at": {at}, "who": "{who}"}}\n' for at, who in rows) + "no\n")
        os.utime(file, (number + 1, number + 1))
    columns = Columns(time="at", unit="ms", channel="who")
    theirs = monitor_of(spark, InRows(directory, columns, once=True), tmp_path / "rows")
    ours = monitor_of(spark, OneFileABatch(directory, columns, once=True), tmp_path / "columns")
    assert (ours.rows, ours.batch, ours.level) == (603, 2, theirs.level)
    assert {name: asdict(counts) for name, counts in ours.counts.items()} == {
        name: asdict(counts) for name, counts in theirs.counts.items()
    }
    assert sum(counts.late for counts in ours.counts.values()) > 0
    assert ours.whatif is not None
    assert theirs.whatif is not None
    assert (ours.whatif.late, ours.whatif.behind) == (theirs.whatif.late, theirs.whatif.behind)
    assert ours.operator == theirs.operator
