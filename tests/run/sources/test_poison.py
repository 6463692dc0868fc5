"""Nothing in data ends a run: a row that cannot be read is malformed, with file, row and reason; no other row is."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from wmtop.engine.run.durable_state import StateDirectory
from wmtop.engine.run.query import Run
from wmtop.engine.run.sources import directory_watch, staging
from wmtop.engine.run.sources.base import RecordColumns
from wmtop.engine.run.sources.columns import PREFIX, Columns
from wmtop.engine.run.sources.files import FileRows, Files, Piece
from wmtop.engine.run.sources.staging import StagedRows
from wmtop.engine.run.sources.table_files import look_at
from wmtop.engine.system.errors import UsageError
from wmtop.engine.watermarks.settings import Settings, Tumbling

from ...refusals import refused
from .poison import GOOD, LINE, POISON, Poison, csv, parquet, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from wmtop.engine.snapshot import Note
    from wmtop.engine.watermarks.monitor import Monitor

COLUMNS = Columns(time="at", channel="who")
ALL_COLUMNS = Columns(time="at", channel="who", marker="note = 'x'")


def files_in(directory: Path, kind: str, poison: bytes, name: str) -> tuple[Path, Path]:
    """A good file, and a later one."""
    first, second = directory / f"0.{kind}", directory / name
    first.write_bytes(GOOD[kind])
    second.write_bytes(poison)
    os.utime(first, (1, 1))
    return first, second


def counted(tables: list[Any]) -> tuple[int, int]:
    """The rows, and those without a time."""
    name = next((name for name in ("ts", f"{PREFIX}ts") if tables and name in tables[0].column_names), "")
    return sum(map(len, tables)), sum(each[name].null_count for each in tables)


@pytest.mark.parametrize("name", POISON)
def test_a_row_that_cannot_be_read_is_malformed_in_either_way(tmp_path: Path, name: str) -> None:
    poison = POISON[name]
    kind = poison.suffix.partition(".")[0]
    first, second = files_in(tmp_path, kind, poison.content, f"1.{poison.suffix}")
    piece = Piece(str(second), len(poison.content))
    in_columns = FileRows(look_at(first), COLUMNS, RecordColumns(explain=("note",)))
    assert counted(list(in_columns(piece))) == (poison.rows, poison.malformed)
    in_rows = FileRows(look_at(first), ALL_COLUMNS, RecordColumns(whole=True, explain=("note",)))
    paths = [pa.RecordBatch.from_pydict({"path": [str(second)]})]
    read = [pa.Table.from_batches([batch]) for batch in in_rows.in_rows(iter(paths))]
    assert counted(read) == (poison.rows, poison.malformed)
    assert {each.schema for each in read} == {in_rows.schema()}
    shown = next(in_columns.malformed(str(second)), None)
    if not poison.malformed:
        assert shown is None
        return
    assert shown is not None
    assert (shown.where, shown.why) == (f"row {poison.row:,} of 1.{poison.suffix}", poison.why)


@pytest.mark.parametrize("name", [name for name, each in POISON.items() if each.suffix in ("csv", "jsonl")])
def test_a_replay_reads_the_same(tmp_path: Path, name: str) -> None:
    poison = POISON[name]
    first, second = files_in(tmp_path, poison.suffix, poison.content, f"1.{poison.suffix}")
    staging.stage([look_at(first), like_the_first(first, second)], COLUMNS, "o", tmp_path / "staged", lambda text: None)
    staged = StagedRows(str(tmp_path / "staged"))
    rows = list(staged.tables(0, len(staging.arrivals_of(tmp_path / "staged"))))
    assert counted(rows) == (poison.rows + 2, poison.malformed)
    shown = staging.malformed_of(tmp_path / "staged")
    assert shown is not None
    assert (shown.where, shown.why) == (f"row {poison.row:,} of 1.{poison.suffix}", poison.why)


def like_the_first(first: Path, second: Path) -> Any:
    from wmtop.engine.run.sources.table_files import like

    return like(look_at(first), second)


def run_to_end(
    spark: "SparkSession", directory: Path, state_path: Path, columns: Columns
) -> "tuple[Monitor, set[tuple[Any, Any, Any]]]":
    """What a run with a state directory knows when it has read what is there, and its notes: code, file, why."""
    said: list[Note] = []
    source = Files(directory, columns, once=True, plan=state_path / "files.log")
    source.notes.subscribe(said.append)
    source.check()
    state = StateDirectory(state_path)
    state.lock()
    run = Run(source, Settings(lateness_ms=50, window=Tumbling(100)), state, None, lambda: None)
    run.load(spark)
    run.start()
    while not run.exhausted:
        run.check()
        time.sleep(0.05)
    run.stop()
    state.unlock()
    return run.monitor, {(note.code, note.args.get("file"), note.args.get("why")) for note in said}


@pytest.mark.parametrize("columns", [COLUMNS, ALL_COLUMNS], ids=["columns", "rows"])
@pytest.mark.parametrize("kind", GOOD)
def test_a_run_of_files_and_its_resume_count_every_row(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, columns: Columns
) -> None:
    """Of Parquet without a footer none: a writer may add it, so that such a file is named and not read."""
    monkeypatch.setattr(directory_watch, "NAMED_AFTER_S", 0.1)
    directory = tmp_path / "in"
    directory.mkdir()
    cases = [each for each in POISON.values() if each.suffix.partition(".")[0] == kind]
    # The oldest file cannot be read either: it keeps no run from starting, or from resuming.
    oldest = f"00.{cases[0].suffix}"
    write(directory / oldest, b"\xff\xfe" if kind != "parquet" else b"at,who", 1)
    good = directory / f"01.{kind}"
    write(good, GOOD[kind], 2)
    for number, case in enumerate(cases):
        write(directory / f"{number + 10}.{case.suffix}", case.content, number + 10)
    in_oldest = 1 if kind == "jsonl" else 0  # of CSV it is the header
    read = [case for case in cases if has_footer(case)]
    unread = {f"{number + 10}.{case.suffix}" for number, case in enumerate(cases) if not has_footer(case)}
    if kind == "parquet":
        assert unread
        unread.add(oldest)
    named = {("file_unread", name, "unfinished") for name in unread}
    rows = sum(case.rows for case in read) + in_oldest + 2
    malformed = sum(case.malformed for case in read) + in_oldest
    monitor, notes = run_to_end(spark, directory, tmp_path / "state", columns)
    assert notes == named
    assert monitor.rows == rows
    assert sum(each.malformed or 0 for each in monitor.counts.values()) == malformed
    example = monitor.malformed_example
    assert example is not None
    write(directory / f"later.{read[0].suffix}", read[0].content, 1_000)
    write(good, GOOD[kind] * 2, 1_000)
    monitor, notes = run_to_end(spark, directory, tmp_path / "state", columns)
    assert notes == named | {("file_changed", good.name, None)}
    assert monitor.rows == rows + read[0].rows
    assert sum(each.malformed or 0 for each in monitor.counts.values()) == malformed + read[0].malformed
    assert monitor.malformed_example == example


def test_a_last_row_that_was_read_in_part_is_not_read_again(spark: "SparkSession", tmp_path: Path) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    file = directory / "a.jsonl"
    write(file, LINE + b"\n" + LINE[:-9], 1)
    monitor, notes = run_to_end(spark, directory, tmp_path / "state", COLUMNS)
    assert (monitor.rows, monitor.malformed_example is None, notes) == (2, False, set())
    write(file, LINE + b"\n" + LINE + b"\n" + LINE + b"\n", 2)
    monitor, notes = run_to_end(spark, directory, tmp_path / "state", COLUMNS)
    assert (monitor.rows, notes) == (2, {("file_changed", "a.jsonl", None)})


def has_footer(case: Poison) -> bool:
    return case.suffix != "parquet" or case.content.endswith(b"PAR1")


def write(path: Path, content: bytes, mtime: int) -> None:
    path.write_bytes(content)
    os.utime(path, (mtime, mtime))


def test_a_directory_without_a_file_that_can_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no")
    with refused(UsageError, "no_parquet", "a.parquet"):
        Files(tmp_path, COLUMNS).check()
    (tmp_path / "b.parquet").write_bytes(parquet(table(1)))
    Files(tmp_path, COLUMNS).check()


def test_a_first_file_in_utf_16_is_refused_with_what_converts_it(tmp_path: Path) -> None:
    for name, content in {"a.csv": csv("1,a,x"), "a.jsonl": LINE}.items():
        (tmp_path / name).write_bytes(content.decode().encode("utf-16"))
        with refused(UsageError, "utf_16", name, "iconv"):
            look_at(tmp_path / name)
