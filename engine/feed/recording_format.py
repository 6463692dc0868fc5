"""A recording as bytes: zstd frames found without decompressing (RFC 8878), groups of snapshots, summaries, index."""

import io
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import msgspec
import zstandard
from msgspec import Struct

from ..verdict.history import HistoryPoint
from .messages import LINE_LIMIT

DATA = 0xFD2FB528
"""The magic number of a zstd frame."""
SUMMARY, INDEX = 0x184D2A50, 0x184D2A51
"""The magic numbers of our two kinds of skippable frames; every zstd tool skips them."""
LAST_BLOCK = b"\x01\x00\x00"
"""An empty last block: it closes a frame whose writer died."""
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_HEADER = struct.Struct("<II")
_FOOTER = struct.Struct("<I4s")
_FOOTER_MAGIC = b"WMTI"
_CHECKSUM_BYTES = 4
_DATA_HEADER_BYTES = 18  # at most
_RLE, _RESERVED = 1, 3
GROUP_BYTES = 16 * 1024 * 1024
"""Uncompressed size (bytes) of a group, at most; large snapshots make groups of fewer, so that a seek stays quick."""
FRAME_LIMIT = GROUP_BYTES + LINE_LIMIT
CHUNK = 1024 * 1024
"""Bytes read and copied at once."""


class Frame(NamedTuple):
    """A frame's kind and place (bytes); a frame that is not `whole` is truncated and ends after its last complete
    block.
    """

    magic: int
    offset: int
    size: int
    whole: bool = True


def skippable(magic: int, payload: bytes) -> bytes:
    """A skippable frame around `payload`."""
    return _HEADER.pack(magic, len(payload)) + payload


def index_frame(payload: bytes) -> bytes:
    """The last frame of a file: `payload` and a footer, by which the frame is found from the end."""
    size = _HEADER.size + len(payload) + _FOOTER.size
    return skippable(INDEX, payload + _FOOTER.pack(size, _FOOTER_MAGIC))


def find_index(file: BinaryIO, size: int) -> Frame | None:
    """The index frame at the end of a file of `size` bytes, if there is one."""
    if size < _HEADER.size + _FOOTER.size:
        return None
    file.seek(size - _FOOTER.size)
    length, magic = _FOOTER.unpack(file.read(_FOOTER.size))
    if magic != _FOOTER_MAGIC or length > size:
        return None
    frame = frame_at(file, size - length, size)
    return frame if frame is not None and frame.magic == INDEX and frame.size == length else None


def payload(file: BinaryIO, frame: Frame) -> bytes:
    """The content of a skippable frame; an index's without its footer."""
    file.seek(frame.offset + _HEADER.size)
    footer = _FOOTER.size if frame.magic == INDEX else 0
    return file.read(frame.size - _HEADER.size - footer)


def walk(file: BinaryIO, size: int) -> Iterator[Frame]:
    """The frames of a file of `size` bytes, up to the first unreadable place; only the last may be truncated."""
    offset = 0
    while (frame := frame_at(file, offset, size)) is not None:
        yield frame
        if not frame.whole:
            return
        offset += frame.size


def frame_at(file: BinaryIO, offset: int, size: int) -> Frame | None:
    """The frame at `offset`; None if none begins there, or nothing in it is usable."""
    file.seek(offset)
    head = file.read(_DATA_HEADER_BYTES)
    if len(head) < _HEADER.size:
        return None
    magic, length = _HEADER.unpack_from(head)
    if magic in _SKIPPABLE:
        whole = _HEADER.size + length
        return Frame(magic, offset, whole) if offset + whole <= size else None
    return _data_frame(file, offset, size, head) if magic == DATA else None


def _data_frame(file: BinaryIO, offset: int, size: int, head: bytes) -> Frame | None:
    """Follow the block headers (3 bytes: last, type, size) to the frame's end, or to where it is truncated."""
    try:
        end = offset + zstandard.frame_header_size(head)
        checksum = _CHECKSUM_BYTES if zstandard.get_frame_parameters(head).has_checksum else 0
    except zstandard.ZstdError:
        return None
    last = False
    while not last:
        file.seek(end)
        head = file.read(3)
        header = int.from_bytes(head, "little")
        last, kind, length = bool(header & 1), header >> 1 & 3, header >> 3
        after = end + 3 + (1 if kind == _RLE else length) + (checksum if last else 0)
        if len(head) < 3 or kind == _RESERVED or after > size:  # truncated since its size was read
            return Frame(DATA, offset, end - offset, whole=False)
        end = after
    return Frame(DATA, offset, end - offset)


class FrameInfo(Struct, frozen=True):
    """A group of snapshots: its place (bytes), and a point of history for each; None for a snapshot without clocks."""

    offset: int
    size: int
    points: list[HistoryPoint | None]

    @property
    def count(self) -> int:
        """The number of snapshots."""
        return len(self.points)


def whole_lines(data: bytes) -> list[bytes]:
    """The complete lines of a frame; the rest after the last newline is a snapshot that its writer did not finish."""
    return data.split(b"\n")[:-1]


def pack(value: object) -> bytes:
    """The value's JSON as a zstd frame."""
    return zstandard.compress(msgspec.json.encode(value))


def unpack(data: bytes, limit: int) -> bytes:
    """The readable content of a zstd frame; ZstdError beyond `limit` bytes."""
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data))
    parts: list[bytes] = []
    size = 0
    while part := reader.read(CHUNK):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise zstandard.ZstdError(f"more than {limit} bytes")
    return b"".join(parts)
