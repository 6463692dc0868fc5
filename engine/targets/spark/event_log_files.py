"""The files of one Spark event log, and their lines: one file, or a directory of files that follow each other
(`events_<n>_<app>`).
"""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import IO, cast

import zstandard

from ...system.errors import one_line
from .files import NOT_THERE, UnreadableError, VanishedError, names

LINE_LIMIT = 64 * 1024 * 1024
"""Longest line (bytes) that is kept: the largest plan or sketch has a few MB."""


class EventLines:
    """Takes pieces of a file; passes on each whole line that begins with one of `starts`."""

    def __init__(self, starts: tuple[bytes, ...], take: Callable[[bytes], None], limit: int = LINE_LIMIT) -> None:
        self.too_long = 0
        """The number of lines left out because of their length."""
        self._starts = starts
        self._take = take
        self._enough = max(map(len, starts))
        self._limit = limit
        self._partial = bytearray()
        self._skipping = False

    @property
    def inside(self) -> bool:
        """Whether the last piece ended in the middle of a line."""
        return self._skipping or bool(self._partial)

    def write(self, piece: bytes) -> int:
        """Take the next piece of the file; returns its size (as a file's `write` does)."""
        first, newline, rest = piece.partition(b"\n")
        self._extend(first)
        if newline:
            self._end()
            *whole, last = rest.split(b"\n")
            for line in whole:
                if line.startswith(self._starts) and self._fits(len(line)):
                    self._take(line)
            self._extend(last)
        return len(piece)

    def forget(self) -> None:
        """Drop an incomplete line: another file comes next."""
        self._partial.clear()
        self._skipping = False

    def _extend(self, piece: bytes) -> None:
        if self._skipping or not piece:
            return
        self._partial += piece
        matters = len(self._partial) < self._enough or self._partial.startswith(self._starts)
        if not matters or not self._fits(len(self._partial)):
            self._partial.clear()
            self._skipping = True

    def _end(self) -> None:
        if not self._skipping and self._partial.startswith(self._starts):
            self._take(bytes(self._partial))
        self.forget()

    def _fits(self, size: int) -> bool:
        self.too_long += size > self._limit
        return size <= self._limit


NO_ZSTD = "is damaged: not the zstd stream that its head promises"

PIECE = 1 << 18
"""Bytes read at once."""
IN_PROGRESS = ".inprogress"
OTHER_CODECS = (".lz4", ".lzf", ".snappy")
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ROLLED = re.compile(r"events_([0-9]{1,9})_.+?(\.compact)?")


class LogFile:
    """One file, read further at every poll; it stays open, so that it may be renamed when it is finished."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.broken = _unreadable(path)
        """Why the rest cannot be read."""
        self._fd = _open(path)
        self._writer: zstandard.ZstdDecompressionWriter | None = None

    @property
    def unread(self) -> int:
        """The number of unread bytes."""
        return 0 if self.broken else max(0, self.size - self.offset)

    @property
    def size(self) -> int:
        """Its size now (bytes)."""
        return os.fstat(self._fd).st_size

    @property
    def modified_ms(self) -> int:
        """When it was last written to."""
        return os.fstat(self._fd).st_mtime_ns // 1_000_000

    def is_at(self, path: Path) -> bool:
        """Whether the file at `path` is this one, and was not truncated."""
        try:
            there, here = os.stat(path), os.fstat(self._fd)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino) and here.st_size >= self.offset

    def read(self, lines: EventLines, limit: int) -> int:
        """Pass on at most the next `limit` bytes; returns their number, 0 at the file's end or once it is broken."""
        if self.broken:
            return 0
        try:
            piece = os.pread(self._fd, min(limit, PIECE), self.offset)
        except OSError as error:
            self.broken = f"cannot read {self.path.absolute()}: {error.strerror}"
            return 0
        if piece:
            if self.offset == 0 and piece.startswith(_ZSTD_MAGIC[: len(piece)]):
                self._writer = zstandard.ZstdDecompressor().stream_writer(cast(IO[bytes], lines))
            self.offset += len(piece)
            self._hand_on(piece, lines)
        return len(piece)

    def close(self) -> None:
        """Read no more."""
        os.close(self._fd)

    def _hand_on(self, piece: bytes, lines: EventLines) -> None:
        if self._writer is None:
            lines.write(piece)
            return
        try:
            self._writer.write(piece)
        except (zstandard.ZstdError, MemoryError):
            self.broken = one_line(f"{self.path.name} {NO_ZSTD}")


def is_zstd(head: bytes) -> bool:
    """Whether a file with this beginning is compressed with zstd."""
    return head.startswith(_ZSTD_MAGIC)


def rolled(directory: Path) -> list[Path]:
    """The files of a rolling log in order; if a history server has compacted it, only the compacted file."""
    files: dict[tuple[int, bool], Path] = {}
    for name in names(directory):
        if match := _ROLLED.fullmatch(name):
            files[int(match[1]), match[2] is not None] = directory / name
    compacted = max((number for number, compact in files if compact), default=-1)
    return [
        files[number, compact]
        for number, compact in sorted(files)
        if number > compacted or (number == compacted and compact)
    ]


def finished_or_not(path: Path) -> Path:
    """A single log under its present name: it loses `.inprogress` when it is finished."""
    other = path.with_name(path.name.removesuffix(IN_PROGRESS))
    if other == path:
        other = path.with_name(path.name + IN_PROGRESS)
    return other if not path.exists() and other.exists() else path


def _unreadable(path: Path) -> str | None:
    """Why a file of that name cannot be read, or None."""
    ending = PurePath(path.name.removesuffix(IN_PROGRESS).removesuffix(".compact")).suffix
    if ending not in OTHER_CODECS:
        return None
    return f"{one_line(path.name)} is compressed with {ending[1:]}: only zstd is read, and what is not compressed"


def _open(path: Path) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not make us wait
    except FileNotFoundError:
        raise VanishedError(f"{one_line(path.name)} {NOT_THERE}") from None
    except (OSError, ValueError) as error:  # a name with a NUL
        reason = error.strerror if isinstance(error, OSError) else error
        raise UnreadableError(f"cannot read {one_line(str(path.absolute()))}: {reason}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UnreadableError(f"{one_line(path.name)} is not a regular file")
    return fd
