"""Record batches decoded as columns hold what kafka-python reads of them one by one."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (kafka-python and Arrow have types in part only.)

import random
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from crc32c import crc32c
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords, MemoryRecordsBuilder
from kafka.record.default_records import DefaultRecordBatch
from kafka.structs import TopicPartition
from wmtop.engine.kafka.client_settings import KafkaConfig
from wmtop.engine.kafka.compression import bound_codecs
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.run.sources import kafka_batches, kafka_stream
from wmtop.engine.run.sources.kafka_batches import _PartitionBatches, records_of

from .reading import read
from .records import Produce, Record, Transact

PARTITION = TopicPartition("t", 0)
NONE, GZIP, LZ4, ZSTD = 0, 1, 3, 4
READ_COMMITTED = 1
EVERYTHING = {"keys": True, "values": True, "headers": True}
WITH_ZEROS = [bytes(70), b"\0\x0a\0\x0a\0", b"\0\x80\x01\0"]
"""As between two records: no headers, a length, no attributes."""
Row = tuple[int, int | None, bytes | None, bytes | None, list[dict[str, Any]] | None]


def drawn(r: random.Random, first: int, *, codec: int = NONE, magic: int = 2, producer: int = -1) -> Any:
    """A batch of up to 40 records whose offsets have gaps, as compaction leaves them."""
    more: dict[str, Any] = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0} if producer >= 0 else {}
    builder = MemoryRecordsBuilder(magic, codec, 1 << 20, offset=first, transactional=producer >= 0, **more)
    content = [None, b"", b"k", b"x" * 63, b"y" * 64, b"z" * 9_000, *WITH_ZEROS]
    for _ in range(r.randrange(1, 40)):
        stamp = r.choice([0, 5, 1_700_000_000_000, 2**62]) + r.randrange(1_000)
        pairs = [("h", b"1"), ("é", None), ("", b"")]
        headers = pairs[: r.randrange(4)] if magic == 2 and r.random() < 0.3 else []
        assert builder.append(stamp, r.choice(content), r.choice(content), headers) is not None
        if r.random() < 0.2:
            builder.skip(r.randrange(1, 200))
    builder.close()
    return builder


def with_append_time(batch: bytes, stamp: int) -> bytes:
    """The batch as a broker stamps it: its greatest time is that of all its records."""
    changed = bytearray(batch)
    attributes = struct.unpack_from(">h", changed, 21)[0] | DefaultRecordBatch.TIMESTAMP_TYPE_MASK
    struct.pack_into(">h", changed, 21, attributes)
    struct.pack_into(">q", changed, 35, stamp)
    return checked(changed)


def checked(batch: bytearray) -> bytes:
    """The batch with the right check sum."""
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return bytes(batch)


def one_by_one(log: bytes, start: int, end: int, **fetched: Any) -> list[Row]:
    """What kafka-python reads."""
    read = Fetcher.PartitionRecords(start, PARTITION, MemoryRecords(log), **fetched).take()
    return [
        (
            record.offset,
            record.timestamp if record.timestamp >= 0 else None,
            record.key,
            record.value,
            [{"key": key, "value": value} for key, value in record.headers] or None,
        )
        for record in read
        if record.offset < end
    ]


def as_columns(log: bytes, start: int, end: int, **fetched: Any) -> Iterator[Row]:
    """What the reader makes of the same response, some batches at a time."""
    batches = _PartitionBatches(start, PARTITION, MemoryRecords(log), **fetched)
    while batches and (polled := batches.take(3)):
        for records in records_of(polled, start, end, **EVERYTHING):
            stamps = [stamp if stamp >= 0 else None for stamp in records.timestamps.tolist()]
            others = (column.to_pylist() for column in (records.keys, records.values, records.headers))
            yield from zip(records.offsets.tolist(), stamps, *others, strict=True)
    assert batches.next_fetch_offset == position_after(log)


def position_after(log: bytes) -> int:
    """Where kafka-python continues after the response."""
    read = Fetcher.PartitionRecords(0, PARTITION, MemoryRecords(log))
    read.take()
    return read.next_fetch_offset


@pytest.mark.parametrize("seed", range(60))
def test_columns_hold_what_kafka_python_reads(seed: int) -> None:
    bound_codecs()
    r = random.Random(seed)
    log, first = b"", r.randrange(10**6)
    begin = first
    for _ in range(r.randrange(1, 9)):
        magic = 1 if r.random() < 0.1 else 2
        builder = drawn(r, first, codec=r.choice([NONE, GZIP, LZ4, ZSTD]) if magic == 2 else NONE, magic=magic)
        batch, first = bytes(builder.buffer()), builder.next_offset()
        log += with_append_time(batch, 77) if magic == 2 and r.random() < 0.2 else batch
    start = begin + r.choice([0, (first - begin) // 3])
    end = r.choice([first, first - (first - start) // 4, start])
    assert list(as_columns(log, start, end)) == one_by_one(log, start, end)


def test_records_of_text_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def written(value: bytes) -> bytes:
        builder = MemoryRecordsBuilder(2, NONE, 1 << 20)
        for number in range(500):
            builder.append(1_700_000_000_000 + number * 7, None, value * (number % 40), [])
        builder.close()
        return bytes(builder.buffer())

    def walked(content: bytes, count: int) -> Any:
        raise AssertionError(f"{count} records one by one")

    text, binary = written(b"text"), written(WITH_ZEROS[1])
    assert list(as_columns(binary, 0, 500)) == one_by_one(binary, 0, 500)
    monkeypatch.setattr(kafka_batches, "_walked", walked)
    assert list(as_columns(text, 0, 500)) == one_by_one(text, 0, 500)
    with pytest.raises(AssertionError):
        list(as_columns(binary, 0, 500))


def emptied(batch: bytes) -> bytes:
    """The batch as compaction leaves one whose records are all gone: it keeps its offsets."""
    changed = bytearray(batch[:61])
    struct.pack_into(">i", changed, 8, 61 - 12)
    struct.pack_into(">i", changed, 57, 0)
    return checked(changed)


def test_an_emptied_batch_only_moves_the_position() -> None:
    r = random.Random(3)
    first = drawn(r, 10)
    gone = drawn(r, first.next_offset())
    last = drawn(r, gone.next_offset())
    log = bytes(first.buffer()) + emptied(bytes(gone.buffer())) + bytes(last.buffer())
    ends_empty = log[: -len(last.buffer())]
    for response in (log, ends_empty):
        assert list(as_columns(response, 0, 10**9)) == one_by_one(response, 0, 10**9)


def test_an_emptied_batch_after_text_only_moves_the_position() -> None:
    def text(first: int) -> Any:
        builder = MemoryRecordsBuilder(2, NONE, 1 << 20, offset=first)
        for number in range(3):
            builder.append(number, None, b"text", [])
        builder.close()
        return builder

    first = text(10)
    gone = text(first.next_offset())
    last = text(gone.next_offset())
    empty = emptied(bytes(gone.buffer()))
    for parts in ((first, empty), (first, empty, last), (empty, last), (empty,)):
        log = b"".join(part if isinstance(part, bytes) else bytes(part.buffer()) for part in parts)
        assert list(as_columns(log, 0, 10**9)) == one_by_one(log, 0, 10**9)


@pytest.mark.parametrize("change", ["shorter", "longer", "fewer", "more"])
def test_a_batch_that_does_not_hold_what_it_says_is_an_error(change: str) -> None:
    """With a right check sum: the producer wrote it so."""
    builder = MemoryRecordsBuilder(2, NONE, 1 << 20)
    for number in range(3):
        builder.append(number, b"key", b"value")
    builder.close()
    batch = bytearray(builder.buffer())
    assert batch[61] == 2 * 14  # the first record's length as a varint
    if change in ("shorter", "longer"):
        batch[61] += 2 if change == "longer" else -2
    else:
        struct.pack_into(">i", batch, 57, 4 if change == "more" else 2)
    polled = _PartitionBatches(0, PARTITION, MemoryRecords(checked(batch))).take()
    with pytest.raises(CorruptRecordError):
        records_of(polled, 0, 3, **EVERYTHING)


def test_aborted_and_control_batches_are_left_out() -> None:
    r = random.Random(5)
    kept, aborted = drawn(r, 0), None
    aborted = drawn(r, kept.next_offset(), producer=7)
    control = MemoryRecordsBuilder(
        2, NONE, 1 << 20, offset=aborted.next_offset(), transactional=True, producer_id=7, producer_epoch=0,
        base_sequence=0,
    )  # fmt: skip
    control.append(0, struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 0))
    control.close()
    marker = bytearray(control.buffer())
    struct.pack_into(">h", marker, 21, struct.unpack_from(">h", marker, 21)[0] | DefaultRecordBatch.CONTROL_MASK)
    after = drawn(r, control.next_offset(), producer=7)
    log = bytes(kept.buffer()) + bytes(aborted.buffer()) + checked(marker) + bytes(after.buffer())

    class Aborted:
        first_offset, producer_id = kept.next_offset(), 7

    def fetched() -> dict[str, Any]:
        return {"isolation_level": READ_COMMITTED, "aborted_transactions": [Aborted()]}

    rows = one_by_one(log, 0, 10**9, **fetched())
    left_out = range(kept.next_offset(), control.next_offset())
    assert rows
    assert not [row for row in rows if row[0] in left_out]
    assert list(as_columns(log, 0, 10**9, **fetched())) == rows


def test_large_partitions_are_read_by_several_tasks() -> None:
    def sizes(*ends: int, tasks: int = 2) -> list[list[int]]:
        found = kafka_stream.ranges_of({}, {TopicPartition("t", p): end for p, end in enumerate(ends)}, tasks)
        return [[part.end - part.start for part in found if part.partition == p] for p in range(len(ends))]

    assert sizes(*[60_000] * 8) == [[60_000]] * 8
    assert sizes(400_000) == [[100_000] * 4]
    assert sizes(300_000, 40_000, 0) == [[75_000] * 4, [40_000], []]
    assert sizes(20_001, 5, tasks=8) == [[10_000, 10_001], [5]]


def test_ranges_of_one_worker_join(broker: LocalBroker, topic: str, transact: Transact, produce: Produce) -> None:
    """Also where a range ends inside a batch, is read again, or another comes between."""
    for number in range(8):
        transact(topic, [Record(b"%d" % number, key=b"k", timestamp_ms=5)] * 60, commit=number != 3)
    produce(topic, [Record(b"x" * 900, headers=(("h", b"v"),)) for _ in range(100)])
    kept = read(broker, topic, isolation_level="read_committed")
    expected = {record.offset: (record.value, record.timestamp, record.headers) for record in kept}
    end = kept[-1].offset + 1
    reader = kafka_stream.KafkaStreamReader(kafka_stream.ReaderOptions(
        config=KafkaConfig(broker.bootstrap), topics=[topic], start={}, most=1, tasks=1, keys=True, values=True,
        headers=True, held=None, known_topics="not-there.json",
    ))  # fmt: skip
    edges = [0, 1, 7, 61, 130, 200, 300, end]
    ranges = [*pairwise(edges), (61, 130), (130, 131), (0, 61), (61, end)]
    for start, stop in ranges:
        batches = list(reader.read(kafka_stream.OffsetRange(topic, 0, start, stop)))
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert [row["offset"] for row in rows] == [offset for offset in expected if start <= offset < stop]
        for row in rows:
            headers = [(header["key"], header["value"]) for header in row["headers"] or []]
            assert (row["value"], row["timestamp_ms"], headers) == expected[row["offset"]]
