"""Applications of a Spark History Server or driver, over HTTP, and the event log that a History Server sends.

`GET /api/v1/applications/ID[/ATTEMPT]/logs` is a zip of the log's files as they are now. It always has the whole log,
so it is fetched only when the log may have grown, and added to a private copy that is read as any other log is.
"""

import os
import re
import struct
import tempfile
import time
import zlib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import IO
from urllib.parse import quote, unquote
from zipfile import BadZipFile, ZipFile, ZipInfo

from msgspec import Struct

from ...system import clock
from ...system.errors import UsageError, enumerated, one_line
from ...system.files import PrivateDirectory
from ...system.rest import Rest, RestError, Service
from ..target import NotReadyError
from .event_log import CODECS, IN_PROGRESS
from .files import Int64, RemoteError
from .reports import RemoteFiles

LOG_LIMIT = 512 * 1024 * 1024
"""Longest zip (bytes) of an event log."""
UNPACKED_LIMIT = 2 * 1024 * 1024 * 1024
"""Longest event log (bytes, as its files are)."""
LOG_S = 120.0
"""Longest time for a zip."""
RENAMED_S = 15.0
"""How long a History Server may answer 500 for a log whose name has changed: until it looks again, by default 10 s."""
MIN_INTERVAL_S, MAX_INTERVAL_S = 2.0, 60.0
MAX_AGE_S = 10.0
"""A log of a running application is fetched again after this time, also if the server does not report that it grew."""
_INTERVAL_RATIO = 10.0
"""A fetch takes at most this fraction of the time."""
METRICS, METRICS_TYPE = "/metrics/json/", "text/json"
"""Where a driver has its metrics, and of what type they are; a History Server has none."""
_STARTS = "Spark is starting up"
"""What a driver says at every address until it is ready."""
_DIRECTORY_LIMIT = 8 * 1024 * 1024
"""Longest list of files (bytes) in a zip."""
_PIECE = 1 << 20
_ENTRY = re.compile(r"(?:(eventlog_v2_[^/\\]+)/)?([^/\\]+)")
_ROLLED = re.compile(r"events_([0-9]{1,9})_.+")
_END = struct.Struct("<4s6xHI")

SPARK_HTTP = Service(
    "Spark's REST API",
    "the address of a History Server or driver; give spark+http://HOST:18080/APP or spark+http://HOST:4040",
    "WMTOP_SPARK_TOKEN",
    "WMTOP_SPARK_LOGIN",
    lambda body: one_line(body.decode(errors="replace"), 120) if body[:1] not in (b"<", b"{", b"") else None,
)


class Attempt(Struct, rename="camel", frozen=True):
    """One run of an application's driver (times epoch ms)."""

    attempt_id: str | None = None
    completed: bool = False
    start_time_epoch: Int64 = 0
    last_updated_epoch: Int64 = 0
    log_source_name: str | None = None
    """The name of its log; a driver reports none."""


class Listed(Struct, frozen=True):
    """An application as it is listed, its newest attempt first."""

    id: str
    name: str = ""
    attempts: tuple[Attempt, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether its newest attempt has not ended, or not in a way that its log shows."""
        return bool(self.attempts) and not newest(self.attempts).completed


class Place(Struct, frozen=True):
    """The server's URL, and the application (id or name) and attempt there that are wanted."""

    url: str
    application: str | None = None
    attempt: str | None = None


def place_of(address: str) -> Place:
    """The place of `spark+http://HOST:PORT[/PREFIX…][/APP[/ATTEMPT]]`; a path that ends in `/` is a proxy's prefix, and
    so is what is before `/history/` (a link copied from a History Server).
    """
    base, separator, rest = address.removeprefix("spark+").partition("/history/")
    if separator:
        application, _, after = rest.partition("/")
        attempt = after.partition("/")[0]
        return Place(base, unquote(application) or None, attempt if attempt.isascii() and attempt.isdigit() else None)
    scheme, _, rest = base.partition("://")
    host, *parts = rest.split("/")
    if not any(parts) or parts[-1] == "":
        return Place(base.rstrip("/"))
    attempt = parts.pop() if len(parts) > 1 and parts[-1].isascii() and parts[-1].isdigit() else None
    application = unquote(parts.pop())
    return Place("/".join((f"{scheme}://{host}", *parts)), application, attempt)


def applications_of(rest: Rest) -> list[Listed]:
    """All applications of the server, the last started first. RestError, NotReadyError."""
    try:
        listed = rest.get("/api/v1/applications", list[Listed])
    except RestError as error:
        if error.status == 503 or error.is_slow or _STARTS in str(error):  # its first answer takes long
            raise NotReadyError(str(error)) from None
        raise
    return sorted(listed, key=lambda one: -max((each.start_time_epoch for each in one.attempts), default=0))


def is_driver(rest: Rest, listed: Sequence[Listed]) -> bool:
    """Whether the server is a driver, which has one application and no logs. RestError."""
    if len(listed) != 1 or any(attempt.log_source_name or attempt.completed for attempt in listed[0].attempts):
        return False
    try:  # older History Servers do not name the log either; they have no metrics
        rest.read(METRICS, METRICS_TYPE)
    except RestError as error:
        if error.status is None:
            raise
        return False
    return True


def chosen(listed: Sequence[Listed], place: Place) -> Listed:
    """The wanted application; UsageError with the list if that is not clear."""
    wanted, base = place.application, place.url
    running = [one for one in listed if one.runs]
    if wanted is None:
        if len(running) == 1 or (not running and len(listed) == 1):
            return (running or list(listed))[0]
        if not listed:
            raise NotReadyError(f"{base} lists no application; a new one is listed after some seconds")
        which = f"{len(running)} applications have not ended" if running else "all applications have ended"
        raise UsageError(f"{which} on {base}; name one: {_words_of(running or listed)}", code="which_application")
    named = [one for one in listed if one.id == wanted] or [one for one in listed if one.name == wanted]
    meant = [one for one in named if one.runs] or named[:1]
    if len(meant) > 1:
        raise UsageError(f"{len(meant)} applications named {one_line(wanted, 60)} on {base} have not ended; "
                         f"give an id: {_words_of(meant)}", code="which_application")  # fmt: skip
    if not meant:
        names = {name for one in listed for name in (one.id, one.name)}
        near = get_close_matches(wanted, sorted(names), 1)
        hint = f"; did you mean {one_line(near[0], 80)}?" if near else f"; there are: {_words_of(listed)}"
        raise UsageError(f"no application {one_line(wanted, 60)} on {base}{hint}", code="no_application")
    return meant[0]


def newest(attempts: Sequence[Attempt]) -> Attempt:
    """The attempt that started last."""
    return max(attempts, key=lambda attempt: attempt.start_time_epoch)


def _words_of(listed: Sequence[Listed]) -> str:
    words = [f"{one_line(one.id, 80)} ({one_line(one.name, 60)}, {'not ' * one.runs}ended)" for one in listed]
    return enumerated(words)


class LogOverHttp(RemoteFiles):
    """A private copy of the event log of an application; of its newest attempt unless one is given."""

    def __init__(self, rest: Rest, application: str, attempt: str | None) -> None:
        self.uri = f"spark+{rest.base}/{application}" + (f"/{attempt}" if attempt else "")
        self._rest = rest
        self._path = f"/api/v1/applications/{quote(application, safe='')}"
        self._attempt = attempt
        self._directory = PrivateDirectory("wmtop-copy-")
        self.local = self._directory.path / "eventlog_v2_log"
        self.local.mkdir()
        self._fetched: Attempt | None = None
        self._fetched_s = float("-inf")
        self._renamed_s: float | None = None
        self.every_s = MIN_INTERVAL_S

    def refresh(self) -> None:
        """Fetch the log if it may have grown; RemoteError if that fails: the copy stays as it was."""
        try:
            attempt = self._present()
            age_s, is_known = time.monotonic() - self._fetched_s, attempt == self._fetched
            if not is_known or (not attempt.completed and age_s >= max(MAX_AGE_S, self.every_s)):
                self._fetch(attempt)
        except RestError as error:
            raise RemoteError(str(error)) from None
        except OSError as error:
            raise RemoteError(f"cannot copy the event log to {self.local}: {error.strerror or error}") from None

    def first(self) -> None:
        """The first fetch. UsageError."""
        try:
            self.refresh()
            if self._fetched is None:
                raise NotReadyError(f"{self._rest.base} cannot send this log now: HTTP 500")
        except BaseException as error:
            self.close()
            if isinstance(error, RemoteError):
                raise UsageError(str(error)) from None
            raise

    def close(self) -> None:
        """Remove the copy, close the connections."""
        self._directory.remove()
        self._rest.close()

    def _present(self) -> Attempt:
        attempts = self._rest.get(self._path, Listed).attempts
        wanted = [one for one in attempts if self._attempt in (None, one.attempt_id)]
        if not wanted:
            known = enumerated([one_line(one.attempt_id or "none", 20) for one in attempts])
            raise RestError(f"{self.uri}: no such attempt; there are: {known}")
        return newest(wanted)

    def _fetch(self, attempt: Attempt) -> None:
        path = self._path + (f"/{quote(attempt.attempt_id, safe='')}" if attempt.attempt_id else "") + "/logs"
        began_s = time.monotonic()
        with tempfile.TemporaryFile(dir=self._directory.path) as file:
            try:
                self._rest.save(path, "application/octet-stream", file, LOG_LIMIT, LOG_S)
            except RestError as error:
                if error.status != 500:
                    raise
                self._renamed_s = began_s if self._renamed_s is None else self._renamed_s
                if began_s - self._renamed_s > RENAMED_S:
                    raise
                return
            self._renamed_s, sent_ms = None, clock.now_ms()
            try:
                _unpack(file, self.local, attempt.last_updated_epoch)
            except (BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
                raise RestError(f"{self._rest.base}{path} sends no usable zip: {one_line(str(error))}") from None
        self._fetched, self._fetched_s, self.as_of_ms = attempt, time.monotonic(), sent_ms
        took_s = self._fetched_s - began_s
        self.every_s = min(max(_INTERVAL_RATIO * took_s, MIN_INTERVAL_S), MAX_INTERVAL_S)


def _unpack(file: IO[bytes], directory: Path, written_ms: int) -> None:
    """Make the files in `directory` those of the log in the zip, under names of ours; a file that grew gets its new
    bytes only, so that its reader continues. BadZipFile for anything that is not one event log.
    """
    _check_size_of_list(file)
    with ZipFile(file) as archive:
        entries = _files_in(archive)
        for path in directory.iterdir():
            if path.name not in entries:
                path.unlink()
        for name, entry in entries.items():
            path = directory / name
            have = path.stat().st_size if path.exists() else 0
            if entry.file_size < have:  # it is another file now
                path.unlink()
                have = 0
            with archive.open(entry) as content, path.open("ab") as out:
                while have > 0 and (known := content.read(min(have, _PIECE))):
                    have -= len(known)
                while piece := content.read(_PIECE):
                    out.write(piece)
            os.utime(path, ns=(written_ms * 1_000_000, written_ms * 1_000_000))


def _check_size_of_list(file: IO[bytes]) -> None:
    """BadZipFile if the zip's list of files is too long to be read."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 42))
    tail = file.read()
    if size < 22 or tail[-22:-18] != b"PK\5\6":
        raise BadZipFile("it is cut short, or not a zip")
    _, entries, length = _END.unpack_from(tail, len(tail) - 22)
    if tail.startswith(b"PK\6\7") or length > min(_DIRECTORY_LIMIT, size):
        raise BadZipFile(f"it lists more than {_DIRECTORY_LIMIT >> 20} MB of files")
    if not entries:
        raise BadZipFile("it is empty")


def _files_in(archive: ZipFile) -> dict[str, ZipInfo]:
    """The files of the only log in the zip, by names of ours."""
    logs: dict[str, dict[str, ZipInfo]] = {}
    for entry in archive.infolist():
        found = _ENTRY.fullmatch(entry.filename.removesuffix("/"))
        if found is None or found[2] in (".", ".."):
            raise BadZipFile(f"it has an entry that no event log has: {one_line(entry.filename, 80)}")
        folder, name = found[1], found[2].removesuffix(IN_PROGRESS)
        if entry.is_dir() or (folder is not None and name.startswith("appstatus_")):
            continue
        number = _ROLLED.fullmatch(name) if folder is not None else None
        if folder is not None and number is None:
            raise BadZipFile(f"it has an entry that no event log has: {one_line(entry.filename, 80)}")
        compact = ".compact" if name.endswith(".compact") else ""
        codec = PurePath(name.removesuffix(".compact")).suffix
        ours = f"events_{int(number[1]) if number else 1}_log{codec if codec in CODECS else ''}{compact}"
        logs.setdefault(folder or name, {})[ours] = entry
    if len(logs) != 1:
        raise BadZipFile(f"it has {len(logs)} event logs, not one")
    [files] = logs.values()
    if sum(entry.file_size for entry in files.values()) > UNPACKED_LIMIT:
        raise BadZipFile(f"its log has more than {UNPACKED_LIMIT >> 30} GB: this is not read")
    return files
