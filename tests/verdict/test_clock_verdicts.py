"""The verdict on a Kafka Streams application: on each task by its own clock, and the worst for the whole."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from wmtop.engine.feed.messages import encode, line_of, snapshot_of_line
from wmtop.engine.snapshot import (
    ChannelView,
    Clock,
    EngineState,
    KafkaStreams,
    Snapshot,
    SourcePosition,
    StreamsApplication,
)
from wmtop.engine.targets.target import NOT_KNOWN

from tests.judging import Judge

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NOW = 1_700_000_000_000
STREAMS = StreamsApplication(id="app", protocol="classic", state="Stable")


class Part(NamedTuple):
    """A partition at a moment; `quiet_ms` None: not known."""

    time_ms: int | None
    offset: int = 10
    unread: int | None = 0
    quiet_ms: int | None = None


def seen(now_ms: int, parts: Mapping[str, Part], tasks: Iterable[list[str]], state: EngineState = "live") -> Snapshot:
    """What a look shows of partitions in these tasks."""
    clocks = [
        Clock(f"0_{n}", own, max((ms for name in own if (ms := parts[name].time_ms) is not None), default=None))
        for n, own in enumerate(tasks)
    ]
    offsets = {f"{name[0]}/{name[2:]}": part.offset for name, part in parts.items()}
    return Snapshot(
        name="app",
        state=state,
        now_ms=now_ms,
        wall_ms=now_ms,
        settings=NOT_KNOWN,
        channels=[
            ChannelView(name, part.time_ms, part.time_ms, "active", backlog=part.unread, quiet_ms=part.quiet_ms)
            for name, part in parts.items()
        ],
        target=KafkaStreams(clocks, STREAMS, [SourcePosition("kafka", offsets, 0)]),
    )


TASKS = [["a-0"], ["a-1"]]


class Run:
    """An application that commits every 30 s, looked at every 5 s; `a-0` always moves, `a-1` may not."""

    def __init__(self) -> None:
        self.judge = Judge()
        self.now = NOW
        self.commits = 0
        self.last = Part(NOW, 7)

    def go(self, minutes: float, *, moves: bool, **second: int | None) -> Snapshot:
        snapshot = None
        for _ in range(round(minutes * 12)):
            self.now += 5 * SECOND
            self.commits += (self.now - NOW) % (30 * SECOND) == 0
            time_ms = NOW + self.commits * 30 * SECOND
            first = Part(time_ms, 10 * self.commits)
            self.last = first if moves else self.last
            other = self.last._replace(**second)  # pyright: ignore[reportArgumentType]
            snapshot = self.judge.see(seen(self.now, {"a-0": first, "a-1": other}, TASKS))
        assert snapshot is not None
        return snapshot


def test_each_task_has_the_verdict_of_its_own_clock() -> None:
    run = Run()
    assert [clock.verdict for clock in run.go(10, moves=True).clocks] == ["moving", "moving"]
    late = run.go(1, moves=False).clocks[1]
    assert late.verdict == "moving"  # three commits have not passed
    after = run.go(3, moves=False)
    first, second = after.clocks
    assert (first.verdict, second.verdict, after.verdict.verdict) == ("moving", "waiting", "waiting")
    assert (second.reason.code, second.reason.channels) == ("no_records", ["a-1"])
    assert after.verdict.reason == second.reason
    assert after.verdict.age_ms == second.age_ms == 4 * MINUTE
    assert not second.age_at_least
    assert after.verdict.patience_ms == 90 * SECOND


def test_unread_records_stall_their_task() -> None:
    run = Run()
    run.go(10, moves=True)
    after = run.go(4, moves=False, unread=12)
    assert (after.clocks[0].verdict, after.clocks[1].verdict) == ("moving", "stalled")
    reason = after.verdict.reason
    assert (after.verdict.verdict, reason.code, reason.records, reason.channels) == (
        "stalled", "unread_records", 12, ["a-1"],
    )  # fmt: skip


def test_unread_records_that_are_not_known_give_no_all_clear() -> None:
    run = Run()
    run.go(10, moves=True)
    after = run.go(4, moves=False, unread=None)
    assert (after.clocks[1].verdict, after.verdict.verdict) == ("unknown", "unknown")


def test_records_that_do_not_move_the_clock_stall_it() -> None:
    run = Run()
    run.go(10, moves=True)
    after = run.go(4, moves=False, quiet_ms=2 * SECOND)
    assert (after.clocks[1].verdict, after.clocks[1].reason.code) == ("stalled", "records_come")


def test_a_task_that_was_frozen_at_the_first_look_is_judged_by_the_commits_of_the_others() -> None:
    run = Run()
    early = run.go(1, moves=False)
    assert (early.clocks[1].verdict, early.clocks[1].age_at_least) == ("unknown", True)
    assert early.verdict.verdict == "unknown"
    after = run.go(4, moves=False)
    assert (after.clocks[0].verdict, after.clocks[1].verdict, after.clocks[1].age_at_least) == (
        "moving", "waiting", True,
    )  # fmt: skip


def test_tasks_that_become_known_or_get_a_partition_more_are_no_advance() -> None:
    """Partitions of a group that rebalances are on their own; `0-0` is a new topic's, and sorts first."""
    parts = {"a-0": Part(NOW - HOUR), "b-0": Part(NOW), "c-0": Part(NOW - MINUTE)}
    judge = Judge()
    for second in range(0, 30, 5):
        judge.see(seen(NOW + second * SECOND, parts, [["a-0"], ["b-0"], ["c-0"]]))
    for second in range(30, 90, 5):
        added = parts | {"0-0": Part(None)} if second > 45 else parts
        tasks = [[*sorted(added.keys() - {"c-0"})], ["c-0"]]
        first, other = judge.see(seen(NOW + second * SECOND, added, tasks)).clocks
        assert (first.verdict, other.verdict) == ("unknown" if second <= 60 else "waiting", "unknown"), second
        assert (first.age_ms, first.age_at_least) == (other.age_ms, other.age_at_least) == (second * SECOND, True)
    split = judge.see(seen(NOW + 90 * SECOND, added, [["0-0", "a-0"], ["b-0"], ["c-0"]])).clocks
    assert [clock.verdict for clock in split] == ["unknown"] * 3


def test_a_reset_leaves_the_time_unknown_until_the_next_commit() -> None:
    run = Run()
    run.go(10, moves=True)
    after = run.go(1, moves=False, time_ms=None)
    assert (after.clocks[1].verdict, after.clocks[1].reason.code) == ("unknown", "not_known")
    again = run.go(1, moves=False, time_ms=NOW - 1_000 * SECOND)
    assert (again.clocks[1].verdict, again.clocks[1].age_at_least) == ("unknown", True)


def test_a_silent_broker_and_an_application_without_tasks_are_unknown() -> None:
    run = Run()
    run.go(10, moves=True)
    lost = run.judge.see(seen(run.now + SECOND, {"a-0": Part(NOW), "a-1": Part(NOW)}, TASKS, "stale"))
    assert (lost.verdict.verdict, lost.verdict.reason.code) == ("unknown", "source_silent")
    nothing = Judge().see(seen(NOW, {}, []))
    assert (nothing.verdict.verdict, nothing.verdict.reason.code) == ("unknown", "not_known")


def test_the_json_has_clocks_and_application() -> None:
    snapshot = Run().go(3, moves=True)
    assert snapshot_of_line(line_of(snapshot)) == snapshot
    assert b'"clocks":[{"task":"0_0"' in encode(snapshot)
    assert b'"streams":{"id":"app"' in encode(snapshot)
