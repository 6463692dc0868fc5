"""Event times of a Kafka partition before a reader's position, without a broker."""

from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace
from wmtop.engine.doctor import diagnose
from wmtop.engine.kafka.client_settings import KafkaConfig
from wmtop.engine.kafka.cluster import TopicPartition
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.system.json_values import parse_json_path
from wmtop.engine.targets.target import TargetOptions
from wmtop.engine.targets.topic import PartitionFacts, TopicFacts
from wmtop.engine.targets.topic.broker import TopicTap
from wmtop.engine.targets.topic.consumer import TopicWatch
from wmtop.engine.verdict.target_history import TargetHistory

ORDERS = TopicPartition("orders", 0)
NOON = 1_700_000_000_000
BILLING = TargetOptions(group="billing", idle_after=-1)


def test_records_that_retention_deleted_are_not_unread() -> None:
    """A running reader skips them, and commits nothing until it has read a record."""
    deleted = PartitionFacts("orders", 0, end=4, newest_ms=None, arrived_ms=None, position=2, event_ms=NOON, first=4)
    assert deleted.unread == 0
    assert replace(deleted, first=3).unread == 1
    assert replace(deleted, first=0).unread == 2
    assert replace(deleted, position=5).unread is None


def test_a_channel_s_time_never_goes_back_where_older_records_follow() -> None:
    """At the end the broker's greatest timestamp is known; the records read next are all older."""
    tap: Any = TopicTap(KafkaConfig("localhost:1"), ["orders"])
    tap._newest = {ORDERS: NOON}
    read: list[int] = []
    older = [SimpleNamespace(timestamp_ms=NOON - 60_000)] * 200

    def tails(moved: Any, first: Any, back: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        read.extend(back.values())
        return dict.fromkeys(moved, older)

    tap._peek = SimpleNamespace(tails=tails)
    assert tap._reached({ORDERS: 500}, {ORDERS: 500}, {ORDERS: 0}) == {ORDERS: NOON}
    assert tap._reached({ORDERS: 900}, {ORDERS: 1_500}, {ORDERS: 0}) == {ORDERS: NOON}
    assert read == [200]
    tap._newest = {ORDERS: NOON - 60_000}  # retention has removed the newest one
    assert tap._reached({ORDERS: 1_500}, {ORDERS: 1_500}, {ORDERS: 0}) == {ORDERS: NOON}


def test_after_a_reset_to_an_older_offset_the_time_is_that_of_the_records_before_it() -> None:
    """A group reset to the earliest offset, or a query restored from an older checkpoint."""
    for path in (None, parse_json_path("ts", "--time")):
        tap: Any = TopicTap(KafkaConfig("localhost:1"), ["orders"], path=path)
        tap._newest = {ORDERS: NOON}
        tap._time_of = lambda record: record.timestamp_ms
        read: list[int] = []

        def tails(moved: Any, first: Any, back: dict[TopicPartition, int], read: list[int] = read) -> dict[Any, Any]:
            read.extend(back.values())
            return {p: [SimpleNamespace(timestamp_ms=NOON - 900 + at)] for p, at in moved.items() if at}

        tap._peek = SimpleNamespace(tails=tails)
        ends, first = {ORDERS: 900}, {ORDERS: 0}
        assert tap._reached({ORDERS: 900}, ends, first) == {ORDERS: NOON}
        assert tap._reached({ORDERS: 300}, ends, first) == {ORDERS: NOON - 600}
        assert tap._reached({ORDERS: 400}, ends, first) == {ORDERS: NOON - 500}
        assert read[-2:] == [200, 100]
        assert tap._reached({ORDERS: 0}, ends, first) == {}, "nothing is read: not known"
        assert tap._reached({ORDERS: 900}, ends, first)
        tap._newest = {ORDERS: NOON - 800}  # the topic was truncated: its new end is before the old position
        assert tap._reached({ORDERS: 100}, {ORDERS: 100}, first) == {ORDERS: NOON - 800}


def test_a_group_that_was_reset_has_the_watermark_of_the_records_that_it_reads_again() -> None:
    watch = TopicWatch(KafkaConfig("localhost:1"), "orders", BILLING)

    def seen(position: int, event_ms: int, now_ms: int) -> Snapshot:
        facts = PartitionFacts("orders", 0, 900, NOON, NOON, position, event_ms)
        return watch.picture("orders", TopicFacts(ids=("id",), partitions=(facts,)), now_ms).snapshot

    assert seen(900, NOON, NOON).channels[0].behind_end_ms == 0
    for second in (1, 2, 3):
        again = seen(300, NOON - 600_000, NOON + second * 1_000)
    assert again.channels[0].backlog == 600
    assert again.channels[0].behind_end_ms == 600_000
    assert again.level.watermark_ms == NOON - 600_001


def judged_after(*unread: tuple[int | None, int], seconds: int = 90) -> Snapshot:
    """A group that reads partition 0 on time; of the others nothing was read: its position, and the end there."""
    watch, judge = TopicWatch(KafkaConfig("localhost:1"), "orders", BILLING), TargetHistory(60_000)
    others = [PartitionFacts("orders", n, end, NOON, NOON, at, None) for n, (at, end) in enumerate(unread, 1)]
    snapshot: Snapshot | None = None
    for now_ms in range(NOON, NOON + seconds * 1_000, 1_000):
        at = 900 + (now_ms - NOON) // 1_000
        read = PartitionFacts("orders", 0, at, now_ms, now_ms, at, now_ms)
        snapshot = judge.judge(watch.picture("billing", TopicFacts(ids=("id",), partitions=(read, *others)), now_ms))
    assert snapshot is not None
    return snapshot


def test_a_partition_whose_first_record_is_unread_holds_the_watermark_back() -> None:
    seen = judged_after((0, 50))
    assert seen.level.watermark_ms is None
    assert seen.level.holder is not None
    assert (seen.level.holder.channel, seen.level.holder.cause) == ("1", "backlog")
    assert (seen.verdict.verdict, seen.verdict.reason.channels) == ("stalled", ["1"])
    [finding] = diagnose(seen, [])
    assert (finding.code, finding.severity, finding.channels) == ("partitions-not-read", "critical", ("1",))
    assert seen.notes == []
    early = judged_after((0, 50), seconds=30)
    assert [early.verdict.verdict, *(one.code for one in diagnose(early, []))] == ["unknown", "partitions-not-read"]


def test_a_partition_that_the_group_never_committed_is_no_all_clear() -> None:
    """It may be read by nobody, or not be meant to be: the watermark of the others is shown, with a warning."""
    seen = judged_after((None, 50), (None, 0))
    assert seen.verdict.verdict == "moving"
    assert [source.backlog for source in seen.sources or ()] == [None]
    [finding] = diagnose(seen, [])
    assert (finding.code, finding.severity, finding.size) == ("partitions-not-read", "warning", 50)
    assert [note.code for note in seen.notes] == ["partitions_uncommitted", "partitions_unseen"]
    empty = judged_after((None, 0))
    assert diagnose(empty, []) == []
    assert [source.backlog for source in empty.sources or ()] == [0]
