"""Reads a recording, also one that is still being written or was not closed."""

import os
from bisect import bisect_right
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Self

import msgspec
import zstandard
from msgspec import Struct

from ..snapshot import Snapshot, TimePoint
from ..system.errors import RunError, UsageError
from ..verdict.history import history_point
from .messages import STREAM_VERSION, Greeting, Header, decode_as, decode_from_engine
from .recording_format import (
    DATA,
    FRAME_LIMIT,
    INDEX,
    SUMMARY,
    Frame,
    FrameInfo,
    find_index,
    frame_at,
    payload,
    unpack,
    walk,
    whole_lines,
)

_INDEX_LIMIT = 1024**3  # about 13 M snapshots
_POINTS_BYTES = 16 * 1024 * 1024  # uncompressed; searched for the sample at a jump


class _Points(Struct):
    """The fields of a snapshot that are read for its sample of records."""

    points: list[TimePoint] = []


class RecordingReader:
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
            samples.append([point for line in inside for point in self._points_of(line, frame)])
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

    def __enter__(self) -> Self:
        return self

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
        except (msgspec.DecodeError, zstandard.ZstdError):
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
        except (msgspec.DecodeError, zstandard.ZstdError):
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
                index.append(self._read_summary(frame, open_frame))
                open_frame = None
            elif frame.magic == DATA:
                index += self._look_into(open_frame)
                open_frame = frame
            self.end = frame.offset + frame.size
            self.cut = not frame.whole
        return index + self._look_into(open_frame)

    def _read_summary(self, frame: Frame, data: Frame) -> FrameInfo:
        with self._damage_at(frame.offset):
            info = decode_as(FrameInfo, unpack(payload(self._file, frame), FRAME_LIMIT))
        return FrameInfo(data.offset, data.size, info.points)

    def _look_into(self, frame: Frame | None) -> list[FrameInfo]:
        """The summary of a frame that has none; None if there is no complete snapshot in it."""
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

    def _points_of(self, line: bytes, frame: int) -> list[TimePoint]:
        with self._damage_at(self.index[frame].offset):
            return decode_as(_Points, line).points

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
        except (msgspec.DecodeError, zstandard.ZstdError) as error:
            raise RunError(f"{self._path} is damaged at byte {offset}", code="damaged") from error
