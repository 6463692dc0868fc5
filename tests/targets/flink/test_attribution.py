"""The attribution of two dumps, by hand; times in ms from an arbitrary start."""

import pytest
from msgspec.structs import replace
from wmtop.engine.targets.flink.attribution import Attribution
from wmtop.engine.targets.flink.facts import FlinkFacts, with_sample
from wmtop.engine.targets.flink.samples import (
    Edge,
    Graph,
    JobSample,
    ListedJob,
    SampledSplit,
    Subtask,
    Vertex,
    VertexSample,
)
from wmtop.engine.targets.flink.upstream import operators
from wmtop.engine.watermarks.times import MAX, MIN

from .attributed import attributed, attributed_from

SOURCE = Vertex("s", "Source: in", 2, "RUNNING")
MAP = Vertex("m", "Map", 2, "RUNNING", (Edge("s", forward=True),))
WINDOW = Vertex("w", "Window", 2, "RUNNING", (Edge("s", forward=False),))
SINK = Vertex("k", "Sink", 2, "RUNNING", (Edge("w", forward=False),))


def sample(at_ms: int, level: int, outputs: list[int], splits: list[list[SampledSplit]], **more: object) -> JobSample:
    sources = tuple(
        Subtask(i, output=out, splits=tuple(own), **more)  # type: ignore[arg-type]
        for i, (out, own) in enumerate(zip(outputs, splits, strict=True))
    )
    windows = tuple(Subtask(i, input=level, output=level, late={"w": 0}) for i in range(2))
    sinks = tuple(Subtask(i, input=level, output=level) for i in range(2))
    return JobSample(
        at_ms, (VertexSample(SINK, sinks), VertexSample(SOURCE, sources), VertexSample(WINDOW, windows, windowed=True))
    )


def test_the_operator_with_windows_is_chosen_before_a_sink() -> None:
    found = operators(sample(0, 5, [5, 9], [[], []]))
    assert [one.vertex.id for one in found] == ["w", "k"]


def test_the_slowest_split_of_the_slowest_subtask_holds() -> None:
    splits = [[SampledSplit("a", 40), SampledSplit("b", 10)], [SampledSplit("c", 30)]]
    found = attributed(sample(0, 10, [10, 30], splits))
    assert found.watermark_ms == 10
    assert found.held_back_by is not None
    assert (found.held_back_by.channel, found.held_back_by.instance) == ("b", 0)


def test_a_split_that_has_ended_is_left_out() -> None:
    """The JobManager keeps its metrics; at a first look it may be one that is back from idle."""

    def at(second: int, sent: int) -> JobSample:
        ended = SampledSplit("a", 5, idle_ms=0, idle_share=0.0, active_ms=4_000)
        lasting = SampledSplit("b", sent, idle_ms=0, idle_share=0.0, active_ms=second * 1_000)
        return sample(second * 1_000, 10, [10, 30], [[ended, lasting], [SampledSplit("c", 30)]])

    first = attributed(at(10, 10))
    assert (first.held_back_by, first.is_sure) == (None, False)
    found = attributed(at(20, 10), at(10, 10))
    assert [one.channel for one in found.channels] == ["b", "c"]
    assert found.held_back_by is not None
    assert (found.held_back_by.channel, found.held_back_by.instance) == ("b", 0)
    same = attributed(replace(at(10, 10), at_ms=20_000), at(10, 10))
    assert [one.channel for one in same.channels] == ["a", "b", "c"], "nothing of its subtask is newer"


def test_an_input_below_what_the_level_had_reached_is_left_out() -> None:
    before = sample(0, 20, [15, 30], [[SampledSplit("a", 15)], [SampledSplit("c", 30)]])
    now = sample(10_000, 30, [15, 30], [[SampledSplit("a", 15, idle_share=0.0)], [SampledSplit("c", 30)]])
    found = attributed(now, before)
    assert [one.state for one in found.subtasks] == ["catching_up", "active"]
    assert found.held_back_by is not None
    assert found.held_back_by.channel == "c"
    idle = sample(10_000, 30, [15, 30], [[SampledSplit("a", 15, idle_share=1.0)], [SampledSplit("c", 30)]])
    assert [one.state for one in attributed(idle, before).channels] == ["idle", "active"]


def test_the_watermark_is_the_operators_own_although_one_sample_alone_leaves_no_input_out() -> None:
    found = attributed(sample(0, 30, [15, 30], [[SampledSplit("a", 15)], [SampledSplit("c", 30)]]))
    assert [one.state for one in found.subtasks] == ["active", "active"]
    assert found.watermark_ms == 30


def test_at_one_look_an_input_far_below_the_operator_is_not_blamed() -> None:
    """A split that was idle sends older records again; the numbers are those of a Flink 2.3.0 (minus its epoch)."""

    def look(level: int, other: int, **back: object) -> Attribution:
        splits = [
            [SampledSplit("a", 51_115, idle_share=0.1, **back)],
            [SampledSplit("c", other, idle_ms=0, idle_share=0.0)],
        ]  # type: ignore[arg-type]
        return attributed(sample(0, level, [51_115, other], splits))

    for found in (look(116_115, 116_115, idle_ms=17_652), look(116_115, 116_115), look(116_115, 117_000)):
        assert (found.watermark_ms, [one.state for one in found.subtasks]) == (116_115, ["catching_up", "active"])
        assert found.held_back_by is None or found.held_back_by.channel == "c"
    assert look(116_115, 116_115, idle_ms=17_652).is_sure
    unsure = look(116_115, 117_000, idle_ms=17_652)  # the lower one may be aligned, if its dump is the older one
    assert (unsure.held_back_by, unsure.blockers, unsure.is_sure) == (None, None, False)


def test_at_one_look_an_input_that_reads_nothing_below_the_operator_is_left_out() -> None:
    def look(idle_ms: int) -> Attribution:
        splits = [[SampledSplit("a", 15_000)], [SampledSplit("c", 30_000)]]
        return attributed(sample(0, 29_000, [15_000, 30_000], splits, source_idle_ms=idle_ms))

    assert (look(1_500).is_sure, look(1_500).subtasks[0].state) == (True, "catching_up")
    assert look(500).is_sure is False


def test_a_sample_of_a_second_ago_shows_that_an_input_is_left_out() -> None:
    """The oldest of the samples was taken before the operator had passed it."""
    facts = FlinkFacts(graph=Graph(ListedJob("1", "orders", "RUNNING", 1), 0), answered_ms=0)
    for time, level, back in ((0, 20_000, 20_000), (4_000, 90_000, 20_000), (6_000, 96_000, 60_000)):
        splits = [[SampledSplit("a", back, idle_share=0.1)], [SampledSplit("c", level + 9_000)]]
        facts = with_sample(facts, sample(time, level, [back, level + 9_000], splits))
    found = attributed_from(facts)
    assert (found.subtasks[0].state, found.is_sure) == ("catching_up", True)


def test_a_split_that_its_subtask_passed_without_a_record_is_idle() -> None:
    before = sample(
        0, 20, [20, 20], [[SampledSplit("a", 20, offset=5), SampledSplit("b", 25)], [SampledSplit("c", 20)]]
    )
    for offset, state, is_sure in ((5, "idle", True), (6, "active", False)):  # it may be back by then
        now = sample(
            1_000,
            20,
            [25, 20],
            [[SampledSplit("a", 20, offset=offset), SampledSplit("b", 25)], [SampledSplit("c", 20)]],
        )
        found = attributed(now, before)
        assert ([one.state for one in found.channels], found.is_sure) == ([state, "active", "active"], is_sure)


def test_records_show_that_a_split_below_its_own_subtask_is_back() -> None:
    """One look cannot: its share of idle time sinks for a minute, and records too late for it change no watermark."""

    def at(time: int, offset: int) -> JobSample:
        back = SampledSplit("back", 5, idle_ms=20_000, idle_share=0.8, offset=offset)
        return sample(time, 90, [90, 200], [[SampledSplit("a", 90, idle_share=0.0), back], [SampledSplit("c", 200)]])

    assert (attributed(at(0, 7)).held_back_by, attributed(at(0, 7)).is_sure) == (None, False)
    found = attributed(at(2_000, 9), at(0, 7))
    assert (found.channels[1].state, found.is_sure) == ("active", True)
    assert found.held_back_by is not None
    assert found.held_back_by.channel == "back"


def test_no_channel_is_blamed_while_an_idle_split_may_be_back() -> None:
    """Flink says up to 5 s late that it is no longer idle."""

    def at(time: int, woken: int, idle_ms: int) -> JobSample:
        splits = [SampledSplit("a", 500, idle_share=0.0), SampledSplit("w", woken, idle_ms=idle_ms, idle_share=1.0)]
        return sample(time, 90, [90, 200], [splits, [SampledSplit("c", 200)]])

    found = attributed(at(6_000, 100, 60_000), at(0, 95, 55_000))
    assert (found.held_back_by, found.blockers, found.is_sure) == (None, None, False)


def test_a_split_that_joins_with_old_data_keeps_its_subtask_from_moving_on() -> None:
    """It is active and far below what its subtask sent before: the others are not to blame."""

    def at(time: int, fast: int, idle_ms: int) -> JobSample:
        old = SampledSplit("old", 5 + time // 1_000, idle_ms=idle_ms, idle_share=0.4)
        return sample(time, 90, [90, 200], [[SampledSplit("a", fast, idle_share=0.0), old], [SampledSplit("c", 200)]])

    found = attributed(at(10_000, 300, 20_000), at(0, 250, 20_000))
    assert [one.state for one in found.channels] == ["active", "active", "active"]
    assert found.held_back_by is not None
    assert (found.held_back_by.channel, found.held_back_by.cause) == ("old", "behind")
    assert [one.channels for one in found.blockers or ()][:1] == [["old"]]
    idle = attributed(at(0, 90, 25_000), replace(at(0, 90, 20_000), at_ms=-10_000))
    assert [one.state for one in idle.channels] == ["active", "idle", "active"]
    assert idle.held_back_by is not None
    assert idle.held_back_by.channel == "a"


def test_an_input_that_stays_where_it_was_below_the_level_is_left_out() -> None:
    """It turned idle a moment ago: what the operator has is not lowered to it, and it is not blamed."""
    quiet = [SampledSplit("a", 20, idle_ms=5_000, idle_share=0.1)]
    before = sample(0, 20, [20, 30], [quiet, [SampledSplit("c", 30, idle_share=0.0)]])
    now = sample(6_000, 36, [20, 36], [quiet, [SampledSplit("c", 36, idle_share=0.0)]])
    found = attributed(now, before)
    assert (found.watermark_ms, [one.state for one in found.subtasks]) == (36, ["catching_up", "active"])
    assert found.held_back_by is not None
    assert found.held_back_by.channel == "c"


def test_an_input_that_follows_a_little_below_the_level_is_left_out_unless_a_dump_explains_it() -> None:
    """Back from idle, it is not aligned until it has caught up."""

    def at(time: int, gap: int) -> JobSample:
        level = 100_000 + time
        splits = [[SampledSplit("a", level - gap, idle_share=0.2)], [SampledSplit("c", level, idle_share=0.0)]]
        return sample(time, level, [level - gap, level], splits)

    for gap, holder, level in ((3_000, "c", 106_000), (400, "a", 106_000)):
        found = attributed(at(6_000, gap), at(0, gap))
        assert found.held_back_by is not None
        assert (found.held_back_by.channel, found.watermark_ms) == (holder, level)


def test_a_split_that_its_subtask_has_passed_is_idle_however_old_its_idle_time_is() -> None:
    """Flink counts idle time in steps of 5 s."""
    slow = SampledSplit("a", 20, idle_ms=0, idle_share=0.0)
    before = sample(0, 20, [20, 90], [[slow, SampledSplit("b", 30, idle_share=0.0)], [SampledSplit("c", 90)]])
    now = sample(6_000, 36, [36, 96], [[slow, SampledSplit("b", 36, idle_share=0.0)], [SampledSplit("c", 96)]])
    found = attributed(now, before)
    assert [one.state for one in found.channels] == ["idle", "active", "active"]
    assert found.held_back_by is not None
    assert found.held_back_by.channel == "b"


def test_a_split_that_was_never_read_does_not_hold_a_subtask_that_follows_the_others() -> None:
    """One sample: the subtask's watermark is that of the other split."""
    found = attributed(
        sample(
            0, 30, [30, 90], [[SampledSplit("a", MIN, idle_share=0.0), SampledSplit("b", 30)], [SampledSplit("c", 90)]]
        )
    )
    assert found.held_back_by is not None
    assert (found.held_back_by.channel, found.channels[0].state) == ("b", "idle")


def test_idle_time_that_grows_over_five_seconds_is_idleness() -> None:
    def at(time: int, idle_ms: int) -> JobSample:
        return sample(
            time, 20, [20, 20], [[SampledSplit("a", 20, idle_ms=idle_ms, idle_share=0.4)], [SampledSplit("c", 20)]]
        )

    assert attributed(at(4_000, 5_000), at(0, 0)).channels[0].state == "active"  # too close to tell
    assert attributed(at(6_000, 5_000), at(0, 0)).channels[0].state == "idle"
    assert attributed(at(6_000, 5_000), at(0, 5_000)).channels[0].state == "active"


def test_a_first_look_at_splits_that_are_all_idle_blames_none() -> None:
    """Numbers of a Flink 2.3.0: silent for 45 s, idle for 40 s of it and, before, all minute."""

    def look(share: float, quiet_ms: int, seconds: int = 0) -> Attribution:
        def at(time: int, more_ms: int) -> JobSample:
            splits = [[SampledSplit(name, 20, idle_ms=83_494 + more_ms, idle_share=share)] for name in "ac"]
            return sample(time, 20, [20, 20], splits, source_idle_ms=quiet_ms)

        return attributed(at(10_000, seconds * 1_000), at(4_000, 0) if seconds else None)

    for found in (look(0.899, 45_218), look(0.2, 9_000, seconds=5)):
        assert ({one.state for one in found.channels}, found.is_sure, found.is_idle) == ({"idle"}, True, True)
    early = look(0.2, 9_000)  # the idle time may have been before the last record
    assert (early.held_back_by, early.is_sure, early.is_idle) == (None, False, False)
    never = look(0.0, 128_974)  # it has no idle timeout
    assert never.held_back_by is not None
    assert never.held_back_by.cause == "quiet"
    read = look(0.899, 900)
    assert read.held_back_by is not None
    assert {one.state for one in read.channels} == {"active"}


def test_a_split_that_may_have_turned_idle_with_nothing_ahead_of_it_is_not_blamed() -> None:
    """Flink reports idle time up to 5 s late. Were it idle, a split ahead of it would set the watermark."""

    def look(quiet_ms: int, *, other: int = 20, idle_ms: int = 0, apart_ms: int = 0) -> Attribution:
        def at(time: int) -> JobSample:
            splits = [[SampledSplit(n, mark, idle_ms=idle_ms, idle_share=0.0)] for n, mark in (("a", 20), ("c", other))]
            return sample(time, 20, [20, other], splits, source_idle_ms=quiet_ms)

        return attributed(at(20_000), at(20_000 - apart_ms) if apart_ms else None)

    unsure = look(30_000, idle_ms=5_000, apart_ms=6_000)
    assert (unsure.held_back_by, unsure.blockers, unsure.is_sure) == (None, None, False)
    assert [one.state for one in unsure.channels] == ["active", "active"]
    for found in (look(12_000), look(9_000, apart_ms=6_000)):  # none was ever idle: a look takes another sample
        assert found.held_back_by is not None
        assert not found.is_sure
    for known in (look(12_000, other=21), look(12_000, apart_ms=6_000), look(70_000, idle_ms=5_000)):
        assert known.is_sure
        assert known.held_back_by is not None
        assert (known.held_back_by.channel, known.held_back_by.cause) == ("a", "quiet")


def test_a_split_that_is_back_from_idle_holds_where_its_subtask_is_at_it() -> None:
    def at(time: int, back: int, idle_ms: int) -> JobSample:
        splits = [SampledSplit("a", back, idle_ms=idle_ms, idle_share=0.4), SampledSplit("b", 80, idle_share=0.0)]
        return sample(time, 20, [20, 90], [splits, [SampledSplit("c", 90)]])

    found = attributed(at(6_000, 20, 5_000), at(0, 20, 0))
    assert [one.state for one in found.channels] == ["active", "active", "active"]
    assert found.held_back_by is not None
    assert found.held_back_by.channel == "a"
    assert attributed(at(6_000, 15, 5_000), at(0, 15, 0)).channels[0].state == "idle"


def test_a_split_that_has_read_nothing_is_never_seen() -> None:
    found = attributed(sample(0, MIN, [MIN, 20], [[SampledSplit("a", MIN)], [SampledSplit("c", 20)]]))
    assert [one.state for one in found.channels] == ["never_seen", "active"]
    assert found.watermark_ms is None
    assert found.held_back_by is not None
    assert (found.held_back_by.channel, found.held_back_by.cause) == ("a", "never_seen")


def test_records_in_flight_are_nobodys_fault() -> None:
    before = sample(0, 10, [50, 60], [[SampledSplit("a", 50)], [SampledSplit("c", 60)]])
    now = sample(5_000, 10, [70, 80], [[SampledSplit("a", 70)], [SampledSplit("c", 80)]])
    held = attributed(now, before).held_back_by
    assert held is not None
    assert (held.channel, held.cause) == ("Window", "in_flight")


def test_a_first_look_at_an_operator_far_behind_all_its_inputs_blames_no_split() -> None:
    """Numbers of a Flink 2.3.0: all is read, and waits before a busy task on the way."""
    for level, is_sure in ((1_820_999, False), (2_998_500, True)):
        splits = [[SampledSplit("a", 2_998_999)], [SampledSplit("c", 2_998_999)]]
        found = attributed(sample(0, level, [2_998_999] * 2, splits, source_idle_ms=35_551))
        assert (found.held_back_by is not None, found.is_sure) == (is_sure, is_sure)


def test_an_operator_that_fell_far_behind_all_its_inputs_since_the_older_sample_blames_no_split() -> None:
    """Flink 2.3.0: records began to wait behind a rebalanced source between the samples."""
    for level, holder in ((59_870, None), (69_000, "a")):
        before = sample(0, 59_870, [59_870, 59_870], [[SampledSplit("a", 59_870)], [SampledSplit("c", 59_870)]])
        now = sample(5_000, level, [70_120, 71_000], [[SampledSplit("a", 70_120)], [SampledSplit("c", 71_000)]])
        found = attributed(now, before)
        assert (found.held_back_by and found.held_back_by.channel, found.is_sure) == (holder, holder is not None)


@pytest.mark.parametrize("is_chained", [True, False])
def test_an_idle_split_holds_back_a_subtask_that_has_no_other_input(is_chained: bool) -> None:
    """Flink 2.3.0: a map on its own split only, and a split that turned idle; the map's subtask stands at it."""

    def at(time: int, marks: list[int], idle_shares: list[float]) -> JobSample:
        splits = [
            (SampledSplit(f"p{i}", mark, idle_share=share, idle_ms=int(share * time)),)
            for i, (mark, share) in enumerate(zip(marks, idle_shares, strict=True))
        ]
        own = [split if is_chained else () for split in splits]
        whole = [Subtask(i, input=mark, output=mark, splits=own[i]) for i, mark in enumerate(marks)]
        if is_chained:
            return JobSample(time, (VertexSample(replace(SOURCE, name="Source: in -> Map"), tuple(whole)),))
        sources = [Subtask(i, output=mark, splits=splits[i]) for i, mark in enumerate(marks)]
        return JobSample(time, (VertexSample(SOURCE, tuple(sources)), VertexSample(MAP, tuple(whole))))

    found = attributed(at(65_000, [53_480, 135_000], [1.0, 0.0]), at(60_000, [53_480, 125_000], [1.0, 0.0]))
    assert found.held_back_by is not None
    assert (found.held_back_by.channel, found.held_back_by.cause) == ("p0", "quiet")
    assert ([each.state for each in found.channels], found.watermark_ms) == (["idle", "active"], 53_480)
    assert found.blockers is not None
    assert [(step.channels, step.gain_ms) for step in found.blockers][:1] == [(["p0"], 81_520)]
    idle = attributed(at(65_000, [53_480, 53_000], [1.0, 1.0]), at(60_000, [53_480, 53_000], [1.0, 1.0]))
    assert idle.is_idle


def test_a_source_whose_task_is_at_work_on_a_record_is_not_quiet() -> None:
    """Flink 2.3.0: an operator chained to the source takes 20 s for a record; its busy time is 0.38 by then."""

    def held(source_idle_ms: int) -> tuple[str, int | None]:
        before, now = (
            sample(time, 10, [10, 60 + time], [[SampledSplit("a", 10, offset=52)], [SampledSplit("c", 60 + time)]],
                   source_idle_ms=source_idle_ms, busy=0.38)
            for time in (0, 5_000)
        )  # fmt: skip
        found = attributed(now, before, read_ms={("s", "a"): (52, -7_000)})
        assert found.held_back_by is not None
        return found.held_back_by.cause, found.channels[0].quiet_ms

    assert held(0) == ("slow_reader", None)
    assert held(4_000) == ("quiet", 12_000)


def test_a_busy_task_of_which_no_split_moves_is_at_work_on_a_record_also_without_offsets() -> None:
    """Another split that moves explains why it is busy: then this one may have no records."""

    def held(busy: float, other_moves: bool) -> str | None:
        dumps = (
            sample(time, 10, [10, 60], [[SampledSplit("a", 10), SampledSplit("b", 20 + time * other_moves)],
                                        [SampledSplit("c", 60)]], source_idle_ms=0, busy=busy)
            for time in (0, 5_000)
        )  # fmt: skip
        before, now = dumps
        found = attributed(now, before)
        assert found.held_back_by is not None
        return found.held_back_by.cause

    assert held(1.0, other_moves=False) == "slow_reader"
    assert held(1.0, other_moves=True) == "stuck"
    assert held(0.4, other_moves=False) == "stuck"


def test_records_that_wait_in_a_vertex_behind_the_source_are_no_splits_fault() -> None:
    def at(time: int, split: int, sent: int) -> JobSample:
        source = Subtask(0, output=split, splits=(SampledSplit("a", split),), back_pressured=1.0)
        window = replace(WINDOW, inputs=(Edge("m", forward=False),))
        return JobSample(
            time,
            (
                VertexSample(SOURCE, (source,)),
                VertexSample(MAP, (Subtask(0, input=sent, output=sent, busy=1.0),)),
                VertexSample(window, (Subtask(0, input=sent, output=sent, late={"w": 0}),), windowed=True),
            ),
        )

    held = attributed(at(5_000, 90, 10), at(0, 50, 10)).held_back_by
    assert held is not None
    assert (held.channel, held.cause) == ("Map", "in_flight")
    passed_on = attributed(at(5_000, 90, 50), at(0, 50, 10)).held_back_by  # what the split had reached is through
    assert passed_on is not None
    assert passed_on.channel == "a"


def test_a_paused_split_is_paused_and_not_quiet() -> None:
    before = sample(0, 10, [10, 60], [[SampledSplit("a", 10, paused_ms=0)], [SampledSplit("c", 60)]])
    now = sample(5_000, 10, [10, 60], [[SampledSplit("a", 10, paused_ms=4_000)], [SampledSplit("c", 60)]])
    held = attributed(now, before).held_back_by
    assert held is not None
    assert held.cause == "paused"


def test_a_split_that_alignment_pauses_is_neither_idle_nor_quiet() -> None:
    def at(time: int, paused_ms: int) -> JobSample:
        fast = SampledSplit("a", 90, idle_ms=paused_ms, idle_share=0.4, paused_ms=paused_ms)
        return sample(time, 10, [90, 10], [[fast], [SampledSplit("c", 10)]])

    found = attributed(at(10_000, 10_000), at(0, 0))
    assert [(one.state, one.held_back) for one in found.channels] == [("active", True), ("active", False)]
    assert not any(one.held_back for one in attributed(at(10_000, 3_000), at(0, 0)).channels)  # a short pause


def test_a_first_look_shows_a_pause_that_is_longer_than_fits_before_the_last_record() -> None:
    """Numbers of a Flink 2.3.0."""
    for share, paused_ms, quiet_ms, is_paused in (
        (0.735, 44_138, 44_851, True),
        (0.235, 14_127, 18_867, False),
        (0.0, 90_000, 90_000, False),
    ):
        fast = SampledSplit("a", 90, idle_ms=0, idle_share=0.0, paused_ms=paused_ms, paused_share=share)
        found = attributed(sample(0, 10, [90, 10], [[fast], [SampledSplit("c", 10)]], source_idle_ms=quiet_ms))
        assert [one.held_back for one in found.channels] == [is_paused, False]


def test_a_paused_subtask_without_splits_is_not_quiet() -> None:
    before, now = (
        sample(time, 10, [10, 60], [[], []], source_idle_ms=time, drift_ms=drift)
        for time, drift in ((10_000, 0), (20_000, 7))
    )
    reads = sample(20_000, 10, [10, 60], [[], []], source_idle_ms=0, drift_ms=7)
    assert not any(one.held_back for one in attributed(reads, before).channels)
    found = attributed(now, before)
    assert [(one.held_back, one.quiet_ms) for one in found.channels] == [(True, None)] * 2
    assert found.causes == ["paused"] * 2
    assert attributed(before).channels[0].quiet_ms == 10_000


def test_a_back_pressured_source_differs_from_one_that_reads_as_fast_as_it_can() -> None:
    def cause(**load: float) -> str | None:
        before = sample(0, 10, [10, 60], [[SampledSplit("a", 10)], [SampledSplit("c", 60)]], **load)
        now = sample(5_000, 12, [12, 70], [[SampledSplit("a", 12)], [SampledSplit("c", 70)]], **load)
        held = attributed(now, before).held_back_by
        assert held is not None
        return held.cause

    assert cause(busy=0.1, back_pressured=0.9) == "back_pressured"
    assert cause(busy=0.95, back_pressured=0.0) == "slow_reader"
    assert cause(busy=0.1, back_pressured=0.0) == "behind"


def test_a_source_is_not_called_busy_before_flink_counts_its_idle_time() -> None:
    """Numbers of a Flink 2.3.0: a source of 20 records a second was busy 1000 ms a second until 7 s after its start."""
    facts = FlinkFacts(graph=Graph(ListedJob("1", "orders", "RUNNING", 1_000), 0), answered_ms=0)
    busy: list[float | None] = []
    for age_ms, share in ((1_500, 1.0), (3_500, 1.0), (7_500, 1.0), (11_000, 0.0)):
        facts = with_sample(facts, sample(1_000 + age_ms, 10, [10, 60], [[], []], busy=share, back_pressured=0.0))
        assert facts.sample is not None
        [source] = [vertex for vertex in facts.sample.vertices if vertex.vertex.id == "s"]
        busy += {task.busy for task in source.subtasks}
    assert busy == [None, None, None, 0.0]


def test_a_source_that_is_busy_for_a_moment_is_not_called_slow() -> None:
    before = sample(0, 10, [10, 60], [[SampledSplit("a", 10)], [SampledSplit("c", 60)]], busy=0.1)
    now = sample(5_000, 12, [12, 70], [[SampledSplit("a", 12)], [SampledSplit("c", 70)]], busy=0.95)
    for found in (attributed(now, before), attributed(now)):
        assert found.held_back_by is not None
        assert found.held_back_by.cause == "behind"


def test_no_data_is_said_only_where_it_is_known() -> None:
    def held(*, offset: int | None = None, source_idle_ms: int = 0) -> tuple[str, int | None]:
        split = SampledSplit("a", 10, offset=offset)
        before, now = (
            sample(time, 10, [10, 60], [[split], [SampledSplit("c", 60)]], source_idle_ms=source_idle_ms)
            for time in (0, 5_000)
        )
        found = attributed(now, before, read_ms={} if offset is None else {("s", "a"): (offset, -2_000)})
        assert found.held_back_by is not None
        return found.held_back_by.cause, found.channels[0].quiet_ms

    assert held() == ("stuck", None)
    assert held(offset=41, source_idle_ms=4_000) == ("quiet", 7_000)
    assert held(source_idle_ms=9_000) == ("quiet", 9_000)


def test_a_split_that_has_moved_to_another_subtask_is_in_that_one_only() -> None:
    """After a rescale the JobManager keeps the metrics of the subtask that had it before."""
    facts = FlinkFacts(graph=Graph(ListedJob("1", "orders", "RUNNING", 1), 0), answered_ms=0)

    def places(time: int, old: int, new: int, sent: tuple[int, int]) -> list[int]:
        nonlocal facts
        dump = sample(
            time,
            10,
            list(sent),
            [[SampledSplit("b", 90), SampledSplit("a", old)], [SampledSplit("a", new), SampledSplit("c", 95)]],
        )
        facts = with_sample(facts, dump)
        assert facts.sample is not None
        subtasks = facts.sample.vertices[1].subtasks
        return [task.index for task in subtasks for split in task.splits if split.id == "a"]

    assert places(0, 40, 50, (90, 50)) == [1]  # an active one would hold its subtask
    assert places(6_000, 40, 60, (90, 50)) == [1]
    facts = FlinkFacts(graph=facts.graph, answered_ms=0)
    assert places(0, 40, MIN, (40, MIN)) == [1]  # both could be: the one that holds back more
    facts = FlinkFacts(graph=facts.graph, answered_ms=0)
    assert places(0, 50, 40, (50, 90)) == [0]


def test_a_split_that_has_moved_is_found_although_nothing_is_sent() -> None:
    """Numbers of a Flink 2.3.0 after 1 subtask became 3: all are idle at one watermark, and the former ones stay so."""

    def at(time: int, idle_ms: int) -> JobSample:
        left = [
            SampledSplit("a", 90, idle_ms=idle_ms),
            SampledSplit("b", 90, idle_ms=10_000),
            SampledSplit("c", 60, idle_ms=10_000),
        ]
        return sample(time, 90, [90, 90], [left, [SampledSplit("b", 90, idle_ms=idle_ms)]])

    for samples in ((at(0, 5_000),), (at(0, 5_000), at(6_000, 10_000))):
        graph = Graph(ListedJob("1", "orders", "RUNNING", 1), 0)
        facts = FlinkFacts(graph=graph, answered_ms=0, samples=samples)
        for one in (facts.sample, facts.older_sample) if len(samples) > 1 else (facts.sample,):
            assert one is not None
            assert [[split.id for split in task.splits] for task in one.vertices[1].subtasks] == [["a", "c"], ["b"]]


def test_for_how_long_nothing_of_a_kafka_split_was_read() -> None:
    job = ListedJob("1", "orders", "RUNNING", 1)
    facts = FlinkFacts(graph=Graph(job, 0), answered_ms=0)
    for time, offset in ((0, 5), (1_000, 6), (9_000, 6)):
        facts = with_sample(facts, sample(time, 10, [10, 60], [[SampledSplit("a", 10, offset=offset)], []]))
    assert facts.quiet_ms("s", SampledSplit("a")) == 8_000


def test_the_end_of_stream_has_ended_and_shows_no_sentinel() -> None:
    found = attributed(sample(0, MAX, [MAX, MAX], [[], []]))
    assert found.ended
    assert found.watermark_ms is None
    assert {one.state for one in found.channels} == {"finished"}
    assert found.held_back_by is None


def test_splits_are_found_behind_edges_that_are_not_shuffled() -> None:
    sources = tuple(Subtask(i, output=MIN, splits=(SampledSplit(f"p{i}", 10 + i),)) for i in range(2))
    maps = tuple(Subtask(i, input=MIN, output=10 + i) for i in range(2))
    windows = tuple(Subtask(i, input=10, late={"w": 0}) for i in range(2))
    window = Vertex("w", "Window", 2, "RUNNING", (Edge("m", forward=False),))
    now = JobSample(
        0, (VertexSample(SOURCE, sources), VertexSample(MAP, maps), VertexSample(window, windows, windowed=True))
    )
    assert [one.channel for one in attributed(now).channels] == ["p0", "p1"]


def test_the_staircase_below_the_fastest_input() -> None:
    splits = [[SampledSplit("a", 40), SampledSplit("b", 10)], [SampledSplit("c", 30)]]
    steps = attributed(sample(0, 10, [10, 30], splits)).blockers
    assert steps is not None
    assert [(step.channels, step.gain_ms, step.watermark_ms) for step in steps] == [(["b"], 20, 10), (["c"], 30, 30)]


def test_a_split_that_has_read_nothing_is_the_first_step_without_a_gain() -> None:
    steps = attributed(sample(0, MIN, [MIN, 20], [[SampledSplit("a", MIN)], [SampledSplit("c", 20)]])).blockers
    assert steps is not None
    assert [(step.channels, step.gain_ms, step.cause) for step in steps] == [(["a"], None, "never_seen")]


def test_idle_splits_and_records_in_flight_block_nothing() -> None:
    before = sample(0, 20, [20, 20], [[SampledSplit("a", 20), SampledSplit("b", 25)], [SampledSplit("c", 20)]])
    now = sample(1_000, 20, [25, 20], [[SampledSplit("a", 12), SampledSplit("b", 25)], [SampledSplit("c", 20)]])
    steps = attributed(now, before).blockers
    assert steps is not None
    assert [step.channels for step in steps] == [["c"]]
    before = sample(0, 10, [50, 60], [[SampledSplit("a", 50)], [SampledSplit("c", 60)]])
    now = sample(5_000, 10, [70, 80], [[SampledSplit("a", 70)], [SampledSplit("c", 80)]])
    assert attributed(now, before).blockers == []


def test_no_channel_is_blamed_where_the_lowest_input_may_be_missing_from_the_dump() -> None:
    found = attributed(sample(0, 10, [30, None], [[SampledSplit("a", 30)], []]))  # type: ignore[list-item]
    assert found.held_back_by is None
    assert found.blockers is None
