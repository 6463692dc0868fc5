"""No record that a producer can send ends a run: it is malformed, and those behind it are read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.run.sources.kafka import Reader
from wmtop.engine.run.sources.kafka_batches import _read_headers  # pyright: ignore[reportPrivateUsage]
from wmtop.engine.run.sources.kafka_columns import KafkaColumns
from wmtop.engine.system.errors import RunError
from wmtop.engine.system.json_values import JsonPath

from ..refusals import refused
from .conftest import NOON_MS
from .records import CreateTopic, Produce, Record
from .running import running

DEEP = 10_000
GOOD = b'{"ts": %d, "who": "a"}' % NOON_MS
POISON = [
    b'{"ts": %d, "who": "\xff"}' % NOON_MS,
    b'{"ts": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    b'{"who": ' + b"[" * DEEP + b"]" * DEEP + b', "ts": %d}' % NOON_MS,
    b"[" * 100_000,
    b'{"ts": NaN}',
    b'{"ts": -Infinity}',
    b'{"ts": 1e999}',
    b'{"ts": ' + b"1" * 10_000 + b"}",
    b'{"ts": -9223372036854775808}',
    b'{"ts": "12345-01-01T00:00:00Z"}',
    b'{"ts": "\0"}',
    b'\0\0\0\0\1{"ts": "' + b"9" * 900_000 + b'"}',
    '{"ts": 1767268800000}'.encode("utf-16"),
    b"",
    None,
    b"\0" * 100,
]
TIMESTAMPS = [NOON_MS * 1_000, NOON_MS * 1_000_000, 2**63 - 1]
"""Microseconds and nanoseconds, where Kafka has milliseconds."""


@pytest.mark.parametrize("reader", ["python", "connector"])
def test_a_value_that_cannot_be_read_costs_its_own_record(
    session_for: Callable[[Reader], SparkSession],
    broker: LocalBroker,
    topic: str,
    produce: Produce,
    tmp_path: Path,
    reader: Reader,
) -> None:
    records = [Record(value, key=b"\xff\0" if number % 2 else b"k") for number, value in enumerate(POISON)]
    produce(topic, [Record(GOOD, key=b"k"), *records, Record(GOOD, key=b"k")])
    columns = KafkaColumns(time=JsonPath(("ts",)), channel="key")
    with running(session_for(reader), broker, topic, tmp_path, columns, reader=reader, once=True) as it:
        picture = it.until(lambda p: p.ended)
    assert (picture.totals.records, picture.totals.malformed) == (2, len(POISON))
    assert picture.malformed_example is not None
    assert picture.malformed_example.where.startswith("offset ")


@pytest.mark.parametrize(
    ("reader", "channel", "stamps"),
    [("python", "partition", TIMESTAMPS), ("python", "key", TIMESTAMPS), ("connector", "partition", TIMESTAMPS[:1])],
)
def test_a_timestamp_out_of_range_costs_its_own_record(
    session_for: Callable[[Reader], SparkSession],
    broker: LocalBroker,
    create_topic: CreateTopic,
    produce: Produce,
    tmp_path: Path,
    reader: Reader,
    channel: Any,
    stamps: list[int],
) -> None:
    topic = create_topic(1, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    produce(topic, [Record(b"v", timestamp_ms=stamp, key=b"k") for stamp in (NOON_MS, *stamps, NOON_MS + 1)])
    columns = KafkaColumns(channel=channel)
    with running(session_for(reader), broker, topic, tmp_path, columns, reader=reader, once=True) as it:
        picture = it.until(lambda p: p.ended)
    assert (picture.totals.records, picture.totals.malformed) == (2, len(stamps))
    assert [each.max_event_ms for each in picture.channels] == [NOON_MS + 1]
    assert picture.malformed_example is not None
    assert picture.malformed_example.why == "out_of_range"


def test_a_timestamp_that_only_the_connector_cannot_read_names_the_other_reader(
    session_for: Callable[[Reader], SparkSession],
    broker: LocalBroker,
    create_topic: CreateTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = create_topic(1, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    produce(topic, [Record(b"v", timestamp_ms=stamp) for stamp in (NOON_MS, TIMESTAMPS[1])])
    spark = session_for("connector")
    with (
        refused(RunError, "connector_failed", "--reader python"),
        running(spark, broker, topic, tmp_path, KafkaColumns(), reader="connector", once=True) as it,
    ):
        it.until(lambda p: p.ended)


def test_a_header_may_have_a_name_of_any_bytes() -> None:
    assert _read_headers(b"\x02\xff\x02v", 0, 4, 1) == [("\ufffd", b"v")]
