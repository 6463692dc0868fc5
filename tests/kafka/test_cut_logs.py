"""A log that was read is cut and written again, or its topic recreated: each record of either log counts once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from pyspark.sql import SparkSession
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.run.sources.kafka import Reader
from wmtop.engine.snapshot import Note, Snapshot
from wmtop.tui.words.notes import note_text

from .log_cutting import cut
from .records import Produce
from .running import IN_VALUE, Running, running
from .test_changes import COLUMNS, NOON_MS, at

READERS = pytest.mark.parametrize("reader", ["python", pytest.param("connector", marks=pytest.mark.matrix)])
SessionFor = Callable[[Reader], SparkSession]


def write(produce: Produce, topic: str, first: int, count: int) -> None:
    """One record a batch: a log is cut between batches."""
    for number in range(first, first + count):
        produce(topic, [at(number)])


def cuts_of(picture: Snapshot) -> list[dict[str, Any]]:
    return [dict(note.args) for note in picture.notes if note.code == "log_cut"]


def until_read(it: Running, records: int) -> Snapshot:
    """Drive it until so many records were read; no more come."""
    it.read(records)
    picture = it.read(records)
    assert picture.totals.records == records
    return picture


@READERS
@pytest.mark.parametrize("again", [15, 3], ids=["beyond the position", "less than before"])
def test_a_log_that_is_cut_while_it_is_read_is_read_again_from_the_cut(
    session_for: SessionFor,
    broker: LocalBroker,
    topic: str,
    produce: Produce,
    tmp_path: Path,
    reader: Reader,
    again: int,
) -> None:
    write(produce, topic, 0, 20)
    with running(session_for(reader), broker, topic, tmp_path, COLUMNS[reader], reader=reader) as it:
        until_read(it, 20)
        cut(broker, topic, 10)
        write(produce, topic, 100, again)
        picture = until_read(it, 20 + again)
        expected = {"topic": topic, "partition": 0, "offset": 10, "read_to": 20, "again": 1}
        assert cuts_of(picture) == [expected]
        assert picture.channels[0].max_event_ms == NOON_MS + 100 + again - 1
        write(produce, topic, 200, 2)
        assert cuts_of(until_read(it, 22 + again)) == [expected]


@READERS
def test_a_log_that_is_cut_while_the_run_is_down_is_read_again_from_the_cut(
    session_for: SessionFor, broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path, reader: Reader
) -> None:
    write(produce, topic, 0, 20)
    with running(session_for(reader), broker, topic, tmp_path, COLUMNS[reader], reader=reader) as it:
        until_read(it, 20)
    cut(broker, topic, 10)
    write(produce, topic, 100, 15)
    with running(session_for(reader), broker, topic, tmp_path, COLUMNS[reader], reader=reader) as it:
        assert [cut["offset"] for cut in cuts_of(until_read(it, 35))] == [10]
    with running(session_for(reader), broker, topic, tmp_path, COLUMNS[reader], reader=reader) as it:
        write(produce, topic, 200, 1)
        assert cuts_of(until_read(it, 36)) == []


@READERS
def test_a_restart_of_the_broker_is_no_cut(
    session_for: SessionFor, broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path, reader: Reader
) -> None:
    """Its leaders have a new epoch, and their logs all that was read."""
    write(produce, topic, 0, 10)
    with running(session_for(reader), broker, topic, tmp_path, COLUMNS[reader], reader=reader) as it:
        until_read(it, 10)
        broker.restart()
        write(produce, topic, 10, 10)
        until_read(it, 20)
        broker.restart()
        write(produce, topic, 20, 10)
        assert cuts_of(until_read(it, 30)) == []


@READERS
def test_a_recreated_topic_with_more_records_than_were_read_is_read_from_its_start(
    session_for: SessionFor, broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path, reader: Reader
) -> None:
    admin: Any = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    produce(topic, [at(number) for number in range(10)])
    columns = COLUMNS[reader]
    with running(session_for(reader), broker, topic, tmp_path, columns, reader=reader, probe_every_s=1) as it:
        until_read(it, 10)
        recreate(admin, topic)
        produce(topic, [at(100 + number) for number in range(25)])
        it.until(lambda p: any(note.code == "topic_recreated" for note in p.notes))
        picture = until_read(it, 35)
        assert next(note for note in picture.notes if note.code == "topic_recreated").args["from_start"] == 1
    recreate(admin, topic)
    produce(topic, [at(200 + number) for number in range(40)])
    with running(session_for(reader), broker, topic, tmp_path, columns, reader=reader) as it:
        picture = until_read(it, 75)
        it.until(lambda p: any(note.code == "topic_recreated" for note in p.notes))
    admin.close()


def recreate(admin: Any, topic: str) -> None:
    admin.delete_topics([topic])
    while topic in admin.list_topics():
        pass
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)


def test_all_records_that_were_deleted_unread_are_said_once(
    spark: SparkSession, broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path
) -> None:
    admin: Any = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    produce(topic, [at(i) for i in range(100)])
    said: list[Note] = []
    with running(spark, broker, topic, tmp_path, IN_VALUE, batch_records=10, probe_every_s=600) as it:
        it.until(lambda p: p.totals.records >= 10)
    read = it.picture().totals.records
    admin.delete_records({TopicPartition(topic, 0): 90})
    admin.close()
    # The probe looks once, before the records are deleted: the batch itself has to show it.
    with running(spark, broker, topic, tmp_path, IN_VALUE, batch_records=10, probe_every_s=600) as it:
        it.source.notes.subscribe(said.append)
        picture = it.until(lambda p: p.channels and p.channels[0].max_event_ms == NOON_MS + 99)
    assert picture.totals.records == read + 10
    expired = [note for note in picture.notes if note.code == "records_expired"]
    assert [(note.args["records"], note.args["offset"]) for note in expired] == [(90 - read, 90)]
    assert f"{90 - read} records" in note_text(expired[0])
