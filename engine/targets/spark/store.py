"""A checkpoint or an event log in an object store or another file system: few requests, errors of one line.

A checkpoint is read where it is, each of its files once. An event log is copied to a local directory as it grows.
"""

import os
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from pyarrow import fs

from ...system.errors import UsageError, one_line
from ...system.files import PrivateDirectory
from ...system.remote_files import file_system, is_missing, without_secrets, words_of
from . import known
from .checkpoint import HISTORY_MS, MAX_HISTORY, MIN_HISTORY
from .event_log import EVENT_LOG_NAME
from .files import AT_ONCE, NOT_THERE, RemoteError, StorePath, VanishedError
from .reports import RemoteFiles

LIST_EVERY_S = 60.0
"""Seconds between two listings of a directory: only these show a checkpoint that was deleted or started over."""
MIN_INTERVAL_S, MAX_INTERVAL_S = 1.0, 15.0
"""Bounds of the polling interval (s), which is half a batch."""
EVENT_LOG_EVERY_S = 5.0


class Entry(NamedTuple):
    """An entry of a directory, and when it was written (epoch ms; None: the store does not report it)."""

    name: str
    is_dir: bool
    size: int
    written_ms: int | None


class Content(NamedTuple):
    """A file and when it was written (epoch ms; None: the store does not report it)."""

    data: bytes
    written_ms: int | None


class Store:
    """Everything below one URI; `requests` and `bytes_read` count the traffic."""

    def __init__(self, uri: str) -> None:
        self.uri = without_secrets(uri)
        self._fs, self._root = file_system(uri)
        self.requests = 0
        self.bytes_read = 0

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self._root.rstrip("/").rpartition("/")[2]

    def entries(self, below: str = "") -> list[Entry] | None:
        """The entries of a directory; None: there is no such directory. RemoteError."""
        with self._asking():
            try:
                infos = self._fs.get_file_info(fs.FileSelector(self._path(below)))
            except Exception as error:
                if isinstance(error, NotADirectoryError) or is_missing(error):
                    return None
                raise
        return [
            Entry(info.base_name, info.type == fs.FileType.Directory, info.size or 0, _ms(info.mtime)) for info in infos
        ]

    def is_file(self) -> bool:
        """Whether the URI itself is a file. RemoteError."""
        with self._asking():
            return self._fs.get_file_info(self._root).type == fs.FileType.File

    def read(self, below: str, start: int = 0) -> Content | None:
        """A file from an offset (bytes) on; None: it does not exist. RemoteError."""
        with self._asking():
            try:
                with self._open(below, start) as file:
                    self.requests += 1
                    data: bytes = file.read()
                    written = _written_ms(file.metadata())
            except FileNotFoundError:
                return None
        self.bytes_read += len(data)
        return Content(data, written)

    def written_ms(self, below: str) -> int | None:
        """When a file was written (epoch ms); None: not known."""
        with self._asking():
            return _ms(self._fs.get_file_info(self._path(below)).mtime)

    @contextmanager
    def _asking(self) -> Generator[None]:
        """Count a request; every error in it becomes a RemoteError."""
        self.requests += 1
        try:
            yield
        except Exception as error:  # noqa: BLE001 - each store raises what its library does
            raise RemoteError(f"{one_line(self.uri)}: {words_of(error)}") from None

    def _open(self, below: str, start: int) -> Any:
        if not start:
            return self._fs.open_input_stream(self._path(below), compression=None)
        file = self._fs.open_input_file(self._path(below))
        file.seek(start)
        return file

    def _path(self, below: str) -> str:
        return f"{self._root}/{below}" if below else self._root


def _ms(when: datetime | None) -> int | None:
    return None if when is None else int(when.timestamp() * 1_000)


def _written_ms(metadata: Any) -> int | None:
    """By the headers of a stream, where the file system has them."""
    header: Any = metadata.get("Last-Modified") if metadata else None
    if not header:
        return None
    try:
        text: str = header.decode()
        return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1_000)
    except ValueError:
        return None


class StoredCheckpoint(RemoteFiles):
    """The checkpoint in `store`; `refresh` looks for new batches."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self.store = store
        self.path = StorePath(self)
        self.every_s = MIN_INTERVAL_S
        self._generation = 0
        """How often another query has begun there."""
        self._clock = clock
        self._listed_s: float | None = None
        self._listings: dict[str, dict[str, int] | None] = {}
        self._logs: dict[str, dict[int, int | None]] = {"offsets": {}, "commits": {}}
        """When the file of each batch was written (epoch ms)."""
        self._query: Content | None = None
        """The file `metadata`, which says which query it is."""
        self._fetched: dict[str, bytes] = {}
        """Files that the next poll reads."""

    @property
    def root(self) -> tuple[str, ...]:
        """The URI of the checkpoint, and how often another query has begun there."""
        return self.store.uri, str(self._generation)

    def refresh(self) -> None:
        """Fetch the commit of the running batch and the next batches, as far as they exist. RemoteError."""
        self._fetched.clear()
        if self._listed_s is None or self._clock() - self._listed_s >= LIST_EVERY_S:
            self._list()
            self._listed_s = self._clock()
        offsets, commits = self._logs["offsets"], self._logs["commits"]
        while True:
            newest = max(offsets, default=-1)
            is_committed = newest in (-1, *commits) or self._fetch("commits", newest)
            if not is_committed or not self._fetch("offsets", newest + 1):
                break
        times = known(*(offsets[number] for number in sorted(offsets)[-10:]))
        apart = [after - before for before, after in pairwise(times)] or [0]
        self.every_s = min(max(median(apart) / 2_000, MIN_INTERVAL_S), MAX_INTERVAL_S)

    def sizes(self, below: str) -> dict[str, int]:
        """The entries of a directory, with their sizes: by its last listing, and all batches that are known."""
        if below in self._logs:
            return dict.fromkeys(map(str, self._logs[below]), 0)
        if below not in self._listings:
            entries = self.store.entries(below)
            self._listings[below] = None if entries is None else {entry.name: entry.size for entry in entries}
        sizes = self._listings[below]
        if sizes is None:
            raise VanishedError(f"{one_line(below or self.store.uri)} {NOT_THERE}")
        return sizes

    def read(self, below: str) -> bytes:
        """The content of a file."""
        data = self._fetched.pop(below, None)
        if data is not None:
            return data
        content = self.store.read(below)
        if content is None:
            self._listings.pop(below.rpartition("/")[0], None)
            raise VanishedError(f"{one_line(below)} {NOT_THERE}")
        return content.data

    def written_ms(self, below: str) -> int | None:
        """When the file of a batch, or `metadata`, was written."""
        log, _, number = below.partition("/")
        return self._logs[log].get(int(number)) if number else self._query and self._query.written_ms

    def _list(self) -> None:
        self._listings.clear()
        query = self.store.read("metadata")
        offsets, commits = self._batches("offsets"), self._batches("commits")
        begun_again = self._query is not None and (query is None or query.data != self._query.data)
        newest = max(self._logs["offsets"], default=-1)
        is_behind = max(offsets, default=-1) < newest
        # A listing alone does not prove that known files are gone: it may lag.
        if begun_again or (is_behind and self.store.read(f"offsets/{newest}") is None):
            self._generation += 1
            self._logs = {"offsets": {}, "commits": {}}
        self._query = query
        new = [entry for entry in _needed_history(offsets.values()) if int(entry.name) not in self._logs["offsets"]]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            contents = list(pool.map(self.store.read, [f"offsets/{entry.name}" for entry in new]))
        self._fetched |= {
            f"offsets/{entry.name}": content.data for entry, content in zip(new, contents, strict=True) if content
        }
        for log, listed in ("offsets", offsets), ("commits", commits):
            purged = min(listed, default=0)
            known = {number: entry.written_ms for number, entry in listed.items()} | self._logs[log]
            self._logs[log] = {number: written for number, written in known.items() if number >= purged}

    def _batches(self, log: str) -> dict[int, Entry]:
        return {int(entry.name): entry for entry in self.store.entries(log) or () if entry.name.isdecimal()}

    def _fetch(self, log: str, number: int) -> bool:
        """Fetch the file of a batch; False: it is not there."""
        content = self.store.read(f"{log}/{number}")
        if content is None:
            return False
        written = content.written_ms
        if written is None and log == "commits":
            written = self.store.written_ms(f"{log}/{number}")
        if not self._logs["commits"]:
            self._listings.clear()  # the first batch creates the state's directories
        self._logs[log][number] = written
        self._fetched[f"{log}/{number}"] = content.data
        return True


def _needed_history(entries: Iterable[Entry]) -> list[Entry]:
    """The batches that a verdict needs, the newest first."""
    newest = sorted(entries, key=lambda entry: -int(entry.name))[:MAX_HISTORY]
    if not newest or newest[0].written_ms is None:
        return newest
    since = newest[0].written_ms - HISTORY_MS
    return [
        entry
        for place, entry in enumerate(newest)
        if place < MIN_HISTORY or (entry.written_ms is not None and entry.written_ms >= since)
    ]


class EventLogCopy(RemoteFiles):
    """A local copy of the event log in `store`: one file, or (without `single`) the directory of a rolling log."""

    every_s = EVENT_LOG_EVERY_S

    def __init__(self, store: Store, *, single: bool) -> None:
        self.uri = store.uri
        self.store = store
        self._directory = PrivateDirectory("wmtop-copy-")
        self.local = self._directory.path / store.name
        self._single = single

    def refresh(self) -> None:
        """Fetch the additions; RemoteError if the store does not answer: the copy stays as it was."""
        if self._single:
            self._fetch("", self.local, None)
            return
        self.local.mkdir(exist_ok=True)
        entries = [entry for entry in self.store.entries() or () if not entry.is_dir]
        for name in {path.name for path in self.local.iterdir()} - {entry.name for entry in entries}:
            (self.local / name).unlink()
        for entry in sorted(entries):
            self._fetch(entry.name, self.local / entry.name, entry)

    def close(self) -> None:
        """Remove the copy."""
        self._directory.remove()

    def _fetch(self, name: str, path: Path, entry: Entry | None) -> None:
        have = path.stat().st_size if path.exists() else 0
        if entry is not None and path.exists() and entry.size == have:
            return
        if entry is not None and entry.size < have:  # it is another file now
            path.unlink()
            have = 0
        if (content := self.store.read(name, have)) is None:
            return
        with path.open("ab") as file:
            file.write(content.data)
        written = content.written_ms or (entry and entry.written_ms)
        if written is not None:
            os.utime(path, ns=(written * 1_000_000, written * 1_000_000))


def open_remote(uri: str) -> StoredCheckpoint | EventLogCopy:
    """What is at a URI, read for the first time; UsageError if it is neither a checkpoint nor one event log."""
    try:
        store = Store(uri)
        entries = store.entries()
        if entries and {"offsets", "metadata"} & {entry.name for entry in entries}:
            remote = StoredCheckpoint(store)
        else:
            is_rolling = any(entry.name.startswith("events_") for entry in entries or ())
            if not is_rolling and (entries or not store.is_file()):
                raise UsageError(_neither(store, entries or []))
            remote = EventLogCopy(store, single=not is_rolling)
        try:
            remote.refresh()
        except BaseException:
            remote.close()
            raise
    except RemoteError as error:
        raise UsageError(str(error)) from None
    return remote


def _neither(store: Store, entries: list[Entry]) -> str:
    uri = one_line(store.uri).rstrip("/")
    if not entries:
        return f"there is nothing at {one_line(store.uri)}; check the path"
    logs = sorted(
        (entry for entry in entries if EVENT_LOG_NAME.fullmatch(entry.name)), key=lambda entry: entry.written_ms or 0
    )
    if logs:
        return f"{uri} holds {len(logs)} event logs: give one of them, e.g. {uri}/{one_line(logs[-1].name)}"
    below = sorted(entry.name for entry in entries if entry.is_dir)
    likely = get_close_matches("checkpoint", below, 1, 0.5) or below
    hint = f"; did you mean {uri}/{one_line(likely[0])}?" if likely else ""
    return f"{uri} is neither a checkpoint (it has no offsets/) nor an event log{hint}"
