"""Real topics through the kafka-python reader: a record's time, what is set aside, nothing lost, nothing twice."""

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from msgspec.structs import replace
from pyspark.sql import SparkSession
from wmtop.engine.kafka.client_settings import KafkaConfig
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.kafka.log_guard import LogGuard
from wmtop.engine.run.sources.kafka import Kafka, Reader
from wmtop.engine.run.sources.kafka_columns import KafkaColumns
from wmtop.engine.run.sources.kafka_malformed import malformed_record
from wmtop.engine.run.sources.kafka_progress import KafkaProgress
from wmtop.engine.system.json_values import JsonPath
from wmtop.engine.watermarks.observation import MalformedRecord, Offender
from wmtop.engine.watermarks.settings import Settings, Tumbling

from ..run.sources.streams import read_batches
from ..run.sources.time_truth import some, time_of
from .records import FULL, CreateTopic, Produce, Record, Transact
from .running import IN_VALUE, running

NOON_MS = 1_767_268_800_000


def of(ts: object, **more: object) -> bytes:
    return json.dumps({"ts": ts, **more}).encode()


GOOD = [
    of(NOON_MS),
    of(NOON_MS + 1),
    of(NOON_MS // 1_000),
    of(NOON_MS / 1_000 + 0.25),
    of(NOON_MS * 1_000),
    of(NOON_MS * 1_000_000),
    of("2026-01-01T12:00:00Z"),
    of("2026-01-01T13:00:00.123456+01:00"),
    of(str(NOON_MS + 2)),
    b"\0" + struct.pack(">I", 7) + of(NOON_MS + 3),
]
"""Each at noon to the second, written in its own way; the last with Confluent's magic byte and schema id."""
NO_TIME = [b"not json", b'{"ts": 1767268800000', b"{}", b"[1]", b"\xff\xfe", b"", None]
BAD = [*NO_TIME, of(None), of("soon"), of(True), of({"a": 1})]


def test_every_way_to_write_a_time(
    spark: SparkSession, broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path
) -> None:
    offsets = produce(topic, [Record(value, key=b"k") for value in [*GOOD, *BAD, *GOOD]])
    with running(spark, broker, topic, tmp_path, once=True) as it:
        picture = it.until(lambda p: p.ended)
    assert picture.totals.records == 2 * len(GOOD)
    assert picture.totals.malformed == len(BAD)
    assert picture.last_malformed is not None
    assert picture.last_malformed.channel == "0"
    assert picture.last_malformed.offset == offsets[len(GOOD) + len(BAD) - 1]
    [channel] = picture.channels
    assert channel.max_event_ms == NOON_MS + 250
    assert [window.start_ms for window in picture.windows.open] == [NOON_MS] or picture.windows.fired == 1
    assert picture.source is not None
    assert picture.source.time_unit == "epoch ms, epoch s, ISO 8601, epoch us, epoch ns (recognised)"
    assert picture.malformed_example == MalformedRecord("0", f"offset 20 of {topic}-0", "$.ts", '{"a":1}', "no_time")


@pytest.mark.parametrize("reader", ["python", "connector"])
def test_mixed_times_are_read_by_their_size(
    session_for: Callable[[Reader], SparkSession],
    broker: LocalBroker,
    topic: str,
    produce: Produce,
    tmp_path: Path,
    reader: Reader,
) -> None:
    r = random.Random(4)
    values = [some(r) for _ in range(3_000)]
    produce(topic, [Record(of({"b": [value]})) for value in values])
    columns = KafkaColumns(time=JsonPath(("ts", "b", 0)))
    spark = session_for(reader)
    source = Kafka(KafkaConfig(broker.bootstrap), [topic], columns, reader=reader, once=True, directory=tmp_path / "k")
    try:
        source.check()
        source.prepare(lambda text: None)
        got = [row["ts"] for batch in read_batches(spark, source, tmp_path / "c").values() for row in batch]
    finally:
        source.close()
    assert got == [time_of(value) for value in values]
    assert (source.describe().time_unit or "").endswith(" (recognised)")


@pytest.mark.parametrize(
    ("record", "value", "why"),
    [
        (b"not json", "not json", "not_json"),
        (b"\xff\xfe", "\ufffd\ufffd", "not_json"),
        (None, None, "missing"),
        (b"{}", None, "missing"),
        (of("soon"), "soon", "no_time"),
        (of(10**30), str(10**30), "out_of_range"),
    ],
)
def test_a_malformed_record_is_shown(
    broker: LocalBroker, create_topic: CreateTopic, produce: Produce, record: bytes, value: str, why: str
) -> None:
    topic = create_topic(2)
    produce(
        topic,
        [Record(of(NOON_MS), partition=1), Record(record, partition=1, key=b"k"), Record(of(NOON_MS), partition=1)],
    )
    progress = progress_of([topic])
    progress.starts = {TopicPartition(topic, number): 0 for number in range(2)}
    found = malformed_record(KafkaConfig(broker.bootstrap), IN_VALUE, progress, Offender("1", 1, None))
    assert found == MalformedRecord("1", f"offset 1 of {topic}-1", "$.ts", value, why)  # pyright: ignore[reportArgumentType]
    assert malformed_record(KafkaConfig(broker.bootstrap), IN_VALUE, progress, Offender("1", 7, None)) is None


def progress_of(topics: list[str]) -> KafkaProgress:
    guard = LogGuard(lambda: Path("/nonexistent"))
    return KafkaProgress(topics, print, print, channels_are_partitions=True, once=True, guard=guard)


def test_a_field_deep_in_the_value_and_one_as_channel(
    spark: SparkSession, broker: LocalBroker, create_topic: CreateTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = create_topic(2)
    values = [json.dumps({"a b": {"at": [{"ms": NOON_MS + i}]}, "who": ["x", "y"][i % 2]}).encode() for i in range(10)]
    produce(topic, [Record(value, partition=i % 2) for i, value in enumerate(values)])
    produce(topic, [Record(b"{}", partition=1)])
    columns = KafkaColumns(time=JsonPath(("a b", "at", 0, "ms")), unit="ms", channel=JsonPath(("who",)))
    with running(spark, broker, topic, tmp_path, columns, once=True) as it:
        picture = it.until(lambda p: p.ended)
    assert {c.channel: c.records for c in picture.channels} == {"x": 5, "y": 5}
    assert picture.last_malformed is not None
    assert picture.last_malformed.part == f"{topic}-1"
    assert picture.last_malformed.offset == 5


def test_a_key_may_be_any_bytes(
    spark: SparkSession, broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path
) -> None:
    produce(topic, [Record(of(NOON_MS), key=key) for key in (b"text", b"\xff\x00", None)])
    with running(spark, broker, topic, tmp_path, KafkaColumns(time=JsonPath(("ts",)), channel="key"), once=True) as it:
        picture = it.until(lambda p: p.ended)
    assert {c.channel for c in picture.channels} == {"text", "0xff00", "(none)"}


def test_the_records_own_timestamps_count_tombstones_too(
    spark: SparkSession, broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path
) -> None:
    produce(topic, [Record(None, timestamp_ms=NOON_MS, key=b"k"), Record(b"v", timestamp_ms=NOON_MS + 5)])
    with running(spark, broker, topic, tmp_path, KafkaColumns(), once=True) as it:
        picture = it.until(lambda p: p.ended)
    assert (picture.totals.records, picture.totals.malformed) == (2, 0)
    assert picture.channels[0].max_event_ms == NOON_MS + 5


def test_aborted_transactions_are_not_there_and_leave_nothing_unread(
    spark: SparkSession, broker: LocalBroker, topic: str, transact: Transact, tmp_path: Path
) -> None:
    transact(topic, [Record(of(NOON_MS))] * 7)
    transact(topic, [Record(of(NOON_MS + 60_000))] * 5, commit=False)
    with running(spark, broker, topic, tmp_path) as it:
        picture = it.read(7)
        assert picture.totals.records == 7
        assert picture.channels[0].max_event_ms == NOON_MS
        assert picture.channels[0].backlog == 0
        transact(topic, [Record(of(NOON_MS + 1))] * 3)
        assert it.read(10).totals.records == 10


def test_a_run_goes_on_where_it_stopped(
    spark: SparkSession, broker: LocalBroker, create_topic: CreateTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = create_topic(3)
    produce(topic, [Record(of(NOON_MS + i), partition=i % 3) for i in range(300)])
    with running(spark, broker, topic, tmp_path, batch_records=100) as it:
        it.until(lambda p: 0 < p.totals.records < 300)
    produce(topic, [Record(of(NOON_MS + i), partition=i % 3) for i in range(300, 400)])
    with running(spark, broker, topic, tmp_path, batch_records=200) as it:
        picture = it.read(400)
    assert picture.totals.records == 400
    assert sum(window.records for window in picture.windows.open) == 400


def test_a_run_that_ended_before_its_first_batch_starts_where_it_did(
    broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path
) -> None:
    for _ in range(2):
        produce(topic, [Record()] * 3)
        config = KafkaConfig(broker.bootstrap)
        source = Kafka(config, [topic], KafkaColumns(), start="latest", directory=tmp_path, keep=True)
        source.prepare(lambda text: None)
        source.close()
        assert source.progress.starts == {TopicPartition(topic, 0): 3}


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("first", "then"), [pytest.param("python", "connector", marks=pytest.mark.matrix), ("connector", "python")]
)
def test_a_run_goes_on_with_the_other_reader(
    both_readers: SparkSession,
    broker: LocalBroker,
    create_topic: CreateTopic,
    produce: Produce,
    tmp_path: Path,
    first: Reader,
    then: Reader,
) -> None:
    topic = create_topic(3)
    produce(topic, [Record(of(NOON_MS + i), partition=i % 3) for i in range(300)])
    with running(both_readers, broker, topic, tmp_path, reader=first, batch_records=50) as it:
        before = it.until(lambda p: 0 < p.totals.records < 300)
    produce(topic, [Record(of(NOON_MS + i), partition=i % 3) for i in range(300, 400)])
    with running(both_readers, broker, topic, tmp_path, reader=then, batch_records=50) as it:
        assert it.picture().totals.records >= before.totals.records, "it did not start over"
        picture = it.read(400)
    assert picture.totals.records == 400
    assert [channel.records for channel in picture.channels] == [134, 133, 133]
    assert sum(window.records for window in picture.windows.open) == 400
    assert picture.source is not None
    assert picture.source.reader == then


@pytest.mark.parametrize(
    ("start", "read"),
    [
        pytest.param("latest", 1, marks=pytest.mark.matrix),
        pytest.param(NOON_MS + 5, 6, marks=pytest.mark.matrix),
        ("committed", 3),
    ],
)
def test_where_to_begin(
    spark: SparkSession, broker: LocalBroker, topic: str, produce: Produce, tmp_path: Path, start: str | int, read: int
) -> None:
    from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

    produce(topic, [Record(of(NOON_MS + i), timestamp_ms=NOON_MS + i) for i in range(10)])
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=f"group-of-{topic}")
    consumer.assign([TopicPartition(topic, 0)])
    consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(8, "", -1)})
    consumer.close()
    with running(spark, broker, topic, tmp_path, start=start, group=f"group-of-{topic}") as it:
        produce(topic, [Record(of(NOON_MS + 10), timestamp_ms=NOON_MS + 10)])
        assert it.read(read).totals.records == read


def test_both_readers_show_the_same(
    session_for: Callable[[Reader], SparkSession],
    broker: LocalBroker,
    create_topic: CreateTopic,
    full_topic: str,
    tmp_path: Path,
) -> None:
    """Also where partitions end: until that of the empty topic has finished, it holds back the watermark."""
    settings = Settings(lateness_ms=60_000, idle_after_ms=None, window=Tumbling(300_000), emit_every_ms=50)
    empty, shown = create_topic(), dict[str, Any]()
    readers: tuple[tuple[Reader, Reader], ...] = (("python", "python"), ("auto", "connector"))
    for asked, reader in readers:
        after_batches: list[tuple[int | None, dict[str, str]]] = []

        def note_states(after_batches: list[tuple[int | None, dict[str, str]]] = after_batches) -> None:
            picture = it.picture()
            after_batches.append((picture.level.watermark_ms, {view.channel: view.state for view in picture.channels}))

        place = tmp_path / reader
        with running(
            session_for(reader),
            broker,
            [full_topic, empty],
            place,
            IN_VALUE,
            settings,
            reader=asked,
            once=True,
            batch_records=500,
        ) as it:
            it.on_batch = note_states
            picture = it.until(lambda p: p.ended)
        assert picture.source is not None
        assert picture.source.reader == reader
        fired = [replace(window, fired_ms=None) for window in picture.windows.last_fired]
        channels = [(c.channel, c.max_event_ms, c.records, c.malformed, c.late) for c in picture.channels]
        totals, level = picture.totals, picture.level.watermark_ms
        shown[reader] = (after_batches, channels, totals, level, replace(picture.windows, last_fired=fired),
                         picture.last_malformed)  # fmt: skip
    assert shown["connector"] == shown["python"]
    assert after_batches[1][0] is not None
    assert [name for name, state in after_batches[1][1].items() if state == "finished"] == [f"{empty}-0"]
    assert totals.malformed == FULL // 100
    assert totals.late
    assert picture.windows.fired
