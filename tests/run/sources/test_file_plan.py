"""The files of each batch are on disk before they are read: a resumed run neither repeats nor misses one."""

from pathlib import Path

import pytest
from wmtop.engine.run.sources.base import Batch
from wmtop.engine.run.sources.columns import Columns
from wmtop.engine.run.sources.directory_watch import FileState
from wmtop.engine.run.sources.file_plan import FilePlan, PlannedBatch
from wmtop.engine.run.sources.files import Files
from wmtop.engine.system.errors import RunError, UsageError

from tests.refusals import refused

from .test_directory_watch import Looks

BATCHES = [
    PlannedBatch(number, [(f"d/{number} ü\n.jsonl", FileState(number, 2**62 + number)), ("b.jsonl", FileState(1, 2))])
    for number in range(4)
]


def planned(path: Path, batches: list[PlannedBatch] = BATCHES) -> Path:
    plan = FilePlan(path)
    plan.resume(None)
    for batch in batches:
        plan.add(batch)
    return path


def resumed(path: Path, last: int | None) -> list[PlannedBatch]:
    plan = FilePlan(path)
    plan.resume(last)
    return list(plan.batches.values())


@pytest.mark.parametrize("last", [None, 0, 2, 3])
def test_a_resumed_run_has_the_batches_that_were_applied_and_plans_the_others_again(
    tmp_path: Path, last: int | None
) -> None:
    path = planned(tmp_path / "new/files.log")
    kept = BATCHES[: 0 if last is None else last + 1]
    assert resumed(path, last) == kept
    assert resumed(path, last) == kept  # those after it are gone
    plan = FilePlan(path)
    plan.resume(last)
    again = PlannedBatch(len(kept), [("other.jsonl", FileState(9, 9))])
    plan.add(again)
    assert resumed(path, len(kept)) == [*kept, again]


def test_a_log_cut_or_changed_at_any_byte_is_refused_or_has_what_was_applied(tmp_path: Path) -> None:
    content = planned(tmp_path / "whole").read_bytes()
    before_last = len(planned(tmp_path / "shorter", BATCHES[:3]).read_bytes())
    path = tmp_path / "files.log"
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        if size >= before_last:
            assert resumed(path, 2) == BATCHES[:3]
        else:
            with refused(UsageError, "", path, "batch 2"):
                resumed(path, 2)
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 1
        path.write_bytes(changed)
        if at >= before_last:
            assert resumed(path, 2) == BATCHES[:3]
        else:
            with refused(UsageError, "", path):
                resumed(path, 2)


def test_a_plan_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "files.log").mkdir()
    with refused(RunError, "unwritable", tmp_path / "files.log"):
        FilePlan(tmp_path / "files.log").add(BATCHES[0])


def files_of(tmp_path: Path) -> Files:
    source = Files(tmp_path / "in", Columns(time="at"), plan=tmp_path / "files.log")
    source.check()
    source.resume(None)
    return source


def test_a_batch_that_is_planned_again_has_the_same_files_without_those_that_are_gone(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in")
    for name in ("a.jsonl", "b.jsonl"):
        looks.write(name, '{"at": 1}\n', age_s=5)
    source = files_of(tmp_path)
    assert source.plan(0, 0) == 0
    (tmp_path / "in/a.jsonl").unlink()
    assert source.retry_after_s is not None
    assert source.retry_after_s(1, "no such file") is not None
    assert source.plan(0, 0) == 0
    present = source._files_in(Batch(None, 0, ["0"]))  # pyright: ignore
    assert [Path(path).name for path, _ in present] == ["b.jsonl"]
    assert [note.args["file"] for note in source.notes.notes()] == ["a.jsonl"]
    assert source.retry_after_s(2, "damaged") is None  # none is gone that was not named
    assert resumed(tmp_path / "files.log", 0)[0].files[0][0] == "a.jsonl"


def test_a_batch_waits_for_a_directory_that_goes_before_it_is_read(tmp_path: Path) -> None:
    Looks(tmp_path / "in").write("a.jsonl", '{"at": 1}\n', age_s=5)
    source = files_of(tmp_path)
    assert source.plan(0, 0) == 0
    (tmp_path / "in").rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        source._files_in(Batch(None, 0, ["0"]))  # pyright: ignore
    assert source.retry_after_s is not None
    assert source.retry_after_s(1, "gone") is not None
    source._look_at_s = 0.0
    assert source.plan(0, 0) is None
    assert source.is_lost
    (tmp_path / "away").rename(tmp_path / "in")
    source._look_at_s = 0.0
    assert source.plan(0, 0) == 0
    assert len(source._files_in(Batch(None, 0, ["0"]))) == 1  # pyright: ignore
