"""The worked examples of the semantics, section by section; times in seconds where the text has seconds.

Each runs on the monitor and the reference in lockstep, so that the number in the test is the third opinion.
"""

from collections.abc import Sequence
from itertools import permutations

import pytest

from tests.reference.clock import Valve as ReferenceValve
from tests.reference.run import Batch, End, Firing, Row, SetIdle, SetLateness, Tick
from wmtop.engine.core.multiplexer import Multiplexer
from wmtop.engine.core.settings import Session, Settings, Sliding, Tumbling
from wmtop.engine.core.times import MAX, MIN
from wmtop.engine.core.valve import Valve

from .lockstep import Lockstep

S = 1_000
MINUTE = 60 * S


def start(
    window: Tumbling | Sliding | Session = Tumbling(10),  # noqa: B008 - frozen
    *,
    lateness: int = 0,
    idle_after: int | None = None,
    strategy: str = "bounded",
    allowed: int = 0,
    guard: int | None = None,
    subtasks: int | None = None,
) -> Lockstep:
    """A run with few settings of its own."""
    tunable = strategy in ("bounded", "bounded-legacy", "smoothed", "spark")
    return Lockstep(
        Settings(
            strategy=strategy,  # type: ignore[arg-type]
            lateness_ms=lateness if tunable else None,
            idle_after_ms=idle_after,
            allowed_lateness_ms=allowed,
            future_guard_ms=guard,
            subtasks=subtasks,
            window=window,
            smooth=3,
        )
    )


def batch(now: int, *records: tuple[str, int] | tuple[str, int, int | bool]) -> Batch:
    """A micro-batch of (channel, event time[, marker or source watermark]), all arrived at `now`."""
    return Batch(tuple(Row(now, *record) for record in records), now)


def brief(firings: Sequence[Firing]) -> list[tuple[str, int | None, int | None, int]]:
    """Kind, start, end, records."""
    return [(f["kind"], f["start_ms"], f["end_ms"], f["records"]) for f in firings]


# 1. Strategies


def test_bounded_with_two_seconds() -> None:
    """
    event time   9    11        17*       22
    watermark    6.999 8.999              19.999      window [10, 20) closes; 17 comes too late
    """
    run = start(Tumbling(10 * S), lateness=2 * S)
    levels: list[int] = []
    for now, ts in ((1, 9), (2, 11), (3, 22)):
        run.apply(batch(now, ("a", ts * S)))
        levels.append(run.level)
    assert levels == [6_999, 8_999, 19_999]
    assert brief(run.apply(batch(4, ("a", 17 * S)))) == [("late", 10 * S, 20 * S, 1)]


def test_legacy_has_no_minus_one() -> None:
    """
    event time   5    7    4*
    watermark    3    5         window [0, 5) closes; 4 comes too late
    """
    run = start(Tumbling(5 * S), lateness=2 * S, strategy="bounded-legacy")
    run.apply(batch(1, ("a", 5 * S)))
    assert run.level == 3 * S
    run.apply(batch(2, ("a", 7 * S)))
    assert run.level == 5 * S
    assert brief(run.apply(batch(3, ("a", 4 * S)))) == [("late", 0, 5 * S, 1)]


def test_two_upstreams_at_five_and_seven() -> None:
    run = start(strategy="bounded-legacy")
    run.apply(batch(1, ("a", 5 * S), ("b", 7 * S)))
    assert run.level == 5 * S


def test_before_the_first_record_there_is_no_watermark() -> None:
    run = start()
    run.apply(Tick(1))
    assert run.level == MIN
    assert run.driver.snapshot().level.watermark_ms is None


def test_monotonous_is_bounded_zero() -> None:
    runs = [start(strategy="monotonous"), start(strategy="bounded", lateness=0)]
    for run in runs:
        run.apply(batch(1, ("a", 5), ("b", 9), ("a", 3)))
    assert [run.level for run in runs] == [4, 4]


def test_punctuated_speaks_only_for_markers() -> None:
    run = start(strategy="punctuated")
    run.apply(batch(1, ("a", 50, False)))
    assert run.level == MIN
    run.apply(batch(2, ("a", 30, True), ("a", 20, True), ("a", 99, False)))
    assert run.level == 29


def test_smoothed_is_not_dragged_by_one_outlier() -> None:
    """
    event time      100   100   1000     floor(mean of the last 3) - 10 - 1
    watermark       89    89    389      bounded would say 989
    """
    run = start(lateness=10, strategy="smoothed")
    levels: list[int] = []
    for ts in (100, 100, 1000, 101):
        run.apply(batch(1, ("a", ts)))
        levels.append(run.level)
    assert levels == [89, 89, 389, 389]  # (100 + 1000 + 101) // 3 is 400 again: never back


def test_source_watermarks_are_taken_as_they_are() -> None:
    run = start(strategy="source")
    run.apply(batch(1, ("a", 50, 20), ("a", 51, 15)))
    assert run.level == 20


def test_spark_lets_the_fastest_channel_drive() -> None:
    """Level 100 - 10 - 1, written down plus 1; nobody holds it."""
    run = start(lateness=10, strategy="spark", idle_after=1)
    fired = run.apply(batch(1, ("a", 5), ("b", 100)))
    assert run.level == 89
    level = run.driver.snapshot().level
    assert (level.watermark_ms, level.holder) == (90, None)
    assert [(f["start_ms"], f["watermark_ms"]) for f in fired] == [(0, 90)]
    assert [channel.state for channel in run.driver.snapshot().channels] == ["active", "active"]


def test_none_says_nothing_before_the_end() -> None:
    run = start(strategy="none")
    assert run.apply(batch(1, ("a", 5), ("a", 500))) == []
    assert run.level == MIN
    assert brief(run.apply(End(2))) == [("fire", 0, 10, 1), ("fire", 500, 510, 1)]


# 2. Idleness


def test_idleness_takes_at_least_three_ticks() -> None:
    """
    batch    tick         tick        tick        tick        timeout 10
    0        100          200         210         211
    noted    clock starts 100 elapsed             -
    """
    run = start(idle_after=10)
    run.apply(batch(0, ("a", 1)))
    states: list[str] = []
    for now in (100, 110, 111):
        run.apply(Tick(now))
        states.append(run.driver.snapshot().channels[0].state)
    assert states == ["active", "active", "idle"]


def test_an_idle_channel_wakes_at_its_next_record_even_behind_the_level() -> None:
    """
    a  10 ................ 12*     asleep: b alone moves the level; awake again it is behind it
    b  20   30 31 32 ...           and not aligned: shown as catching up
    """
    run = start(idle_after=2)
    run.apply(batch(0, ("a", 10), ("b", 20)))
    assert run.level == 9
    for now in (3, 6, 9):
        run.apply(batch(now, ("b", 20 + now)))
    assert (run.level, channel_states(run)) == (28, {"a": "idle", "b": "active"})
    run.apply(batch(10, ("a", 12)))
    assert (run.level, channel_states(run)) == (28, {"a": "catching_up", "b": "active"})
    run.apply(batch(11, ("a", 40), ("b", 35)))
    assert (run.level, channel_states(run)) == (34, {"a": "active", "b": "active"})
    assert {c.channel: c.flaps for c in run.driver.snapshot().channels} == {"a": 2, "b": 0}


def test_paused_time_does_not_count_towards_idleness() -> None:
    run = start(idle_after=10)
    run.apply(batch(0, ("a", 1)))
    run.apply(Tick(1))
    run.driver.monitor.exclude(100)
    run.reference.clock.paused(100)
    run.reference.shadow.paused(100)
    run.apply(Tick(110))
    assert channel_states(run) == {"a": "active"}
    run.apply(Tick(112))
    assert channel_states(run) == {"a": "idle"}


def test_an_idle_channel_stays_idle_when_the_timeout_is_switched_off() -> None:
    run = start(idle_after=1)
    run.apply(batch(0, ("a", 1)))
    run.apply(Tick(1))
    run.apply(Tick(3))
    run.apply(SetIdle(None))
    run.apply(Tick(4))
    assert channel_states(run) == {"a": "idle"}
    run.apply(batch(5, ("a", 1)))
    assert channel_states(run) == {"a": "active"}


def channel_states(run: Lockstep) -> dict[str, str]:
    return {channel.channel: channel.state for channel in run.driver.snapshot().channels}


# 3. The valve: the three runs of FLINK-40475, and finished channels


@pytest.mark.parametrize(
    ("watermarks", "script", "level"),
    [
        ((10, 5, 1), "C- C+ A- B- A+", 10),
        ((10, 5, 20), "C- B- B+ A- B-", 20),
        ((10, 5, 20), "C- B- B+ B- A-", 20),
        ((5, 4), "A- B-", 5),
        ((5, 4), "B- A-", 5),
    ],
)
def test_the_valve_after_flink_40475(watermarks: tuple[int, ...], script: str, level: int) -> None:
    ours, theirs = Valve(), ReferenceValve()
    for channel in range(len(watermarks)):
        ours.add_channel(0)
        theirs.add(channel)
    for channel, watermark in enumerate(watermarks):
        ours.input_watermark(channel, watermark)
        theirs.input(channel, watermark)
    for step in script.split():
        channel = "ABC".index(step[0])
        (ours.mark_active if step[1] == "+" else ours.mark_idle)(channel)
        (theirs.mark_active if step[1] == "+" else theirs.mark_idle)(channel)
    assert (ours.last_output, theirs.output) == (level, level)


def test_finished_channels_are_neither_active_nor_idle() -> None:
    """One finished beside an idle one does not push the level; when all are finished it is the end."""
    ours, theirs = Valve(), ReferenceValve()
    for channel in range(2):
        ours.add_channel(0)
        theirs.add(channel)
        ours.input_watermark(channel, 5 + channel)
        theirs.input(channel, 5 + channel)
    ours.finish(1)
    theirs.finish(1)
    ours.mark_idle(0)
    theirs.mark_idle(0)
    assert (ours.last_output, theirs.output, ours.idle, theirs.idle) == (5, 5, True, True)
    ours.mark_active(0)
    ours.finish(0)
    theirs.mark_active(0)
    theirs.finish(0)
    assert (ours.last_output, theirs.output) == (MAX, MAX)


def test_a_removed_channel_leaves_the_minimum() -> None:
    ours, theirs = Valve(), ReferenceValve()
    for channel, watermark in enumerate((3, 8)):
        ours.add_channel(0)
        theirs.add(channel)
        ours.input_watermark(channel, watermark)
        theirs.input(channel, watermark)
    assert (ours.last_output, theirs.output) == (3, 3)
    ours.remove(0)
    theirs.remove(0)
    assert (ours.last_output, theirs.output) == (8, 8)


def test_an_added_channel_holds_the_level_still_and_does_not_pull_it_back() -> None:
    """
    a  10      20           30
    b          (new) 15     25
    """
    run = start()
    run.apply(batch(1, ("a", 11)))
    run.apply(batch(2, ("a", 21), ("b", 6)))
    assert run.level == 10
    run.apply(batch(3, ("a", 31), ("b", 26)))
    assert run.level == 25


# 4. Propagation


def test_three_partitions_of_one_source() -> None:
    """12:05, 12:02, 12:06 -> 12:02."""
    run = start(Tumbling(MINUTE), strategy="bounded-legacy", subtasks=1)
    noon = 12 * 60
    run.apply(batch(1, ("p0", (noon + 5) * MINUTE), ("p1", (noon + 2) * MINUTE), ("p2", (noon + 6) * MINUTE)))
    assert run.level == (noon + 2) * MINUTE
    (instance,) = run.driver.snapshot().instances or []
    assert (instance.watermark_ms, instance.channels) == ((noon + 2) * MINUTE, 3)


def test_an_operators_clock() -> None:
    """Channels at 2, 4, 3, 6: clock 2; then 1 sends 4: 3; 2 sends 7: still 3; 3 sends 6: 4."""
    valve = Valve()
    for channel, watermark in enumerate((2, 4, 3, 6)):
        valve.add_channel(0)
        valve.input_watermark(channel, watermark)
    for channel, watermark in enumerate((2, 4, 3, 6)):
        valve.input_watermark(channel, watermark)
    assert valve.last_output == 2 or valve.last_output == MIN
    outputs = [valve.input_watermark(0, 4), valve.input_watermark(1, 7), valve.input_watermark(2, 6)]
    assert [output and output.watermark for output in outputs] == [3, None, 4]


def test_a_split_that_is_registered_twice_changes_nothing() -> None:
    multiplexer = Multiplexer()
    multiplexer.register(0)
    multiplexer.watermark(0, 5)
    with pytest.raises(ValueError, match="registered"):
        multiplexer.register(0)
    assert (multiplexer.combined, multiplexer.splits[0].watermark) == (5, 5)


def test_channels_go_to_instances_by_number() -> None:
    """Four channels on three instances: a and d share instance 0."""
    run = start(subtasks=3)
    run.apply(batch(1, ("d", 8), ("a", 20), ("b", 30), ("c", 40)))
    assert [channel.instance for channel in run.driver.snapshot().channels] == [0, 1, 2, 0]
    assert run.level == 7


def test_the_holder_is_the_slowest_then_the_longest_standing_then_the_first() -> None:
    run = start()
    run.apply(batch(1, ("b", 5), ("a", 5), ("c", 9)))
    assert holder(run) == "a"
    run.apply(batch(2, ("a", 9)))
    assert holder(run) == "b"
    run.apply(batch(3, ("b", 9)))
    assert holder(run) == "c"  # all at 9: c's watermark has stood longest


def holder(run: Lockstep) -> str | None:
    held = run.driver.snapshot().level.holder
    return held.channel if held else None


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
    level         14              17                   window [0, 10) may come until 9 + 8 = 17
    records    1      2 3             4*
    """
    run = start(Tumbling(10), allowed=8)
    assert brief(run.apply(batch(1, ("a", 1), ("a", 15)))) == [("fire", 0, 10, 1)]
    late_fire, = run.apply(batch(2, ("a", 2), ("a", 3)))
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
    """Windows of 3 every 10: [0, 3), [10, 13); 5 and 7 lie in the gap, the level is 5."""
    run = start(Sliding(3, 10))
    run.apply(batch(1, ("a", 6)))
    late, = run.apply(batch(2, ("a", 5), ("a", 7)))
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
    level 20:   18 lives in [18, 23); 14 alone ends at 19: late, but [14, 19) touches it
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
    level 19, gap 3, allowed lateness 100; live and fired: [10, 13)
    batch            7          12       each touches the live one, not the other: one session [7, 15)
    """
    run = start(Session(3), allowed=100)
    run.apply(batch(1, ("a", 10), ("a", 20)))
    late_fire, = run.apply(batch(2, ("a", 12), ("a", 7)))
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


# 6. Micro-batches


def test_the_level_when_the_batch_starts_decides_lateness() -> None:
    """In one batch 30 comes before 5: still on time; in two it is late."""
    one, two = start(Tumbling(10)), start(Tumbling(10))
    one.apply(batch(1, ("a", 30), ("a", 5)))
    two.apply(batch(1, ("a", 30)))
    two.apply(batch(2, ("a", 5)))
    assert (one.driver.snapshot().totals.late, two.driver.snapshot().totals.late) == (0, 1)


def test_a_batchs_sessions_merge_before_lateness_is_decided() -> None:
    """Level 9, gap 3: 5 alone ends at 8; 8 ends at 11 and reaches back to it."""
    run = start(Session(3))
    run.apply(batch(1, ("a", 10)))
    run.apply(batch(2, ("a", 5), ("a", 8)))
    assert run.driver.snapshot().totals.late == 0


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


def test_lowering_lateness_lets_the_level_jump_at_the_next_emit() -> None:
    run = start(lateness=50)
    run.apply(batch(1, ("a", 100)))
    assert run.level == 49
    run.apply(SetLateness(10))
    assert run.level == 49
    run.apply(Tick(2))
    assert run.level == 89


def test_raising_lateness_lets_the_level_stand_until_it_has_caught_up() -> None:
    run = start(lateness=10)
    run.apply(batch(1, ("a", 100)))
    run.apply(SetLateness(50))
    levels: list[int] = []
    for now, ts in ((2, 120), (3, 139), (4, 141)):
        run.apply(batch(now, ("a", ts)))
        levels.append(run.level)
    assert levels == [89, 89, 90]


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
