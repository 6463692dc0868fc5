"""The short form of `make torture PART=h`, and that a watch which loses or repeats files is noticed."""

from collections import Counter
from pathlib import Path

import pytest
from wmtop.engine.run.sources import directory_watch
from wmtop.engine.run.sources.file_plan import FilePlan

from . import arrivals
from .arrivals import Torture
from .rounds import run_rounds, short


@pytest.fixture(autouse=True)
def no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/run/test_arriving_files.py has runs."""
    monkeypatch.setattr(arrivals, "RUN_EVERY", 10**9)


def test_each_file_is_read_once_or_named(tmp_path: Path) -> None:
    counts = short(Torture(tmp_path), 7, 20)
    assert counts["rounds"] == 20
    assert min(counts["files read whole"], counts["files that changed, named"]) > 0


@pytest.mark.parametrize(
    ("of", "name"),
    [
        (directory_watch.DirectoryWatch, "_note_changed"),
        (directory_watch.DirectoryWatch, "_forget_gone"),
        (FilePlan, "files"),
    ],
    ids=["changes unsaid", "deletions unsaid", "what was read is forgotten"],
)
def test_a_watch_that_does_less_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: type, name: str
) -> None:
    monkeypatch.setattr(of, name, lambda *given: ())
    assert run_rounds(Torture(tmp_path), 7, range(30), float("inf"), Counter()) is not None
