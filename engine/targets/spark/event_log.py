"""A Spark event log: the facts about its application's streaming queries, during and after the run.

A log is one file, or a directory of files that follow each other (`events_<n>_<app>`).
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import IO, cast

import zstandard

from ...system.errors import UsageError, one_line
from .checkpoint import EVENT_LOG_NAME, WATERMARK_POLICY, is_checkpoint, is_event_log
from .events import (
    STARTS,
    ApplicationEnd,
    ApplicationEvent,
    ApplicationStart,
    EnvironmentUpdate,
    QueryEvent,
    decode_event,
)
from .facts import Application, QueryRun
from .files import UnreadableError, VanishedError, names, open_regular, read_head
from .queries import Queries

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
        self._fd = open_regular(path, one_line(path.name))
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


NO_EVENTS = "holds no events yet"
CUT_LINE = "ends in the middle of a line"
UNREADABLE_EVENT = "an event could not be read"

READ_AT_ONCE = 8 * 1024 * 1024
"""Bytes of a log that are read before the facts are used."""
_PLAIN_START = b'{"Event":"'


class EventLogTap:
    """Follows one application's log; every poll reads the additions. `on_event` gets each event once it is applied."""

    def __init__(self, path: Path, on_event: Callable[[QueryEvent], None] | None = None) -> None:
        self.path = path
        self._resolved: Path | None = None
        self._on_event = on_event
        self._log = _Log(on_event)
        self._file: LogFile | None = None
        self._facts = Application(app=None)

    def poll(self, limit: int = sys.maxsize) -> Application:
        """Read on, about `limit` bytes at most; never raises because of the log's content."""
        troubles: list[str] = []
        try:
            path = self._resolved or log_path(self.path)
            read = self._read_on(path, limit)
            self._resolved = path
            unread = self._unread(path)
        except (UnreadableError, UsageError) as error:
            read, unread = 0, self._facts.unread
            troubles.append(str(error))
        if self._file is not None and self._file.broken:
            troubles.append(self._file.broken)
        trouble = "; ".join([*troubles, *self._log.troubles]) or None
        if read or unread != self._facts.unread or trouble != self._facts.trouble:
            self._facts = self._log.facts(self._file.modified_ms if self._file else None, unread, trouble)
        return self._facts

    def poll_all(self, step: Callable[[int], object] = lambda left: None) -> Application:
        """Read everything; `step` gets the remaining bytes after each piece."""
        facts = self.poll(READ_AT_ONCE)
        step(facts.unread)
        while facts.unread and (more := self.poll(READ_AT_ONCE)).unread < facts.unread:
            facts = more
            step(facts.unread)
        return facts

    def queries(self) -> tuple[QueryRun, ...]:
        """The queries after the last event, also during a poll."""
        return self._log.queries.facts()

    def close(self) -> None:
        """Read no more."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read_on(self, path: Path, limit: int) -> int:
        read = 0
        for file in self._files(path):
            while read < limit and (size := file.read(self._log.lines, limit - read)):
                read += size
        return read

    def _files(self, path: Path) -> Iterator[LogFile]:
        """The file that was read last, then those after it; each has ended when the next one exists."""
        files = _files_of(path)
        if self._file is not None and self._file.path not in files:
            finished = [file for file in files if self._file.is_at(file)]
            if finished:
                self._file.path = finished[0]
        if self._file is None or self._file.path not in files or not self._file.is_at(self._file.path):
            self._start_over(files[0])
        file = self._file
        assert file is not None
        yield file
        for after in files[files.index(file.path) + 1 :]:
            if file.unread:
                return  # the limit was reached
            self._note_end(file)
            self._file = LogFile(after)
            file.close()
            file = self._file
            yield file

    def _start_over(self, path: Path) -> None:
        """The first file, or another log in place of the one read so far."""
        file = LogFile(path)
        self.close()
        self._file, self._log = file, _Log(self._on_event)

    def _note_end(self, file: LogFile) -> None:
        if file.broken:
            self._log.note(file.broken)
        elif self._log.lines.inside:
            self._log.note(f"{one_line(file.path.name)} {CUT_LINE}")
        self._log.lines.forget()

    def _unread(self, path: Path) -> int:
        if self._file is None:
            return 0
        files = _files_of(path)
        later = files[files.index(self._file.path) + 1 :] if self._file.path in files else []
        return self._file.unread + sum(_size(file) for file in later)


class _Log:
    """One application's events, and the trouble in reading them."""

    def __init__(self, on_event: Callable[[QueryEvent], None] | None) -> None:
        self.lines = EventLines(STARTS, self._take)
        self.queries = Queries()
        self._on_event = on_event
        self._said: list[str] = []
        self._more = 0
        self._started: ApplicationStart | None = None
        self._alive: bool | None = None

    @property
    def troubles(self) -> list[str]:
        too_long = self.lines.too_long
        left_out = [f"{too_long} line{'s' * (too_long > 1)} too long to be read"] if too_long else []
        return [*self._said, *left_out, *(["…"] if self._more else [])]

    def note(self, trouble: str) -> None:
        if len(self._said) < 3:
            self._said.append(trouble)
        else:
            self._more += 1

    def facts(self, written_ms: int | None, unread: int, trouble: str | None) -> Application:
        started = self._started
        return Application(
            app=one_line(started.name) if started else None,
            started_ms=started.time_ms if started else None,
            alive=self._alive,
            written_ms=written_ms,
            queries=self.queries.facts(),
            unread=unread,
            trouble=trouble,
        )

    def _take(self, line: bytes) -> None:
        try:
            self._apply(decode_event(line))
        except UnreadableError as error:
            self.note(f"{UNREADABLE_EVENT}: {error}")

    def _apply(self, event: ApplicationEvent | QueryEvent) -> None:
        match event:
            case ApplicationStart():
                self._started = event
            case ApplicationEnd():
                self._alive = False
            case EnvironmentUpdate():
                self.queries.policy = event.settings.get(WATERMARK_POLICY, "min")
            case _:
                self.queries.apply(event)
                if self._on_event is not None:
                    self._on_event(event)


def check(path: Path) -> None:
    """UsageError for a file that is not a readable event log, with what it is instead."""
    try:
        first = _files_of(log_path(path))[0]
        file = LogFile(first)
        file.close()
        head = read_head(first, len(_PLAIN_START))
    except UnreadableError as error:
        raise UsageError(str(error)) from None
    if file.broken:
        raise UsageError(file.broken)
    if not (is_zstd(head) or _PLAIN_START.startswith(head)):
        raise UsageError(f"{path} is not a Spark event log: give a file or directory that spark.eventLog.dir holds")


def log_path(path: Path) -> Path:
    """The log for `path`: itself, the rolling log it is a file of, or the only one in it."""
    if path.parent.name.startswith("eventlog_v2_") and not path.is_dir():
        return path.parent
    if not path.is_dir() or path.name.startswith("eventlog_v2_") or rolled(path):
        return path
    if is_checkpoint(path):
        raise UsageError(f"{path} is a Spark checkpoint, not an event log")
    logs = _logs_in(path)
    if not logs:
        raise UsageError(f"{path} holds no Spark event log: give what spark.eventLog.dir is set to, or one log in it")
    if len(logs) > 1:
        raise UsageError(f"{path} holds {len(logs)} event logs: give one of them, the newest is {logs[-1]}")
    return logs[0]


def is_log(path: Path) -> bool:
    """Whether it is an event log, or a directory of event logs."""
    if not path.is_dir():
        return is_event_log(path)
    if is_checkpoint(path):
        return False
    return EVENT_LOG_NAME.fullmatch(path.name) is not None or bool(rolled(path)) or bool(_logs_in(path))


def _logs_in(directory: Path) -> list[Path]:
    """The logs in a `spark.eventLog.dir`, the newest last."""
    return sorted((directory / name for name in names(directory) if EVENT_LOG_NAME.fullmatch(name)), key=_modified)


def _files_of(path: Path) -> list[Path]:
    files = rolled(path) if path.is_dir() else [finished_or_not(path)]
    if not files:
        raise VanishedError(f"{one_line(path.name)} {NO_EVENTS}")
    return files


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
