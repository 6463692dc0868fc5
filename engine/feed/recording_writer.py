"""Writes a recording and keeps it within its bounds; in the background, so that the caller waits for no disk."""

import errno
import io
import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from queue import SimpleQueue

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..snapshot import Snapshot
from ..system.errors import RunError, UsageError
from ..system.files import Existing, try_lock_file
from ..system.zstd import CompressionParameter, ZstdCompressor
from ..verdict.history import HistoryPoint, history_point
from .messages import Header, encode_line
from .recording_reader import (
    CHUNK,
    GROUP_BYTES,
    LAST_BLOCK,
    SUMMARY,
    FrameInfo,
    RecordingReader,
    index_frame,
    pack,
    skippable,
)

GROUP = 60
"""Snapshots per frame."""
_LEVEL = 3
TRUNCATED = "another program truncated the file"
ADVICE = dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "; free some space and record to another file")
_WINDOW_LOG = 23  # 8 MiB: with 10,000 channels the previous snapshot is still within reach

QUEUED = 64
"""Snapshots that may wait for the disk, at most; further ones are skipped and counted."""
CLOSED_WITHIN_S = 20.0
_KEEP = 7 / 8
"""The part that is kept when the oldest is dropped: dropping a little at a time would copy the rest each time."""


class Bounds(Struct, frozen=True):
    """The greatest size (bytes) and time (wall clock, ms) of a recording; None: no bound."""

    size: int | None = 2 * 1024**3
    span_ms: int | None = 24 * 3_600_000


UNBOUNDED = Bounds(None, None)


class SnapshotGroup(Struct, frozen=True):
    """An encoded `FrameInfo`, to save memory: a day has 86,400 points."""

    offset: int
    size: int
    points: msgspec.Raw
    last_wall_ms: int | None


class RecordingWriter(AbstractContextManager["RecordingWriter"]):
    """Writes the recording at `path`; an existing one is refused, replaced, or continued after a second header.

    Beyond its `bounds` (the ring's by default) the oldest snapshots are dropped. Thread-safe. UsageError if the file
    cannot be opened, exists and `existing` refuses that, is to be continued but not a recording of this version, or is
    being recorded by another process; RunError when writing fails: what was written before stays readable.
    """

    def __init__(
        self, path: Path, header: Header, bounds: Bounds | None = None, *, existing: Existing = "refuse"
    ) -> None:
        self.path = path
        self._bounds = Bounds() if bounds is None else bounds
        self._gate = threading.Lock()
        options: dict[int, int] = {
            CompressionParameter.compression_level: _LEVEL,
            CompressionParameter.window_log: _WINDOW_LOG,
        }
        self._zstd = ZstdCompressor(options=options)
        self._groups: list[SnapshotGroup] = []
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
            # In two calls, like snapshots: a frame without a size, which can be closed if truncated.
            self._header = self._zstd.compress(encode_line(header)) + self._zstd.flush()
            self._write(self._header)
            self._remove_copy()  # left by a writer that was killed while it copied
        except BaseException:
            self._file.close()
            if existing == "refuse":  # ours and empty: it must not block the next attempt
                path.unlink(missing_ok=True)
            raise
        self._start = self._file.tell()

    def append(self, snapshot: Snapshot) -> None:
        """Write one snapshot; when this returns, it survives the death of the process."""
        with self._gate:
            if self._file.closed:
                return
            if self._failure is not None:
                self._file.close()
                raise RunError(f"recording to {self.path} stopped: {self._failure}", code="stopped")
            line = encode_line(snapshot)
            self._write(self._zstd.compress(line) + self._zstd.flush(ZstdCompressor.FLUSH_BLOCK))
            self._points.append(history_point(snapshot))
            self._raw_bytes += len(line)
            if len(self._points) >= GROUP or self._raw_bytes >= GROUP_BYTES:
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
                self._write(index_frame(pack(groups)))
            finally:
                self._file.close()
        if self._shortening is not None:
            self._shortening.join()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _shorter(self) -> Path:
        return self.path.with_name(self.path.name + ".shorter")

    def _resume(self) -> None:
        """Truncate the index, or close the frame that the last writer left open, and continue after it."""
        with RecordingReader(self.path) as old:
            self._groups = [_group(info) for info in old.index]
            end, cut = old.end, old.cut
        self._file.truncate(end)
        self._file.seek(end)
        if cut:
            self._write(LAST_BLOCK)

    def _finish_frame(self) -> None:
        self._write(self._zstd.flush())  # the next snapshot begins a new frame
        info = FrameInfo(self._start, self._file.tell() - self._start, self._points)
        self._write(skippable(SUMMARY, pack(info)))
        self._groups.append(_group(info))
        self._points, self._raw_bytes, self._start = [], 0, self._file.tell()

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
                if not (chunk := source.read(min(left, CHUNK))):
                    raise UsageError(TRUNCATED)
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
                self._groups = [replace(group, offset=group.offset + moved) for group in self._groups[first:]]

    def _remove_copy(self) -> None:
        with suppress(OSError):
            self._shorter.unlink()

    def _write(self, data: bytes) -> None:
        try:
            if os.fstat(self._file.fileno()).st_size < self._file.tell():
                raise OSError(TRUNCATED)
            _write_all(self._file, data)
        except OSError as error:
            self._file.close()
            raise RunError(
                f"recording to {self.path} stopped: {error.strerror or error}; the part before stays readable"
                f"{ADVICE.get(error.errno or 0, '')}",
                code="stopped",
            ) from error


def _open_for_append(path: Path, *, new: bool = False) -> io.FileIO:
    """The file, locked; UsageError if it cannot be opened, is locked by another process, or exists but must be new."""
    try:
        if not path.is_file() and path.exists():
            raise UsageError(f"cannot record to {path}: it is not a regular file", code="no_file")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if new else 0)
        file = io.FileIO(os.open(path, flags, 0o666), "r+")
    except FileExistsError as error:
        raise UsageError(f"{path} already exists; choose another file or pass --force", code="exists") from error
    except OSError as error:
        raise UsageError(f"cannot record to {path}: {error.strerror or error}", code="unwritable") from error
    try:
        locked = try_lock_file(file)
    except OSError:
        locked = True  # a file system without locks: record all the same
    if not locked:
        file.close()
        raise UsageError(f"another wmtop is recording to {path}; choose another file", code="in_use")
    if not os.path.samestat(os.fstat(file.fileno()), path.stat()):  # the ring was shortened in the meantime
        file.close()
        return _open_for_append(path)
    return file


def _write_all(file: io.FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _group(info: FrameInfo) -> SnapshotGroup:
    wall = [point.wall_ms for point in info.points if point is not None]
    points = msgspec.Raw(msgspec.json.encode(info.points))
    return SnapshotGroup(info.offset, info.size, points, wall[-1] if wall else None)


def first_kept(groups: Sequence[SnapshotGroup], end: int, bounds: Bounds) -> int:
    """The first group that stays in a recording of `end` bytes; 0: the recording is within its bounds."""
    return max(_by_size(groups, end, bounds.size), _by_time(groups, bounds.span_ms))


def _by_size(groups: Sequence[SnapshotGroup], end: int, size: int | None) -> int:
    if size is None or end <= size:
        return 0
    return next((i for i, group in enumerate(groups) if end - group.offset <= size * _KEEP), len(groups) - 1)


def _by_time(groups: Sequence[SnapshotGroup], span_ms: int | None) -> int:
    if span_ms is None or len(groups) < 2:
        return 0
    oldest, newest = groups[0].last_wall_ms, groups[-1].last_wall_ms
    if oldest is None or newest is None or newest - oldest <= span_ms:
        return 0
    after = newest - span_ms * _KEEP
    return next(i for i, group in enumerate(groups) if group.last_wall_ms is None or group.last_wall_ms >= after)


class BackgroundWriter:
    """Appends snapshots to `writer`, which it owns, in order.

    A failure of the writer is raised once, by the next `append` or by `close`; nothing is written after it.
    """

    def __init__(self, writer: RecordingWriter) -> None:
        self._writer = writer
        self._waiting: SimpleQueue[Snapshot | None] = SimpleQueue()
        self._failure: RunError | None = None
        self.skipped = 0
        """The number of snapshots missing because the disk was too slow."""
        self._thread = threading.Thread(target=self._write_all, name="wmtop-recording", daemon=True)
        self._thread.start()

    def append(self, snapshot: Snapshot) -> None:
        """Queue one snapshot for writing; RunError if an earlier one failed."""
        self._raise_failure()
        if self._waiting.qsize() < QUEUED:
            self._waiting.put(snapshot)
        else:
            self.skipped += 1

    def close(self) -> None:
        """Write the queue, then the index; RunError if that fails or takes too long."""
        self._waiting.put(None)
        self._thread.join(CLOSED_WITHIN_S)
        if self._thread.is_alive():
            raise RunError(
                f"{self._writer.path}: the disk does not answer; the end of the recording may be missing",
                code="disk_hangs",
            )
        self._raise_failure()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _write_all(self) -> None:
        """Write until `close`, or until writing fails."""
        try:
            for snapshot in iter(self._waiting.get, None):
                self._writer.append(snapshot)
            self._writer.close()
        except RunError as error:
            self._failure = error
