"""The worked examples of the semantics, sections 1 to 4; times in ms, or in seconds where the text has seconds.

Each runs on the monitor and the reference in lockstep, so that the number in the test is the third opinion.
"""

import pytest
from wmtop.engine.verdict.monitor_snapshot import snapshot_of
from wmtop.engine.watermarks.monitor import Monitor, new_monitor
from wmtop.engine.watermarks.multiplexer import Multiplexer
from wmtop.engine.watermarks.settings import Session, Settings, Tumbling
from wmtop.engine.watermarks.times import MAX, MIN
from wmtop.engine.watermarks.valve import Valve

from ..reference.ops import End, Finished, Gone, Paused, SetIdle, Tick
from ..reference.valve import Valve as ReferenceValve
from .aggregate import observe
from .lockstep import Driver, Lockstep
from .steps import batch, brief, channel_states, start

S = 1_000
MINUTE = 60 * S
NOW = 1_700_000_000_000


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


def test_the_epoch_is_a_time_like_any_other() -> None:
    run = start()
    run.apply(batch(1, ("a", 0)))
    run.apply(batch(2, ("a", -5)))
    assert (run.level, run.driver.snapshot().channels[0].max_event_ms) == (-1, 0)


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


def test_smoothed_rounds_down_also_below_zero() -> None:
    run = start(strategy="smoothed")
    run.apply(batch(1, ("a", -1), ("a", -2)))
    assert run.level == -2 - 1


def test_source_watermarks_are_taken_as_they_are() -> None:
    run = start(strategy="source")
    run.apply(batch(1, ("a", 50, 20), ("a", 51, 15)))
    assert run.level == 20


def test_spark_lets_the_fastest_channel_drive() -> None:
    """Level 100 - 10 - 1, written down plus 1; nobody holds it."""
    run = start(lateness=10, strategy="spark", idle_after=1)
    assert run.apply(batch(1, ("a", 5), ("b", 100))) == []
    assert run.level == 89
    level = run.driver.snapshot().level
    assert (level.watermark_ms, level.holder) == (90, None)
    assert [channel.state for channel in run.driver.snapshot().channels] == ["active", "active"]


def test_spark_compares_with_the_batch_before_and_evicts_with_its_own() -> None:
    """
    batch              0    1    2     3
    record             20   50   25    26   (lateness 5, windows of 10; what real Spark 4.3 does with these four)
    its watermark      -    15   45    45
    late records by    -    -    15    45
    """
    run = start(lateness=5, strategy="spark")
    brief_of = [brief(run.apply(batch(n, ("a", ts)))) for n, ts in enumerate((20, 50, 25, 26))]
    assert brief_of == [[], [], [("fire", 20, 30, 2)], [("late", 20, 30, 1)]]
    assert run.driver.snapshot().totals.late == 1


def test_spark_in_a_pause_runs_a_batch_without_data() -> None:
    run = start(lateness=5, strategy="spark")
    run.apply(batch(1, ("a", 20)))
    run.apply(batch(2, ("a", 50)))
    assert brief(run.apply(Tick(3))) == [("fire", 20, 30, 1)]
    assert brief(run.apply(batch(4, ("a", 25)))) == [("late", 20, 30, 1)]


def test_spark_that_continues_runs_no_batch_without_data_before_the_first_with_data() -> None:
    run = start(lateness=5, strategy="spark")
    run.apply(batch(1, ("a", 20)))
    run.apply(batch(2, ("a", 50)))
    monitor = run.driver.monitor
    monitor.resume()
    assert monitor.tick(3) == []
    assert run.driver.apply(batch(4, ("a", 25)))[0]["kind"] == "fire"
    assert snapshot_of(monitor, name="x", state="live", wall_ms=0).totals.late == 0


def test_spark_drops_a_record_by_its_own_session_also_one_that_would_merge() -> None:
    """Watermark 35 in both: of the session [30, 50) both records are dropped whose own one has ended."""
    run = start(Session(10), lateness=5, strategy="spark")
    for n, ts in enumerate((30, 40, 40)):
        run.apply(batch(n, ("a", ts)))
    assert brief(run.apply(batch(4, ("a", 25), ("a", 26), ("a", 24)))) == [("late", 24, 35, 2)]


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
    a  10 ................ 12*     asleep: b alone moves the watermark; awake again it is behind it
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
    run.apply(Paused(100))
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
    """One finished beside an idle one does not push the watermark; when all are finished it is the end."""
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


def test_a_channel_known_before_its_first_record_holds_since_it_was_added() -> None:
    """Not since 1970."""
    monitor = new_monitor(Settings())
    monitor.add_channels(["a", "b"], NOW)
    holder = snapshot_of(monitor, name="x", state="live", wall_ms=NOW, now_ms=NOW + 5).level.holder
    assert holder is not None
    assert (holder.channel, holder.since_ms) == ("a", NOW)


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


def test_the_holder_is_the_slowest_then_the_longest_unchanged_then_the_first() -> None:
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


# 3.5, 3.7: channels that finish or are removed


def test_a_finished_channel_no_longer_holds_the_watermark_back() -> None:
    """
    a  9 fin
    b  4        watermark 4 -> 4, then a's end changes nothing; b's end is the end of the stream
    c  6
    """
    run = start(strategy="bounded-legacy")
    run.apply(batch(1, ("a", 9), ("b", 4), ("c", 6)))
    assert run.apply(Finished(("b",), 2)) == []
    assert run.level == 6
    assert channel_states(run) == {"a": "active", "b": "finished", "c": "active"}
    run.apply(Finished(("c",), 3))
    assert run.level == 9
    run.apply(batch(4, ("a", 12)))
    ended = run.apply(Finished(("a",), 5))
    assert brief(ended) == [("fire", 10, 20, 1)]
    assert ended[0]["ended"]
    assert run.driver.monitor.ended


def test_a_finished_channel_beside_idle_ones_does_not_end_the_stream() -> None:
    run = start(strategy="bounded-legacy", idle_after=10)
    run.apply(batch(1, ("a", 9), ("b", 4)))
    for now in (2, 3, 20):
        run.apply(Tick(now))
    assert run.driver.snapshot().level.idle
    run.apply(Finished(("a",), 21))
    assert (run.level, run.driver.monitor.ended) == (9, False)


def test_a_removed_channel_leaves_the_minimum_and_its_counts_stay() -> None:
    run = start(strategy="bounded-legacy")
    run.apply(batch(1, ("a", 18), ("b", 4), ("b", 5)))
    assert brief(run.apply(Gone(("b", "unknown"), 2))) == [("fire", 0, 10, 2)]
    snapshot = run.driver.snapshot()
    assert (run.level, snapshot.totals.records, list(channel_states(run))) == (18, 3, ["a"])
    run.apply(batch(3, ("b", 30)))  # recreated: a new channel
    assert run.level == 18
    assert channel_states(run) == {"a": "active", "b": "active"}
    assert run.driver.monitor.counts["b"].records == 3


@pytest.mark.parametrize("subtasks", [None, 1, 2])
@pytest.mark.parametrize("finished", ["a", "b"])
def test_channels_removed_together_do_not_end_the_stream(finished: str, subtasks: int | None) -> None:
    """
    a  8        one of the two has finished, then both topics are deleted at once: no channel is left to send MAX
    b  4        watermark 4, or 8 once b has finished; a new channel's window still opens
    """
    run = start(Tumbling(10), strategy="bounded-legacy", subtasks=subtasks)
    run.apply(batch(1, ("a", 8), ("b", 4)))
    run.apply(Finished((finished,), 2))
    run.apply(Tick(3))
    level = run.level
    assert run.apply(Gone(("a", "b"), 4)) == []
    assert (run.level, run.driver.monitor.ended) == (level, False)
    assert brief(run.apply(batch(5, ("c", 12)))) == [("fire", 0, 10, 2)]
    run.apply(Tick(6))
    assert brief(run.apply(batch(7, ("c", 31)))) == [("fire", 10, 20, 1)]
    assert run.driver.snapshot().totals.late == 0


def test_removing_the_last_active_channel_flushes_the_greatest_idle_watermark() -> None:
    run = start(strategy="bounded-legacy", idle_after=10)
    run.apply(batch(1, ("a", 9), ("b", 4)))
    for now in (2, 3):
        run.apply(Tick(now))
    run.apply(batch(20, ("b", 5)))
    assert (run.level, channel_states(run)["a"]) == (5, "idle")
    run.apply(Gone(("b",), 21))
    assert run.level == 9


def test_inside_a_source_instance_a_removal_counts_at_the_next_emit() -> None:
    """Two instances: a and c in the first, b in the second; the holder's split goes."""
    run = start(strategy="bounded-legacy", subtasks=2)
    run.apply(batch(1, ("a", 4), ("b", 8), ("c", 6)))
    run.apply(Gone(("a",), 2))
    assert run.level == 4
    assert run.driver.monitor.next_tick_ms() == MIN
    run.apply(Tick(3))
    assert run.level == 6
    run.apply(Finished(("c",), 4))  # the last of its instance: the instance finishes at once
    assert run.level == 8
    run.apply(Gone(("c",), 5))
    assert [view.channel for view in run.driver.snapshot().instances or []] == ["#1"]


def test_when_only_finished_channels_remain_the_stream_ends() -> None:
    run = start(strategy="bounded-legacy")
    run.apply(batch(1, ("a", 12), ("b", 4)))
    run.apply(Finished(("b",), 2))
    assert run.apply(Gone(("a",), 3))[0]["ended"]
    assert channel_states(run) == {"b": "finished"}


# 8: a change is in force from the next emit after it


def test_a_change_does_not_reach_back_to_an_emit_that_was_owed_before_it() -> None:
    """a has been quiet for 25 min: the next emit finds it idle by the new timeout, before it could send -1."""
    settings = Settings(lateness_ms=60_000, idle_after_ms=7_200_000, window=Tumbling(60_000))
    monitor = Driver(settings).monitor
    monitor.apply(observe(monitor, batch(0, ("a", 0)), 0))
    monitor.tick_until(900_000)
    fired = monitor.change(lateness_ms=0, idle_after_ms=1_200_000, who="test", wall_ms=0, now=1_500_000)
    assert (fired, monitor.level, monitor.now_ms) == ([], -60_001, 1_500_000)
    monitor.tick_until(1_500_199)
    assert monitor.channels[0].left is None
    monitor.tick_until(1_500_200)
    assert (monitor.level, channel_state(monitor)) == (-60_001, "idle")


def test_what_a_change_fires_is_fired_after_it() -> None:
    settings = Settings(lateness_ms=60_000, idle_after_ms=None, window=Tumbling(60_000))
    monitor = Driver(settings).monitor
    monitor.apply(observe(monitor, batch(0, ("a", 0), ("a", 60_000)), 0))
    monitor.change(lateness_ms=0, who="test", wall_ms=0, now=1_500_100)
    assert monitor.tick_until(1_500_199) == []
    assert [firing.end_ms for firing in monitor.tick_until(1_500_200)] == [60_000]
    assert monitor.fired.last[-1].fired_ms == 1_500_200


def channel_state(monitor: Monitor) -> str:
    return snapshot_of(monitor, name="test", state="live", wall_ms=0).channels[0].state


def test_an_idle_timeout_of_0_is_refused() -> None:
    monitor = Driver(Settings()).monitor
    with pytest.raises(ValueError, match="0"):
        monitor.change(idle_after_ms=0, who="test", wall_ms=0)
    assert monitor.settings == Settings()


# 4: the holder inside a source instance


def test_inside_a_source_instance_the_holder_is_the_one_unchanged_for_longest() -> None:
    """a and b are both at 5, b since before: a's last watermark came later."""
    run = start(strategy="bounded-legacy", subtasks=1)
    run.apply(batch(1, ("a", 4), ("b", 5)))
    run.apply(batch(2, ("a", 5)))
    holder = run.driver.snapshot().level.holder
    assert holder is not None
    assert holder.channel == "b"
