"""A recording as bytes, and its reader, also of one that is still being written or was not closed.

It has zstd frames found without decompressing (RFC 8878), groups of snapshots, summaries, and an index.
"""

import os
import struct
from bisect import bisect_right
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec import Struct

from ..snapshot import Snapshot, TimePoint
from ..system import zstd
from ..system.errors import RunError, UsageError
from ..system.zstd import ZstdError
from ..verdict.history import HistoryPoint, history_point
from .messages import LINE_LIMIT, STREAM_VERSION, Greeting, Header, decode_as, decode_from_engine

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
    """A frame's kind and place (bytes); one that is not `whole` is truncated and ends after its last complete block."""

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
    header = zstd.frame_header(head)
    if header is None:
        return None
    end = offset + header.size
    checksum = _CHECKSUM_BYTES if header.has_checksum else 0
    last = False
    while not last:
        file.seek(end)
        head = file.read(3)
        block = int.from_bytes(head, "little")
        last, kind, length = bool(block & 1), block >> 1 & 3, block >> 3
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
    return zstd.compress(msgspec.json.encode(value))


def unpack(data: bytes, limit: int) -> bytes:
    """The readable content of a zstd frame; ZstdError beyond `limit` bytes."""
    parts: list[bytes] = []
    size = 0
    for part in zstd.Frames(only_first=True).feed(data):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise zstd.ZstdError(f"more than {limit} bytes")
    return b"".join(parts)


_INDEX_LIMIT = 1024**3  # about 13 M snapshots
_POINTS_BYTES = 16 * 1024 * 1024  # uncompressed; searched for the sample at a jump


class _Points(Struct):
    """The fields of a snapshot that are read for its sample of records."""

    points: list[TimePoint] = []


class RecordingReader(AbstractContextManager["RecordingReader"]):
    """Reads the recording at `path`; UsageError if it is not a recording or of another version, RunError if it is
    damaged.

    `truncated`: it was not closed, because its writer died or still writes; all complete snapshots are there. `points`:
    the summaries' point for each snapshot, None for one without clocks.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            if not path.is_file() and path.exists():  # opening a pipe would wait for its writer
                raise UsageError(f"cannot read {path}: it is not a regular file", code="no_file")
            self._file = path.open("rb")
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror or error}", code="unreadable") from error
        try:
            self._size = self._file.seek(0, os.SEEK_END)
            self.header = self._read_header()
            self.cut = False
            index = self._read_index()
            self.truncated = index is None
            self.index = self._rebuild_index() if index is None else index
        except BaseException:
            self._file.close()
            raise
        self._ends = list(accumulate(info.count for info in self.index))
        self.points = [point for info in self.index for point in info.points]
        self._cached: tuple[int, list[bytes]] = (-1, [])

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Snapshot]:
        for frame in range(len(self.index)):
            yield from self.snapshots(frame)

    @property
    def span_ms(self) -> tuple[int, int] | None:
        """The processing times (epoch ms) of its first snapshot and of its latest; None: its snapshots have none."""
        times = [point.now_ms for point in self.points if point is not None]
        return (times[0], max(times)) if times else None

    def snapshots(self, frame: int) -> list[Snapshot]:
        """The snapshots of frame number `frame` of the index."""
        return [self._snapshot(line, frame) for line in self._lines(frame)]

    def at(self, number: int) -> Snapshot:
        """Snapshot `number`, counted from 0 over the whole recording; IndexError if there is none."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        frame = bisect_right(self._ends, number)
        return self._snapshot(self._lines(frame)[number - self._start_of(frame)], frame)

    def sample(self, first: int, number: int) -> list[TimePoint]:
        """The sampled records of the snapshots from `first` up to before `number`, within the last 16 MiB.

        RunError if the recording is damaged inside.
        """
        samples: list[list[TimePoint]] = []
        read = 0
        frame = min(bisect_right(self._ends, max(number - 1, 0)), len(self.index) - 1)
        while frame >= 0 and self._ends[frame] > first and read < _POINTS_BYTES:
            start, lines = self._start_of(frame), self._lines(frame)
            read += sum(map(len, lines))
            inside = lines[max(first - start, 0) : max(number - start, 0)]
            with self._damage_at(self.index[frame].offset):
                samples.append([point for line in inside for point in decode_as(_Points, line).points])
            frame -= 1
        return [point for points in reversed(samples) for point in points]

    def seek(self, now_ms: int) -> int:
        """The number of the last snapshot taken at or before `now_ms` (processing time, epoch ms); 0 if none was.

        If the recording holds several runs over the same time, it is the last run's.
        """
        numbers = range(len(self.points) - 1, -1, -1)
        return next((n for n in numbers if (point := self.points[n]) is not None and point.now_ms <= now_ms), 0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_header(self) -> Header:
        frame = frame_at(self._file, 0, self._size)
        try:
            if frame is not None and frame.whole and frame.magic == DATA:
                line = self._decompress(frame)
                self._check_version(decode_as(Greeting, line))
                message = decode_from_engine(line)
                if isinstance(message, Header) and message.format == "wmtop":
                    return message
        except (msgspec.DecodeError, ZstdError):
            pass
        raise UsageError(
            f"{self._path} is not a wmtop recording, or it was truncated before its first snapshot", code="no_recording"
        )

    def _check_version(self, header: Greeting) -> None:
        """UsageError for a recording of another version, whose fields may have other meanings."""
        if header.format == "wmtop" and header.version != STREAM_VERSION:
            instead = "upgrade wmtop" if header.version > STREAM_VERSION else "record it again"
            raise UsageError(
                f"{self._path} is a recording of version {header.version}, but this wmtop reads {STREAM_VERSION};"
                f" {instead}",
                code="version",
            )

    def _read_index(self) -> list[FrameInfo] | None:
        frame = find_index(self._file, self._size)
        if frame is None:
            return None
        try:
            index = decode_as(list[FrameInfo], unpack(payload(self._file, frame), _INDEX_LIMIT))
        except (msgspec.DecodeError, ZstdError):
            return None
        if any(info.offset < 0 or info.size < 0 or info.offset + info.size > frame.offset for info in index):
            return None
        self.end = frame.offset
        return index

    def _rebuild_index(self) -> list[FrameInfo]:
        """Walk the frames; those without a summary are decompressed: later headers, and an unfinished last frame."""
        index: list[FrameInfo] = []
        open_frame: Frame | None = None
        self.end = 0
        for frame in walk(self._file, self._size):
            if frame.magic == INDEX:
                break
            if frame.magic == SUMMARY and open_frame is not None:
                with self._damage_at(frame.offset):
                    points = decode_as(FrameInfo, unpack(payload(self._file, frame), FRAME_LIMIT)).points
                index.append(FrameInfo(open_frame.offset, open_frame.size, points))
                open_frame = None
            elif frame.magic == DATA:
                index += self._look_into(open_frame)
                open_frame = frame
            self.end = frame.offset + frame.size
            self.cut = not frame.whole
        return index + self._look_into(open_frame)

    def _look_into(self, frame: Frame | None) -> list[FrameInfo]:
        """The summary of a frame that has none; empty without a frame or a complete snapshot in it."""
        if frame is None:
            return []
        with self._damage_at(frame.offset):
            messages = [decode_from_engine(line) for line in whole_lines(self._decompress(frame))]
        points = [history_point(message) for message in messages if isinstance(message, Snapshot)]
        return [FrameInfo(frame.offset, frame.size, points)] if points else []

    def _lines(self, frame: int) -> list[bytes]:
        if self._cached[0] != frame:
            info = self.index[frame]
            with self._damage_at(info.offset):
                lines = whole_lines(self._decompress(Frame(DATA, info.offset, info.size)))
                if len(lines) != info.count:
                    raise msgspec.DecodeError(f"{len(lines)} snapshots, not {info.count}")
            self._cached = (frame, lines)
        return self._cached[1]

    def _snapshot(self, line: bytes, frame: int) -> Snapshot:
        with self._damage_at(self.index[frame].offset):
            message = decode_from_engine(line)
            if not isinstance(message, Snapshot):
                raise msgspec.DecodeError("not a snapshot")
        return message

    def _start_of(self, frame: int) -> int:
        return self._ends[frame] - self.index[frame].count

    def _decompress(self, frame: Frame) -> bytes:
        self._file.seek(frame.offset)
        return unpack(self._file.read(frame.size), FRAME_LIMIT)

    @contextmanager
    def _damage_at(self, offset: int) -> Generator[None]:
        """RunError for what cannot be read of the frame at `offset`."""
        try:
            yield
        except (msgspec.DecodeError, ZstdError) as error:
            raise RunError(f"{self._path} is damaged at byte {offset}", code="damaged") from error
