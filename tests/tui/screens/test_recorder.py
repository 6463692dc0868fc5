"""R records what the screen sees, into a file of its own, and says which."""

import re
from datetime import datetime
from pathlib import Path

import pytest
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.system.errors import UsageError
from wmtop.tui.screens.incident_report import Recorder
from wmtop.tui.words.texts import recorded, recording_to

from ...refusals import refused
from .. import canned
from ..canned import late_burst, live, reported, starting
from ..drive import Driven, drive

NAME = re.compile(r"wmtop-flights-\d{8}-\d{6}\.rec")


def test_recorder_keeps_what_comes_between_two_presses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario(it: Driven) -> None:
        await it.press("R")
        (path,) = tmp_path.iterdir()
        assert NAME.fullmatch(path.name)
        assert it.toasts() == [recording_to(f"…/{path.name}")]
        await it.says("● LIVE · REC", "#status")
        await it.press("p")  # what is shown stands, what comes is recorded
        await it.push(late_burst(), live())
        await it.press("R")
        assert it.toasts()[-1] == recorded(f"…/{path.name}")
        assert "REC" not in it.said("#status")
        await it.push(late_burst())

    drive(scenario, *reported(live()))
    (path,) = tmp_path.iterdir()
    with RecordingReader(path) as reader:
        assert list(reader) == [live(), late_burst(), live()]
        assert not reader.truncated
        assert reader.header == canned.header()


def test_recorder_closes_at_quit_without_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario(it: Driven) -> None:
        await it.press("R")
        await it.push(live())
        await it.until(lambda: "REC" in it.said("#status"))

    drive(scenario, canned.header(), starting())
    (path,) = tmp_path.iterdir()
    with RecordingReader(path) as reader:
        assert list(reader) == [live()]
        assert not reader.truncated


def test_recorder_before_an_engine_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario(it: Driven) -> None:
        await it.press("R")
        assert it.toasts() == []

    drive(scenario)
    assert list(tmp_path.iterdir()) == []


def test_recorder_missing_directory_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    async def scenario(it: Driven) -> None:
        (tmp_path / "here").rmdir()
        await it.press("R")
        assert len(it.toasts()) == 1
        assert it.toasts()[0].startswith("not recorded: ")
        await it.says("● LIVE ", "#status")

    drive(scenario, *reported(live()))


def test_recorder_never_reuses_a_file(tmp_path: Path) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5)
    recorder = Recorder()
    names: list[str] = []
    for _ in range(3):
        names.append(recorder.start(canned.header(), live(), tmp_path, now).name)
        recorder.take()()
    assert names == [f"wmtop-flights-20260102-030405{more}.rec" for more in ("", "-2", "-3")]
    with refused(UsageError, "unwritable", tmp_path / "none"):
        recorder.start(canned.header(), live(), tmp_path / "none", now)
    assert recorder.path is None
