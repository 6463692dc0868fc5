"""Situations as an on-call engineer meets them, each made by driving the real Monitor, with the findings it must have.

`must` are codes that have to be found, `may` codes that are tolerated beside them; any other finding is a false alarm.
A situation with neither is healthy.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace
from wmtop.engine.snapshot import SourceView
from wmtop.engine.watermarks.explain import Count, Explain, Values
from wmtop.engine.watermarks.settings import Session, Settings, Sliding, Tumbling

from .streams import DAY, HOUR, MINUTE, SECOND, SETTINGS, Record, Stream, traffic

NO_TIMEOUT = replace(SETTINGS, idle_after_ms=None)
ABCD = tuple("abcd")


class Situation(Struct, frozen=True):
    """A stream to diagnose, what must and may be found, and what the reader knows (`lost`, `silent_ms`)."""

    build: Callable[[], Stream]
    must: frozenset[str] = frozenset()
    may: frozenset[str] = frozenset()
    reader: dict[str, object] = {}

    @property
    def healthy(self) -> bool:
        """Nothing may be found."""
        return not self.must


SITUATIONS: dict[str, Situation] = {}


def healthy(build: Callable[[], Stream]) -> Callable[[], Stream]:
    """A situation in which the doctor has to be silent."""
    SITUATIONS[build.__name__] = Situation(build)
    return build


def ill(
    *must: str, may: Iterable[str] = (), **reader: object
) -> Callable[[Callable[[], Stream]], Callable[[], Stream]]:
    """A situation in which the doctor has to find exactly this."""

    def add(build: Callable[[], Stream]) -> Callable[[], Stream]:
        SITUATIONS[build.__name__] = Situation(build, frozenset(must), frozenset(may), reader)
        return build

    return add


# Healthy streams


@healthy
def four_partitions() -> Stream:
    return Stream().run(240, traffic(ABCD))


@healthy
def a_single_channel() -> Stream:
    return Stream().run(180, traffic(["all"], each=20))


@healthy
def ten_thousand_channels() -> Stream:
    names = [f"c{number}" for number in range(10_000)]
    return Stream().run(14, traffic(names, each=1), by=6 * SECOND)


@healthy
def session_windows() -> Stream:
    return Stream(replace(SETTINGS, window=Session(30 * SECOND))).run(240, traffic(ABCD))


@healthy
def sliding_windows() -> Stream:
    return Stream(replace(SETTINGS, window=Sliding(MINUTE, 10 * SECOND))).run(240, traffic(ABCD))


@healthy
def windows_of_a_day() -> Stream:
    return Stream(replace(SETTINGS, window=Tumbling(DAY))).run(240, traffic(ABCD))


@healthy
def allowed_lateness() -> Stream:
    return Stream(replace(SETTINGS, allowed_lateness_ms=MINUTE)).run(240, traffic(ABCD))


@healthy
def source_instances() -> Stream:
    return Stream(replace(SETTINGS, subtasks=2)).run(240, traffic([*ABCD, "e"]))


@healthy
def no_idle_timeout_and_all_channels_send() -> Stream:
    return Stream(NO_TIMEOUT).run(240, traffic(ABCD))


@healthy
def an_unused_partition_that_is_idle() -> Stream:
    stream = Stream()
    stream.monitor.add_channels(["e"], stream.now)
    return stream.run(500, traffic(ABCD))


@healthy
def one_partition_pauses_for_a_few_seconds_now_and_then() -> Stream:
    stream = Stream()
    for _ in range(12):
        stream.run(15, traffic(ABCD)).run(8, traffic("abc"))
    return stream


@healthy
def uneven_rates() -> Stream:
    return Stream().run(240, lambda now: [*traffic("ab", each=20)(now), *traffic("cd", each=1)(now)])


@healthy
def a_partition_a_little_behind_the_others() -> Stream:
    return Stream().run(240, traffic(ABCD, behind={"d": 8 * SECOND}))


@healthy
def results_once_an_hour() -> Stream:
    settings = Settings(lateness_ms=30 * MINUTE, idle_after_ms=2 * HOUR)
    return Stream(settings).run(360, traffic(ABCD, disorder=20 * MINUTE), by=30 * SECOND)


@healthy
def a_replay_of_a_day_at_600() -> Stream:
    settings = Settings(lateness_ms=30 * MINUTE, idle_after_ms=2 * HOUR, future_guard_ms=None)
    return Stream(settings, speed=600.0).run(130, traffic(ABCD, disorder=20 * MINUTE), by=10 * MINUTE)


@healthy
def a_stream_that_has_ended() -> Stream:
    return Stream().run(120, traffic(ABCD)).end()


@healthy
def a_few_malformed_rows() -> Stream:
    def make(now: int) -> list[Record]:
        return [*traffic(ABCD, each=20)(now), *([("b", None)] if now % MINUTE == 0 else [])]

    return Stream().run(240, make)


@healthy
def a_backlog_that_is_being_read() -> Stream:
    stream = Stream()
    for left in range(240, 0, -1):
        stream.backlog = dict.fromkeys(ABCD, 40 * left)
        stream.step(traffic(ABCD, shift=-left * SECOND)(stream.now + SECOND))
    stream.backlog = dict.fromkeys(ABCD, 0)
    return stream.run(60, traffic(ABCD))


@healthy
def a_partition_that_came_back_after_a_night() -> Stream:
    stream = Stream().run(60, traffic(ABCD)).run(400, traffic("abc"))
    return stream.run(120, traffic(ABCD))


@healthy
def punctuated_watermarks() -> Stream:
    return Stream(replace(SETTINGS, strategy="monotonous", lateness_ms=None)).run(
        240, lambda now: [(name, now - 100) for name in ABCD]
    )


# The watermark is held back


@ill("silent-channels")
def one_dead_partition_without_an_idle_timeout() -> Stream:
    return Stream(NO_TIMEOUT).run(120, traffic(ABCD)).run(600, traffic("abc"))


@ill("silent-channels")
def two_dead_partitions_five_minutes_apart() -> Stream:
    return Stream(NO_TIMEOUT).run(120, traffic(ABCD)).run(300, traffic("abc")).run(600, traffic("ab"))


@ill("silent-channels")
def half_of_the_partitions_dead_at_once() -> Stream:
    names = [f"p{number}" for number in range(20)]
    return Stream(NO_TIMEOUT).run(120, traffic(names)).run(300, traffic(names[:10]))


@ill("silent-channels")
def partitions_that_die_one_after_the_other() -> Stream:
    names = [f"p{number}" for number in range(12)]
    stream = Stream(NO_TIMEOUT).run(60, traffic(names))
    for left in range(11, 1, -1):
        stream.run(120, traffic(names[:left]))
    return stream


@ill("silent-channels", "lagging-channels")
def one_dead_partition_and_one_far_behind() -> Stream:
    stream = Stream(NO_TIMEOUT).run(120, traffic(ABCD, behind={"c": 5 * MINUTE}))
    return stream.run(900, traffic("abc", behind={"c": 5 * MINUTE}))


@ill("silent-channels")
def a_partition_that_never_had_a_record() -> Stream:
    stream = Stream(NO_TIMEOUT)
    stream.monitor.add_channels(["e"], stream.now)
    return stream.run(300, traffic(ABCD))


@ill("silent-channels")
def a_partition_added_while_running_without_a_record() -> Stream:
    stream = Stream(NO_TIMEOUT).run(120, traffic(ABCD))
    stream.monitor.add_channels(["e"], stream.now)
    return stream.run(300, traffic(ABCD))


@ill("silent-channels")
def an_idle_timeout_of_two_hours_for_windows_of_seconds() -> Stream:
    stream = Stream(replace(SETTINGS, idle_after_ms=2 * HOUR)).run(120, traffic(ABCD))
    return stream.run(600, traffic("abc"))


@ill("silent-channels")
def a_dead_partition_under_windows_of_a_day() -> Stream:
    stream = Stream(replace(NO_TIMEOUT, window=Tumbling(DAY))).run(120, traffic(ABCD))
    return stream.run(300, traffic("abc"))


@ill("silent-channels")
def a_dead_partition_of_a_source_instance() -> Stream:
    return Stream(replace(NO_TIMEOUT, subtasks=2)).run(120, traffic(ABCD)).run(600, traffic("abc"))


@ill("silent-channels")
def a_dead_partition_among_ten_thousand() -> Stream:
    names = [f"c{number}" for number in range(10_000)]
    stream = Stream(NO_TIMEOUT).run(2, traffic(names, each=1), by=6 * SECOND)
    return stream.run(13, traffic(names[1:], each=1), by=10 * SECOND)


@ill("silent-channels")
def the_demo_without_an_idle_timeout() -> Stream:
    settings = Settings(lateness_ms=30 * MINUTE, idle_after_ms=None, future_guard_ms=None)
    stream = Stream(settings, speed=600.0).run(40, traffic(ABCD, disorder=20 * MINUTE), by=10 * MINUTE)
    stream.run(2, traffic("abc", disorder=20 * MINUTE), by=10 * MINUTE)
    return stream.run(90, traffic("ab", disorder=20 * MINUTE), by=10 * MINUTE)


@ill("no-data")
def all_partitions_dead_without_an_idle_timeout() -> Stream:
    return Stream(NO_TIMEOUT).run(120, traffic(ABCD)).run(300, traffic("ab")).wait(14 * HOUR, by=MINUTE)


@ill("no-data")
def all_channels_idle_at_night() -> Stream:
    return Stream().run(120, traffic(ABCD)).wait(6 * HOUR, by=MINUTE)


@ill("no-data")
def a_single_channel_that_stopped() -> Stream:
    return Stream().run(120, traffic(["all"])).wait(HOUR, by=MINUTE)


@ill("only-realigning", may=("lateness-too-small",))
def only_a_partition_from_the_past_sends() -> Stream:
    stream = Stream().run(120, traffic(ABCD)).run(400, traffic("abc")).wait(6 * MINUTE)
    return stream.run(180, traffic("d", shift=-10 * MINUTE, each=1))


@ill("lagging-channels")
def a_slow_partition() -> Stream:
    return Stream().run(240, traffic(ABCD, behind={"d": 10 * MINUTE}))


@ill("lagging-channels")
def two_slow_partitions() -> Stream:
    return Stream().run(240, traffic(ABCD, behind={"c": 8 * MINUTE, "d": 10 * MINUTE}))


@ill("lagging-channels")
def a_partition_with_a_backlog() -> Stream:
    stream = Stream()
    stream.backlog = {"d": 100_000}
    return stream.run(240, traffic(ABCD, behind={"d": 10 * MINUTE}))


@ill("lagging-channels")
def a_dead_partition_that_is_ahead_of_the_lagging_one() -> Stream:
    behind = {"d": 10 * MINUTE}
    return Stream(NO_TIMEOUT).run(120, traffic(ABCD, behind=behind)).run(180, traffic("abd", behind=behind))


@ill("frozen-by-lateness")
def lateness_raised_while_running() -> Stream:
    stream = Stream().run(120, traffic(ABCD)).change(lateness_ms=30 * MINUTE)
    return stream.run(120, traffic(ABCD))


# Idleness


@ill("flapping-idleness", may=("late-after-idle",))
def a_timeout_as_long_as_the_pauses() -> Stream:
    stream = Stream(replace(SETTINGS, idle_after_ms=20 * SECOND)).run(60, traffic(ABCD))
    for _ in range(10):
        stream.run(24, traffic("abc")).run(4, traffic(ABCD))
    return stream


@ill("late-after-idle", may=("flapping-idleness", "lateness-too-small"))
def a_channel_that_delivers_what_it_collected_while_idle() -> Stream:
    stream = Stream(replace(SETTINGS, idle_after_ms=20 * SECOND)).run(60, traffic(ABCD))
    for _ in range(10):
        stream.run(50, traffic("abc"))
        stream.step([*traffic("abc")(stream.now + SECOND), *(("d", stream.now - 45 * SECOND) for _ in range(40))])
    return stream


# Event times


@ill("future-timestamps")
def a_producer_whose_clock_is_a_day_ahead() -> Stream:
    def make(now: int) -> list[Record]:
        return [*traffic(ABCD)(now), *([("b", now + DAY)] if now % (10 * SECOND) == 0 else [])]

    return Stream().run(240, make)


@ill("future-timestamps")
def a_clock_that_is_an_hour_ahead_in_a_replay() -> Stream:
    """The others are in time: none of them is lagging."""
    settings = replace(SETTINGS, future_guard_ms=None)
    return Stream(settings, speed=60).run(120, traffic(ABCD, behind={"b": -HOUR}), by=MINUTE)


@ill("future-timestamps", may=("lateness-too-small",))
def a_future_timestamp_without_a_guard() -> Stream:
    stream = Stream(replace(SETTINGS, future_guard_ms=None)).run(100, traffic(ABCD))
    stream.step([("b", stream.now + HOUR)])
    return stream.run(200, traffic(ABCD))


def explained(stream: Stream, **producers: tuple[int, int]) -> Stream:
    """A healthy stream with twenty batches of so many late and all records of producers."""
    explain = stream.monitor.explain = Explain.of(["producer"])
    records, late = sum(of for _, of in producers.values()), sum(late for late, _ in producers.values())
    for _ in range(20):
        explain.add([Values({name: Count(*of) for name, of in producers.items()})], records, late)
    stream.publish()
    return stream


@healthy
def producers_of_which_none_is_late_more_often_beyond_chance() -> Stream:
    usual = {f"eu_{number}": (1, 100) for number in range(7)}
    return explained(Stream().run(240, traffic(ABCD)), **usual, jitter=(1, 90), rare=(1, 1))


@ill("late-cause")
def a_producer_with_most_late_records() -> Stream:
    usual = {f"eu_{number}": (0, 100) for number in range(6)}
    return explained(Stream().run(240, traffic(ABCD)), **usual, old=(40, 120), fine=(5, 100))


@ill("zone-shift")
def local_times_an_hour_ahead() -> Stream:
    return Stream(replace(SETTINGS, future_guard_ms=None)).run(240, traffic(ABCD, shift=HOUR))


@ill("zone-shift")
def local_times_an_hour_ahead_set_aside() -> Stream:
    return Stream().run(240, traffic(ABCD, shift=HOUR))


@ill("zone-shift")
def local_times_five_hours_behind() -> Stream:
    return Stream().run(240, traffic(ABCD, shift=-5 * HOUR))


@ill("wrong-unit")
def epoch_seconds_in_a_column_of_milliseconds() -> Stream:
    inner = traffic(ABCD)
    return Stream().run(240, lambda now: [(name, (ts or 0) // 1_000) for name, ts in inner(now)])


@ill("malformed", may=("no-records", "cannot-tell-yet"))
def no_row_has_a_usable_time() -> Stream:
    return Stream().run(120, lambda now: [(name, None) for name in ABCD])


@ill("malformed")
def one_row_in_ten_has_no_time() -> Stream:
    return Stream().run(240, lambda now: [*traffic(ABCD)(now), ("d", None)])


@ill("processing-time")
def event_time_that_is_the_time_of_reading() -> Stream:
    return Stream().run(240, lambda now: [(name, now - 20) for name in ABCD for _ in range(15)])


# Lateness


@ill("lateness-too-small")
def no_lateness_at_all() -> Stream:
    settings = replace(SETTINGS, lateness_ms=0)
    return Stream(settings).run(300, traffic(ABCD, each=5, disorder=20 * SECOND))


@ill("lateness-too-small")
def a_burst_of_late_records() -> Stream:
    stream = Stream().run(1_200, traffic(ABCD, each=6))

    def make(now: int) -> list[Record]:
        return [*traffic(ABCD, each=3)(now), *(("b", now - 5 * MINUTE) for _ in range(12))]

    return stream.run(120, make)


@ill("lateness-too-large")
def a_lateness_of_an_hour_for_records_seconds_apart() -> Stream:
    settings = Settings(lateness_ms=HOUR, idle_after_ms=2 * HOUR, window=Tumbling(MINUTE))
    return Stream(settings).run(900, traffic(ABCD, each=5), by=10 * SECOND)


@ill("lateness-too-large")
def a_lateness_of_thirty_days_under_which_no_window_has_fired() -> Stream:
    return Stream(replace(SETTINGS, lateness_ms=30 * DAY)).run(900, traffic(ABCD, each=4))


@ill("lagging-channels")
def a_partition_that_repeats_one_timestamp() -> Stream:
    stream = Stream().run(120, traffic(ABCD))
    at, others = stream.now, traffic("abc")
    return stream.run(300, lambda now: [*others(now), ("d", at), ("d", at)])


@ill("left-behind", may=("lateness-too-small",))
def a_slow_partition_under_sparks_one_clock() -> Stream:
    settings = replace(SETTINGS, strategy="spark", idle_after_ms=None)
    return Stream(settings).run(240, traffic(ABCD, behind={"d": 10 * MINUTE}))


@ill("zero-delay", may=("lateness-too-small",))
def a_spark_delay_of_zero() -> Stream:
    settings = replace(SETTINGS, strategy="spark", idle_after_ms=None, lateness_ms=0)
    return Stream(settings).run(240, traffic(ABCD, disorder=SECOND))


# Engine, source, batches


@ill("engine-failed", lost="killed (SIGKILL; out of memory?)")
def the_engine_was_killed() -> Stream:
    return Stream().run(240, traffic(ABCD))


@ill("engine-silent", silent_ms=60_000)
def the_engine_hangs() -> Stream:
    return Stream().run(240, traffic(ABCD))


@ill("engine-failed")
def the_run_failed() -> Stream:
    stream = Stream().run(240, traffic(ABCD))
    stream.state = "failed"
    stream.publish()
    return stream


@ill("source-unreachable")
def the_broker_does_not_answer() -> Stream:
    stream = Stream().run(240, traffic(ABCD))
    stream.state = "stale"
    return stream.wait(2 * MINUTE)


@ill("source-paused")
def the_source_is_paused() -> Stream:
    stream = Stream().run(240, traffic(ABCD))
    stream.state = "paused"
    return stream.wait(10 * MINUTE)


@ill("cannot-tell-yet")
def the_start_of_a_run() -> Stream:
    return Stream().wait(30 * SECOND)


@healthy
def the_first_records_of_a_run() -> Stream:
    """An advance shows that the watermark moves: nothing else has to be awaited."""
    return Stream().run(5, traffic(ABCD))


@ill("no-records")
def an_empty_topic() -> Stream:
    stream = Stream()
    stream.monitor.add_channels(list(ABCD), stream.now)
    return stream.wait(3 * MINUTE, by=SECOND)


@ill("slow-batches", may=("lagging-channels", "watermark-slow"))
def a_reader_that_does_not_keep_up() -> Stream:
    stream = Stream()
    for second in range(300):
        stream.backlog = dict.fromkeys(ABCD, 100 + 250 * second)
        stream.step(traffic(ABCD, shift=-second * SECOND // 2)(stream.now + SECOND))
    return stream


@ill("slow-batches")
def batches_of_twenty_seconds() -> Stream:
    stream = Stream()
    stream.batch_ms = 20_000
    return stream.run(20, traffic(ABCD), by=20 * SECOND)


FILE = SourceView("files", "/in", time_column="ts")
