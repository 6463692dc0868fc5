"""A file is read once it has come to rest, and what is not read is named: by a clock of the test, without Spark."""

import os
from pathlib import Path
from typing import Any

import pytest
from wmtop.engine.run.sources.base import SourceNotes
from wmtop.engine.run.sources.data_files import Format
from wmtop.engine.run.sources.directory_watch import MAX_NAMED, NAMED_AFTER_S, REST_S, DirectoryWatch
from wmtop.engine.snapshot import Note
from wmtop.engine.system.errors import RunError
from wmtop.tui.words.notes import note_text

from tests.refusals import refused

START_NS = 1_700_000_000_000_000_000


class Looks:
    """A directory, a clock, and the looks at it."""

    def __init__(self, directory: Path, format: Format = "json", *, any_name: bool = False, once: bool = False) -> None:
        self.directory = directory
        self.directory.mkdir(exist_ok=True)
        self.now_s = 0.0
        self.said: list[Note] = []
        notes = SourceNotes()
        notes.subscribe(self.said.append)
        self.watch = DirectoryWatch(
            directory,
            format,
            notes,
            any_name=any_name,
            once=once,
            clock_s=lambda: self.now_s,
            wall_ns=lambda: START_NS + int(self.now_s * 1e9),
        )

    def write(self, name: str, content: bytes | str, *, age_s: float = 0.0) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.modify(path, age_s)
        return path

    def modify(self, path: Path, age_s: float = 0.0) -> None:
        modified_ns = START_NS + int((self.now_s - age_s) * 1e9)
        os.utime(path, ns=(modified_ns, modified_ns))

    def read(self, after_s: float = 0.0) -> list[str]:
        """Look after that time, and read what is ready."""
        self.now_s += after_s
        ready = self.watch.look()
        self.watch.take(ready)
        return [path for path, _ in ready]

    def notes(self) -> list[tuple[Any, ...]]:
        """The notes since the last call: code, file or directory, and why."""
        said = [(n.code, n.args.get("file", n.args.get("directory")), n.args.get("why")) for n in self.said]
        self.said.clear()
        return said


def test_a_file_that_is_written_slowly_is_read_once_and_whole(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in")
    for rows in range(1, 6):
        looks.write("a.jsonl", "{}\n" * rows)
        assert looks.read() == []
        assert looks.read(REST_S * 0.9) == []
    looks.write("a.jsonl", "{}\n" * 6)
    looks.read()
    assert looks.read(REST_S) == ["a.jsonl"]
    assert looks.read(REST_S) == []
    assert looks.notes() == []
    assert looks.watch.all_read


def test_a_file_that_was_moved_into_place_is_read_at_once_whatever_its_age(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in")
    for days in (0.001, 8, 4_000):
        looks.write(f"{days}.jsonl", "{}\n", age_s=days * 86_400)
    assert looks.read() == ["4000.jsonl", "8.jsonl", "0.001.jsonl"]


def test_a_file_that_is_created_empty_is_named_and_then_read(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in")
    path = looks.write("a.jsonl", "", age_s=100)
    assert looks.read() == looks.read(NAMED_AFTER_S - 1) == []
    assert looks.notes() == []
    assert looks.read(1) == looks.read(100) == []
    assert looks.notes() == [("file_unread", "a.jsonl", "empty")]
    path.write_text("{}\n")
    looks.modify(path)
    assert looks.read() == []
    assert not looks.watch.all_read
    assert looks.read(REST_S) == ["a.jsonl"]


def test_a_file_that_never_rests_is_named_and_nothing_is_called_read(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in")
    for rows in range(30):
        looks.write("app.jsonl", "{}\n" * (rows + 1))
        assert looks.read(REST_S / 2) == []
        assert not looks.watch.all_read
    assert looks.notes() == [("file_unread", "app.jsonl", "growing")]


@pytest.mark.parametrize("content", [b"{}\n{}\n", b"{ }", b"[]\n"], ids=["grown", "replaced", "same size"])
def test_what_changes_after_it_was_read_is_not_read_again_and_named(tmp_path: Path, content: bytes) -> None:
    looks = Looks(tmp_path / "in")
    looks.write("a.jsonl", "{}\n", age_s=5)
    assert looks.read() == ["a.jsonl"]
    looks.write("new", content)
    os.replace(looks.directory / "new", looks.directory / "a.jsonl")
    assert looks.read(1) == looks.read(1) == []
    assert [note.args for note in looks.said] == [{"file": "a.jsonl", "bytes": 3, "bytes_now": len(content), "more": 0}]
    assert "the new content is not read" in note_text(looks.said[0])
    looks.notes()
    looks.write("a.jsonl", content * 9)  # once more: named again
    assert looks.read(1) == looks.read(1) == []
    assert looks.notes() == [("file_changed", "a.jsonl", None)]


def test_a_resumed_watch_reads_nothing_twice_and_names_what_changed_meanwhile(tmp_path: Path) -> None:
    before = Looks(tmp_path / "in")
    for name in ("a.jsonl", "b.jsonl", "gone.jsonl"):
        before.write(name, "{}\n", age_s=5)
    ready = before.watch.look()
    (tmp_path / "in/gone.jsonl").unlink()
    looks = Looks(tmp_path / "in")
    looks.watch.begin(ready)
    looks.write("b.jsonl", "{}\n{}\n", age_s=3)
    looks.write("c.jsonl", "{}\n", age_s=3)
    assert looks.read() == ["c.jsonl"]
    assert looks.notes() == [("file_changed", "b.jsonl", None)]


def test_a_file_that_is_moved_within_the_directory_is_not_read_twice(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in")
    for name in ("a.jsonl", "b.jsonl"):
        looks.write(name, "{}\n", age_s=5)
    assert looks.read() == ["a.jsonl", "b.jsonl"]
    (looks.directory / "done").mkdir()
    (looks.directory / "a.jsonl").rename(looks.directory / "done/a.jsonl")
    looks.write("done/b.jsonl", "{}\n", age_s=4)  # another one: b.jsonl is still there
    assert looks.read(1) == ["done/b.jsonl"]
    assert looks.notes() == [("file_unread", "done/a.jsonl", "moved")]


def test_names_of_files_that_are_not_finished_or_hidden_are_passed_over(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in", any_name=True)
    for name in ("_a.jsonl", ".a.jsonl", "a.jsonl.tmp", "a.PART", "_d/a.jsonl", ".d/a.jsonl", "a.jsonl._COPYING_"):
        looks.write(name, "{}\n", age_s=5)
    looks.write("day=1/hour=2/a.jsonl", "{}\n", age_s=4)
    looks.write("events", "{}\n", age_s=3)
    assert looks.read() == ["day=1/hour=2/a.jsonl", "events"]
    (looks.directory / "a.jsonl.tmp").rename(looks.directory / "a.jsonl")
    assert looks.read(60) == ["a.jsonl"]
    assert looks.notes() == []


def test_files_of_another_format_are_named(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in")
    for name in ("a.jsonl", "b.csv", "notes.txt", "c.json.gz"):
        looks.write(name, "{}\n", age_s=5)
    looks.write("bad\udcff.jsonl", "{}\n", age_s=5)  # no text: neither Spark nor JSON has such names
    assert looks.read() == ["a.jsonl", "c.json.gz"]
    assert looks.read(NAMED_AFTER_S) == []
    named = [name for _, name, why in looks.notes() if why == "other_format"]
    assert named == ["b.csv", "bad\\udcff.jsonl", "notes.txt"]
    assert looks.watch.all_read


def test_a_parquet_file_without_its_end_is_named_and_read_when_it_has_it(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in", "parquet")
    path = looks.write("a.parquet", b"PAR1 some row groups", age_s=5)
    assert looks.read() == looks.read(NAMED_AFTER_S) == []
    assert looks.notes() == [("file_unread", "a.parquet", "unfinished")]
    assert not looks.watch.all_read
    path.write_bytes(b"PAR1 some row groups and the footer PAR1")
    looks.modify(path)
    looks.read()
    assert looks.read(REST_S) == ["a.parquet"]


def test_a_file_that_goes_before_it_is_read_is_named(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in")
    path = looks.write("a.jsonl", "{}\n")
    assert looks.read() == []
    path.unlink()
    assert looks.read(1) == []
    assert looks.notes() == [("file_unread", "a.jsonl", "gone")]
    assert looks.watch.all_read


def test_many_files_are_named_in_few_notes(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in")
    for number in range(100):
        looks.write(f"{number:03}.jsonl", "", age_s=5)
    looks.read()
    looks.read(NAMED_AFTER_S)
    assert [note.args["file"] for note in looks.said] == [f"{number:03}.jsonl" for number in range(MAX_NAMED)]
    assert note_text(looks.said[-1]).endswith(f"(and {100 - MAX_NAMED} more files)")


def test_a_directory_that_is_renamed_away_is_lost_until_it_is_back(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in")
    looks.write("a.jsonl", "{}\n", age_s=5)
    assert looks.read() == ["a.jsonl"]
    looks.write("b.jsonl", "{}\n")
    assert looks.read() == []
    looks.directory.rename(tmp_path / "away")
    assert looks.read(1) == looks.read(1) == []
    assert looks.watch.is_lost
    assert not looks.watch.is_there()
    assert looks.notes() == [("directory_lost", str(tmp_path / "in"), "No such file or directory")]
    lost = looks.watch.lost
    assert lost is not None
    assert (lost.directory, lost.why) == (str(tmp_path / "in"), "No such file or directory")
    (tmp_path / "away").rename(looks.directory)
    assert looks.read(3) == ["b.jsonl"]
    assert not looks.watch.is_lost
    assert looks.watch.lost is None
    assert [note.args for note in looks.said] == [{"directory": str(tmp_path / "in"), "lost_ms": 4_000}]


def test_a_directory_that_is_replaced_by_an_empty_one_is_lost_until_it_has_a_file(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in")
    looks.write("a.jsonl", "{}\n", age_s=5)
    assert looks.read() == ["a.jsonl"]
    looks.directory.rename(tmp_path / "away")
    looks.directory.mkdir()
    assert looks.read(1) == []
    assert looks.watch.is_lost
    assert looks.notes() == [("directory_lost", str(tmp_path / "in"), "it was replaced by an empty directory")]
    looks.write("c.jsonl", "{}\n", age_s=5)
    assert looks.read(1) == ["c.jsonl"]
    assert not looks.watch.is_lost


def test_a_directory_whose_files_were_taken_away_is_not_lost(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in")
    path = looks.write("a.jsonl", "{}\n", age_s=5)
    assert looks.read() == ["a.jsonl"]
    path.unlink()
    assert looks.read(1) == []
    assert (looks.watch.is_lost, looks.notes()) == (False, [])


def test_a_look_that_does_not_come_back_is_a_lost_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, lost = Looks(tmp_path / "in"), list[bool]()

    def hang(path: str, prefix: str, linked: set[Any]) -> list[Any]:
        lost.append(looks.watch.is_lost)
        looks.now_s += 60
        lost.append(looks.watch.is_lost)
        return []

    monkeypatch.setattr("wmtop.engine.run.sources.directory_watch._files_below", hang)
    looks.read()
    assert (lost, looks.watch.is_lost) == ([False, True], False)


def test_once_waits_for_what_is_written_and_names_what_stays_empty(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in", once=True)
    looks.write("a.jsonl", "{}\n", age_s=5)
    looks.write("empty.jsonl", "", age_s=5)
    path = looks.write("slow.jsonl", "{}\n")
    looks.write("notes.txt", "x", age_s=5)
    assert looks.read() == ["a.jsonl"]
    looks.write("later.jsonl", "{}\n", age_s=5)
    for _ in range(20):
        path.write_bytes(path.read_bytes() + b"{}\n")
        looks.modify(path)
        assert looks.read(REST_S) == []
        assert not looks.watch.ended
    assert looks.read(REST_S) == ["slow.jsonl"]
    assert looks.watch.ended
    assert {(name, why) for _, name, why in looks.notes()} == {
        ("empty.jsonl", "empty"), ("notes.txt", "other_format"), ("slow.jsonl", "growing"),
    }  # fmt: skip


def test_once_an_empty_file_that_is_just_created_has_the_time_of_rest_to_be_filled(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in", once=True)
    path = looks.write("a.jsonl", "")
    assert looks.read() == []
    assert not looks.watch.ended
    path.write_text("{}\n")
    looks.modify(path)
    assert looks.read(REST_S / 2) == []
    assert not looks.watch.ended
    assert looks.read(REST_S) == ["a.jsonl"]
    assert looks.watch.ended
    assert looks.notes() == []


def test_once_a_lost_directory_ends_the_run(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in", once=True)
    looks.write("a.jsonl", "{}\n")
    looks.read()
    looks.directory.rename(tmp_path / "away")
    with refused(RunError, "", "No such file or directory", tmp_path / "in"):
        looks.read(1)


def test_ten_thousand_files_are_read_once_each(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in")
    for number in range(10_000):
        (looks.directory / f"{number}.jsonl").write_text("{}\n")
    looks.now_s = 1e9  # they are old
    assert len(looks.read()) == 10_000
    assert looks.read(1) == []
    assert looks.notes() == []


def test_links_to_directories_are_followed_once(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "in")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.jsonl").write_text("{}\n")
    (looks.directory / "link").symlink_to(elsewhere)
    (elsewhere / "round").symlink_to(elsewhere)
    (looks.directory / "nowhere").symlink_to(tmp_path / "nothing")
    looks.now_s = 1e9
    assert looks.read() == ["link/a.jsonl"]
