"""How long a channel takes from one idleness to the next."""

from wmtop.engine.watermarks.channels import IdleCycles
from wmtop.engine.watermarks.monitor import new_monitor
from wmtop.engine.watermarks.observation import BatchObservation, Group
from wmtop.engine.watermarks.operator_clock import OperatorClock
from wmtop.engine.watermarks.settings import Settings

from .steps import batch, start


def test_a_round_is_known_from_the_second_idleness_on() -> None:
    cycles = IdleCycles()
    cycles.turned_idle({1}, 100)
    assert cycles.length_ms(1, 150) is None
    cycles.turned_idle({1, 2}, 160)
    assert cycles.length_ms(1, 170) == 60
    assert cycles.length_ms(2, 170) is None
    assert cycles.length_ms(3, 170) is None


def test_it_follows_what_is_now_and_an_old_habit_wears_off() -> None:
    cycles = IdleCycles()
    for now in (0, 60, 120, 140):
        cycles.turned_idle({1}, now)
    assert cycles.length_ms(1, 150) == (60 + 20) // 2
    assert cycles.length_ms(1, 1_140) == 1_000


def test_a_run_says_it_of_each_channel() -> None:
    run = start(idle_after=20)
    for now in range(0, 400, 10):
        run.apply(batch(now, *(("a", now),), *([("b", now)] if now % 100 == 0 else [])))
    views = {view.channel: view for view in run.driver.snapshot().channels}
    assert views["b"].flaps == 7
    assert views["b"].round_ms == 100
    assert (views["a"].flaps, views["a"].round_ms) == (0, None)


def test_of_each_channel_one_start_is_kept_however_long_it_sends() -> None:
    monitor, now = new_monitor(Settings(idle_after_ms=60_000, emit_every_ms=200)), 0
    for second in range(300):
        now = second * 1_000
        groups = [Group(f"c{c}", 0, False, 1, max_event_ms=now + c) for c in range(3)]
        monitor.apply(BatchObservation(batch=second, now_ms=now, groups=groups))
        monitor.tick_until(now + 900)
    clocks = [monitor.clock, *(rung.clock for rung in monitor.rungs)]
    assert {len(clock.waiting) for clock in clocks if isinstance(clock, OperatorClock)} == {3}
    monitor.tick_until(now + 62_000)
    assert monitor.clock.idle == {0, 1, 2}
