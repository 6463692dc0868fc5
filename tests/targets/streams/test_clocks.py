"""The clocks over random commits, against a plain model of the rule: `e <= T - grace` is emitted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wmtop.engine.kafka.client_settings import KafkaConfig
from wmtop.engine.kafka.cluster import TopicPartition
from wmtop.engine.snapshot import WaitingWindow
from wmtop.engine.targets.streams.clocks import CommittedTime, Topology, WindowRule, clocks_of
from wmtop.engine.targets.streams.group import GroupFacts
from wmtop.engine.targets.streams.watch import GroupWatch
from wmtop.engine.targets.target import TargetOptions
from wmtop.engine.targets.topic import PartitionFacts, TopicFacts

BASE = 1_700_000_000_000
SOURCES = [TopicPartition(topic, number) for topic in ("a", "b") for number in (0, 1, 2)]
TWO = Topology(subtopologies={"a": "0", "b": "0"})
CHAIN = Topology(subtopologies={"a": "0", "app-x-repartition": "1"}, repartitions=frozenset({"app-x-repartition"}))
BEHIND = [TopicPartition("app-x-repartition", number) for number in (0, 1)]

commits = st.dictionaries(st.sampled_from(SOURCES), st.none() | st.integers(BASE - 100_000, BASE + 100_000))


@given(commits, st.integers(1, 20_000), st.integers(0, 20_000))
def test_clocks_follow_the_rule(found: dict[TopicPartition, int | None], window_ms: int, grace_ms: int) -> None:
    times = {at: CommittedTime(ms) for at, ms in found.items()}
    clocks = clocks_of(SOURCES, times, TWO, WindowRule(window_ms, grace_ms))
    assert [(clock.task, clock.channels) for clock in clocks] == [(f"0_{n}", [f"a-{n}", f"b-{n}"]) for n in range(3)]
    for number, clock in enumerate(clocks):
        own = [ms for at, ms in found.items() if at.partition == number and ms is not None]
        if not own:
            assert (clock.time_ms, clock.emitted_to_ms, clock.waiting, clock.waiting_count) == (None,) * 4
            continue
        now = clock.time_ms
        assert now == max(own)
        # Every window that can have records, one by one: it begins at the task's time or before.
        ends = [start + window_ms for start in range((now - 60_000) // window_ms * window_ms, now + 1, window_ms)]
        waiting = [end for end in ends if not end <= now - grace_ms]
        emitted = [end for end in ends if end <= now - grace_ms]
        assert clock.emitted_to_ms is not None
        assert all(end <= clock.emitted_to_ms for end in emitted)
        assert all(end > clock.emitted_to_ms for end in waiting)
        first = waiting[0]
        least = next(ms for ms in range(now, first + grace_ms + 1) if first <= ms - grace_ms) if grace_ms < 50 else None
        assert clock.waiting == WaitingWindow(first, first + grace_ms, clock.channels)
        assert least in (None, clock.waiting.frees_ms)
        assert clock.waiting_count == len(waiting)


@given(commits)
def test_without_grace_nothing_is_said_of_windows(found: dict[TopicPartition, int | None]) -> None:
    times = {at: CommittedTime(ms) for at, ms in found.items()}
    for clock in clocks_of(SOURCES, times, TWO, WindowRule()):
        assert (clock.has_windows, clock.emitted_to_ms, clock.waiting, clock.waiting_count) == (None,) * 4


def test_without_tasks_each_partition_has_its_own_clock() -> None:
    clocks = clocks_of(SOURCES, {SOURCES[0]: CommittedTime(BASE)}, Topology(), WindowRule())
    assert [(clock.task, clock.channels) for clock in clocks] == [
        (None, [f"{at.topic}-{at.partition}"]) for at in SOURCES
    ]
    assert [clock.time_ms for clock in clocks] == [BASE, None, None, None, None, None]


def test_windows_are_behind_the_repartition() -> None:
    times = {at: CommittedTime(BASE) for at in [*SOURCES[:2], *BEHIND]}
    clocks = clocks_of([*SOURCES[:2], *BEHIND], times, CHAIN, WindowRule(10_000, 2_000))
    assert [(clock.task, clock.downstream, clock.has_windows) for clock in clocks] == [
        ("0_0", False, None),
        ("0_1", False, None),
        ("1_0", True, True),
        ("1_1", True, True),
    ]
    assert clocks[0].waiting is None
    assert clocks[2].waiting == WaitingWindow(BASE, BASE + 2_000, ["app-x-repartition-0"])


def test_close_times_in_commits_count_before_the_rule() -> None:
    old = CommittedTime(BASE + 20_000, {"counts": BASE + 5_000, "other": BASE + 9_000})
    new = CommittedTime(BASE + 30_000, {"counts": BASE + 8_000})
    times = {TopicPartition("a", 0): old, TopicPartition("b", 0): new}
    clocks = clocks_of(times, times, TWO, WindowRule())
    assert [(clock.time_ms, clock.has_windows, clock.emitted_to_ms) for clock in clocks] == [
        (BASE + 30_000, True, BASE + 8_000)
    ]
    (clock,) = clocks_of(times, times, TWO, WindowRule(10_000, 2_000))
    assert clock.waiting == WaitingWindow(BASE + 10_000, BASE + 12_000, ["a-0", "b-0"])
    assert clock.waiting_count == 4  # those that end at +10 s to +40 s: the last one begins at +30 s


def test_a_suppression_proves_windows_without_options() -> None:
    where = Topology(subtopologies={"a": "0", "b": "1"}, suppressing=frozenset({"1"}))
    clocks = clocks_of(SOURCES, {}, where, WindowRule())
    assert [clock.has_windows for clock in clocks] == [None] * 3 + [True] * 3


@pytest.mark.parametrize(
    ("members", "position", "codes"), [(0, 3, ["no_member"]), (0, 9, []), (1, 3, []), (None, 3, [])]
)
def test_an_application_without_a_member_is_known_at_the_first_look(
    members: int | None, position: int, codes: list[str]
) -> None:
    partition = PartitionFacts("orders", 0, 9, None, None, position, None)
    facts = GroupFacts(topics=TopicFacts(partitions=(partition,), members=members), is_streams=True)
    seen = (
        GroupWatch(KafkaConfig("localhost:1"), "app", TargetOptions(group="app")).picture("app", facts, BASE).snapshot
    )
    assert [note.code for note in seen.notes] == codes
