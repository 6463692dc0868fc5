"""Batches as Kafka's own producer compresses them (`batches`, log segments of a 4.1.0 broker), and hostile ones."""

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import msgspec
import pytest
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords, default_records
from wmtop.engine.kafka.compression import MAX_BYTES, bound_codecs
from wmtop.engine.system.zstd import compress

BATCHES = Path(__file__).parent / "batches"
XERIAL = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"


def xerial(content: bytes) -> bytes:
    """As Java's SnappyOutputStream writes it."""
    block = bytes(cramjam.snappy.compress_raw(content))
    return XERIAL + len(block).to_bytes(4) + block


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "snappy": lambda content: bytes(cramjam.snappy.compress_raw(content)),
    "snappy of Java": xerial,
    "lz4": lambda content: bytes(cramjam.lz4.compress(content)),
    "zstd": compress,
}


def unpack(codec: str, data: bytes) -> bytes:
    """As kafka-python unpacks a batch."""
    bound_codecs()
    decode: Any = getattr(default_records, f"{codec.partition(' ')[0]}_decode")
    return decode(memoryview(data)) if codec == "gzip" else decode(data)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_of_kafka_s_producer_are_read(codec: str) -> None:
    bound_codecs()
    batches: Any = MemoryRecords((BATCHES / f"{codec}.log").read_bytes())
    values: list[dict[str, Any]] = []
    while (batch := batches.next_batch()) is not None:
        values += [msgspec.json.decode(record.value) for record in batch]
    assert [value["ts"] for value in values] == [1_700_000_000_000 + number * 100 for number in range(40)]


@pytest.mark.parametrize("codec", PACKED)
def test_what_unpacks_to_more_than_the_bound_is_refused_and_takes_no_more_memory(codec: str) -> None:
    assert len(unpack(codec, PACKED[codec](bytes(1_000_000)))) == 1_000_000
    packed = PACKED[codec](bytes(2 * MAX_BYTES))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecordError, match="more than 64 MB unpacked"):
            unpack(codec, packed)
        assert tracemalloc.get_traced_memory()[1] < 2.5 * MAX_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", PACKED)
def test_what_is_damaged_is_refused(codec: str) -> None:
    packed = PACKED[codec](bytes(range(256)) * 100)
    # Of zstd what is complete is read: the batch's checksum and its records' lengths show the rest.
    cut = [] if codec == "zstd" else [packed[:-9], packed[: len(packed) // 2]]
    for damaged in (b"\xff" * 40, *cut):
        with pytest.raises(CorruptRecordError, match=codec.partition(" ")[0]):
            unpack(codec, damaged)
