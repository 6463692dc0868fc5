"""A query whose driver's clock differs from ours, or ours is set: dead it is never moving, alive it is known."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from wmtop.engine.snapshot import Snapshot, SourceView
from wmtop.engine.system import clock
from wmtop.engine.targets.spark.watch import QueryWatch
from wmtop.engine.targets.target import Follower

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NOW = 1_700_000_000_000
EVERY_MS = 5 * SECOND
SKEWS = [-HOUR, -5 * MINUTE, -40 * SECOND, 0, 40 * SECOND, 5 * MINUTE, HOUR]


class Bench:
    """A machine with a driver on it, or beside it, whose clock is `skew_ms` ahead, and a watch of its checkpoint."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, skew_ms: int) -> None:
        self.path = path
        self.skew_ms = skew_ms
        self.now_ms = NOW
        """The time in truth."""
        self.set_by_ms = 0
        self.batch = 0
        for directory in ("offsets", "commits"):
            (path / directory).mkdir(parents=True)
        self._write("metadata", '{"id":"11111111-2222-3333-4444-555555555555"}')
        monkeypatch.setattr(clock, "now_ms", lambda: self.now_ms)
        monkeypatch.setattr(clock, "set_by_ms", lambda: self.set_by_ms)
        self._watch = QueryWatch(SourceView("checkpoint", str(path)), checkpoint=path, windows=None)
        self._follower: Follower[object] | None = None

    def _write(self, name: str, text: str) -> None:
        path = self.path / name
        path.write_text(text)
        written_s = (self.now_ms + self.set_by_ms) / 1_000
        os.utime(path, (written_s, written_s))

    def put(self) -> None:
        """One more batch, which moves the watermark."""
        stamp, watermark = self.now_ms + self.skew_ms, self.now_ms - MINUTE
        facts = json.dumps({"batchWatermarkMs": watermark - EVERY_MS, "batchTimestampMs": stamp, "conf": {}})
        self._write(f"offsets/{self.batch}", f'v1\n{facts}\n{{"logOffset":{self.batch}}}')
        self._write(f"commits/{self.batch}", f'v1\n{{"nextBatchWatermarkMs":{watermark}}}')
        self.batch += 1

    def pass_time(self, ms: int, *, alive: bool, look: Callable[[Snapshot], object] | None = None) -> None:
        """Let time pass, with a batch every 5 s while it is alive, and a look each second."""
        for _ in range(ms // SECOND):
            self.now_ms += SECOND
            if alive and self.now_ms % EVERY_MS == 0:
                self.put()
            if look is not None:
                look(self.look())

    def look(self) -> Snapshot:
        if self._follower is None:
            self._watch.open()
            self._follower = Follower(self._watch, "q")
        return self._follower.snapshot(self._watch.poll())


def notes(seen: Snapshot) -> list[str]:
    return [note.code for note in seen.notes]


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path / "ckpt", monkeypatch, request.param)


@pytest.mark.parametrize("bench", SKEWS, indirect=True)
def test_a_dead_query_is_never_moving(bench: Bench) -> None:
    bench.pass_time(3 * MINUTE, alive=True)
    bench.pass_time(2 * MINUTE, alive=False)  # it died, and then it is looked at
    seen = list[Snapshot]()
    bench.pass_time(MINUTE, alive=False, look=seen.append)
    assert {one.verdict.verdict for one in seen} == {"unknown"}
    assert {one.state for one in seen} == {"stale"}
    assert all((one.verdict.age_ms or 0) >= 0 for one in seen)
    assert all(("clock_offset" in notes(one)) == bool(bench.skew_ms) for one in seen)


@pytest.mark.parametrize("bench", SKEWS, indirect=True)
def test_a_query_that_dies_while_it_is_watched_is_not_moving_for_long(bench: Bench) -> None:
    bench.pass_time(MINUTE, alive=True)
    bench.pass_time(2 * MINUTE, alive=True, look=lambda seen: None)
    assert bench.look().verdict.verdict == "moving"
    late = list[Snapshot]()
    bench.pass_time(65 * SECOND, alive=False)
    bench.pass_time(MINUTE, alive=False, look=late.append)
    assert "moving" not in {one.verdict.verdict for one in late}


@pytest.mark.parametrize("bench", SKEWS, indirect=True)
def test_a_live_query_is_moving_and_never_stale(bench: Bench) -> None:
    """So the documented liveness probe, `state == stale` at one look, restarts no healthy pod."""
    bench.pass_time(MINUTE, alive=True)
    first = bench.look()
    assert (first.state, first.verdict.verdict) == ("live", "moving")
    seen = list[Snapshot]()
    bench.pass_time(3 * MINUTE, alive=True, look=seen.append)
    assert {(one.state, one.verdict.verdict) for one in seen} == {("live", "moving")}
    assert max(one.verdict.age_ms or 0 for one in seen) <= 12 * SECOND
    assert max(one.verdict.patience_ms or 0 for one in seen) <= 2 * MINUTE
    assert all(0 <= (one.now_ms or 0) - bench.now_ms + 3 * MINUTE <= 3 * MINUTE for one in seen)


@pytest.mark.parametrize("bench", [40 * SECOND, HOUR], indirect=True)
def test_without_times_of_files_a_stamp_in_our_future_proves_nothing(bench: Bench) -> None:
    """As in a copy: the first new batch shows the clock."""
    bench.pass_time(MINUTE, alive=True)
    for path in bench.path.rglob("*"):
        os.utime(path, (bench.now_ms / 1_000, bench.now_ms / 1_000))
    for _ in range(20):
        bench.now_ms += SECOND
        seen = bench.look()
        assert (seen.verdict.verdict, notes(seen)[0]) == ("unknown", "clock_ahead")
    later = list[Snapshot]()
    bench.pass_time(MINUTE, alive=True, look=later.append)
    assert later[-1].verdict.verdict == "moving"
    assert notes(later[-1])[0] == "clock_offset"


@pytest.mark.parametrize("bench", [0], indirect=True)
@pytest.mark.parametrize("set_by_ms", [-HOUR, -270 * SECOND, 270 * SECOND, HOUR])
@pytest.mark.parametrize("alive", [True, False])
def test_a_machine_whose_clock_is_set(bench: Bench, set_by_ms: int, alive: bool) -> None:
    """The driver runs on it, so that its stamps and its files follow the clock; ours counts on."""
    bench.pass_time(MINUTE, alive=True)
    bench.pass_time(MINUTE, alive=True, look=lambda seen: None)
    bench.set_by_ms = bench.skew_ms = set_by_ms
    seen = list[Snapshot]()
    bench.pass_time(5 * MINUTE, alive=alive, look=seen.append)
    assert all((one.verdict.age_ms or 0) >= 0 for one in seen)
    assert all("clock_set" in notes(one) for one in seen)
    settled = seen[70:]
    expected = {"moving"} if alive else {"unknown"}
    assert {one.verdict.verdict for one in settled} == expected
    assert {one.state for one in settled} == ({"live"} if alive else {"stale"})
