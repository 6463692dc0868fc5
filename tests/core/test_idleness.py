"""Time that does not count towards an idle timeout."""

from wmtop.engine.core.idleness import IdlenessTimers


def test_a_clock_that_starts_in_a_time_that_does_not_count_starts_at_its_end() -> None:
    """Emits that a long batch owes follow it: the second one starts the clock, long before the batch has ended."""
    timers = IdlenessTimers()
    timers.activity([1, 2])
    timers.exclude(2_000, [1], 3_000)
    for now in (1_200, 1_400, 1_600):
        timers.emit(now)
    assert timers.since == {1: 3_000, 2: 1_400}
    timers.exclude(500, [1])
    assert timers.since[1] == 3_500


def test_all_clocks_at_once_those_that_have_not_started_too() -> None:
    timers = IdlenessTimers(since={1: 900})
    timers.activity([2])
    timers.exclude(1_000, None, 2_000)
    for now in (1_200, 1_400):
        timers.emit(now)
    assert timers.since == {1: 1_900, 2: 2_000}
