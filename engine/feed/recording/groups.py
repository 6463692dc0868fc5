"""A group of snapshots, the unit of a recording: its size, its place and its summary."""

import io

import msgspec
import zstandard
from msgspec import Struct

from ...core.history import HistoryPoint
from ..messages import LINE_LIMIT

GROUP_BYTES = 16 * 1024 * 1024
"""Uncompressed size (bytes) of a group, at most; large snapshots make groups of fewer, so that a seek stays quick."""
FRAME_LIMIT = GROUP_BYTES + LINE_LIMIT
CHUNK = 1024 * 1024
"""Bytes read and copied at once."""


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
