"""The short form of `make torture PART=b`, and that what a bad disk must not do is noticed."""

import json
import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from wmtop.engine.run import durable_state
from wmtop.engine.run.durable_state import SavedState, StateDirectory

from . import disks
from .blows import fault_program
from .cut_states import Saved, cut_everywhere
from .disks import Torture
from .planted_states import plant
from .processes import Command, home
from .rounds import TortureError, short


def output_of(program: str, directory: Path) -> str:
    command = Command(directory, [], home(directory), program)
    assert command.wait(60)
    return command.said()


def test_a_call_fails_once_or_for_ever(tmp_path: Path) -> None:
    then = """
for _ in range(4):
    try:
        os.replace(".", ".")
    except OSError as error:
        print(error.errno)
"""
    once = output_of(fault_program("fail_from(2, error=28, calls=1)", then), tmp_path).split()
    assert [code == "28" for code in once] == [False, True, False, False]
    for_ever = output_of(fault_program("fail_from(2, error=28, calls=99)", then), tmp_path).split()
    assert [code == "28" for code in for_ever] == [False, True, True, True]


def test_a_clock_jumps_once(tmp_path: Path) -> None:
    then = "print([round(time.time_ns() / 1e9 - (time.monotonic() - START), -4) for _ in range(3)])"
    start = "START = time.monotonic() - time.time()\n"
    said = json.loads(output_of(fault_program("pass", start + "step_clock(2, 1e6)\n" + then), tmp_path))
    assert said == [0, 1e6, 1e6]


def test_a_state_that_is_loaded_otherwise_is_noticed(tmp_path: Path) -> None:
    saved = Saved(tmp_path, random.Random(1))
    assert saved.resumed() is None
    saved.state.monitor.rows += 1
    with pytest.raises(TortureError, match="another state"):
        saved.resumed()


def test_a_foreign_error_at_a_cut_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(directory: StateDirectory) -> SavedState:
        return msgspec.json.decode((directory.path / "state.json").read_bytes(), type=SavedState)

    monkeypatch.setattr(StateDirectory, "_read", read)
    with pytest.raises(TortureError, match=r"state.json cut at byte 0 .*DecodeError"):
        cut_everywhere(tmp_path, random.Random(1), Counter(), "state.json")


def test_a_cut_state_is_refused(tmp_path: Path) -> None:
    counts = Counter[str]()
    cut_everywhere(tmp_path, random.Random(1), counts, "firings.ndjson")
    assert counts["cuts refused"] == (tmp_path / "firings.ndjson").stat().st_size
    assert counts["versions refused"] == 8


@pytest.mark.parametrize("seed", range(4))
def test_a_prepared_state_is_refused_and_runs_no_code(seed: int, tmp_path: Path) -> None:
    counts = Counter[str]()
    plant(tmp_path, random.Random(seed), counts)
    assert counts["planted code refused"] == 3
    assert counts["places that others can write refused"] == 2
    assert counts["links refused"] == 1


def test_a_prepared_state_that_is_trusted_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_state, "belongs_to", lambda generator, settings: True)
    with pytest.raises(TortureError, match="a pickled generator is loaded"):
        plant(tmp_path, random.Random(1), Counter())


def test_bad_disks_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "RUN_EVERY", 10**9)  # test_full_disk.py has a run
    assert short(Torture(tmp_path), 7, 4)["rounds"] == 4
