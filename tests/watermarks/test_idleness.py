"""Time that does not count towards an idle timeout."""

from wmtop.engine.watermarks.channels import IdlenessTimers
from wmtop.engine.watermarks.settings import Settings

from ..reference.ops import Batch, Row
from .lockstep import Driver

NOON, HOUR = 1_700_000_000_000, 3_600_000


def test_a_clock_that_starts_in_a_time_that_does_not_count_starts_at_its_end() -> None:
    """Emits that a long batch owes follow it: the second one starts the clock, long before the batch has ended."""
    timers = IdlenessTimers()
    timers.activity([1, 2])
    timers.exclude(2_000, 3_000, [1])
    for now in (1_200, 1_400, 1_600):
        timers.emit(now)
    assert timers.since == {1: 3_000, 2: 1_400}
    timers.exclude(500, 3_500, [1])
    assert timers.since[1] == 3_500


def test_all_clocks_at_once_those_that_have_not_started_too() -> None:
    timers = IdlenessTimers(since={1: 900})
    timers.activity([2])
    timers.exclude(1_000, 2_000)
    for now in (1_200, 1_400):
        timers.emit(now)
    assert timers.since == {1: 1_900, 2: 2_000}


def test_no_channel_is_idle_after_a_stop_that_a_batch_came_just_before() -> None:
    """The ticks that the stop owes start the clocks of its channels, which would be hours old at once."""
    driver = Driver(Settings(lateness_ms=0, idle_after_ms=2 * HOUR, future_guard_ms=None))
    driver.apply(Batch((Row(NOON, "a", NOON), Row(NOON, "b", NOON)), NOON))
    driver.monitor.exclude(5 * HOUR, NOON + 5 * HOUR)
    driver.monitor.tick_until(NOON + 5 * HOUR)
    assert [view.state for view in driver.snapshot().channels] == ["active", "active"]
    driver.monitor.tick_until(NOON + 7 * HOUR + 1_000)
    assert [view.state for view in driver.snapshot().channels] == ["idle", "idle"]
