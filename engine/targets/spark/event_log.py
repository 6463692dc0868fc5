"""A Spark event log: the facts about its application's streaming queries, during and after the run."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from ...system.errors import UsageError, one_line
from .checkpoint import EVENT_LOG_NAME, is_checkpoint, is_event_log
from .event_log_files import EventLines, LogFile, finished_or_not, is_zstd, rolled
from .files import UnreadableError, VanishedError, names, read_head
from .queries import WATERMARK_POLICY, Queries
from .query_events import (
    STARTS,
    ApplicationEnd,
    ApplicationEvent,
    ApplicationStart,
    EnvironmentUpdate,
    QueryEvent,
    decode_event,
)
from .query_runs import QueryRun

NO_EVENTS = "holds no events yet"
CUT_LINE = "ends in the middle of a line"
UNREADABLE_EVENT = "an event could not be read"

READ_AT_ONCE = 8 * 1024 * 1024
"""Bytes of a log that are read before the facts are used."""
_PLAIN_START = b'{"Event":"'


class EventLogFacts(Struct, frozen=True, kw_only=True):
    """The facts in the log so far (times ms)."""

    app: str | None = None
    """The application's name."""
    started_ms: int | None = None
    ended_ms: int | None = None
    """When the application ended normally; None: it runs, or it died."""
    modified_ms: int | None = None
    """When the log was last written to."""
    queries: tuple[QueryRun, ...] = ()
    """The runs of its streaming queries, the last started last."""
    unread: int = 0
    """Bytes that `poll` left for the next time."""
    trouble: str | None = None
    """One line on what could not be read."""


class EventLogTap:
    """Follows one application's log; every poll reads the additions. `on_event` gets each event once it is applied."""

    def __init__(self, path: Path, on_event: Callable[[QueryEvent], None] | None = None) -> None:
        self.path = path
        self._resolved: Path | None = None
        self._on_event = on_event
        self._log = _Log(on_event)
        self._file: LogFile | None = None
        self._facts = EventLogFacts()

    def poll(self, limit: int = sys.maxsize) -> EventLogFacts:
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
        trouble = _join([*troubles, *self._log.troubles])
        if read or unread != self._facts.unread or trouble != self._facts.trouble:
            self._facts = self._log.facts(self._file.modified_ms if self._file else None, unread, trouble)
        return self._facts

    def poll_all(self, step: Callable[[int], object] = lambda left: None) -> EventLogFacts:
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
        self._ended_ms: int | None = None

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

    def facts(self, modified_ms: int | None, unread: int, trouble: str | None) -> EventLogFacts:
        started = self._started
        return EventLogFacts(
            app=one_line(started.name) if started else None,
            started_ms=started.time_ms if started else None,
            ended_ms=self._ended_ms,
            modified_ms=modified_ms,
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
                self._ended_ms = event.time_ms
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


def _join(troubles: list[str]) -> str | None:
    return "; ".join(troubles) or None
