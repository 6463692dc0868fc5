"""`wmtop attach NAME` on a terminal, where a job publishes a query of that name."""

import os
import time
from pathlib import Path

import pytest
from wmtop.engine.feed import run_directory
from wmtop.engine.system.errors import UsageError
from wmtop.engine.targets.open import open_target
from wmtop.engine.targets.own import RunningEngine
from wmtop.tui.cli import attach
from wmtop.tui.cli.process import Launch


def launched(claim: run_directory.Claim) -> Launch:
    return Launch(lock=claim.lock, name=claim.run.name, id=claim.run.id, stop_on_eof=True)


@pytest.fixture(autouse=True)
def run_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, str(Path("/tmp", f"wmtop-test-{os.getpid()}")))


def test_an_engine_does_not_watch_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal has claimed the query's name for the engine, which then looks for the query by the same name."""
    with run_directory.claim("orders", "orders", time.time_ns() // 1_000_000) as claim:
        assert open_target("orders") == RunningEngine(claim.run.socket, claim.run.id)
        monkeypatch.setattr(attach, "launched", lambda: launched(claim))
        with pytest.raises(UsageError, match="there is no run, file or directory orders"):
            attach.attach(target="orders", **dict.fromkeys(attach.TARGET_OPTIONS))


def test_an_engine_does_not_watch_that_of_another_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two terminals attach to a published query at the same moment: the other one's engine has the query's name."""
    now_ms = time.time_ns() // 1_000_000
    with run_directory.claim("orders", "orders", now_ms), run_directory.claim_free("orders", "orders", now_ms) as claim:
        monkeypatch.setattr(attach, "launched", lambda: launched(claim))
        with pytest.raises(UsageError, match="there is no run, file or directory orders"):
            attach.attach(target="orders", **dict.fromkeys(attach.TARGET_OPTIONS))
