"""Processing time of a live run, without Spark: after a stop, while it is suspended, where the clock is set."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wmtop.engine.run.durable_state import StateDirectory
from wmtop.engine.run.query import Run
from wmtop.engine.run.sources.base import Source
from wmtop.engine.snapshot import Snapshot, SourceView, Verdict
from wmtop.engine.system import clock
from wmtop.engine.verdict.monitor_snapshot import snapshot_of
from wmtop.engine.watermarks.settings import Settings, Tumbling

from ..watermarks.aggregate import observe
from ..watermarks.steps import batch

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NOW = 1_700_000_000_000


class Live(Source):
    """A source that would be read until now."""

    ticks = True
    bounded = False

    def check(self) -> None: ...

    def identity(self) -> dict[str, Any]:
        return {"kind": "live"}

    def describe(self) -> SourceView:
        return SourceView("files", "live")

    def load(self, spark: Any, *, as_columns: bool) -> Any:
        raise AssertionError

    def trigger(self) -> dict[str, Any]:
        raise AssertionError


class Bench:
    """A run, its clock, and batches given to its monitor as Spark would."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.set_by = NOW, 0
        monkeypatch.setattr(clock, "now_ms", lambda: self.at)
        monkeypatch.setattr(clock, "set_by_ms", lambda: self.set_by)
        monkeypatch.setattr(Run, "_start_query", lambda run: None)
        self.state = StateDirectory(directory)
        self.state.lock()
        settings = Settings(idle_after_ms=30 * SECOND, window=Tumbling(10 * SECOND))
        self.run = Run(Live(), settings, self.state, None, lambda: None)
        self._batch = 0

    def read(self, *channels: str, seconds: int = 1) -> None:
        """So many batches, one a second, each with a record of each channel."""
        for _ in range(seconds):
            self.at += SECOND
            op = batch(self.at, *[(name, self.at - SECOND) for name in channels])
            self.run.monitor.apply(observe(self.run.monitor, op, self._batch))
            self._batch += 1

    def look(self) -> Snapshot:
        with self.run.looking() as monitor:
            assert monitor is not None
            found = snapshot_of(monitor, name="r", state="live", wall_ms=self.run.wall_ms, now_ms=self.run.now_ms())
            return self.run.judged(found, None)

    def verdict(self) -> Verdict:
        return self.look().verdict


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    made = Bench(tmp_path / "state", monkeypatch)
    yield made
    made.state.unlock()


def test_a_resumed_run_is_unknown_until_patience_was_observed(bench: Bench) -> None:
    bench.read("a", "b", seconds=90)
    assert bench.verdict().verdict == "moving"
    bench.at += HOUR
    bench.run.start()
    for second in range(0, 61, 5):
        bench.at += 5 * SECOND * bool(second)
        found = bench.verdict()
        assert (found.verdict, found.reason.code, found.reason.ms) == ("unknown", "too_short", second * SECOND)
    bench.at += SECOND
    assert bench.verdict().reason.code != "too_short"
    bench.read("a", "b")
    assert bench.verdict().verdict == "moving"


def test_time_for_which_the_process_was_suspended_is_a_stop(bench: Bench) -> None:
    bench.read("a", "b", seconds=90)
    bench.at += HOUR
    bench.run.note_suspended(HOUR)
    assert bench.verdict().age_ms == HOUR
    bench.run.monitor.tick_until(bench.at)
    assert bench.run.monitor.clock.idle == set()
    bench.read("a", "b")
    assert (bench.verdict().verdict, bench.verdict().patience_ms) == ("moving", MINUTE)
    bench.at += 100 * SECOND
    assert bench.verdict().verdict != "moving"


def test_a_state_of_a_clock_that_was_ahead_is_counted_on(bench: Bench) -> None:
    """Else the time of the run would not pass, and nothing age, until this machine's clock is there."""
    bench.read("a", seconds=90)
    bench.at -= HOUR
    bench.run.start()
    assert bench.run.now_ms() == NOW + 90 * SECOND
    assert bench.run.machine_ahead_ms == -HOUR
    bench.at += 5 * MINUTE
    seen = bench.look()
    assert (seen.now_ms, seen.wall_ms) == (NOW + 90 * SECOND + 5 * MINUTE,) * 2
    assert (seen.verdict.age_ms, seen.verdict.verdict) == (5 * MINUTE, "unknown")


def test_a_batch_is_dated_in_the_time_of_the_run_where_the_clock_was_set(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.read("a", seconds=5)
    fixed_ms = bench.at - SECOND
    monkeypatch.setattr(bench.state, "batch_time_ms", lambda number: fixed_ms + bench.set_by)
    for bench.set_by in (-HOUR, 0, HOUR):
        assert bench.run._batch_time(9) == fixed_ms
