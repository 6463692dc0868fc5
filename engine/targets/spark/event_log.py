"""A Spark event log: the facts about its application's streaming queries, during and after the run.

A log is one file, or a directory of files that follow each other (`events_<n>_<app>`).
"""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path, PurePath

from ...system import zstd
from ...system.errors import UsageError, one_line
from .checkpoint import WATERMARK_POLICY, is_checkpoint
from .facts import (
    STARTS,
    Application,
    ApplicationEnd,
    ApplicationStart,
    EnvironmentUpdate,
    QueryEvent,
    QueryRun,
    decode_event,
)
from .files import UnreadableError, VanishedError, names, open_regular, read_head, written_ms
from .plan import ADVANCEMENT
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

    def write(self, piece: bytes) -> None:
        """Take the next piece of the file."""
        *ended, rest = piece.split(b"\n")
        for end in ended:
            self._extend(end)
            if self._partial.startswith(self._starts):
                self._take(bytes(self._partial))
            self.forget()
        self._extend(rest)

    def forget(self) -> None:
        """Drop an incomplete line: another file comes next."""
        self._partial.clear()
        self._skipping = False

    def _extend(self, piece: bytes) -> None:
        if self._skipping:
            return
        self._partial += piece
        is_wanted = len(self._partial) < self._enough or self._partial.startswith(self._starts)
        if is_wanted and len(self._partial) <= self._limit:
            return
        self.too_long += is_wanted
        self._partial.clear()
        self._skipping = True


NO_ZSTD = "is damaged: not the zstd stream that its head promises"

PIECE = 1 << 18
"""Bytes read at once."""
IN_PROGRESS = ".inprogress"
_OTHER_CODECS = (".lz4", ".lzf", ".snappy")
CODECS = (".zstd", *_OTHER_CODECS)
"""Endings of compressed files."""
EVENT_LOG_NAME = re.compile(r"events_\d+_.+|eventlog_v2_.+|(app|application|local)-\d+.*")
_ROLLED = re.compile(r"events_([0-9]{1,9})_.+?(\.compact)?")


class LogFile:
    """One file, read further at every poll; it stays open, so that it may be renamed when it is finished."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.broken: str | None = None
        """Why the rest cannot be read."""
        codec = PurePath(path.name.removesuffix(IN_PROGRESS).removesuffix(".compact")).suffix
        if codec in _OTHER_CODECS:
            name = one_line(path.name)
            self.broken = f"{name} is compressed with {codec[1:]}: only zstd is read, and what is not compressed"
        self._fd = open_regular(path, one_line(path.name))
        self._frames: zstd.Frames | None = None

    @property
    def unread(self) -> int:
        """The number of unread bytes."""
        return 0 if self.broken else max(0, os.fstat(self._fd).st_size - self.offset)

    def is_at(self, path: Path) -> bool:
        """Whether the file at `path` is this one, and was not truncated."""
        try:
            there, here = os.stat(path), os.fstat(self._fd)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino) and here.st_size >= self.offset

    def read(self, lines: EventLines, limit: int) -> int:
        """Pass on at most the next `limit` bytes; returns their number, 0 at the file's end or once it is broken."""
        read = 0
        while not self.broken and read < limit:
            try:
                piece = os.pread(self._fd, min(limit - read, PIECE), self.offset)
            except OSError as error:
                self.broken = f"cannot read {self.path.absolute()}: {error.strerror}"
                break
            if not piece:
                break
            if self.offset == 0 and piece.startswith(zstd.MAGIC[: len(piece)]):
                self._frames = zstd.Frames()
            self.offset += len(piece)
            read += len(piece)
            try:
                for content in [piece] if self._frames is None else self._frames.feed(piece):
                    lines.write(content)
            except (zstd.ZstdError, MemoryError):
                self.broken = one_line(f"{self.path.name} {NO_ZSTD}")
        return read

    def close(self) -> None:
        """Read no more."""
        os.close(self._fd)


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


NO_EVENTS = "holds no events yet"
CUT_LINE = "ends in the middle of a line"
UNREADABLE_EVENT = "an event could not be read"

READ_AT_ONCE = 8 * 1024 * 1024
"""Bytes of a log that are read before the facts are used."""
_MAX_NOTES = 3
_PLAIN_START = b'{"Event":"'


class EventLogTap:
    """Follows one application's log; every poll reads the additions. `on_event` gets each event once it is applied."""

    def __init__(self, path: Path, on_event: Callable[[QueryEvent], None] = lambda event: None) -> None:
        self.path = path
        self._resolved: Path | None = None
        self._on_event = on_event
        self._file: LogFile | None = None
        self._unread = 0
        self._start_over(None)

    def poll(self, limit: int = sys.maxsize) -> Application:
        """Read on, about `limit` bytes at most; never raises because of the log's content."""
        troubles: list[str] = []
        try:
            self._resolved = self._resolved or log_path(self.path)
            self._unread = self._read_on(_files_of(self._resolved), limit)
        except (UnreadableError, UsageError) as error:
            troubles.append(str(error))
        if self._file is not None and self._file.broken:
            troubles.append(self._file.broken)
        troubles += self._notes[:_MAX_NOTES]
        if self._lines.too_long:
            troubles.append(f"{self._lines.too_long} line{'s' * (self._lines.too_long > 1)} too long to be read")
        if len(self._notes) > _MAX_NOTES:
            troubles.append("…")
        return Application(
            app=one_line(self._started.name) if self._started else None,
            started_ms=self._started.time_ms if self._started else None,
            alive=self._alive,
            written_ms=written_ms(self._file.path) if self._file else None,
            queries=self.queries(),
            unread=self._unread,
            trouble="; ".join(troubles) or None,
        )

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
        return self._queries.facts()

    def close(self) -> None:
        """Read no more."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _start_over(self, file: LogFile | None) -> None:
        """Read the first file, or another log in place of the one read so far."""
        self.close()
        self._file = file
        self._lines = EventLines(STARTS, self._take)
        self._queries = Queries()
        self._queries.is_whole = file is None or not file.path.name.endswith(".compact")
        self._notes: list[str] = []
        self._started: ApplicationStart | None = None
        self._alive: bool | None = None

    def _read_on(self, files: list[Path], limit: int) -> int:
        """Read the file that was read last, then those after it; returns the number of bytes that are left."""
        file = self._file
        if file is not None and file.path not in files:
            file.path = next(filter(file.is_at, files), file.path)
        if file is None or file.path not in files or not file.is_at(file.path):
            file = LogFile(files[0])
            self._start_over(file)
        later = files[files.index(file.path) + 1 :]
        limit -= file.read(self._lines, limit)
        while later and not file.unread:  # a file has ended when the next one exists
            ended, file = file, LogFile(later.pop(0))
            self._file, self._queries.is_whole = file, True
            if ended.broken:
                self._note(ended.broken)
            elif self._lines.inside:
                self._note(f"{one_line(ended.path.name)} {CUT_LINE}")
            self._lines.forget()
            ended.close()
            limit -= file.read(self._lines, limit)
        return file.unread + sum(map(_size, later))

    def _note(self, trouble: str) -> None:
        if len(self._notes) <= _MAX_NOTES:
            self._notes.append(trouble)

    def _take(self, line: bytes) -> None:
        try:
            match event := decode_event(line):
                case ApplicationStart():
                    self._started = event
                case ApplicationEnd():
                    self._alive = False
                case EnvironmentUpdate():
                    self._queries.policy = event.settings.get(WATERMARK_POLICY, "min")
                    self._queries.advancement = event.settings.get(ADVANCEMENT)
                case _:
                    self._queries.apply(event)
                    self._on_event(event)
        except UnreadableError as error:
            self._note(f"{UNREADABLE_EVENT}: {error}")


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
    if not (head.startswith(zstd.MAGIC) or _PLAIN_START.startswith(head)):
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
        return is_log_file(path)
    return not is_checkpoint(path) and bool(EVENT_LOG_NAME.fullmatch(path.name) or rolled(path) or _logs_in(path))


def is_log_file(path: Path) -> bool:
    """Whether a file is an event log: by its first bytes, a compressed one by its name."""
    if PurePath(path.name.removesuffix(IN_PROGRESS)).suffix in CODECS and EVENT_LOG_NAME.fullmatch(path.name):
        return True
    try:
        return read_head(path, len(_PLAIN_START)) == _PLAIN_START
    except UnreadableError:
        return False


def _logs_in(directory: Path) -> list[Path]:
    """The logs in a `spark.eventLog.dir`, the newest last."""
    logs = [directory / name for name in names(directory) if EVENT_LOG_NAME.fullmatch(name)]
    return sorted(logs, key=lambda path: written_ms(path) or 0)


def _files_of(path: Path) -> list[Path]:
    """The files of a rolling log, or a single log under its present name: with its end it loses `.inprogress`."""
    if path.is_dir():
        files = rolled(path)
        if not files:
            raise VanishedError(f"{one_line(path.name)} {NO_EVENTS}")
        return files
    finished = path.with_name(path.name.removesuffix(IN_PROGRESS))
    other = finished if finished != path else path.with_name(path.name + IN_PROGRESS)
    return [other if not path.exists() and other.exists() else path]


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
