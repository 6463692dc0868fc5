"""`wmtop attach NAME` on a terminal, where a job publishes a query of that name."""

import os
import time
from pathlib import Path

import pytest
from wmtop.engine.feed import rundir
from wmtop.tui.cli import attach
from wmtop.tui.cli.launch import Launch


def test_an_engine_does_not_watch_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal has claimed the query's name for the engine, which then looks for the query by the same name."""
    monkeypatch.setenv(rundir.RUN_DIR_VARIABLE, str(Path("/tmp", f"wmtop-test-{os.getpid()}")))
    with rundir.claim("orders", "orders", time.time_ns() // 1_000_000) as claim:
        found = attach.engine_of("orders")
        assert found is not None
        assert found.run_id == claim.run.id
        launch = Launch(lock=claim.lock, name="orders", id=claim.run.id, stop_on_eof=True)
        monkeypatch.setattr(attach, "launched", lambda: launch)
        assert attach.engine_of("orders") is None
