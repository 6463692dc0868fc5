"""The worked examples of the semantics, sections 7 to 9; times in ms.

Each runs on the monitor and the reference in lockstep, so that the number in the test is the third opinion.
"""

import pytest
from wmtop.engine.watermarks.settings import Settings, Tumbling

from ..reference.ops import Batch, End, Row, SetIdle, SetLateness, Tick
from .lockstep import Driver
from .steps import batch, brief, channel_states, start

# 7. What-if


def test_the_what_if_of_every_edge() -> None:
    """
    a   100          95    60*   99        distance behind W0 = 99 when they come: 4, 39, 0
    """
    run = start(Tumbling(1), lateness=50)
    run.apply(batch(1, ("a", 100)))
    run.apply(batch(2, ("a", 95), ("a", 60), ("a", 99)))
    whatif = {w.lateness_ms: (w.late, w.behind_watermark) for w in run.driver.snapshot().whatif or []}
    assert [whatif[edge] for edge in (0, 1, 3, 5, 30, 50)] == [(3, 3), (2, 2), (2, 2), (1, 1), (1, 1), (0, 0)]


def test_the_delay_of_results_at_every_edge() -> None:
    """
    now        10    13    20              window [0, 10) fires at the first W0 >= 9 + L
    W0          4     9    19              L = 0: 13 - 10; L = 10: 20 - 10; L = 20: only the end closes it
    """
    run = start(Tumbling(10))
    for now, ts in ((10, 5), (13, 10), (20, 20)):
        run.apply(batch(now, ("a", ts)))
    delays = {w.lateness_ms: w.delay_ms for w in run.driver.snapshot().whatif or []}
    # at L = 0 the second window [10, 20) has closed too, at 20
    assert (delays[0], delays[1], delays[10], delays[20]) == ((3 + 0) / 2, 10.0, 10.0, None)


# 8. Changing lateness while running


def test_the_idle_timeouts_tried_follow_a_lateness_that_is_changed() -> None:
    run = start(lateness=50, idle_after=5)
    run.apply(batch(1, ("a", 100)))
    run.apply(SetLateness(10))
    run.apply(Tick(2))
    rungs = run.driver.snapshot().whatif_idle or []
    assert {rung.watermark_ms for rung in rungs} == {89}


def test_lowering_lateness_lets_the_level_jump_at_the_next_emit() -> None:
    run = start(lateness=50)
    run.apply(batch(1, ("a", 100)))
    assert run.level == 49
    run.apply(SetLateness(10))
    assert run.level == 49
    run.apply(Tick(2))
    assert run.level == 89


def test_raising_lateness_freezes_the_watermark_until_it_has_caught_up() -> None:
    run = start(lateness=10)
    run.apply(batch(1, ("a", 100)))
    run.apply(SetLateness(50))
    levels: list[int] = []
    for now, ts in ((2, 120), (3, 139), (4, 141)):
        run.apply(batch(now, ("a", ts)))
        levels.append(run.level)
    assert levels == [89, 89, 90]


def test_a_lower_lateness_takes_smoothed_from_the_mean_it_has_now() -> None:
    """Mean 100, then 70 (of 100, 100, 10): at lateness 50 the watermark stands at 49, at 10 it is 70 - 10 - 1."""
    run = start(lateness=50, strategy="smoothed")
    run.apply(batch(1, ("a", 100), ("a", 100)))
    run.apply(batch(2, ("a", 10)))
    assert run.level == 49
    run.apply(SetLateness(10))
    run.apply(Tick(3))
    assert run.level == 59


@pytest.mark.parametrize("strategy", ["monotonous", "punctuated", "source", "none"])
def test_the_idle_timeout_can_be_changed_whatever_the_strategy(strategy: str) -> None:
    run = start(strategy=strategy, idle_after=1_000)
    run.apply(batch(0, ("a", 1)))
    run.apply(Tick(1))
    run.apply(SetIdle(5))
    run.apply(Tick(7))
    assert channel_states(run) == {"a": "idle"}


def test_a_change_that_is_refused_changes_nothing() -> None:
    driver = Driver(Settings(strategy="spark", lateness_ms=0))
    with pytest.raises(ValueError, match="idle"):
        driver.monitor.change(lateness_ms=50, idle_after_ms=5, who="test", wall_ms=0)
    driver.apply(batch(1, ("a", 100)))
    assert (driver.monitor.level, driver.snapshot().settings.version) == (99, 1)


def test_what_has_been_closed_stays_closed() -> None:
    run = start(Tumbling(10), lateness=0)
    run.apply(batch(1, ("a", 30)))
    run.apply(SetLateness(1_000))
    assert brief(run.apply(batch(2, ("a", 5)))) == [("late", 0, 10, 1)]


# 9. Bad time


def test_malformed_records_are_counted_and_move_nothing() -> None:
    run = start()
    rows = (Row(1, "a", None), Row(None, "b", 5), Row(1, "a", 10**18), Row(1, "c", 7))
    run.apply(Batch(rows, 1))
    snapshot = run.driver.snapshot()
    assert (snapshot.totals.malformed, snapshot.totals.records, run.level) == (3, 1, 6)
    assert run.driver.monitor.clock.holder() == 0  # only c is in the valve


def test_a_future_record_joins_its_window_and_moves_no_clock() -> None:
    run = start(guard=5)
    run.apply(batch(10, ("a", 10), ("a", 16), ("b", 99)))
    totals = run.driver.snapshot().totals
    assert (totals.records, totals.future, run.level) == (3, 2, 9)
    assert brief(run.apply(End(11))) == [("fire", 10, 20, 2), ("fire", 90, 100, 1)]


def test_the_guard_of_a_replay_looks_at_the_records_own_arrival() -> None:
    run = start(guard=5)
    run.apply(Batch((Row(1, "a", 7), Row(10, "a", 8)), 10))
    assert (run.driver.snapshot().totals.future, run.level) == (1, 7)
