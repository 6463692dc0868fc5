"""An engine in a process of its own: under the name and id that were claimed for it, and how it ended."""

import os
import signal
import time
from pathlib import Path

import pytest
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.client import first_snapshot
from wmtop.engine.system.errors import how_it_ended
from wmtop.tui.cli.engines import EngineProcess

from .checkpoints import checkpoint

WITHIN_S = 120


@pytest.fixture(autouse=True)
def own_run_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, str(Path("/tmp", f"wmtop-test-{os.getpid()}")))


def pid_of(name: str) -> int:
    """The engine's process, once its stream is there."""
    first_snapshot(run_directory.socket_path(name), WITHIN_S)
    return run_directory.find_run(name).pid


def wait_for(engine: EngineProcess) -> None:
    deadline = time.monotonic() + WITHIN_S
    while engine.code is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_after_sigkill_it_says_so_whatever_the_log_holds(tmp_path: Path) -> None:
    Path(run_directory.log_path("launched")).write_text("wmtop: a note of an earlier run\n")
    claim = run_directory.claim("launched", "", 0)
    engine = EngineProcess(["attach", str(checkpoint(tmp_path / "q", 3))], claim, tied=True)
    pid = pid_of("launched")
    with open(claim.run.log, "a") as log:
        log.write("wmtop: a note of this run\n")
    os.kill(pid, signal.SIGKILL)
    wait_for(engine)
    said = engine.died() or ""
    assert how_it_ended(-signal.SIGKILL) in said
    assert claim.run.log in said
    assert "note" not in said


def test_what_it_says_of_itself_is_the_reason_and_not_what_another_run_said(tmp_path: Path) -> None:
    Path(run_directory.log_path("launched")).write_text("wmtop: a note of an earlier run\n")
    missing = tmp_path / "there-is-none"
    engine = EngineProcess(["attach", str(missing)], run_directory.claim("launched", "", 0), tied=True)
    wait_for(engine)
    assert engine.code == 2
    assert str(missing) in (engine.died() or "")


def test_it_has_the_claimed_name_and_id_whatever_follows_a_double_dash(tmp_path: Path) -> None:
    """What is passed on is no argument: after `--` it would be taken for a target."""
    claim = run_directory.claim("launched", "", 0)
    path = checkpoint(tmp_path / "q", 3)
    engine = EngineProcess(["attach", "--read-only", "--", str(path)], claim, tied=True)
    seen = first_snapshot(run_directory.socket_path("launched"), WITHIN_S)
    assert seen.name == "launched"
    run = run_directory.find_run("launched")
    assert (run.id, run.description) == (claim.run.id, str(path))
    assert engine.stop() == 128 + signal.SIGTERM  # in good order, not aborted
    assert run_directory.list_runs() == []
