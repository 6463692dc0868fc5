"""Decompresses state files of Spark: LZ4Block frames (its default) or one zstd stream, recognised by their heads."""

import struct
from typing import Any

import zstandard
from lz4 import block as lz4  # pyright: ignore[reportMissingTypeStubs]

from .files import UnreadableError

_LZ4_MAGIC = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<BiiI")  # token, compressed and raw length, checksum
_LZ4_STORED, _LZ4_COMPRESSED = 0x10, 0x20
_LZ4_LEVEL_BASE = 10
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_OTHERS = {b"\x82SNAPPY\0": "snappy", b"ZV": "lzf"}


def decompress(content: bytes, limit: int) -> bytes:
    """The content of a state file, at most `limit` bytes; UnreadableError if it is damaged or compressed otherwise."""
    if content.startswith(_LZ4_MAGIC):
        return _lz4_blocks(content, limit)
    if content.startswith(_ZSTD_MAGIC):
        return _zstd(content, limit)
    for magic, codec in _OTHERS.items():
        if content.startswith(magic):
            raise UnreadableError(f"it is compressed with {codec}: only lz4 and zstd are read")
    raise UnreadableError("it is neither lz4 nor zstd")


def _lz4_blocks(content: bytes, limit: int) -> bytes:
    """The frames of lz4-java's LZ4BlockOutputStream; the last one is empty."""
    blocks: list[bytes] = []
    at, size = 0, 0
    while True:
        body = at + len(_LZ4_MAGIC) + _LZ4_HEADER.size
        if content[at : at + len(_LZ4_MAGIC)] != _LZ4_MAGIC or body > len(content):
            raise UnreadableError("it is cut short or damaged: no LZ4 frame where one should be")
        token, packed, raw, _ = _LZ4_HEADER.unpack_from(content, at + len(_LZ4_MAGIC))
        at = body + packed
        size += raw
        if packed < 0 or raw < 0 or at > len(content) or raw > 1 << (token & 0x0F) + _LZ4_LEVEL_BASE:
            raise UnreadableError("it is cut short or damaged: an LZ4 frame of an impossible length")
        if size > limit:
            raise UnreadableError(f"it holds more than {limit:,} bytes")
        if raw == 0:
            return b"".join(blocks)
        blocks.append(_lz4_block(token & 0xF0, content[body:at], raw))


def _lz4_block(method: int, block: bytes, size: int) -> bytes:
    if method == _LZ4_STORED and len(block) == size:
        return block
    if method != _LZ4_COMPRESSED:
        raise UnreadableError("it is damaged: an LZ4 frame of an unknown method")
    codec: Any = lz4  # without types
    try:
        found: bytes = codec.decompress(block, uncompressed_size=size)
    except codec.LZ4BlockError:
        found = b""
    if len(found) != size:
        raise UnreadableError("it is damaged: an LZ4 frame does not decompress to its length")
    return found


def _zstd(content: bytes, limit: int) -> bytes:
    reader = zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True)
    try:
        found = reader.read(limit + 1)
    except (zstandard.ZstdError, MemoryError):
        raise UnreadableError("it is damaged: not the zstd stream that its head promises") from None
    if len(found) > limit:
        raise UnreadableError(f"it holds more than {limit:,} bytes")
    return found
