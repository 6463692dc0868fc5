"""The engine's end: whatever fails on the way, the rest is closed."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.client import first_snapshot
from wmtop.engine.feed.messages import Change
from wmtop.engine.run.durable_state import StateDirectory
from wmtop.engine.run.engine import Engine, EngineOptions
from wmtop.engine.run.query import STOPPING, Run
from wmtop.engine.run.sources.base import Source
from wmtop.engine.snapshot import Snapshot, SourceView
from wmtop.engine.system.errors import RunError
from wmtop.engine.watermarks.settings import Settings

from ..refusals import refused


class Nothing(Source):
    """A source without a row, which needs no Spark, and cannot be closed."""

    ticks = False
    bounded = True
    rows_in_all = 0

    def check(self) -> None: ...

    def identity(self) -> dict[str, Any]:
        return {"kind": "nothing"}

    def describe(self) -> SourceView:
        return SourceView("nothing", "no rows")

    def load(self, spark: Any) -> Any:
        raise AssertionError

    def trigger(self) -> dict[str, Any]:
        raise AssertionError

    def close(self) -> None:
        raise OSError("what it staged cannot be removed")


def test_a_source_that_cannot_be_closed_does_not_keep_the_rest_from_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, str(Path("/tmp", f"wmtop-test-{os.getpid()}")))
    seen: list[tuple[Snapshot, bool]] = []
    options = EngineOptions(state_dir=tmp_path / "state", once=True)
    with run_directory.claim("closing", "", 0) as claim:
        engine = Engine(
            claim, Nothing(), Settings(), options, tmp_path / "log",
            say=lambda line: None, on_snapshot=lambda *each: seen.append(each), on_note=lambda note: None,
        )  # fmt: skip
        with pytest.raises(OSError, match="cannot be removed"):
            engine.run()
        assert [(snapshot.state, last) for snapshot, last in seen] == [("ended", True)]
        assert not claim.run.socket.exists()
        with refused(RunError, "no_answer"):
            first_snapshot(claim.run.socket, 0.1)
    state = StateDirectory(tmp_path / "state")
    state.lock()
    state.unlock()


class Ticking(Nothing):
    """A source for which the ticker emits, and that would be read until now."""

    ticks = True


class Endless(Ticking):
    """A source whose end is not known."""

    rows_in_all = None

    def close(self) -> None: ...


def test_a_change_during_the_start_does_not_make_the_run_look_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, str(Path("/tmp", f"wmtop-test-{os.getpid()}")))
    seen: list[str] = []
    options = EngineOptions(state_dir=tmp_path / "state", once=True)
    with run_directory.claim("starting", "", 0) as claim:
        engine = Engine(
            claim, Endless(), Settings(), options, tmp_path / "log",
            say=lambda line: None, on_snapshot=lambda shown, last: seen.append(shown.state), on_note=lambda note: None,
        )  # fmt: skip

        def start(state: StateDirectory) -> None:
            assert engine._change(Change(id=1, lateness_ms=5_000)).ok
            engine._drain(0)
            raise RunError("no Spark here")

        monkeypatch.setattr(engine, "_start_spark", start)
        with pytest.raises(RunError, match="no Spark here"):
            engine.run()
    assert seen == ["failed"]


def test_a_batch_that_runs_holds_back_neither_the_ticker_nor_a_look(tmp_path: Path) -> None:
    """Its lock is only tried: a batch that takes minutes must not stop the main loop."""
    state = StateDirectory(tmp_path / "state")
    state.lock()
    run = Run(Ticking(), Settings(), state, None, lambda: None)
    free, locked = threading.Event(), threading.Event()

    def batch() -> None:
        with run.looking():
            locked.set()
            free.wait(60)

    def look() -> None:
        run.tick()
        with run.looking(timeout_s=0) as monitor:
            looks.append(monitor)

    looks: list[object] = []
    batches, looking = threading.Thread(target=batch, daemon=True), threading.Thread(target=look, daemon=True)
    batches.start()
    assert locked.wait(60)
    looking.start()
    looking.join(10)
    returned = not looking.is_alive()
    free.set()
    batches.join()
    looking.join()
    state.unlock()
    assert returned
    assert looks == [None]


def test_a_change_that_waited_for_a_batch_is_refused_once_the_run_stops(tmp_path: Path) -> None:
    """The state directory may belong to another engine by then: nothing is written there."""
    state = StateDirectory(tmp_path / "state")
    state.lock()
    run = Run(Ticking(), Settings(), state, None, lambda: None)
    changes: list[str] = []

    def change() -> None:
        try:
            run.change(5_000, UNSET, "test")
        except ValueError as error:
            changes.append(str(error))

    waiting = threading.Thread(target=change, daemon=True)
    with run.looking():
        waiting.start()
        run.stop()
        state.unlock()
    waiting.join(10)
    assert changes == [STOPPING]
    assert not (state.path / "state.json").exists()
