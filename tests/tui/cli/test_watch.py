"""`wmtop watch`: a plain line at each change, and the exit code of the last verdict."""

from itertools import pairwise
from pathlib import Path

import pytest
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.tui.cli.check import Lines
from wmtop.tui.cli.targets import Look
from wmtop.tui.words.recent import Recent

from ..canned import header, live
from ..recorded import record
from .commands import run

RECORDING = Path(__file__).parents[2] / "doctor" / "flights-lateness-3h.rec"


def test_watch_prints_a_line_at_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "watch", RECORDING, "--every", "10d")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert "\r" not in out
    verdicts = [line.split()[3] for line in lines]
    assert {"STALLED", "SLOW", "MOVING"} <= set(verdicts)
    assert all(before.split("  ", 1)[1] != after.split("  ", 1)[1] for before, after in pairwise(lines))
    stall = verdicts.index("STALLED")
    assert "FL" in lines[stall]
    assert "new: " in lines[stall]
    assert "over: " in lines[stall + 1]


def test_watch_without_a_change_prints_a_line_now_and_then(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshots = [live(now_ms=second * 1_000, wall_ms=second * 1_000) for second in range(1, 200)]
    path = record(tmp_path / "x.rec", *snapshots)
    often = run(capsys, "watch", path, "--every", "1m")[1].splitlines()
    seldom = run(capsys, "watch", path, "--every", "1h")[1].splitlines()
    assert len(often) == len(seldom) + 3


def test_watch_exits_as_the_last_verdict_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RecordingReader(RECORDING) as reader:
        stalled = next(n for n in range(len(reader)) if reader.at(n).verdict.verdict == "stalled")
        path = record(tmp_path / "x.rec", *(reader.at(n) for n in range(stalled + 1)))
    assert run(capsys, "watch", path)[0] == 1
    code, _, err = run(capsys, "watch", tmp_path / "nosuch.rec")
    assert code == 2
    assert "nosuch.rec" in err


def test_watch_says_that_it_is_connected_and_that_nothing_comes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, snapshot = Lines(10**9), live()

    def said() -> str:
        return capsys.readouterr().out

    lines.greet(header())
    assert f"connected to {header().name}" in said()
    lines.note_silence("orders")
    assert said() == "", "an answer may take a moment"
    monkeypatch.setattr("wmtop.tui.cli.check.FIRST_MS", 0)
    lines.note_silence("orders")
    lines.note_silence("orders")
    assert said().count("waiting for the first answer of orders") == 1
    look = Look(Recent(), seen=[snapshot])
    lines.see(look)
    assert "UNKNOWN" not in said()
    lines.note_silence("orders")
    assert said() == ""
    monkeypatch.setattr("wmtop.tui.cli.check.LOST_AFTER_MS", 0)
    lines.note_silence("orders")
    assert "UNKNOWN  orders has sent nothing" in said()
    lines.see(look)
    assert len(said().splitlines()) == 1, "what holds now is said again, changed or not"
