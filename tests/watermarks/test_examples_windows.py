"""The worked examples of the semantics, sections 5 and 6; times in ms.

Each runs on the monitor and the reference in lockstep, so that the number in the test is the third opinion.
"""

import pytest
from wmtop.engine.watermarks.settings import Session, Sliding, Tumbling
from wmtop.engine.watermarks.times import MAX
from wmtop.engine.watermarks.windows import SessionWindows, TimeWindows

from ..reference.ops import End, Tick
from .steps import batch, brief, channel_states, start

# 5. Windows


def test_a_record_behind_the_watermark_is_on_time_while_its_window_is_open() -> None:
    run = start(Tumbling(10))
    run.apply(batch(1, ("a", 16)))
    run.apply(batch(2, ("a", 12)))
    totals = run.driver.snapshot().totals
    assert (totals.behind_watermark, totals.late) == (1, 0)


def test_a_window_fires_when_the_watermark_reaches_its_last_millisecond() -> None:
    run = start(Tumbling(10))
    assert run.apply(batch(1, ("a", 9))) == []  # watermark 8
    assert brief(run.apply(batch(2, ("a", 10)))) == [("fire", 0, 10, 1)]  # watermark 9


def test_late_firings_within_the_allowed_lateness() -> None:
    """
    watermark         14              17                   window [0, 10) may come until 9 + 8 = 17
    records    1      2 3             4*
    """
    run = start(Tumbling(10), allowed=8)
    assert brief(run.apply(batch(1, ("a", 1), ("a", 15)))) == [("fire", 0, 10, 1)]
    (late_fire,) = run.apply(batch(2, ("a", 2), ("a", 3)))
    assert (late_fire["kind"], late_fire["records"], late_fire["firings"]) == ("late_fire", 3, 2)
    run.apply(batch(3, ("a", 18)))
    assert brief(run.apply(batch(4, ("a", 4)))) == [("late", 0, 10, 1)]
    windows = run.driver.snapshot().windows
    assert (windows.fired, windows.late_firings) == (1, 2)


def test_a_windows_first_firing_may_be_a_late_one() -> None:
    run = start(Tumbling(10), allowed=20)
    run.apply(batch(1, ("a", 25)))
    assert brief(run.apply(batch(2, ("a", 5)))) == [("late_fire", 0, 10, 1)]
    assert run.driver.snapshot().windows.fired == 1


def test_a_record_late_for_some_of_its_sliding_windows_is_not_late() -> None:
    """Windows of 10 every 5: 12 lies in [10, 20) and [5, 15), which 15 has closed."""
    run = start(Sliding(10, 5))
    run.apply(batch(1, ("a", 16)))
    run.apply(batch(2, ("a", 12)))
    assert run.driver.snapshot().totals.late == 0
    assert brief(run.apply(End(3))) == [("fire", 10, 20, 2), ("fire", 15, 25, 1)]


def test_one_late_record_fires_the_latest_start_first() -> None:
    run = start(Sliding(10, 5), allowed=100)
    run.apply(batch(1, ("a", 50)))
    assert brief(run.apply(batch(2, ("a", 12)))) == [("late_fire", 10, 20, 1), ("late_fire", 5, 15, 1)]


def test_a_record_in_a_gap_is_late_or_without_window_never_both() -> None:
    """Windows of 3 every 10: [0, 3), [10, 13); 5 and 7 lie in the gap, the watermark is 5."""
    run = start(Sliding(3, 10))
    run.apply(batch(1, ("a", 6)))
    (late,) = run.apply(batch(2, ("a", 5), ("a", 7)))
    assert (late["kind"], late["start_ms"], late["end_ms"]) == ("late", None, None)
    totals = run.driver.snapshot().totals
    assert (totals.late, totals.no_window, totals.records) == (1, 2, 3)


def test_window_starts_work_for_negative_times() -> None:
    run = start(Tumbling(10, 3))
    fired = [*run.apply(batch(1, ("a", -8), ("a", -7))), *run.apply(End(2))]
    assert brief(fired) == [("fire", -17, -7, 1), ("fire", -7, 3, 1)]


def test_sessions_merge_also_when_they_only_touch() -> None:
    """Gap 5: [0, 5) and [5, 10) touch; [11, 16) stands alone."""
    run = start(Session(5))
    run.apply(batch(1, ("a", 0), ("b", 5), ("a", 11)))
    assert brief(run.apply(End(2))) == [("fire", 0, 10, 2), ("fire", 11, 16, 1)]


def test_a_record_that_alone_would_be_late_is_kept_by_a_live_session() -> None:
    """
    watermark 20:   18 lives in [18, 23); 14 alone ends at 19: late, but [14, 19) touches it
    """
    run = start(Session(5))
    run.apply(batch(1, ("a", 18), ("a", 21)))
    run.apply(batch(2, ("a", 14)))
    assert run.driver.snapshot().totals.late == 0
    assert brief(run.apply(End(3))) == [("fire", 14, 26, 3)]


def test_a_merged_session_that_ends_after_the_watermark_fires_again() -> None:
    run = start(Session(5), allowed=10)
    assert brief(run.apply(batch(1, ("a", 0), ("b", 7)))) == []
    assert run.level == -1
    fired = run.apply(batch(2, ("a", 12), ("b", 12)))
    assert brief(fired) == [("fire", 0, 5, 1), ("fire", 7, 17, 3)][: len(fired)]
    assert brief(run.apply(batch(3, ("a", 4)))) == []
    assert brief(run.apply(End(4))) == [("fire", 0, 17, 5)]
    assert run.driver.snapshot().windows.fired == 2


def test_two_late_sessions_of_one_batch_that_a_live_one_bridges() -> None:
    """
    watermark 19, gap 3, allowed lateness 100; live and fired: [10, 13)
    batch            7          12       each touches the live one, not the other: one session [7, 15)
    """
    run = start(Session(3), allowed=100)
    run.apply(batch(1, ("a", 10), ("a", 20)))
    (late_fire,) = run.apply(batch(2, ("a", 12), ("a", 7)))
    assert (late_fire["start_ms"], late_fire["end_ms"], late_fire["records"], late_fire["firings"]) == (7, 15, 3, 2)


def test_the_end_fires_all_that_is_open_also_when_every_channel_was_idle() -> None:
    run = start(Tumbling(10), idle_after=1)
    run.apply(batch(0, ("a", 3)))
    run.apply(Tick(1))
    run.apply(Tick(3))
    assert channel_states(run) == {"a": "idle"}
    (fire,) = run.apply(End(4))
    assert (fire["kind"], fire["watermark_ms"], fire["ended"]) == ("fire", None, True)
    assert run.driver.snapshot().ended


def test_fired_windows_within_their_allowed_lateness_do_not_fire_again_at_the_end() -> None:
    run = start(Tumbling(10), allowed=MAX)
    run.apply(batch(1, ("a", 3), ("a", 15)))
    assert brief(run.apply(End(2))) == [("fire", 10, 20, 1)]


@pytest.mark.parametrize("windows", [TimeWindows(Tumbling(10), MAX), SessionWindows(Session(20), MAX)])
def test_the_end_of_allowed_lateness_saturates(windows: TimeWindows | SessionWindows) -> None:
    assert windows.cleanup_ms(10) == MAX


# 6. Micro-batches


def test_the_level_when_the_batch_starts_decides_lateness() -> None:
    """In one batch 30 comes before 5: still on time; in two it is late."""
    one, two = start(Tumbling(10)), start(Tumbling(10))
    one.apply(batch(1, ("a", 30), ("a", 5)))
    two.apply(batch(1, ("a", 30)))
    two.apply(batch(2, ("a", 5)))
    assert (one.driver.snapshot().totals.late, two.driver.snapshot().totals.late) == (0, 1)


def test_idle_channels_wake_in_their_order() -> None:
    """
    watermarks   a 10, b 7, c 2; the watermark is 7; a and b sleep, c is awake but behind it: nobody is aligned
    batch        both wake: a first, so that the watermark goes to 10 and b is behind it (b first: 7 and all aligned)
    """
    run = start(idle_after=2)
    run.apply(batch(0, ("a", 11), ("b", 8), ("c", 2)))
    run.apply(batch(3, ("a", 11), ("b", 8)))
    run.apply(batch(6, ("a", 11), ("b", 8)))
    run.apply(batch(7, ("c", 3)))
    run.apply(batch(10, ("c", 3)))
    assert (run.level, channel_states(run)) == (7, {"a": "idle", "b": "idle", "c": "catching_up"})
    run.apply(batch(11, ("b", 5), ("a", 5)))
    assert (run.level, channel_states(run)) == (10, {"a": "active", "b": "catching_up", "c": "catching_up"})


def test_a_batchs_sessions_merge_before_lateness_is_decided() -> None:
    """Level 9, gap 3: 5 alone ends at 8; 8 ends at 11 and reaches back to it."""
    run = start(Session(3))
    run.apply(batch(1, ("a", 10)))
    run.apply(batch(2, ("a", 5), ("a", 8)))
    assert run.driver.snapshot().totals.late == 0
