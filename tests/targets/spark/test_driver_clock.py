"""A query whose driver's clock differs from ours, or ours is set: dead it is never moving, alive it is known."""

import os
from pathlib import Path

import pytest
from wmtop.engine.snapshot import Snapshot

from .driver_bench import HOUR, MINUTE, SECOND, Bench

SKEWS = [-HOUR, -5 * MINUTE, -40 * SECOND, 0, 40 * SECOND, 5 * MINUTE, HOUR]


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
