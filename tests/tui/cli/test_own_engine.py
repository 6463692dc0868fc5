"""`wmtop attach NAME` on a terminal, where a job publishes a query of that name."""

import os
import time
from pathlib import Path

import pytest
from wmtop.engine.feed import run_directory
from wmtop.tui.cli import attach
from wmtop.tui.cli.launch import Launch


def test_an_engine_does_not_watch_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal has claimed the query's name for the engine, which then looks for the query by the same name."""
    monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, str(Path("/tmp", f"wmtop-test-{os.getpid()}")))
    with run_directory.claim("orders", "orders", time.time_ns() // 1_000_000) as claim:
        found = attach.engine_of("orders")
        assert found is not None
        assert found.run_id == claim.run.id
        launch = Launch(lock=claim.lock, name="orders", id=claim.run.id, stop_on_eof=True)
        monkeypatch.setattr(attach, "launched", lambda: launch)
        assert attach.engine_of("orders") is None


def test_an_engine_does_not_watch_that_of_another_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two terminals attach to a published query at the same moment: the other one's engine has the query's name."""
    monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, str(Path("/tmp", f"wmtop-test-{os.getpid()}-2")))
    now_ms = time.time_ns() // 1_000_000
    with run_directory.claim("orders", "orders", now_ms), run_directory.claim_free("orders", "orders", now_ms) as claim:
        assert attach.engine_of("orders") is not None
        launch = Launch(lock=claim.lock, name=claim.run.name, id=claim.run.id, stop_on_eof=True)
        monkeypatch.setattr(attach, "launched", lambda: launch)
        assert attach.engine_of("orders") is None
