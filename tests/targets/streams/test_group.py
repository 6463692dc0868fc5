"""A group with all its topics on a real broker: a plain one, one that turns out to be of Kafka Streams, none."""

import base64
import struct
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from wmtop.engine.kafka.client_settings import KafkaConfig
from wmtop.engine.snapshot import ConsumerGroup, KafkaStreams, Snapshot
from wmtop.engine.system.errors import UsageError
from wmtop.engine.targets.open import open_target
from wmtop.engine.targets.streams.watch import GroupWatch
from wmtop.engine.targets.target import TargetOptions

from ...refusals import refused
from .applications import BASE_MS, Cluster, Record

_numbers = count()


def metadata(time_ms: int) -> str:
    """What Kafka Streams 3.9 adds to a commit."""
    return base64.b64encode(struct.pack(">bq", 2, time_ms)).decode()


class Group:
    """A group whose commits the test writes, and wmtop's look at it."""

    def __init__(self, cluster: Cluster) -> None:
        self.id = f"group-{next(_numbers)}"
        self._cluster = cluster
        self._consumer: Any = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap, group_id=self.id, enable_auto_commit=False
        )
        self._watch: GroupWatch | None = None

    def commit(self, topic: str, offsets: dict[int, int], said: str = "") -> None:
        self._consumer.assign([TopicPartition(topic, number) for number in offsets])
        self._consumer.commit({TopicPartition(topic, n): OffsetAndMetadata(at, said, -1) for n, at in offsets.items()})

    def look(self, **options: Any) -> Snapshot:
        if self._watch is None:
            watch = GroupWatch(KafkaConfig(self._cluster.bootstrap), self.id, TargetOptions(group=self.id, **options))
            watch.open()
            self._watch = watch
        return self._watch.picture(self.id, self._watch.poll(), time.time_ns() // 1_000_000).snapshot

    def close(self) -> None:
        self._consumer.close(autocommit=False)
        if self._watch is not None:
            self._watch.close()


@pytest.fixture
def group(cluster: Cluster) -> Iterator[Group]:
    found = Group(cluster)
    yield found
    found.close()


def test_a_plain_group_shows_all_its_topics_as_one(cluster: Cluster, group: Group) -> None:
    orders, clicks = cluster.topic(2), cluster.topic(1)
    cluster.send(*(Record(orders, number, BASE_MS + number * 1_000, "k") for number in (0, 1)))
    cluster.send(*(Record(clicks, 0, BASE_MS + second * 1_000, "k") for second in (5, 9)))
    group.commit(orders, {0: 1, 1: 1}, "some words")
    assert [view.channel for view in group.look().channels] == ["0", "1"]  # one topic: as kafka://…/orders

    group.commit(clicks, {0: 2})
    seen = group.look()
    assert isinstance(seen.target, ConsumerGroup)
    assert [(view.channel, view.watermark_ms, view.backlog) for view in seen.channels] == [
        (f"{orders}-0", BASE_MS - 1, 0),
        (f"{orders}-1", BASE_MS + 999, 0),
        (f"{clicks}-0", BASE_MS + 8_999, 0),
    ]
    assert seen.level.watermark_ms == BASE_MS - 1
    assert [source.offsets for source in seen.target.sources or ()] == [
        {f"{orders}/0": 1, f"{orders}/1": 1}, {f"{clicks}/0": 2},
    ]  # fmt: skip
    assert not seen.clocks


def test_a_commit_of_kafka_streams_makes_it_an_application_for_good(cluster: Cluster, group: Group) -> None:
    topic = cluster.topic(3)
    cluster.send(*(Record(topic, 0, BASE_MS + second * 1_000, "k") for second in (0, 7, 3, 8)))
    group.commit(topic, {0: 1})
    assert isinstance(group.look().target, ConsumerGroup)

    group.commit(topic, {0: 3}, metadata(BASE_MS + 7_000))
    seen = group.look()
    assert isinstance(seen.target, KafkaStreams)
    assert seen.level.watermark_ms is None
    assert [(view.channel, view.watermark_ms, view.backlog, view.behind_end_ms) for view in seen.channels] == [
        (f"{topic}-0", BASE_MS + 7_000, 1, 1_000),
        (f"{topic}-1", None, 0, None),
        (f"{topic}-2", None, 0, None),
    ]
    assert [(clock.task, clock.channels) for clock in seen.clocks] == [(None, [f"{topic}-{n}"]) for n in range(3)]

    group.commit(topic, {0: 0})  # reset by a tool
    seen = group.look()
    assert isinstance(seen.target, KafkaStreams)
    assert (seen.channels[0].watermark_ms, seen.channels[0].backlog) == (None, 4)


def test_another_event_time_than_the_records_own_gives_no_distance(cluster: Cluster, group: Group) -> None:
    topic = cluster.topic(1)
    cluster.send(*(Record(topic, 0, BASE_MS + second * 1_000, "k") for second in (0, 7)))
    group.commit(topic, {0: 1}, metadata(BASE_MS - 60_000))
    (view,) = group.look().channels
    assert (view.watermark_ms, view.backlog, view.behind_end_ms) == (BASE_MS - 60_000, 1, None)


def test_the_users_word_gives_the_distance(cluster: Cluster, group: Group) -> None:
    topic = cluster.topic(1)
    cluster.send(*(Record(topic, 0, BASE_MS + second * 1_000, "k") for second in (0, 7)))
    group.commit(topic, {0: 1}, metadata(BASE_MS - 60_000))
    (view,) = group.look(time="timestamp").channels
    assert view.behind_end_ms == 67_000


def test_records_in_a_partition_without_a_commit_are_not_counted(cluster: Cluster, group: Group) -> None:
    topic = cluster.topic(2)
    cluster.send(*(Record(topic, number, BASE_MS, "k") for number in (0, 1)))
    group.commit(topic, {0: 1}, metadata(BASE_MS))
    assert [view.backlog for view in group.look().channels] == [0, None]


def test_a_deleted_topic_does_not_end_the_watching(cluster: Cluster, group: Group) -> None:
    kept, deleted = cluster.topic(1), cluster.topic(1)
    cluster.send(Record(kept, 0, BASE_MS, "k"), Record(deleted, 0, BASE_MS, "k"))
    for topic in (kept, deleted):
        group.commit(topic, {0: 1}, metadata(BASE_MS))
    assert len(group.look().channels) == 2
    admin: Any = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.delete_topics([deleted])
    admin.close()
    deadline = time.monotonic() + 60
    while (seen := group.look()).state != "live" or [view.channel for view in seen.channels] != [f"{kept}-0"]:
        assert time.monotonic() < deadline, seen
        time.sleep(0.2)


def test_a_group_that_does_not_exist_names_near_ones(cluster: Cluster, group: Group) -> None:
    group.commit(cluster.topic(1), {0: 0})
    with refused(UsageError, "", f"{group.id}x", group.id):
        open_target(f"kafka://{cluster.bootstrap}", TargetOptions(group=f"{group.id}x"))


def test_options_without_effect_are_refused(cluster: Cluster, group: Group) -> None:
    address = f"kafka://{cluster.bootstrap}"
    topic = cluster.topic(1)
    group.commit(topic, {0: 0})
    for options in ({"window": 1_000, "grace": 0}, {"grace": 0}):
        with refused(UsageError, "", "--" + next(iter(options)), group.id):
            open_target(address, TargetOptions(group=group.id, **options))
    group.commit(topic, {0: 0}, metadata(-1))
    for options in ({"window": 1_000}, {"window": 0, "grace": 0}, {"lateness": 5}, {"idle_after": -1}):
        with refused(UsageError, "", "--" + next(iter(options)).replace("_", "-")):
            open_target(address, TargetOptions(group=group.id, **options))
    with refused(UsageError, "", "--group"):
        open_target(address, TargetOptions())
    with refused(UsageError, "", "--grace"):
        open_target(f"{address}/{topic}", TargetOptions(group=group.id, grace=0))
