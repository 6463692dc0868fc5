"""A run that is saved and read again after every step continues as one that never was."""

import random

import msgspec
import pytest
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.verdict.monitor_snapshot import snapshot_of
from wmtop.engine.watermarks.monitor import Monitor, new_monitor, to_save
from wmtop.engine.watermarks.observation import BatchObservation, Group
from wmtop.engine.watermarks.operator_clock import OperatorClock
from wmtop.engine.watermarks.settings import Settings

from .steps import saved_and_read

MINUTE, HOUR = 60_000, 3_600_000


def batch(number: int, rng: random.Random, channels: int) -> BatchObservation:
    """Records of some channels, some of them hours behind."""
    now = number * 7 * MINUTE
    times = {f"c{c}": now - rng.randrange(3 * HOUR) for c in range(channels) if rng.random() < 0.7}
    groups = [Group(name, ts - ts % HOUR, False, rng.randrange(1, 5), max_event_ms=ts) for name, ts in times.items()]
    return BatchObservation(batch=number, now_ms=now, groups=groups)


def picture(monitor: Monitor) -> Snapshot:
    return snapshot_of(monitor, name="saved", state="live", wall_ms=0)


@pytest.mark.parametrize("subtasks", [None, 3])
@pytest.mark.parametrize("lateness_ms", [0, 10 * MINUTE])
def test_a_run_read_again_after_every_step_is_the_same(subtasks: int | None, lateness_ms: int) -> None:
    settings = Settings(lateness_ms=lateness_ms, idle_after_ms=20 * MINUTE, subtasks=subtasks)
    kept, read = new_monitor(settings), new_monitor(settings)
    rng = random.Random(7)
    for number in range(1, 40):
        seen = batch(number, rng, 3 if number < 5 else 12)
        assert kept.apply(seen) == read.apply(seen)
        read = saved_and_read(read)
        if number == 20:
            for monitor in (kept, read):
                monitor.finish_channels(["c1"], seen.now_ms)
        now = number * 7 * MINUTE + rng.randrange(1, 7 * MINUTE)
        assert kept.tick_until(now) == read.tick_until(now)
        read = saved_and_read(read)
        assert picture(kept) == picture(read)


def test_a_clock_like_the_runs_own_is_saved_once() -> None:
    monitor = new_monitor(Settings(lateness_ms=MINUTE, idle_after_ms=HOUR))
    groups = [Group(f"c{c}", 0, False, 1, max_event_ms=c) for c in range(50)]
    monitor.apply(BatchObservation(batch=1, now_ms=1, groups=groups))
    saved = msgspec.json.decode(msgspec.json.encode(to_save(monitor)))
    assert [len(rung["clock"]["valve"]["watermarks"]) for rung in saved["rungs"]] == [0] * len(monitor.rungs)
    assert len(saved["shadow"]["valve"]["watermarks"]) == 50
    assert all(isinstance(rung.clock, OperatorClock) and not rung.clock.like_own for rung in monitor.rungs)
