"""What cannot be read is one line that says what to do."""

import gzip
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from wmtop.engine.run.sources.columns import Columns
from wmtop.engine.run.sources.files import Files
from wmtop.engine.run.sources.rate import Rate
from wmtop.engine.run.sources.replay import Replay
from wmtop.engine.system.errors import UsageError

AT = Columns(time="at")


class Refusal(str):
    """What checking or staging says, with the error's code."""

    code = ""


def refusal_of(error: UsageError) -> Refusal:
    said = Refusal(error)
    assert "\n" not in said
    said.code = error.code
    return said


def refused(directory: Path, columns: Columns, *names: str, **options: Any) -> Refusal:
    source = Replay([directory / name for name in names], columns, directory / "staged", **options)

    def check_and_stage() -> None:
        source.check()
        source.prepare(lambda text: None)

    with pytest.raises(UsageError) as caught:
        check_and_stage()
    return refusal_of(caught.value)


def parquet(path: Path, **columns: Any) -> None:
    pq.write_table(pa.table(columns), path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    parquet(tmp_path / "flights.parquet", at=[1])
    assert refused(tmp_path, AT, "nowhere/a.csv").code == "missing"
    assert "'flights.parquet'" in refused(tmp_path, AT, "flihgts.parquet")
    assert f"wmtop run files {tmp_path}" in refused(tmp_path, AT, ".")


def test_files_without_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.jsonl").write_text("\n \n")
    (tmp_path / "c.csv").write_text("at,b\n")
    parquet(tmp_path / "d.parquet", at=pa.array([], pa.int64()))
    (tmp_path / "e.csv.gz").write_bytes(gzip.compress(b""))
    for name in ("a.csv", "b.jsonl", "e.csv.gz"):
        assert "is empty" in refused(tmp_path, AT, name)
    for name in ("c.csv", "d.parquet"):
        assert "no rows" in refused(tmp_path, AT, name)


def test_damaged_files(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"at\n1\n")
    (tmp_path / "b.parquet").write_bytes(b"PAR1" + b"x" * 100)
    parquet(tmp_path / "whole.parquet", at=list(range(1000)))
    content = bytearray((tmp_path / "whole.parquet").read_bytes())
    content[4:400] = b"\xff" * 396
    (tmp_path / "c.parquet").write_bytes(content)
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"at\n" + bytes(range(48, 58)) * 100_000)[:-200])
    (tmp_path / "e.json").write_text('[{"at": 1}]')
    (tmp_path / "f.json").write_text("at: 1\n")
    for name, code in {
        "a.parquet": "no_parquet",
        "b.parquet": "no_parquet",
        "c.parquet": "damaged",
        "d.csv.gz": "damaged",
        "e.json": "json_array",
        "f.json": "no_json_lines",
    }.items():
        said = refused(tmp_path, AT, name)
        assert said.code == code
        assert name in said


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", sched_dep=[1], carrier=["UA"])
    (tmp_path / "b.csv").write_text("sched_dep,carrier,sched_dep\n1,UA,1\n")
    (tmp_path / "c.jsonl").write_text('{"sched_dep": 1}\n{"carrier": "UA"}\n')
    for name in ("a.parquet", "c.jsonl"):
        said = refused(tmp_path, Columns(time="sched_dp"), name)
        assert said.startswith("--time: ")
        assert said.code == "no_column"
        assert {"'sched_dp'", "'sched_dep'"} <= set(re.findall(r"'\w+'", said))
    assert refused(tmp_path, Columns(time="sched_dep", channel="Carrier"), "a.parquet").startswith("--channel: ")
    assert refused(tmp_path, Columns(time="sched_dep", arrival="x"), "a.parquet").startswith("--arrival: ")
    assert refused(tmp_path, Columns(time="sched_dep", watermark="x"), "a.parquet").startswith("--watermark: ")
    assert "has 2 columns sched_dep" in refused(tmp_path, Columns(time="sched_dep"), "b.csv")


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": {"b": [1]}, "x.y": 2}\n{"a": 3}\n')
    for path in ("a.c", "a.b[1]", "b.c"):
        assert refused(tmp_path, Columns(time=path), "a.jsonl").code == "no_column"
    assert "near ones: a.b" in refused(tmp_path, Columns(time="a.bb"), "a.jsonl")
    for path in ("a.b[0]", "$.a.b[0]", "x.y"):
        Replay([tmp_path / "a.jsonl"], Columns(time=path), tmp_path / "staged").check()


def test_columns_that_hold_no_times(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,b\nUA,1\nB6,2\n")
    (tmp_path / "b.jsonl").write_text('{"at": "x"}\n{"at": null}\n')
    parquet(tmp_path / "c.parquet", at=["never"], seen=pa.array([0], pa.timestamp("ms")))
    parquet(tmp_path / "d.parquet", at=[True], seen=pa.array([0], pa.timestamp("ms")), nested=[[1]])
    parquet(tmp_path / "e.parquet", at=[1_360_333_930_123_456_789, None])
    for name, value in (("a.csv", "UA"), ("b.jsonl", "x"), ("c.parquet", "never")):
        said = refused(tmp_path, AT, name)
        assert repr(value) in said
        assert said.code == "no_time"
        assert "--time-unit" in said
    said = refused(tmp_path, AT, "d.parquet")
    assert said.code == "no_time"
    assert {"at", "d.parquet", "bool", "seen"} <= set(re.findall(r"[\w.]+", said))
    assert "--time-unit ns" in refused(tmp_path, Columns(time="at", unit="ms"), "e.parquet")
    Replay([tmp_path / "e.parquet"], AT, tmp_path / "staged").check()
    assert refused(tmp_path, Columns(time="seen", channel="nested"), "d.parquet").code == "not_one_value"
    assert refused(tmp_path, Columns(time="seen", marker="nested is null"), "d.parquet").code == "no_condition"


def test_numbers_of_any_length_are_one_line(tmp_path: Path) -> None:
    for name, digits in (("a.jsonl", 400), ("a.jsonl", 5_000), ("a.csv", 5_000)):
        number = "1" * digits
        (tmp_path / name).write_text(f"at\n{number}\n" if name == "a.csv" else f'{{"at": {number}}}\n')
        if digits == 400:
            Replay([tmp_path / name], AT, tmp_path / "staged").check()  # a number, but malformed
        else:
            assert len(refused(tmp_path, AT, name)) < 400


def test_decimals_of_more_digits_than_a_time_has(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", at=pa.array([Decimal(1)], pa.decimal256(76, 3)))
    assert "decimal256(76, 3)" in refused(tmp_path, AT, "a.parquet")
    with pytest.raises(UsageError, match="decimal256"):
        Files(tmp_path, AT).check()


def test_bad_times_among_good_ones_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at\nnever\n2013-02-08\n")
    parquet(tmp_path / "b.parquet", at=pa.nulls(3, pa.string()))
    for name in ("a.csv", "b.parquet"):
        Replay([tmp_path / name], AT, tmp_path / "staged").check()


def test_files_that_differ(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", at=[1], kind=["x"])
    parquet(tmp_path / "b.parquet", at=pa.array([0], pa.timestamp("ms")), kind=[1])
    parquet(tmp_path / "c.parquet", other=[1])
    parquet(tmp_path / "d.parquet", at=[1], kind=[1])
    assert "timestamp[ms] in" in refused(tmp_path, AT, "a.parquet", "b.parquet")
    assert refused(tmp_path, AT, "a.parquet", "c.parquet").code == "no_column"
    assert "--marker" in refused(tmp_path, Columns(time="at", marker="kind = 'x'"), "a.parquet", "d.parquet")


def test_numbers_that_make_no_replay(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", at=[1])
    for speed in (0.0, -1.0, float("inf"), float("nan")):
        assert refused(tmp_path, AT, "a.parquet", speed=speed).startswith("--speed: ")
    assert refused(tmp_path, AT, "a.parquet", batch_rows=0).startswith("--batch-rows: ")


def test_a_directory_that_cannot_be_watched(tmp_path: Path) -> None:
    def said(directory: Path, columns: Columns = AT, **options: Any) -> Refusal:
        with pytest.raises(UsageError) as caught:
            Files(directory, columns, **options).check()
        return refusal_of(caught.value)

    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "_SUCCESS").touch()
    (tmp_path / "empty" / ".part.csv.crc").write_text("x")
    (tmp_path / "empty" / "README.md").write_text("read me")
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a.csv").write_text("at\n1\n")
    parquet(tmp_path / "mixed" / "b.parquet", at=[1])
    assert said(tmp_path / "nowhere").code == "missing"
    assert "wmtop run replay" in said(tmp_path / "mixed" / "a.csv")
    assert said(tmp_path / "empty").code == "no_files"
    assert "--format" in said(tmp_path / "mixed")
    assert said(tmp_path / "mixed", Columns(time="b"), as_format="csv").code == "no_column"


@pytest.mark.parametrize(
    ("option", "value"), [("channels", 0), ("rows_per_second", 0.0), ("rows_per_second", float("nan")), ("rows", 0)]
)
def test_numbers_that_make_no_rate(option: str, value: Any) -> None:
    with pytest.raises(UsageError, match="--" + option.replace("_", "-")):
        Rate(**{option: value}).check()
