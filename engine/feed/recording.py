"""Recordings: the stream in a file that can be sought, and that survives the death of its writer.

The file is a row of zstd frames, so `zstd -dc` gives the stream's own lines:

    header | snapshots | summary | snapshots | summary | … | index

The header and each group of about 60 snapshots is a zstd frame of its own; summaries and the index are skippable
frames. After every snapshot the compressor is flushed into the file: killed at any moment, the writer loses at most the
snapshot it was writing. A file without an index was not closed: the reader finds the frames by their block headers, and
reads the last one as far as it goes.
"""

import fcntl
import io
import os
import threading
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec
import zstandard
from msgspec import Struct

from ..core.snapshot import Snapshot
from ..errors import RunError, UsageError
from .frames import DATA, INDEX, LAST_BLOCK, SUMMARY, Frame, find_index, frame_at, index_frame, payload, skippable, walk
from .messages import LINE_LIMIT, FromEngine, Header, decode_as, decode_from_engine, encode_line

GROUP = 60
"""Snapshots in a frame."""
_GROUP_BYTES = 16 * 1024 * 1024  # uncompressed; fewer but larger snapshots, so that a seek stays quick
_FRAME_LIMIT = _GROUP_BYTES + LINE_LIMIT
_CHUNK = 1024 * 1024
_LEVEL = 3
_WINDOW_LOG = 23  # 8 MiB: with 10,000 channels the snapshot before is still within reach


class HolderChange(Struct, frozen=True, array_like=True):
    """From `now_ms` (processing time) on `channel` held the level; None: nobody did."""

    now_ms: int | None
    channel: str | None


class FrameInfo(Struct, frozen=True, kw_only=True):
    """A group of snapshots: place (bytes), times (epoch ms), holders from its first snapshot on, totals at its end."""

    offset: int
    size: int
    count: int
    first_ms: int | None
    last_ms: int | None
    first_wall_ms: int | None
    last_wall_ms: int | None
    holders: list[HolderChange]
    records: int
    late: int


class _Mark(NamedTuple):
    """What of one snapshot goes into its frame's summary."""

    now_ms: int | None
    wall_ms: int | None
    holder: str | None
    records: int
    late: int


class _When(Struct):
    """The time of a snapshot, read without the rest of it."""

    now_ms: int | None = None


class RecordingWriter:
    """Appends to the recording at `path`; one that is there is continued, after a second header.

    May be called from any thread. UsageError if the file cannot be opened, is something else, or is being written by
    another engine; RunError when writing fails: what was written before stays readable.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self._path = path
        self._gate = threading.Lock()
        parameters = zstandard.ZstdCompressionParameters(compression_level=_LEVEL, window_log=_WINDOW_LOG)
        self._zstd = zstandard.ZstdCompressor(compression_params=parameters)
        self._index: list[FrameInfo] = []
        self._marks: list[_Mark] = []
        self._raw_bytes = 0
        self._file = _open_for_append(path)
        try:
            if self._file.seek(0, os.SEEK_END):
                self._resume()
            frame = self._zstd.compressobj()  # as of snapshots, without a size: it can be closed when it was cut
            self._write(frame.compress(encode_line(header)) + frame.flush())
        except BaseException:
            self._file.close()
            raise
        self._start = self._file.tell()
        self._frame = self._zstd.compressobj()

    def append(self, snapshot: Snapshot) -> None:
        """Write one snapshot; when this returns, it survives the death of the process."""
        with self._gate:
            if self._file.closed:
                return
            line = encode_line(snapshot)
            self._write(self._frame.compress(line) + self._frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
            self._marks.append(_mark(snapshot))
            self._raw_bytes += len(line)
            if len(self._marks) >= GROUP or self._raw_bytes >= _GROUP_BYTES:
                self._finish_frame()

    def close(self) -> None:
        """Finish the last frame and write the index."""
        with self._gate:
            if self._file.closed:
                return
            try:
                if self._marks:
                    self._finish_frame()
                self._write(index_frame(msgspec.json.encode(self._index)))
            finally:
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _resume(self) -> None:
        """Cut off the index, or close the frame in which the last writer died, and go on after it."""
        with RecordingReader(self._path) as old:
            self._index, end, cut = old.index, old.end, old.cut
        self._file.truncate(end)
        self._file.seek(end)
        if cut:
            self._write(LAST_BLOCK)

    def _finish_frame(self) -> None:
        self._write(self._frame.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))
        info = _summarise(self._start, self._file.tell() - self._start, self._marks)
        self._write(skippable(SUMMARY, msgspec.json.encode(info)))
        self._index.append(info)
        self._marks, self._raw_bytes, self._start = [], 0, self._file.tell()
        self._frame = self._zstd.compressobj()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            self._file.close()
            raise RunError(f"cannot go on recording to {self._path}: {error.strerror or error}") from error


class RecordingReader:
    """Reads the recording at `path`; UsageError if it is none, RunError where it is damaged inside.

    `truncated`: it was not closed, because its writer died or is still at it; all that was written whole is there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            if not path.is_file() and path.exists():  # opening a pipe would wait for its writer
                raise UsageError(f"cannot read {path}: it is no file")
            self._file = path.open("rb")
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
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
        self._cached: tuple[int, list[bytes]] = (-1, [])

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Snapshot]:
        for frame in range(len(self.index)):
            yield from self.snapshots(frame)

    def snapshots(self, frame: int) -> list[Snapshot]:
        """The snapshots of frame number `frame` of the index."""
        return [self._snapshot(line, frame) for line in self._lines(frame)]

    def at(self, number: int) -> Snapshot:
        """Snapshot `number`, counted from 0 over the whole recording; IndexError if there is none."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        frame = bisect_right(self._ends, number)
        return self._snapshot(self._lines(frame)[number - self._start_of(frame)], frame)

    def seek(self, now_ms: int) -> int:
        """The number of the last snapshot taken at or before `now_ms` (processing time, epoch ms); 0 if none was.

        Where the recording holds several runs over the same time, the last of them.
        """
        frames = [i for i, info in enumerate(self.index) if info.first_ms is not None and info.first_ms <= now_ms]
        if not frames:
            return 0
        frame = frames[-1]
        try:
            times = [decode_as(_When, line).now_ms for line in self._lines(frame)]
        except msgspec.DecodeError as error:
            raise self._damage(self.index[frame].offset) from error
        before = [i for i, time in enumerate(times) if time is not None and time <= now_ms]
        return self._start_of(frame) + (before[-1] if before else 0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_header(self) -> Header:
        frame = frame_at(self._file, 0, self._size)
        try:
            if frame is not None and frame.whole and frame.magic == DATA:
                message = decode_from_engine(self._decompress(frame))
                if isinstance(message, Header) and message.format == "wmtop":
                    return message
        except (msgspec.DecodeError, zstandard.ZstdError):
            pass
        raise UsageError(f"{self._path} is no wmtop recording, or was cut off before its first snapshot")

    def _read_index(self) -> list[FrameInfo] | None:
        frame = find_index(self._file, self._size)
        if frame is None:
            return None
        try:
            index = decode_as(list[FrameInfo], payload(self._file, frame))
        except msgspec.DecodeError:
            return None
        if any(info.offset < 0 or info.size < 0 or info.offset + info.size > frame.offset for info in index):
            return None
        self.end = frame.offset
        return index

    def _rebuild_index(self) -> list[FrameInfo]:
        """Walk the frames; those without a summary are decompressed: later headers, and what a writer died in."""
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
        try:
            info = decode_as(FrameInfo, payload(self._file, frame))
        except msgspec.DecodeError as error:
            raise self._damage(frame.offset) from error
        return msgspec.structs.replace(info, offset=data.offset, size=data.size)

    def _look_into(self, frame: Frame | None) -> list[FrameInfo]:
        """The summary of a frame that has none; nothing if there is no whole snapshot in it."""
        if frame is None:
            return []
        try:
            messages = [decode_from_engine(line) for line in _whole_lines(self._decompress(frame))]
        except (msgspec.DecodeError, zstandard.ZstdError) as error:
            raise self._damage(frame.offset) from error
        marks = [_mark(message) for message in messages if isinstance(message, Snapshot)]
        return [_summarise(frame.offset, frame.size, marks)] if marks else []

    def _lines(self, frame: int) -> list[bytes]:
        if self._cached[0] != frame:
            info = self.index[frame]
            try:
                lines = _whole_lines(self._decompress(Frame(DATA, info.offset, info.size)))
            except zstandard.ZstdError as error:
                raise self._damage(info.offset) from error
            if len(lines) != info.count:
                raise self._damage(info.offset)
            self._cached = (frame, lines)
        return self._cached[1]

    def _snapshot(self, line: bytes, frame: int) -> Snapshot:
        try:
            message: FromEngine | None = decode_from_engine(line)
        except msgspec.DecodeError:
            message = None
        if not isinstance(message, Snapshot):
            raise self._damage(self.index[frame].offset)
        return message

    def _start_of(self, frame: int) -> int:
        return self._ends[frame] - self.index[frame].count

    def _decompress(self, frame: Frame) -> bytes:
        self._file.seek(frame.offset)
        compressed = io.BytesIO(self._file.read(frame.size))
        reader = zstandard.ZstdDecompressor().stream_reader(compressed)
        parts: list[bytes] = []
        size = 0
        while part := reader.read(_CHUNK):
            parts.append(part)
            size += len(part)
            if size > _FRAME_LIMIT:
                raise self._damage(frame.offset)
        return b"".join(parts)

    def _damage(self, offset: int) -> RunError:
        return RunError(f"{self._path} is damaged at byte {offset}")


def _open_for_append(path: Path) -> io.FileIO:
    try:
        if not path.is_file() and path.exists():
            raise UsageError(f"cannot record to {path}: it is no file")
        file = io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+")
    except OSError as error:
        raise UsageError(f"cannot record to {path}: {error.strerror or error}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise UsageError(f"{path} is being recorded to by another engine: choose another file") from error
    except OSError:
        pass  # a file system without locks: recording is still better than refusing to
    return file


def _whole_lines(data: bytes) -> list[bytes]:
    """The lines of a frame; what follows the last newline is a snapshot whose writer died in it."""
    return data.split(b"\n")[:-1]


def _mark(snapshot: Snapshot) -> _Mark:
    holder = snapshot.level.holder
    return _Mark(
        snapshot.now_ms,
        snapshot.wall_ms,
        holder.channel if holder else None,
        snapshot.totals.records,
        snapshot.totals.late,
    )


def _summarise(offset: int, size: int, marks: list[_Mark]) -> FrameInfo:
    now = [mark.now_ms for mark in marks if mark.now_ms is not None]
    wall = [mark.wall_ms for mark in marks if mark.wall_ms is not None]
    holders = [
        HolderChange(mark.now_ms, mark.holder)
        for i, mark in enumerate(marks)
        if i == 0 or mark.holder != marks[i - 1].holder
    ]
    return FrameInfo(
        offset=offset,
        size=size,
        count=len(marks),
        first_ms=now[0] if now else None,
        last_ms=now[-1] if now else None,
        first_wall_ms=wall[0] if wall else None,
        last_wall_ms=wall[-1] if wall else None,
        holders=holders,
        records=marks[-1].records,
        late=marks[-1].late,
    )
