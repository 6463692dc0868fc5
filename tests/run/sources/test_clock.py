"""The replay clock as a pure function."""

from wmtop.engine.run.sources.replay import ReplayClock

WAITING = ReplayClock(anchor_ms=10_000, speed=600)


def test_it_is_still_until_it_is_started() -> None:
    assert WAITING.at(1e9) == 10_000
    assert WAITING.started(100.0).at(100.0) == 10_000
    assert WAITING.started(100.0).at(101.5) == 10_000 + 900_000


def test_it_is_started_once() -> None:
    assert WAITING.started(100.0).started(200.0).at(101.0) == 610_000


def test_it_never_runs_before_its_anchor() -> None:
    assert WAITING.started(100.0).at(99.0) == 10_000
