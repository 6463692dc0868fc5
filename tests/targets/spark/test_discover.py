"""What can be attached to is found, newest first; what is not Spark's is not."""

import os
from pathlib import Path

from wmtop.engine.targets.open import discover

ID = '{"id":"5d0b3a8e-7b5e-4f6e-9a57-0d3b0f6f2a11"}'


def checkpoint(path: Path, changed_s: int = 0) -> Path:
    (path / "offsets").mkdir(parents=True)
    (path / "metadata").write_text(ID)
    os.utime(path / "offsets", (changed_s, changed_s))
    return path


def paths(root: Path, **more: int) -> list[Path]:
    return [found.path for found in discover([root], **more)]


def test_checkpoints_the_last_changed_first(tmp_path: Path) -> None:
    old = checkpoint(tmp_path / "a" / "b" / "checkpoint", 100)
    new = checkpoint(tmp_path / "c", 200)
    assert paths(tmp_path) == [new, old]
    assert [found.changed_ms for found in discover([tmp_path])] == [200_000, 100_000]
    assert {found.kind for found in discover([tmp_path])} == {"checkpoint"}


def test_a_root_within_another_is_not_found_twice(tmp_path: Path) -> None:
    inside = checkpoint(tmp_path / "a" / "q")
    assert [found.path for found in discover([tmp_path, tmp_path / "a"])] == [inside]
    assert paths(inside) == [inside]


def test_no_further_down_than_asked_and_not_in_hidden_directories(tmp_path: Path) -> None:
    deep = checkpoint(tmp_path / "1" / "2" / "3")
    assert paths(tmp_path, depth=2) == []
    assert paths(tmp_path, depth=3) == [deep]
    for hidden in (".git", "node_modules"):
        checkpoint(tmp_path / "1" / hidden / "q")
    (tmp_path / "link").symlink_to(deep)
    (tmp_path / "loop").symlink_to(tmp_path)
    checkpoint(deep / "state" / "q")  # inside a checkpoint there is none
    assert paths(tmp_path) == [deep]
    (tmp_path / "closed").mkdir(mode=0)
    assert paths(tmp_path) == [deep]
    assert discover([tmp_path / "missing"]) == []


def test_event_logs_by_their_names_and_first_bytes(tmp_path: Path) -> None:
    rolling = tmp_path / "eventlog_v2_local-1"
    rolling.mkdir()
    (rolling / "events_1_local-1.zstd").touch()
    plain = tmp_path / "local-1700000000000"
    plain.write_text('{"Event":"SparkListenerLogStart"}\n')
    being_written = tmp_path / "local-7.zstd.inprogress"
    being_written.touch()
    (tmp_path / "app-1.js").write_text("console.log(1)")
    (tmp_path / "local-5.txt").write_text("no log")
    found = discover([tmp_path])
    assert {one.path for one in found} == {rolling, plain, being_written}
    assert {one.kind for one in found} == {"event log"}


def test_the_state_of_our_own_engines_is_left_out(tmp_path: Path) -> None:
    ours = tmp_path / "state"
    checkpoint(ours / "checkpoint")
    assert paths(tmp_path) == [ours / "checkpoint"]
    for name in ("state.json", "lock"):
        (ours / name).touch()
    assert paths(tmp_path) == []


def test_packages_and_work_directories_are_no_queries(tmp_path: Path) -> None:
    """A package with tests in a folder `offsets`, and what a worker of Spark has of an application."""
    (tmp_path / "pandas/tests/tseries/offsets").mkdir(parents=True)
    (tmp_path / "pandas/tests/tseries/offsets/test_month.py").write_text("")
    (tmp_path / "work/app-20261122-0001/0").mkdir(parents=True)
    (tmp_path / "work/app-20261122-0001/0/stdout").write_text("")
    assert discover([tmp_path]) == []
