"""Recordings: the stream in a file that can be sought, and that survives the death of its writer.

The file is a row of zstd frames, so `zstd -dc` gives the stream's own lines:

    header | snapshots | summary | snapshots | summary | … | index

The header and each group of about 60 snapshots is a zstd frame of its own; summaries (a point of history for each
snapshot of the group) and the index (all summaries) are skippable frames. After every snapshot the compressor is
flushed into the file: killed at any moment, the writer loses at most the snapshot it was writing. A file without an
index was not closed: the reader finds the frames by their block headers and reads the last one as far as it goes.

A recording is a ring in one file: beyond its bounds (2 GiB and 24 h by default) the oldest eighth is dropped. A thread
copies the rest unchanged to `FILE.shorter` while recording continues; the copy then replaces the recording by a rename.
Killed at any moment, the recording is complete under its own name, and an open reader keeps the file it opened. While
the copy runs, it needs as much disk space as the recording.
"""

import errno
import io
import os
import threading
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import zstandard
from msgspec import Struct

from ..core.history import HistoryPoint, history_point
from ..core.snapshot import Snapshot, TimePoint
from ..errors import RunError, UsageError
from ..locks import try_lock_file
from ..outputs import Existing
from .frames import DATA, INDEX, LAST_BLOCK, SUMMARY, Frame, find_index, frame_at, index_frame, payload, skippable, walk
from .messages import (
    LINE_LIMIT,
    OLDEST_VERSION,
    STREAM_VERSION,
    EngineLine,
    Header,
    decode_as,
    decode_from_engine,
    encode_line,
)
from .ring import Bounds, first_kept

GROUP = 60
"""Snapshots in a frame."""
_GROUP_BYTES = 16 * 1024 * 1024  # uncompressed; fewer but larger snapshots, so that a seek stays quick
_FRAME_LIMIT = _GROUP_BYTES + LINE_LIMIT
_INDEX_LIMIT = 1024**3  # some 13 M snapshots
_CHUNK = 1024 * 1024
_POINTS_BYTES = 16 * 1024 * 1024  # uncompressed; what is looked through for the sample at a jump
_LEVEL = 3
_ADVICE = dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "; free some space and record to another file")
_WINDOW_LOG = 23  # 8 MiB: with 10,000 channels the snapshot before is still within reach


class FrameInfo(Struct, frozen=True):
    """A group of snapshots: its place (bytes), and a point of history for each; None for one without clocks."""

    offset: int
    size: int
    points: list[HistoryPoint | None]

    @property
    def count(self) -> int:
        """How many snapshots."""
        return len(self.points)


class _Format(Struct):
    """The fields that a header of any version has."""

    format: str = ""
    version: int = 0


class _Points(Struct):
    """What of a snapshot is read for its sample of records."""

    points: list[TimePoint] = []


class _Group(Struct, frozen=True):
    """A `FrameInfo` as its writer keeps it: encoded, since a day has 86,400 points."""

    offset: int
    size: int
    points: msgspec.Raw
    last_wall_ms: int | None


class RecordingWriter:
    """Writes the recording at `path`; one that exists is refused, replaced, or continued after a second header.

    Beyond its `bounds` (the ring's, unless given) the oldest snapshots are dropped. May be called from any thread.
    UsageError if the file cannot be opened or exists and `existing` refuses that, if a file to continue is not a
    recording of this version, or if another process records to it; RunError when writing fails: what was written
    before stays readable.
    """

    def __init__(
        self, path: Path, header: Header, bounds: Bounds | None = None, *, existing: Existing = "refuse"
    ) -> None:
        self.path = path
        self._bounds = Bounds() if bounds is None else bounds
        self._gate = threading.Lock()
        parameters = zstandard.ZstdCompressionParameters(compression_level=_LEVEL, window_log=_WINDOW_LOG)
        self._zstd = zstandard.ZstdCompressor(compression_params=parameters)
        self._groups: list[_Group] = []
        self._points: list[HistoryPoint | None] = []
        self._raw_bytes = 0
        self._shortening: threading.Thread | None = None
        self._failure: str | None = None
        self._file = _open_for_append(path, new=existing == "refuse")
        try:
            if existing == "replace":
                self._file.truncate(0)
            if self._file.seek(0, os.SEEK_END):
                self._resume()
            frame = self._zstd.compressobj()  # as of snapshots, without a size: it can be closed when it was cut
            self._header = frame.compress(encode_line(header)) + frame.flush()
            self._write(self._header)
            self._remove_copy()  # of a writer that was killed while it copied
        except BaseException:
            self._file.close()
            if existing == "refuse":  # ours, and nothing is in it: it must not be in the way of the next try
                path.unlink(missing_ok=True)
            raise
        self._start = self._file.tell()
        self._frame = self._zstd.compressobj()

    def append(self, snapshot: Snapshot) -> None:
        """Write one snapshot; when this returns, it survives the death of the process."""
        with self._gate:
            if self._file.closed:
                return
            if self._failure is not None:
                self._file.close()
                raise RunError(f"recording to {self.path} stopped: {self._failure}")
            line = encode_line(snapshot)
            self._write(self._frame.compress(line) + self._frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
            self._points.append(history_point(snapshot))
            self._raw_bytes += len(line)
            if len(self._points) >= GROUP or self._raw_bytes >= _GROUP_BYTES:
                self._finish_frame()
                self._keep_within_bounds()

    def close(self) -> None:
        """Finish the last frame and write the index."""
        with self._gate:
            if self._file.closed:
                return
            try:
                if self._points:
                    self._finish_frame()
                groups = [{"offset": g.offset, "size": g.size, "points": g.points} for g in self._groups]
                self._write(index_frame(_pack(groups)))
            finally:
                self._file.close()
        if self._shortening is not None:
            self._shortening.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _shorter(self) -> Path:
        return self.path.with_name(self.path.name + ".shorter")

    def _resume(self) -> None:
        """Truncate the index, or close the frame that the last writer left open, and continue after it."""
        with RecordingReader(self.path) as old:
            if old.header.version != STREAM_VERSION:
                raise UsageError(f"{self.path} is a recording of version {old.header.version}; choose another file")
            self._groups = [_group(info) for info in old.index]
            end, cut = old.end, old.cut
        self._file.truncate(end)
        self._file.seek(end)
        if cut:
            self._write(LAST_BLOCK)

    def _finish_frame(self) -> None:
        self._write(self._frame.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))
        info = FrameInfo(self._start, self._file.tell() - self._start, self._points)
        self._write(skippable(SUMMARY, _pack(info)))
        self._groups.append(_group(info))
        self._points, self._raw_bytes, self._start = [], 0, self._file.tell()
        self._frame = self._zstd.compressobj()

    def _keep_within_bounds(self) -> None:
        if self._shortening is not None and self._shortening.is_alive():
            return
        if first := first_kept(self._groups, self._file.tell(), self._bounds):
            arguments = (first, self._file.tell())
            self._shortening = threading.Thread(target=self._shorten, args=arguments, name="wmtop-ring", daemon=True)
            self._shortening.start()

    def _shorten(self, first: int, end: int) -> None:
        """Continue in a copy that begins with group `first`; what is written after `end` meanwhile is copied last."""
        try:
            copy = _open_for_append(self._shorter)
            try:
                self._copy(copy, first, end)
            except BaseException:
                copy.close()
                raise
        except (OSError, UsageError) as error:
            self._failure = f"cannot drop its oldest part: {getattr(error, 'strerror', None) or error}"
        finally:
            self._remove_copy()

    def _copy(self, copy: io.FileIO, first: int, end: int) -> None:
        offset = self._groups[first].offset
        copy.truncate(0)
        _write_all(copy, self._header)
        moved = copy.tell() - offset
        with self.path.open("rb") as source:
            source.seek(offset)
            while (left := end - source.tell()) > 0 and not self._file.closed:
                if not (chunk := source.read(min(left, _CHUNK))):
                    raise UsageError("another program truncated the file")
                _write_all(copy, chunk)
            os.fsync(copy)
            with self._gate:
                if self._file.closed:
                    copy.close()
                    return
                _write_all(copy, source.read())
                self._shorter.replace(self.path)
                self._file.close()
                self._file = copy
                self._start += moved
                self._groups = [_moved(group, moved) for group in self._groups[first:]]

    def _remove_copy(self) -> None:
        with suppress(OSError):
            self._shorter.unlink()

    def _write(self, data: bytes) -> None:
        try:
            if os.fstat(self._file.fileno()).st_size < self._file.tell():
                raise OSError("another program truncated the file")
            _write_all(self._file, data)
        except OSError as error:
            self._file.close()
            raise RunError(
                f"recording to {self.path} stopped: {error.strerror or error}; the part before stays readable"
                f"{_ADVICE.get(error.errno or 0, '')}"
            ) from error


class RecordingReader:
    """Reads the recording at `path`; UsageError if it is not one or of a newer version, RunError where it is damaged.

    `truncated`: it was not closed, because its writer died or is still at it; all that was written whole is there.
    `points`: what the summaries say of each snapshot, None of one without clocks.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            if not path.is_file() and path.exists():  # opening a pipe would wait for its writer
                raise UsageError(f"cannot read {path}: it is not a regular file")
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
        self.points = [point for info in self.index for point in info.points]
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

    def sample(self, first: int, number: int) -> list[TimePoint]:
        """The records in the samples of the snapshots from `first` up to before `number`, as far as 16 MiB reach back.

        RunError where the recording is damaged inside.
        """
        found: list[list[TimePoint]] = []
        read = 0
        frame = min(bisect_right(self._ends, max(number - 1, 0)), len(self.index) - 1)
        while frame >= 0 and self._ends[frame] > first and read < _POINTS_BYTES:
            start, lines = self._start_of(frame), self._lines(frame)
            read += sum(map(len, lines))
            inside = lines[max(first - start, 0) : max(number - start, 0)]
            found.append([point for line in inside for point in self._points_of(line, frame)])
            frame -= 1
        return [point for points in reversed(found) for point in points]

    def seek(self, now_ms: int) -> int:
        """The number of the last snapshot taken at or before `now_ms` (processing time, epoch ms); 0 if none was.

        Where the recording holds several runs over the same time, the last of them.
        """
        numbers = range(len(self.points) - 1, -1, -1)
        return next((n for n in numbers if (point := self.points[n]) is not None and point.now_ms <= now_ms), 0)

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
                line = self._decompress(frame)
                self._check_version(decode_as(_Format, line))
                message = decode_from_engine(line)
                if isinstance(message, Header) and message.format == "wmtop":
                    return message
        except (msgspec.DecodeError, zstandard.ZstdError):
            pass
        raise UsageError(f"{self._path} is not a wmtop recording, or it was truncated before its first snapshot")

    def _check_version(self, found: _Format) -> None:
        """UsageError for a recording whose fields may mean something else: of a newer wmtop, or a far older one."""
        if found.format == "wmtop" and not OLDEST_VERSION <= found.version <= STREAM_VERSION:
            other = "upgrade wmtop" if found.version > STREAM_VERSION else "use the wmtop that wrote it"
            raise UsageError(
                f"{self._path} is a recording of version {found.version}; this wmtop reads versions {OLDEST_VERSION} "
                f"to {STREAM_VERSION}: {other}"
            )

    def _read_index(self) -> list[FrameInfo] | None:
        frame = find_index(self._file, self._size)
        if frame is None:
            return None
        try:
            index = decode_as(list[FrameInfo], _unpack(payload(self._file, frame), _INDEX_LIMIT))
        except (msgspec.DecodeError, zstandard.ZstdError):
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
            info = decode_as(FrameInfo, _unpack(payload(self._file, frame), _FRAME_LIMIT))
        except (msgspec.DecodeError, zstandard.ZstdError) as error:
            raise self._damage(frame.offset) from error
        return FrameInfo(data.offset, data.size, info.points)

    def _look_into(self, frame: Frame | None) -> list[FrameInfo]:
        """The summary of a frame that has none; nothing if there is no whole snapshot in it."""
        if frame is None:
            return []
        try:
            messages = [decode_from_engine(line) for line in _whole_lines(self._decompress(frame))]
        except (msgspec.DecodeError, zstandard.ZstdError) as error:
            raise self._damage(frame.offset) from error
        points = [history_point(message) for message in messages if isinstance(message, Snapshot)]
        return [FrameInfo(frame.offset, frame.size, points)] if points else []

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
            message: EngineLine | None = decode_from_engine(line)
        except msgspec.DecodeError:
            message = None
        if not isinstance(message, Snapshot):
            raise self._damage(self.index[frame].offset)
        return message

    def _points_of(self, line: bytes, frame: int) -> list[TimePoint]:
        try:
            return decode_as(_Points, line).points
        except msgspec.DecodeError as error:
            raise self._damage(self.index[frame].offset) from error

    def _start_of(self, frame: int) -> int:
        return self._ends[frame] - self.index[frame].count

    def _decompress(self, frame: Frame) -> bytes:
        self._file.seek(frame.offset)
        return _unpack(self._file.read(frame.size), _FRAME_LIMIT)

    def _damage(self, offset: int) -> RunError:
        return RunError(f"{self._path} is damaged at byte {offset}")


def _open_for_append(path: Path, *, new: bool = False) -> io.FileIO:
    """The file, locked; UsageError if it cannot be opened, is locked by another process, or exists but must be new."""
    try:
        if not path.is_file() and path.exists():
            raise UsageError(f"cannot record to {path}: it is not a regular file")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if new else 0)
        file = io.FileIO(os.open(path, flags, 0o666), "r+")
    except FileExistsError as error:
        raise UsageError(f"{path} already exists; choose another file or pass --force") from error
    except OSError as error:
        raise UsageError(f"cannot record to {path}: {error.strerror or error}") from error
    try:
        locked = try_lock_file(file)
    except OSError:
        locked = True  # a file system without locks: recording is still better than refusing to
    if not locked:
        file.close()
        raise UsageError(f"another wmtop is recording to {path}; choose another file")
    if not os.path.samestat(os.fstat(file.fileno()), path.stat()):  # the ring was shortened in between
        file.close()
        return _open_for_append(path)
    return file


def _write_all(file: io.FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _whole_lines(data: bytes) -> list[bytes]:
    """The lines of a frame; what follows the last newline is a snapshot whose writer died in it."""
    return data.split(b"\n")[:-1]


def _pack(value: object) -> bytes:
    return zstandard.compress(msgspec.json.encode(value))


def _unpack(data: bytes, limit: int) -> bytes:
    """What is in a zstd frame, as far as it goes; ZstdError beyond `limit` bytes."""
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data))
    parts: list[bytes] = []
    size = 0
    while part := reader.read(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise zstandard.ZstdError(f"more than {limit} bytes")
    return b"".join(parts)


def _group(info: FrameInfo) -> _Group:
    wall = [point.wall_ms for point in info.points if point is not None]
    points = msgspec.Raw(msgspec.json.encode(info.points))
    return _Group(info.offset, info.size, points, wall[-1] if wall else None)


def _moved(group: _Group, by: int) -> _Group:
    return msgspec.structs.replace(group, offset=group.offset + by)
