"""The world changes under a run: each change is survived, or explained in a line."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from pyspark.sql import SparkSession
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.run.sources.kafka import Reader
from wmtop.engine.run.sources.kafka_columns import KafkaColumns
from wmtop.engine.snapshot import Note, NoteCode, Snapshot
from wmtop.engine.system.json_values import JsonPath

from tests.snapshots import replace

from .processes import wait_until_gone
from .records import CreateTopic, Produce, Record
from .running import IN_VALUE, SETTINGS, Running, running

LATENESS_MS = SETTINGS.lateness_ms or 0
NOON_MS = 1_767_268_800_000


COLUMNS = {"python": KafkaColumns(), "connector": IN_VALUE}
"""Records have the same time in their value and as their timestamp: kafka-python reads the latter as columns."""


def at(offset_ms: int, partition: int = 0, key: bytes | None = None) -> Record:
    time_ms = NOON_MS + offset_ms
    return Record(json.dumps({"ts": time_ms}).encode(), partition, time_ms, key)


@pytest.fixture
def admin(broker: LocalBroker) -> Any:
    client: Any = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def reported(it: Running, code: NoteCode) -> Note:
    """Wait for a note, and return it."""
    picture = it.until(lambda p: any(note.code == code for note in p.notes))
    return next(note for note in picture.notes if note.code == code)


def test_a_partition_is_added(
    spark: SparkSession, broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path, admin: Any
) -> None:
    produce(topic, [at(i) for i in range(10)])
    with running(spark, broker, topic, tmp_path, KafkaColumns()) as it:
        it.read(10)
        admin.create_partitions({topic: 2})
        assert reported(it, "partition_added").args == {"topic": topic, "partition": 1}
        picture = it.until(lambda p: len(p.channels) == 2)
        assert picture.channels[1].state == "never_seen"
        produce(topic, [at(20 + i, partition=1) for i in range(5)])
        picture = it.read(15)
        assert [c.records for c in picture.channels] == [10, 5]


def test_a_topic_is_deleted_and_recreated(
    spark: SparkSession, broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path, admin: Any
) -> None:
    produce(topic, [at(i) for i in range(10)])
    with running(spark, broker, topic, tmp_path, KafkaColumns()) as it:
        it.read(10)
        admin.delete_topics([topic])
        assert reported(it, "topic_gone").args["topic"] == topic
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        produce(topic, [at(100 + i) for i in range(25)])
        assert reported(it, "topic_recreated").args["from_start"] == 1
        picture = it.read(35)
        assert picture.totals.records == 35
        assert picture.channels[0].max_event_ms == NOON_MS + 124


@pytest.mark.parametrize("reader", ["python", pytest.param("connector", marks=pytest.mark.matrix)])
def test_a_topic_is_deleted_while_part_of_it_is_unread(
    session_for: Callable[[Reader], SparkSession],
    broker: LocalBroker,
    topic: str,
    produce: Produce,
    tmp_path: Path,
    admin: Any,
    reader: Reader,
) -> None:
    produce(topic, [at(i) for i in range(100)])
    with running(session_for(reader), broker, topic, tmp_path, COLUMNS[reader], reader=reader, batch_records=10) as it:
        it.until(lambda p: p.totals.records >= 10)
        admin.delete_topics([topic])
        unread = reported(it, "topic_gone").args["unread"]
        assert isinstance(unread, int)
        assert 0 < unread <= 90
        assert it.until(lambda p: not p.channels).totals.records < 100
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)

        def goes_on(picture: Snapshot) -> bool:  # Spark's connector may still hold old records, up to their last offset
            produce(topic, [at(1_000)] * 20)
            return any(channel.max_event_ms == NOON_MS + 1_000 for channel in picture.channels)

        it.until(goes_on)


def delete_and_wait(it: Running, admin: Any, topic: str, channel: str) -> None:
    admin.delete_topics([topic])
    it.until(lambda p: channel not in {view.channel for view in p.channels})


@pytest.mark.parametrize("reader", ["python", pytest.param("connector", marks=pytest.mark.matrix)])
def test_a_deleted_topic_no_longer_holds_the_watermark_and_comes_back_as_a_new_channel(
    session_for: Callable[[Reader], SparkSession],
    broker: LocalBroker,
    create_topic: CreateTopic,
    produce: Produce,
    tmp_path: Path,
    admin: Any,
    reader: Reader,
) -> None:
    slow, fast = create_topic(), create_topic()
    produce(slow, [at(10_000)])
    produce(fast, [at(90_000)])
    with running(session_for(reader), broker, [slow, fast], tmp_path, COLUMNS[reader], reader=reader) as it:
        assert it.read(2).level.watermark_ms == NOON_MS + 10_000 - LATENESS_MS - 1
        assert it.picture().level.holder.channel == f"{slow}-0"  # type: ignore[union-attr]
        delete_and_wait(it, admin, slow, f"{slow}-0")
        level = it.until(lambda p: p.level.holder and p.level.holder.channel == f"{fast}-0").level.watermark_ms
        assert level == NOON_MS + 90_000 - LATENESS_MS - 1
        admin.create_topics({slow: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        reported(it, "topic_recreated")
        picture = it.until(lambda p: {view.channel for view in p.channels} == {f"{slow}-0", f"{fast}-0"})
        back = next(view for view in picture.channels if view.channel == f"{slow}-0")
        assert (back.state, back.max_event_ms, back.watermark_ms) == ("never_seen", None, None)
        assert picture.level.watermark_ms == level

        def read_again(picture: Snapshot) -> bool:
            produce(slow, [at(5_000)])
            return any(view.channel == f"{slow}-0" and view.max_event_ms for view in picture.channels)

        picture = it.until(read_again)
        back = next(view for view in picture.channels if view.channel == f"{slow}-0")
        assert back.max_event_ms == NOON_MS + 5_000  # below what its predecessor had reached
        assert picture.level.watermark_ms == level


@pytest.mark.parametrize("reader", ["python", pytest.param("connector", marks=pytest.mark.matrix)])
def test_a_bounded_partition_finishes_at_its_end_and_no_longer_holds_the_watermark(
    session_for: Callable[[Reader], SparkSession],
    broker: LocalBroker,
    create_topic: CreateTopic,
    produce: Produce,
    tmp_path: Path,
    reader: Reader,
) -> None:
    topic = create_topic(3)  # partition 2 stays empty
    produce(topic, [at(1_000 * i, partition=0) for i in range(30)])
    produce(topic, [at(i, partition=1) for i in range(3)])
    seen: list[tuple[int | None, dict[str, str]]] = []

    def note() -> None:
        picture = it.picture()
        seen.append((picture.level.watermark_ms, {view.channel: view.state for view in picture.channels}))

    with running(
        session_for(reader), broker, topic, tmp_path, COLUMNS[reader], reader=reader, once=True, batch_records=10
    ) as it:
        it.on_batch = note
        picture = it.until(lambda p: p.totals.records == 33 and it.run.monitor.ended)
    # A batch takes 9 records of partition 0, later 3, and 1 of partition 1. Without partition 2 at its end already,
    # and partition 1 at its end after the third batch, neither would let the watermark go.
    assert [states["2"] for _, states in seen[1:]] == ["finished"] * 3
    assert [states["1"] for _, states in seen] == ["active", "active", "finished", "finished"]
    assert [level for level, _ in seen[2:]] == [NOON_MS + 26_000 - LATENESS_MS - 1, NOON_MS + 29_000 - LATENESS_MS - 1]
    assert seen[1][0] == NOON_MS + 1 - LATENESS_MS - 1
    assert picture.totals.late == 0


def test_a_bounded_read_by_key_finishes_no_channel_before_the_end(
    spark: SparkSession, broker: LocalBroker, create_topic: CreateTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = create_topic(2)
    produce(topic, [at(1_000 * i, partition=0, key=b"a") for i in range(30)])
    produce(topic, [at(i, partition=1, key=b"b") for i in range(3)])
    states: set[str] = set()
    columns = KafkaColumns(time=JsonPath(("ts",)), channel="key")
    with running(spark, broker, topic, tmp_path, columns, once=True, batch_records=10) as it:
        it.on_batch = lambda: states.update(view.state for view in it.picture().channels)
        it.until(lambda p: it.run.monitor.ended)
    assert states == {"active"}


def test_a_topic_that_is_not_there_yet(
    spark: SparkSession, broker: LocalBroker, produce: Produce, tmp_path: Path, admin: Any
) -> None:
    said: list[Note] = []

    def say(note: Note) -> None:
        said.append(note)
        admin.create_topics({"coming": {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        produce("coming", [at(0)])

    with running(spark, broker, "coming", tmp_path, say=say) as it:
        assert it.read(1).totals.records == 1
    assert (said[0].code, said[0].args["topic"]) == ("topic_missing", "coming")


def test_retention_deletes_what_was_not_read_yet(
    spark: SparkSession, broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path, admin: Any
) -> None:
    produce(topic, [at(i) for i in range(100)])
    with running(spark, broker, topic, tmp_path, batch_records=30) as it:
        it.until(lambda p: p.totals.records >= 10)
    admin.delete_records({TopicPartition(topic, 0): 90})
    with running(spark, broker, topic, tmp_path, batch_records=30) as it:
        reported(it, "records_expired")
        picture = it.until(lambda p: p.channels and p.channels[0].backlog == 0)
        assert 20 <= picture.totals.records < 100
        assert picture.channels[0].max_event_ms == NOON_MS + 99


def test_the_broker_restarts_while_it_is_read(
    spark: SparkSession, broker: LocalBroker, create_topic: CreateTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = create_topic(2)
    produce(topic, [at(i, partition=i % 2) for i in range(200)])
    # A broker that has just come back may not know its topics in two polls that follow closely.
    with running(spark, broker, topic, tmp_path, batch_records=50, probe_every_s=1) as it:
        it.until(lambda p: p.totals.records > 0)
        pid = broker.pid
        broker.kill()
        wait_until_gone(pid)
        reported(it, "cluster_silent")
        assert it.picture().channels[0].backlog is None
        broker.start()
        picture = it.read(200)
        assert picture.totals.records == 200
        reported(it, "cluster_answers")


def test_a_producers_clock_in_2099_moves_nothing(
    spark: SparkSession, broker: LocalBroker, create_topic: CreateTopic, produce: Produce, tmp_path: Path
) -> None:

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
