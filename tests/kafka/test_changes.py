"""The world changes under a run: each change is survived, or explained in a line."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from pyspark.sql import SparkSession
from wmtop.engine.core.snapshot import Snapshot
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.pipeline.sources.kafka import Reader

from .records import CreateTopic, Produce, Record
from .running import Running, running

NOON_MS = 1_767_268_800_000


def at(offset_ms: int) -> bytes:
    return json.dumps({"ts": NOON_MS + offset_ms}).encode()


@pytest.fixture
def admin(broker: LocalBroker) -> Any:
    client: Any = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def told(it: Running, text: str) -> None:
    it.until(lambda p: any(text in note for note in p.notes))


def test_a_partition_is_added(
    spark: SparkSession, broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path, admin: Any
) -> None:
    produce(topic, [Record(at(i)) for i in range(10)])
    with running(spark, broker, topic, tmp_path) as it:
        it.read(10)
        admin.create_partitions({topic: 2})
        told(it, f"partition 1 of {topic} is new")
        picture = it.until(lambda p: len(p.channels) == 2)
        assert picture.channels[1].state == "never_seen"
        produce(topic, [Record(at(20 + i), partition=1) for i in range(5)])
        picture = it.read(15)
        assert [c.records for c in picture.channels] == [10, 5]


def test_a_topic_is_deleted_and_made_anew(
    spark: SparkSession, broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path, admin: Any
) -> None:
    produce(topic, [Record(at(i)) for i in range(10)])
    with running(spark, broker, topic, tmp_path) as it:
        it.read(10)
        admin.delete_topics([topic])
        told(it, f"topic {topic} is gone")
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        produce(topic, [Record(at(100 + i)) for i in range(25)])
        told(it, "created anew: it is read from its start")
        picture = it.read(35)
        assert picture.totals.records == 35
        assert picture.channels[0].max_event_ms == NOON_MS + 124


@pytest.mark.parametrize("reader", ["python", "connector"])
def test_a_topic_is_deleted_while_part_of_it_is_unread(
    both_readers: SparkSession,
    broker: LocalBroker,
    topic: str,
    produce: Produce,
    tmp_path: Path,
    admin: Any,
    reader: Reader,
) -> None:
    produce(topic, [Record(at(i)) for i in range(100)])
    with running(both_readers, broker, topic, tmp_path, reader=reader, batch_records=10) as it:
        it.until(lambda p: p.totals.records >= 10)
        admin.delete_topics([topic])
        told(it, f"topic {topic} is gone, with records that were not read")
        assert it.until(lambda p: p.channels[0].backlog == 0).totals.records < 100
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)

        def goes_on(picture: Snapshot) -> bool:  # Spark's connector may still hold old records, up to their last offset
            produce(topic, [Record(at(1_000))] * 20)
            return picture.channels[0].max_event_ms == NOON_MS + 1_000

        it.until(goes_on)


def test_a_topic_that_is_not_there_yet(
    spark: SparkSession, broker: LocalBroker, produce: Produce, tmp_path: Path, admin: Any
) -> None:
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        admin.create_topics({"coming": {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        produce("coming", [Record(at(0))])

    with running(spark, broker, "coming", tmp_path, say=say) as it:
        assert it.read(1).totals.records == 1
    assert said[0].startswith("waiting for the topic coming, which is not there yet")


def test_retention_deletes_what_was_not_read_yet(
    spark: SparkSession, broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path, admin: Any
) -> None:
    produce(topic, [Record(at(i)) for i in range(100)])
    with running(spark, broker, topic, tmp_path, batch_records=30) as it:
        it.until(lambda p: p.totals.records >= 10)
    admin.delete_records({TopicPartition(topic, 0): 90})
    with running(spark, broker, topic, tmp_path, batch_records=30) as it:
        told(it, "deleted by its retention before they were read")
        picture = it.until(lambda p: p.channels and p.channels[0].backlog == 0)
        assert 20 <= picture.totals.records < 100
        assert picture.channels[0].max_event_ms == NOON_MS + 99


def test_the_broker_restarts_while_it_is_read(
    spark: SparkSession, broker: LocalBroker, create_topic: CreateTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = create_topic(2)
    produce(topic, [Record(at(i), partition=i % 2) for i in range(200)])
    with running(spark, broker, topic, tmp_path, batch_records=50) as it:
        it.until(lambda p: p.totals.records > 0)
        broker.kill()
        told(it, "asking again")
        assert it.picture().channels[0].backlog is None
        broker.start()
        picture = it.read(200)
        assert picture.totals.records == 200
        told(it, "answers again")


def test_a_producers_clock_in_2099_moves_nothing(
    spark: SparkSession, broker: LocalBroker, create_topic: CreateTopic, produce: Produce, tmp_path: Path
) -> None:
    from msgspec.structs import replace

    from .running import SETTINGS

    topic = create_topic(2)
    now_ms = int(time.time() * 1_000)
    far_ms = 4_070_908_800_000
    values = [now_ms, now_ms + 1, far_ms]
    produce(topic, [Record(json.dumps({"ts": ts}).encode(), partition=1) for ts in values])
    produce(topic, [Record(json.dumps({"ts": now_ms}).encode(), partition=0)])
    with running(spark, broker, topic, tmp_path, settings=replace(SETTINGS, future_guard_ms=300_000)) as it:
        picture = it.read(4)
    assert picture.totals.future == 1
    assert picture.channels[1].max_event_ms == now_ms + 1
    assert picture.last_future is not None
    assert (picture.last_future.channel, picture.last_future.offset) == ("1", 2)
    assert picture.last_future.timestamp_ms == far_ms
