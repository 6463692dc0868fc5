"""A replay of files in a bucket: the rows of local files, few bytes, and every fault in one line."""

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from wmtop.engine.run.sources.columns import Columns
from wmtop.engine.run.sources.data_files import data_files, in_advance
from wmtop.engine.run.sources.replay import Replay
from wmtop.engine.run.sources.staging import StagedRows
from wmtop.engine.system import remote_files
from wmtop.engine.system.errors import UsageError

from ...refusals import refused
from ...targets.spark.s3 import ACCESS_DENIED, BUCKET, S3, UNAVAILABLE, s3_server
from ...tui.cli.commands import run

COLUMNS = Columns(time="when", unit="ms", channel="who", arrival="came")
LAKE = f"s3://{BUCKET}"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days of records in every format, and what is ignored."""
    lake = tmp_path_factory.mktemp("lake")
    for number, name in enumerate(("9/a.parquet", "9/b.csv", "9/c.csv.gz", "10/d.jsonl", "10/e.jsonl.gz", "10/f.csv")):
        write(lake / f"day={name}", first=number * 1_000)
    write(lake / "day=10" / "_temporary" / "g.parquet", first=0)
    write(lake / "day=10" / "part[1]?.csv", first=5)
    (lake / "day=10" / "_SUCCESS").touch()
    (lake / "notes.txt").write_text("notes")
    return lake


def write(path: Path, first: int, rows: int = 3_000) -> None:
    """Rows of three channels, one text with a comma and a line break; a ragged CSV row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {
            "when": range(first, first + rows),
            "who": ["a", 'b,"\n', None] * (rows // 3),
            "came": [first + 7 * number % 900 for number in range(rows)],
            "wide": [os.urandom(8).hex() for _ in range(rows)],
        }
    )
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=1_000)
        return
    if ".csv" in path.name:
        out = pa.BufferOutputStream()
        pa_csv.write_csv(table, out)
        content = out.getvalue().to_pybytes() + (b"1,a\n" if path.name == "f.csv" else b"")
    else:
        content = b"".join(msgspec.json.encode(row) + b"\n" for row in table.to_pylist())
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.fixture(scope="module")
def server(lake: Path) -> Iterator[S3]:
    with s3_server() as server:
        server.put(lake, "lake")
        yield server


@pytest.fixture
def s3(server: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(remote_files, "ATTEMPTS", 1)
    server.asked.clear()
    server.sent = 0
    yield server
    server.fault = None


def replay(directory: Path, *places: Path | str, columns: Columns = COLUMNS) -> Replay:
    """A replay of what these paths and URIs name, staged."""
    source = Replay(data_files(places), columns, directory)
    source.check()
    source.prepare(lambda text: None)
    return source


def rows(directory: Path, *places: Path | str) -> list[dict[str, Any]]:
    count = replay(directory, *places).rows_in_all or 0
    return [row for table in StagedRows(str(directory)).tables(0, count) for row in table.to_pylist()]


@pytest.mark.parametrize(
    "name",
    ["lake", "lake/day=*/*.parquet", "lake/**/*.csv", "lake/day=1?", "lake/*/[c-e].*", "lake/day=10/part[1]?.csv"],
)
def test_they_have_the_rows_of_local_files(s3: S3, lake: Path, name: str, tmp_path: Path) -> None:
    local = rows(tmp_path / "local", lake.parent / name.replace("lake", lake.name, 1))
    assert local
    assert rows(tmp_path / "s3", f"{LAKE}/{name}") == local


def test_files_are_in_the_order_of_their_numbers_and_each_is_read_once(s3: S3) -> None:
    found = data_files([f"{LAKE}/lake/**/*.csv", f"s3a://{BUCKET}/lake/day=*/f.csv"])
    assert [file.name for file in found] == ["b.csv", "f.csv", "part[1]?.csv"]


def test_the_next_files_are_read_in_advance_and_come_in_order() -> None:
    at_once = threading.Barrier(3, timeout=10)

    def read(number: int) -> int:
        at_once.wait()
        return number

    assert list(in_advance(read, range(6), 3)) == list(range(6))


def test_of_parquet_only_the_columns_that_are_needed_are_read(s3: S3, tmp_path: Path) -> None:
    count = 20_000
    wide = [os.urandom(200).hex() for _ in range(count)]
    table = pa.table({"when": range(count), "who": ["a"] * count, "came": range(count), "wide": wide})
    pq.write_table(table, tmp_path / "wide.parquet", row_group_size=count // 4)
    size = (tmp_path / "wide.parquet").stat().st_size
    s3.put(tmp_path / "wide.parquet", "wide.parquet")
    s3.sent = 0
    assert replay(tmp_path / "staged", f"{LAKE}/wide.parquet").rows_in_all == count
    assert size > 5 << 20
    assert s3.sent < 1 << 20
    assert len(s3.asked) < 40


def test_a_run_is_known_again_by_the_content_and_never_by_its_place(s3: S3, lake: Path, tmp_path: Path) -> None:
    local = replay(tmp_path / "local", lake / "day=9")
    remote = replay(tmp_path / "s3", f"{LAKE}/lake/day=9?endpoint_override={s3.endpoint}")
    assert remote.identity() == local.identity()
    assert remote.describe() == local.describe()
    s3.put(lake / "day=10" / "f.csv", "changed/b.csv")
    before = replay(tmp_path / "before", f"{LAKE}/changed/b.csv").identity()
    s3.put(lake / "day=9" / "b.csv", "changed/b.csv")
    assert replay(tmp_path / "after", f"{LAKE}/changed/b.csv").identity() != before


def test_what_cannot_be_read_is_one_line(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused(UsageError, "missing", "'b.csv'", f"{LAKE}/lake/day=9/b.cvs"):
        data_files([f"{LAKE}/lake/day=9/b.cvs"])
    with refused(UsageError, "no_files", f"{LAKE}/lake/day=7*/*.csv"):
        data_files([f"{LAKE}/lake/day=7*/*.csv"])
    with refused(UsageError, "no_files", f"{LAKE}/lake/day=10/_SUCCESS/*"):
        data_files([f"{LAKE}/lake/day=10/_SUCCESS/*"])
    with refused(UsageError, "unreadable", "no such bucket"):
        data_files(["s3://elsewhere/a.csv"])
    file = data_files([f"{LAKE}/lake/day=9"])
    for fault, says in ((ACCESS_DENIED, "access denied"), (UNAVAILABLE, "503"), ((403, b""), "access denied")):
        s3.fault = fault
        for place in (f"{LAKE}/lake", f"{LAKE}/lake/*.csv"):
            with refused(UsageError, "unreadable", place, says):
                data_files([place])
        for one in file:
            with refused(UsageError, "unreadable", one, says):
                Replay([one], COLUMNS, Path("staged")).check()
    s3.fault = None
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with refused(UsageError, "unreadable", LAKE, "cannot be reached"):
        data_files([f"{LAKE}/lake"])


@pytest.mark.parametrize("name", ["a.parquet", "b.csv", "c.csv.gz"])
def test_a_store_that_fails_while_rows_are_read_is_not_a_damaged_file(s3: S3, name: str, tmp_path: Path) -> None:
    source = Replay(data_files([f"{LAKE}/lake/day=9/{name}"]), COLUMNS, tmp_path)
    source.check()
    source.identity()
    s3.fault = UNAVAILABLE
    with refused(UsageError, "unreadable", name, "503"):
        source.prepare(lambda text: None)


@pytest.mark.parametrize(
    "uri",
    [
        f"s3://key:secret@{BUCKET}/a.csv",
        f"s3://key:half/secret@{BUCKET}/a.csv",
        "s3://key:secret@/a.csv",
        "abfss://container:secret@account/a.csv",
        "memory://user:secret@days/a.csv?signature=secret",
        "quux://user:secret@host/a.csv",
    ],
)
def test_no_error_has_a_secret_of_its_uri(uri: str) -> None:
    with pytest.raises(UsageError) as caught:
        data_files([uri])
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_file_systems_are_read_through_fsspec(lake: Path, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").put(str(lake), "/days", recursive=True)
    local = rows(tmp_path / "local", lake / "day=9")
    assert rows(tmp_path / "memory", "memory://days/day=9") == rows(tmp_path / "m", "memory://days/*=9/*") == local


def test_the_command_takes_uris_as_they_are_written(
    s3: S3, lake: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    uri = f"{LAKE}/lake/day=*/*.parquet"
    record = tmp_path / "run.rec"
    record.touch()
    code, out, err = run(capsys, "run", "replay", uri, "--time", "whne", "--once")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"'whne' in {LAKE}/lake/day=9/a.parquet; did you mean 'when'?" in err
    code, _, err = run(capsys, "run", "replay", uri, "--time", "when", "--once", "--record", record)
    assert (code, str(record) in err) == (2, True)
    mine = tmp_path / "mine.csv"
    mine.write_text("when\n1\n")
    code, _, err = run(capsys, "run", "replay", uri, mine, "--time", "when", "--once", "--firings", mine, "--force")
    assert (code, "input" in err) == (2, True)
    inside = lake / "day=9" / "firings.ndjson"
    code, _, err = run(capsys, "run", "replay", uri, lake, "--time", "when", "--once", "--firings", inside)
    assert (code, f"{inside} is inside" in err) == (2, True)


@pytest.mark.matrix
def test_a_run_counts_every_record(s3: S3) -> None:
    options = ("--time", "when", "--channel", "who", "--arrival", "came", "--batch-rows", "5000", "--lateness", "1d")
    options = (*options, "--time-unit", "ms")
    command = [sys.executable, "-m", "wmtop.tui.cli", "run", "replay", f"{LAKE}/lake", *options, "--window", "100ms"]
    done = subprocess.run([*command, "--json", "--once"], capture_output=True, text=True, check=True)
    ended = json.loads(done.stdout)
    assert (ended["name"], ended["totals"]["records"], ended["totals"]["malformed"]) == ("lake", 7 * 3_000, 1)
    assert {one["channel"]: one["records"] for one in ended["channels"]} == dict.fromkeys(
        ("a", 'b,"\n', "(none)"), 7_000
    )
    assert ended["windows"]["fired"] == 80  # times are 0 to 7999 ms
    assert s3.endpoint not in done.stdout + done.stderr
