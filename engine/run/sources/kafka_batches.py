"""Kafka record batches as Arrow columns, without a Python object per record."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (kafka-python and pyarrow are only partly typed.)

from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import decode_varint
from msgspec import Struct
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Header = tuple[str, bytes | None]

BINARY, HEADERS = pa.binary(), pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_MAX_VARINT_BITS = 63


class DecodedRecords(Struct, frozen=True):
    """Records of one partition, in order; keys, values and headers are null unless requested."""

    offsets: Longs
    timestamps: Longs
    """Epoch ms; negative: none."""
    keys: Any
    values: Any
    headers: Any


class RecordBatch:
    """A batch in place of its records; kafka-python passes its value, the batch itself, on unchanged."""

    key = checksum = None
    headers: tuple[()] = ()

    def __init__(self, batch: DefaultRecordBatch) -> None:
        self.batch = batch
        self.offset = batch.last_offset
        self.timestamp = batch.max_timestamp
        self.timestamp_type = batch.timestamp_type
        self.size_in_bytes = batch.size_in_bytes

    @property
    def value(self) -> "RecordBatch":
        """Itself."""
        return self

    def __len__(self) -> int:
        return self.size_in_bytes

    def validate_crc(self) -> bool:
        """True: the batch's checksum has been checked, and single records have none."""
        return True


class _WholeBatch:
    """A batch that is its own only record."""

    def __init__(self, batch: DefaultRecordBatch) -> None:
        self._batch = batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Any:
        return iter([RecordBatch(self._batch)])


class _WholeBatches:
    """kafka-python's batches of one response, with whole batches in place of records; older formats unchanged."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches

    def next_batch(self) -> Any:
        batch = self._batches.next_batch()
        is_whole = isinstance(batch, DefaultRecordBatch) and not batch.is_control_batch
        return _WholeBatch(batch) if is_whole else batch


class _PartitionBatches(Fetcher.PartitionRecords):
    def __init__(self, fetch_offset: int, tp: Any, records: Any, **options: Any) -> None:
        super().__init__(fetch_offset, tp, _WholeBatches(records), **options)


def deliver_batches(consumer: Any) -> None:
    """Make the consumer deliver whole batches: `max_records` then counts batches, and `records_of` decodes them."""
    consumer._fetcher.PartitionRecords = _PartitionBatches


def records_of(
    polled: list[Any], start: int, end: int, *, keys: bool, values: bool, headers: bool
) -> list[DecodedRecords]:
    """The records with offsets in [start, end) of a poll by such a consumer, for one partition, in order.

    CorruptRecordError if a batch is inconsistent.
    """
    decoded: list[DecodedRecords] = []
    for whole, group in groupby(polled, lambda record: isinstance(record.value, RecordBatch)):
        if not whole:
            decoded += [
                _single(record, keys=keys, values=values, headers=headers)
                for record in group
                if start <= record.offset < end
            ]
        elif batches := [record.value.batch for record in group if record.value.batch.base_offset < end]:
            decoded.append(_decoded(batches, start, end, keys=keys, values=values, headers=headers))
    return [records for records in decoded if len(records.offsets)]


def _single(record: Any, *, keys: bool, values: bool, headers: bool) -> DecodedRecords:
    """A record of an older message format."""
    timestamp = -1 if record.timestamp is None else record.timestamp
    return DecodedRecords(
        np.array([record.offset], np.int64),
        np.array([timestamp], np.int64),
        pa.array([record.key if keys else None], BINARY),
        pa.array([record.value if values else None], BINARY),
        pa.array([_named(record.headers) if headers else None], HEADERS),
    )


def _decoded(
    batches: list[DefaultRecordBatch], start: int, end: int, *, keys: bool, values: bool, headers: bool
) -> DecodedRecords:
    """All batches decoded at once: numpy's calls cost more than a small batch."""
    contents = [_content_of(batch) for batch in batches]
    counts = [batch.records_count for batch in batches]
    joined = b"".join(contents)
    data = np.frombuffer(joined, np.uint8)

    def of_batch(values: list[int]) -> Longs:
        return np.repeat(np.array(values, np.int64), counts)

    at = _places(data, contents, counts)
    try:
        length, at = _varints(data, at)
        last = at + length
        _, at = _varints(data, at)  # attributes, which records do not use
        after, at = _varints(data, at)
        delta, at = _varints(data, at)
        offsets = of_batch([batch.base_offset for batch in batches]) + delta
        append_time = of_batch([batch.timestamp_type for batch in batches]) == DefaultRecordBatch.LOG_APPEND_TIME
        stamps = of_batch([batch.first_timestamp for batch in batches]) + after
        stamps = np.where(append_time, of_batch([batch.max_timestamp for batch in batches]), stamps)
        kept = np.flatnonzero((offsets >= start) & (offsets < end))
        at, last = at[kept], last[kept]
        key_at, at = _content(data, at)
        value_at, at = _content(data, at)
        number, at = _varints(data, at)
    except IndexError:
        raise CorruptRecordError("a record is longer than its batch") from None
    if (number < 0).any() or (at > last).any() or ((at != last) & (number == 0)).any():
        raise CorruptRecordError("a record does not end where its length says")
    nothing = pa.nulls(len(kept), BINARY)
    return DecodedRecords(
        offsets[kept],
        stamps[kept],
        _slices(joined, *key_at) if keys else nothing,
        _slices(joined, *value_at) if values else nothing,
        _headers(joined, at, last, number) if headers else pa.nulls(len(kept), HEADERS),
    )


def _content_of(batch: Any) -> bytes:
    batch._maybe_uncompress()
    return bytes(memoryview(batch._buffer)[batch._pos :])


def _places(data: NDArray[np.uint8], contents: list[bytes], counts: list[int]) -> Longs:
    """Where each record begins (with its length), given the batches' contents one after the other."""
    begins = np.cumsum([0, *map(len, contents)])
    places = _guessed(data, begins, counts)
    if places is None:
        each = [_walked(content, count) for content, count in zip(contents, counts, strict=True)]
        places = np.concatenate(each) + np.repeat(begins[:-1], counts)
    return places


def _guessed(data: NDArray[np.uint8], begins: Longs, counts: list[int]) -> Longs | None:
    """The same from the zeros in the data, if the lengths agree; None otherwise.

    Text has no zeros, so a zero is mostly the number of headers that ends a record, and the next is the attributes that
    begin another. Right only if each record ends where the next begins, from the first of each batch on.
    """
    zeros = np.flatnonzero(data[:-4] == 0) + 1
    is_next = [data[zeros + size] == 0 for size in (1, 2, 3)]  # after a length of so many bytes
    maybe = np.concatenate([begins[:1], zeros[is_next[0] | is_next[1] | is_next[2]]])
    try:
        length, after = _varints(data, maybe)
        likely = (length > 0) & (data[after] == 0)
    except (IndexError, CorruptRecordError):
        return None
    places, ends = maybe[likely], (after + length)[likely]
    edges, firsts = np.append(places, begins[-1]), np.cumsum([0, *counts])
    if len(places) != firsts[-1] or not np.array_equal(edges[1:], ends):
        return None
    return places if np.array_equal(edges[firsts], begins) else None


def _walked(content: bytes, count: int) -> Longs:
    """Where each record of a batch begins, from one to the next."""
    places: list[int] = []
    at = 0
    try:
        for _ in range(count):
            places.append(at)
            first = content[at]
            if first < 0x80:
                at += (first >> 1) + 1
            elif (second := content[at + 1]) < 0x80:
                at += ((first & 0x7F | second << 7) >> 1) + 2
            else:
                length, at = decode_varint(content, at)
                at += length
    except (IndexError, ValueError):
        at = -1
    if at != len(content):
        raise CorruptRecordError("a batch does not end where its records do")
    return np.array(places, np.int64)


def _varints(data: NDArray[np.uint8], at: Longs) -> tuple[Longs, Longs]:
    """The zigzag varints at each place, and the places after them."""
    byte = data[at].astype(np.uint64)
    result = byte & np.uint64(0x7F)
    behind = at + 1
    more = np.flatnonzero(byte >= 0x80)
    shift = 7
    while len(more):
        if shift > _MAX_VARINT_BITS:
            raise CorruptRecordError("a number has more than 64 bits")
        byte = data[behind[more]].astype(np.uint64)
        result[more] |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        behind[more] += 1
        more = more[byte >= 0x80]
        shift += 7
    return (result >> np.uint64(1)).astype(np.int64) ^ -(result & np.uint64(1)).astype(np.int64), behind


def _content(data: NDArray[np.uint8], at: Longs) -> tuple[tuple[Longs, Longs, NDArray[np.bool_]], Longs]:
    """Begin and end of each value, and which values exist, given the places of their lengths (-1: null)."""
    lengths, begins = _varints(data, at)
    ends = begins + np.maximum(lengths, 0)
    if len(ends) and int(ends.max()) > len(data):
        raise CorruptRecordError("a value is longer than its batch")
    return (begins, ends, lengths >= 0), ends


def _slices(joined: bytes, begins: Longs, ends: Longs, there: NDArray[np.bool_]) -> Any:
    """The bytes from each begin to its end, ascending: every second value of an array that also has the gaps."""
    count = len(begins)
    edges = np.empty(2 * count + 1, np.int64)
    edges[0:-1:2], edges[1::2], edges[-1] = begins, ends, ends[-1] if count else 0
    buffers = [None, pa.array(edges).buffers()[1], pa.py_buffer(joined)]
    every = pa.Array.from_buffers(pa.large_binary(), 2 * count, buffers)
    chosen: Any = pa.array(np.arange(0, 2 * count, 2), mask=~there)
    return every.take(chosen).cast(BINARY)


def _headers(joined: bytes, at: Longs, last: Longs, number: Longs) -> Any:
    """Each record's headers, one by one: few records have any."""
    places = zip(at.tolist(), last.tolist(), number.tolist(), strict=True)
    return pa.array([_named(_read_headers(joined, *place)) for place in places], HEADERS)


def _read_headers(joined: bytes, at: int, last: int, number: int) -> list[Header]:
    headers: list[Header] = []
    for _ in range(number):
        length, at = decode_varint(joined, at)  # pyright: ignore[reportArgumentType]
        name = joined[at : at + length].decode(errors="replace")
        length, at = decode_varint(joined, at + length)  # pyright: ignore[reportArgumentType]
        headers.append((name, None if length < 0 else joined[at : at + length]))
        at += max(length, 0)
    if at != last:
        raise CorruptRecordError("a record does not end where its length says")
    return headers


def _named(headers: "list[Header]") -> list[dict[str, Any]] | None:
    return [{"key": key, "value": value} for key, value in headers] or None
