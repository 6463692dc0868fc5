"""No output overwrites a file by mistake, and none is an input, by whatever name."""

import errno
import os
from pathlib import Path

import pytest
from wmtop.engine.system.errors import UsageError
from wmtop.engine.system.files import check_outputs, create, existing, written_whole

from .refusals import refused


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "deep").mkdir(parents=True)
    for name in ("in.csv", "old", "data/deep/part.csv"):
        (tmp_path / name).write_text(name)
    (tmp_path / "soft").symlink_to("in.csv")
    os.link("in.csv", "hard")
    os.link("data/deep/part.csv", "hard-part")
    (tmp_path / "other").symlink_to("data")
    (tmp_path / "dangling").symlink_to("data/new")
    return tmp_path


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("out", ["in.csv", "data/../in.csv", "soft", "hard"])
def test_an_input_file_is_never_an_output(here: Path, out: str, force: bool) -> None:
    with refused(UsageError, "input", f"--firings {out}", "in.csv"):
        check_outputs({"--firings": Path(out)}, inputs=[Path("in.csv")], force=force)


@pytest.mark.parametrize(
    "out", ["data/new", "data/deep/new", "data/deep/part.csv", "other/new", "hard-part", "dangling"]
)
def test_nothing_is_written_into_an_input_directory(here: Path, out: str) -> None:
    with refused(UsageError, "input", f"--record {out}", "data"):
        check_outputs({"--record": Path(out)}, inputs=[Path("data")], force=True)


def test_an_existing_file_needs_force_unless_it_is_the_runs_own(here: Path) -> None:
    old = {"--record": Path("old")}
    with refused(UsageError, "exists", "--record old"):
        check_outputs(old, inputs=[Path("in.csv"), Path("data")])
    check_outputs(old, force=True)
    check_outputs(old, own=[here / "old"])
    assert existing(Path("old"), force=True, own=[here / "old"]) == "continue"
    assert existing(Path("old"), force=True) == "replace"
    assert existing(Path("old"), force=False) == "refuse"


def test_a_link_that_leads_nowhere_exists(here: Path) -> None:
    with refused(UsageError, "exists"):
        check_outputs({"--record": Path("dangling")})


def test_two_outputs_are_two_files(here: Path) -> None:
    for one, other in (("new", "./new"), ("in.csv", "hard")):
        with refused(UsageError, "same_file", one):
            check_outputs({"--record": Path(one), "--firings": Path(other)}, force=True)
    check_outputs({"--record": Path("new"), "--firings": None})


def test_only_a_regular_file_is_replaced(here: Path) -> None:
    os.mkfifo("pipe")
    for name in ("data", "pipe", "/dev/null"):
        with refused(UsageError, "no_file", name):
            check_outputs({"--record": Path(name)}, force=True)


def test_creating_refuses_what_came_since_the_check(here: Path) -> None:
    with refused(UsageError, "exists"):
        create(Path("old"), "--firings")
    assert Path("old").read_text() == "old"
    create(Path("old"), "--firings", force=True).close()
    assert Path("old").read_text() == ""
    with refused(UsageError, "unwritable", "none/new", os.strerror(errno.ENOENT)):
        create(Path("none/new"), "--firings")


def test_a_file_appears_under_its_name_when_it_is_whole(here: Path) -> None:
    (here / "new.part").write_text("left by a process that was killed")
    with written_whole(here / "new", "-o") as part:
        part.write_text("whole")
        assert not (here / "new").exists()
    assert (here / "new").read_text() == "whole"
    assert not (here / "new.part").exists()


def test_of_a_file_that_could_not_be_written_nothing_is_left(here: Path) -> None:
    def fill(part: Path) -> None:
        part.write_text("half")
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"), written_whole(here / "old", "-o", force=True) as part:
        fill(part)
    assert (here / "old").read_text() == "old"
    assert not (here / "old.part").exists()


def test_through_a_link_its_target_is_replaced(here: Path) -> None:
    with written_whole(here / "soft", "-o", force=True) as part:
        part.write_text("whole")
    assert (here / "soft").is_symlink()
    assert (here / "in.csv").read_text() == "whole"


def test_a_file_that_has_appeared_meanwhile_is_not_replaced(here: Path) -> None:
    with refused(UsageError, "exists", here / "new"), written_whole(here / "new", "-o"):
        (here / "new").write_text("another's")
    assert (here / "new").read_text() == "another's"


def test_two_that_write_the_same_file_do_not_mix(here: Path) -> None:
    with refused(UsageError, "in_use", here / "new"), written_whole(here / "new", "-o") as part:
        part.write_text("ours")
        part.unlink()
        part.write_text("another's, half")
    assert not (here / "new").exists()
