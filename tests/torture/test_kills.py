"""The short form of `make torture PART=a`, and that a blow falls where it was meant to."""

import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from . import kills
from .blows import Blow, struck
from .kills import Torture
from .processes import home
from .rounds import TortureError, short


@pytest.mark.parametrize("before", [True, False])
def test_a_kill_falls_around_a_fault_point(tmp_path: Path, *, before: bool) -> None:
    (tmp_path / "a").touch()
    then = "os.replace('a', 'b'); print('went on')"
    blow = Blow(signal.SIGKILL, None, 1, before, 0)
    command, fell = struck(blow, tmp_path, [], home(tmp_path), then=then)
    assert (command.code, fell, command.said()) == (-signal.SIGKILL, True, "")
    assert (tmp_path / "b").exists() is not before


def test_a_stopped_process_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    blow = Blow(signal.SIGSTOP, None, 1, True, 0.05)
    command, fell = struck(blow, tmp_path, [], home(tmp_path), then="os.replace('a', 'b'); print('went on')")
    assert (command.code, fell, command.said()) == (0, True, "went on\n")


def test_a_process_that_is_stopped_after_its_term_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    ready = tmp_path / "ready"
    then = (
        "signal.signal(15, signal.SIG_IGN); open('ready', 'w'); time.sleep(1); os.replace('a', 'b'); print('went on')"
    )

    def until_ready() -> None:
        while not ready.exists():
            time.sleep(0.01)

    blow = Blow(signal.SIGSTOP, None, 1, True, 0.05)
    command, fell = struck(blow, tmp_path, [], home(tmp_path), then=then, meanwhile=until_ready, ended_after_s=0.1)
    assert (command.code, fell, command.said()) == (0, True, "went on\n")


def test_a_recording_that_loses_what_it_acknowledged_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lazy = kills.RECORD_ALL.replace("writer.append(snapshots[number])", "number == 0 and writer.append(snapshots[0])")
    assert lazy != kills.RECORD_ALL
    monkeypatch.setattr(kills, "RECORD_ALL", lazy)
    with pytest.raises(TortureError, match="acknowledged"):
        Torture(tmp_path).record(random.Random(1), Counter())


def test_killed_processes_leave_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "RUN_EVERY", 10**9)  # test_recovery.py kills runs
    counts = short(Torture(tmp_path), 7, 3)
    assert counts["rounds"] == 3
