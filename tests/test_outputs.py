"""No output overwrites a file by mistake, and none is an input, by whatever name."""

import errno
import os
from pathlib import Path

import pytest
from wmtop.engine.system.errors import UsageError
from wmtop.engine.system.files import check_outputs, create, existing

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
