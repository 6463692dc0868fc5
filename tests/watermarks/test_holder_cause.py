"""The channel that holds back the watermark, and the cause that is named."""

from wmtop.engine.snapshot import Holder, Snapshot
from wmtop.engine.watermarks.settings import Settings, Tumbling

from ..reference.ops import Known, Op, Tick
from .lockstep import Driver
from .steps import batch

MINUTE = 60_000
HOUR = 60 * MINUTE


def after(*ops: Op, now: int | None = None) -> Snapshot:
    """The picture after some ops, at `now` (else at the last)."""
    driver = Driver(Settings(lateness_ms=0, idle_after_ms=2 * HOUR, future_guard_ms=None, window=Tumbling(HOUR)))
    for op in ops:
        driver.apply(op)
    driver.now = now or driver.now
    return driver.snapshot()


def held(snapshot: Snapshot) -> Holder:
    assert snapshot.level.holder is not None
    return snapshot.level.holder


def test_a_channel_without_data_is_quiet() -> None:
    holder = held(after(batch(0, ("a", 0), ("b", 0)), *(batch(m * MINUTE, ("a", m * MINUTE)) for m in range(1, 31))))
    assert (holder.channel, holder.cause) == ("b", "quiet")


def test_it_has_held_the_level_since_it_became_the_holder() -> None:
    """b is the slowest from the second batch on."""
    ops = [batch(1_000, ("a", 10)), batch(2_000, ("a", 20), ("b", 15)), batch(3_000, ("a", 30))]
    assert held(after(*ops)).since_ms == 2_000


def test_a_channel_that_reads_old_records_is_behind() -> None:
    holder = held(after(batch(5 * HOUR, ("a", 5 * HOUR), ("b", HOUR))))
    assert (holder.channel, holder.cause) == ("b", "behind")


def test_a_channel_without_any_record_is_never_seen() -> None:
    holder = held(after(Known(("a", "b"), 0), batch(MINUTE, ("a", MINUTE)), Tick(2 * MINUTE)))
    assert (holder.channel, holder.cause) == ("b", "never_seen")


def test_one_far_in_the_future_is_blamed_not_the_others() -> None:
    holder = held(after(batch(HOUR, ("a", 30 * 24 * HOUR), ("b", HOUR))))
    assert (holder.channel, holder.cause) == ("b", "future_elsewhere")


def test_event_time_ahead_of_the_clock_is_a_slow_clock() -> None:
    holder = held(after(batch(HOUR, ("a", HOUR + MINUTE))))
    assert (holder.channel, holder.cause) == ("a", "slow_clock")


def test_a_channel_behind_another_has_no_slow_clock_where_times_are_ahead_of_it() -> None:
    """Planned times, such as departures, are ahead of the clock in every channel."""
    first = batch(HOUR, ("a", HOUR + 20 * MINUTE), ("b", HOUR + 5 * MINUTE))
    assert (held(after(first)).channel, held(after(first)).cause) == ("b", "behind")
    later = held(after(first, batch(HOUR + 4 * MINUTE, ("a", HOUR + 21 * MINUTE))))
    assert (later.channel, later.cause) == ("b", "quiet")


# The numbers of the watermark line and of the windows


def test_the_levels_distances() -> None:
    level = after(batch(100, ("a", 41), ("b", 61)), now=150).level
    assert (level.watermark_ms, level.behind_fastest_ms, level.behind_clock_ms) == (40, 20, 110)
    assert level.at_zero_lateness_ms == 40


def test_nothing_is_known_before_the_first_record() -> None:
    snapshot = after(Tick(1))
    level = snapshot.level
    assert (level.watermark_ms, level.behind_fastest_ms, level.behind_clock_ms, level.holder) == (None,) * 4
    assert snapshot.channels == []
    assert [w.late_share for w in snapshot.whatif or []][:1] == [None]


def test_an_open_window_waits_for_the_holder() -> None:
    snapshot = after(batch(1, ("a", HOUR + 5), ("b", 11)))
    first, second = snapshot.windows.open
    assert (first.start_ms, first.end_ms, first.records, first.waits_for) == (0, HOUR, 1, "b")
    assert first.short_ms == HOUR - 1 - 10
    assert second.short_ms == 2 * HOUR - 1 - 10


def test_the_level_and_the_channels_keep_their_last_value_at_the_end() -> None:
    driver = Driver(Settings(lateness_ms=0, window=Tumbling(HOUR)))
    driver.apply(batch(1, ("a", 5)))
    driver.monitor.end(2)
    snapshot = driver.snapshot()
    assert (snapshot.ended, snapshot.level.watermark_ms, snapshot.windows.open_count) == (True, 4, 0)
    assert [(c.channel, c.watermark_ms, c.state) for c in snapshot.channels] == [("a", 4, "finished")]


def test_each_channel_is_counted_apart() -> None:
    driver = Driver(Settings(lateness_ms=0, future_guard_ms=10, window=Tumbling(10)))
    driver.apply(batch(100, ("a", 100), ("b", 95)))
    driver.apply(batch(101, ("a", 50), ("b", 500), ("b", 94)))
    counted = {
        c.channel: (c.records, c.behind_watermark, c.late, c.future, c.max_event_ms) for c in driver.snapshot().channels
    }
    assert counted == {"a": (2, 1, 1, 0, 100), "b": (3, 1, 0, 1, 95)}


def test_settings_changed_while_running_are_recorded() -> None:
    driver = Driver(Settings(lateness_ms=10))
    driver.apply(batch(1, ("a", 100)))
    driver.monitor.change(lateness_ms=20, who="alice", wall_ms=77)
    (change,) = driver.snapshot().own.changes
    assert (change.version, change.batch, change.wall_ms, change.who, change.lateness_ms) == (2, 0, 77, "alice", 20)
    assert driver.snapshot().settings.lateness_ms == 20
    assert driver.snapshot().settings.version == 2
