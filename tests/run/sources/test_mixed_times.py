"""A column of mixed times is read alike by every source, and what is none is shown with the reason."""

import csv
import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from wmtop.engine.run.sources.base import Batch
from wmtop.engine.run.sources.columns import PREFIX, Columns
from wmtop.engine.run.sources.files import Files, Piece
from wmtop.engine.run.sources.replay import Replay
from wmtop.engine.run.sources.staging import StagedRows, arrivals_of
from wmtop.engine.watermarks.observation import MalformedRecord, Offender

from .streams import read_batches
from .time_truth import some, time_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 3_000
READ_AS = {"epoch s", "epoch ms", "epoch us", "epoch ns", "ISO 8601"}


def mixed(directory: Path, kind: str) -> tuple[Path, str, list[Any]]:
    """A file, the name of its time column, and that column's values."""
    r = random.Random(29)
    values: list[Any] = [some(r) for _ in range(ROWS)]
    path = directory / f"a.{kind}"
    directory.mkdir()
    if kind == "jsonl":
        values[:4] = [True, [1], {"c": 1}, 10**30]
        path.write_text("".join(json.dumps({"a": {"b": [0, {"c": value}]}}) + "\n" for value in values))
        return path, "a.b[1].c", values
    values = [None if value is None else str(value) for value in values]
    if kind == "csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([("at", "n"), *((value, 1) for value in values)])
    else:
        pq.write_table(pa.table({"at": pa.array(values, pa.string())}), path)
    return path, "at", values


def staged(source: Replay, directory: Path) -> list[int | None]:
    source.check()
    source.prepare(lambda text: None)
    tables = StagedRows(str(directory)).tables(0, len(arrivals_of(directory)))
    return [ms for table in tables for ms in table[f"{PREFIX}ts"].to_pylist()]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_every_value_is_read_by_its_size(spark: "SparkSession", tmp_path: Path, kind: str) -> None:
    path, name, values = mixed(tmp_path / "in", kind)
    expected = [time_of(value) for value in values]
    replay, files = (
        Replay([path], Columns(time=name), tmp_path / "s"),
        Files(path.parent, Columns(time=name), once=True),
    )
    assert staged(replay, tmp_path / "s") == expected
    files.check()
    for source in (replay, files):
        read_as = source.describe().time_unit or ""
        assert read_as.endswith(" (recognised)")
        assert set(read_as.removesuffix(" (recognised)").split(", ")) == READ_AS
    reader = files.load(spark, as_columns=True)
    assert reader.read is not None
    assert [ms for table in reader.read(Piece(str(path), 1)) for ms in table["ts"].to_pylist()] == expected
    rows = [row["ts"] for batch in read_batches(spark, files, tmp_path / "c").values() for row in batch]
    assert sorted(ms or 0 for ms in rows) == sorted(ms or 0 for ms in expected)


@pytest.mark.parametrize(
    ("line", "value", "why"),
    [
        ('{"at": "never"}', "never", "no_time"),
        ('{"at": "2021-02-30"}', "2021-02-30", "no_time"),
        ('{"at": {"b": 1}}', '{"b":1}', "no_time"),
        ('{"at": true}', "true", "no_time"),
        ('{"at": 1e30}', str(1e30), "out_of_range"),
        ('{"at": "99999999999999999999"}', "9" * 20, "out_of_range"),
        ('{"at": null}', None, "missing"),
        ("broken", "broken", "not_json"),
        (json.dumps({"at": "x" * 100}), "x" * 60, "no_time"),
    ],
)
def test_a_malformed_record_is_shown(spark: "SparkSession", tmp_path: Path, line: str, value: str, why: str) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "a.jsonl"
    file.write_text('{"at": 1700000000, "who": "a"}\n' + line + '\n{"at": "later"}\n')
    columns = Columns(time="at", channel="who")
    last = Offender("(none)", None, None)
    expected = MalformedRecord("(none)", "row 2 of a.jsonl", "at", value, why)  # pyright: ignore[reportArgumentType]
    replay = Replay([file], columns, tmp_path / "s")
    staged(replay, tmp_path / "s")
    assert replay.malformed_of(Batch(spark.range(0), 0, []), last) == expected
    os.utime(file, (1, 1))
    files = Files(file.parent, columns)
    planned = files.plan(0, 0)
    assert files.malformed_of(Batch(spark.range(1), 0, [str(planned)]), last) == expected


def test_a_missing_arrival_is_shown(spark: "SparkSession", tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("at,came\n1700000000,1700000000\n1700000000,\n,1700000000\n")
    replay = Replay([file], Columns(time="at", arrival="came"), tmp_path / "s")
    staged(replay, tmp_path / "s")
    found = replay.malformed_of(Batch(spark.range(0), 0, []), Offender("all", 0, None))
    assert found == MalformedRecord("all", "row 2 of a.csv", "came", None, "missing")
