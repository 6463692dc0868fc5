"""Who is quiet, who has only not been read yet, and who is held back."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.run.sources.kafka_columns import KafkaColumns
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.system.json_values import JsonPath

from tests.snapshots import replace

from .records import CreateTopic, Produce, Record
from .running import IN_VALUE, SETTINGS, running

NOON_MS = 1_767_268_800_000
MINUTE = 60_000
IDLING = replace(SETTINGS, idle_after_ms=1_500)


def at(offset_ms: int, **more: object) -> bytes:
    return json.dumps({"ts": NOON_MS + offset_ms, **more}).encode()


def test_a_partition_is_idle_only_when_all_of_it_was_read(
    spark: SparkSession, broker: LocalBroker, create_topic: CreateTopic, produce: Produce, tmp_path: Path
) -> None:
    """Partition 0 has nothing after its first record; 1 is held back with unread records for as long as 0 holds."""
    topic = create_topic(2)
    produce(topic, [Record(at(0), partition=0)])
    produce(topic, [Record(at(i * MINUTE), partition=1) for i in range(12)])
    with running(spark, broker, topic, tmp_path, settings=IDLING, max_drift_ms=5 * MINUTE, batch_records=4) as it:
        picture = it.until(lambda p: p.channels[0].state == "idle")
        held = picture.channels[1]
        assert held.state == "active", "unread records kept its timer"
        assert held.backlog
        picture = it.read(13)
        assert picture.channels[1].records == 12


def test_balanced_reading_holds_back_who_is_ahead(
    spark: SparkSession, broker: LocalBroker, create_topic: CreateTopic, produce: Produce, tmp_path: Path
) -> None:
    """Partition 0 needs ten records for a minute of event time, partition 1 one: unbalanced, 1 would run ahead."""
    topic = create_topic(2)
    produce(topic, [Record(at(i * MINUTE // 10), partition=0) for i in range(50)])
    produce(topic, [Record(at(i * MINUTE), partition=1) for i in range(50)])
    drifts: list[int] = []
    with running(spark, broker, topic, tmp_path, max_drift_ms=2 * MINUTE, batch_records=12) as it:

        def note_drift() -> None:
            slow, fast = it.picture().channels
            if slow.backlog and slow.max_event_ms is not None and fast.max_event_ms is not None:
                drifts.append(fast.max_event_ms - slow.max_event_ms)

        it.on_batch = note_drift
        picture = it.until(lambda p: p.channels[0].backlog == 0 and p.channels[0].records == 50)
        assert picture.channels[1].held_back
        assert picture.channels[1].backlog
        balanced = it.until(lambda p: p.source and p.source.drift_unbalanced_ms)
        assert balanced.source is not None
        assert balanced.source.drift_ms is not None
        assert balanced.source.drift_unbalanced_ms == 49 * MINUTE - 49 * MINUTE // 10
        assert balanced.source.drift_ms <= (2 + 12) * MINUTE
        # A batch may bring up to twelve of its records at once, a minute each.
        assert max(drifts) <= (2 + 12) * MINUTE


@pytest.mark.matrix
def test_balanced_reading_of_what_is_there_reads_all_of_it(
    spark: SparkSession, broker: LocalBroker, create_topic: CreateTopic, produce: Produce, tmp_path: Path
) -> None:
    """Partition 0 ends long before partition 1, which must not wait for it for ever."""
    topic = create_topic(2)
    produce(topic, [Record(at(i * MINUTE), partition=i % 2) for i in range(10)])
    produce(topic, [Record(at((10 + i) * MINUTE), partition=1) for i in range(22)])
    with running(spark, broker, topic, tmp_path, max_drift_ms=5 * MINUTE, batch_records=4, once=True) as it:
        picture = it.until(lambda p: p.ended)
    assert picture.totals.records == 32


def test_channels_of_a_field_are_quiet_only_when_every_partition_was_read(
    spark: SparkSession, broker: LocalBroker, create_topic: CreateTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = create_topic(1)
    columns = KafkaColumns(time=JsonPath(("ts",)), channel=JsonPath(("who",)))
    produce(topic, [Record(at(0, who="a"))] + [Record(at(i, who="b")) for i in range(3)])
    with running(spark, broker, topic, tmp_path, columns, replace(IDLING, idle_after_ms=300), batch_records=1) as it:
        states_while_unread: list[str] = []

        def all_read(picture: Snapshot) -> bool:
            unread = it.source.progress.unread()
            if unread.records:
                states_while_unread.extend(channel.state for channel in picture.channels)
            return picture.totals.records == 4

        it.until(all_read)
        assert set(states_while_unread) == {"active"}
        it.until(lambda p: all(channel.state == "idle" for channel in p.channels))


def test_a_backlog_differs_from_no_data(
    spark: SparkSession, broker: LocalBroker, create_topic: CreateTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = create_topic(2)
    produce(topic, [Record(at(i), partition=0) for i in range(30)])
    produce(topic, [Record(at(10 * MINUTE), partition=1)])
    after_batches: list[Snapshot] = []
    with running(spark, broker, topic, tmp_path, IN_VALUE, batch_records=8) as it:
        it.on_batch = lambda: after_batches.append(it.picture())
        it.read(31)
        picture = next(p for p in after_batches if p.level.holder and all(c.max_event_ms for c in p.channels))
        assert picture.level.holder is not None
        assert (picture.level.holder.channel, picture.level.holder.cause) == ("0", "backlog")
        assert picture.channels[0].backlog
        picture = it.until(lambda p: p.level.holder and p.level.holder.cause == "quiet")
        assert picture.channels[0].backlog == 0
