"""The compressions of Kafka's record batches, unpacked up to a bound: 1 MB from any producer can hold gigabytes.

kafka-python has no bound, and reads snappy and zstd only where its user has installed a library for each.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator

import cramjam
import kafka.codec
from kafka.errors import CorruptRecordError
from kafka.record import default_records, legacy_records

from ..system.zstd import Frames, ZstdError

MAX_BYTES = 64_000_000
"""The greatest content of a batch that is read; producers send 1 MB (`max.request.size`) where nothing else is set."""
_LZ4_RATIO = 255
"""How many bytes one byte of LZ4 can stand for at most."""
_XERIAL, _XERIAL_HEADER = b"\x82SNAPPY\0", 16
"""The header of Java's snappy stream, with two version numbers; blocks, each with its length (int32), follow."""


class _RefusedError(Exception):
    """The content is incomplete, or longer than `MAX_BYTES`."""


def bound_codecs() -> None:
    """Have kafka-python unpack batches, of the current and the older formats, with the functions of this file."""
    for name, unpack in {"gzip": _gzip, "snappy": _snappy, "lz4": _lz4, "zstd": _zstd}.items():
        setattr(default_records, f"{name}_decode", _checked(name, unpack))
        setattr(legacy_records, f"{name}_decode", _checked(name, unpack))
        setattr(kafka.codec, f"has_{name}", lambda: True)


def _checked(name: str, unpack: Callable[[bytes], bytes]) -> Callable[[bytes | memoryview], bytes]:
    """`unpack`, with CorruptRecordError for what it cannot unpack."""

    def unpacked(data: bytes | memoryview) -> bytes:
        try:
            return unpack(bytes(data))
        except (cramjam.DecompressionError, ZstdError, zlib.error, struct.error, _RefusedError):
            limit = f"more than {MAX_BYTES // 1_000_000} MB unpacked"
            raise CorruptRecordError(f"a batch is damaged, or holds {limit} (compressed with {name})") from None

    return unpacked


def _gzip(data: bytes) -> bytes:
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    content = stream.decompress(data, MAX_BYTES)
    if not stream.eof:
        raise _RefusedError
    return content


def _lz4(data: bytes) -> bytes:
    out = bytearray(min(_LZ4_RATIO * len(data), MAX_BYTES))
    return bytes(memoryview(out)[: cramjam.lz4.decompress_into(data, out)])


def _zstd(data: bytes) -> bytes:
    return _bounded(Frames().feed(data))


def _snappy(data: bytes) -> bytes:
    return _bounded(map(_snappy_block, _xerial_blocks(data) if data.startswith(_XERIAL) else (data,)))


def _xerial_blocks(data: bytes) -> Iterator[bytes]:
    at = _XERIAL_HEADER
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        at += 4 + size
        yield data[at - size : at]


def _snappy_block(block: bytes) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > MAX_BYTES:
        raise _RefusedError
    return bytes(cramjam.snappy.decompress_raw(block))


def _bounded(pieces: Iterable[bytes]) -> bytes:
    content = bytearray()
    for piece in pieces:
        content += piece
        if len(content) > MAX_BYTES:
            raise _RefusedError
    return bytes(content)
