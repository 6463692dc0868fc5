"""A checkpoint or an event log in a store, copied to a local directory as it grows; there it is read like any other.

Of a checkpoint's state only what open windows need is copied: each partition's snapshot, then its deltas.
"""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from statistics import median

from ...snapshot import WindowsUnknown
from ...system.errors import UsageError, one_line
from .checkpoint import EVENT_LOG_NAME, HISTORY_MS, MAX_HISTORY, MIN_HISTORY, SHUFFLE_PARTITIONS, STATE_PROVIDER
from .checkpoint_files import decode_offsets, decode_operator
from .files import UnreadableError
from .open_windows import NO_WINDOWS, OPERATOR_KINDS, OpenWindows
from .store import Entry, RemoteError, Store, write_copy

MAX_PARTITIONS = 32
"""Partitions of all operators, at most; each costs two requests per batch."""
MAX_BYTES = 64 * 1024 * 1024
"""Bytes of snapshots and deltas fetched at the start, at most."""
KEPT_DELTAS = 20
"""Deltas kept behind the reader's position; a reload fetches a snapshot."""
_FILE = re.compile(r"([0-9]{1,18})\.(snapshot|delta)")


class StateMirror:
    """Copies the state of windowed aggregations in the default state store; other kinds are described only."""

    def __init__(self, store: Store, local: Path) -> None:
        self.left_out: WindowsUnknown | None = None
        """Why it is not copied."""
        self._store = store
        self._local = local / "state"
        self._described = False
        self._partitions: list[str] | None = None
        self._version: int | None = None

    def reload_next(self) -> None:
        """Fetch the last snapshots again at the next refresh."""
        self._version = None

    def refresh(self, committed: int, offsets: bytes) -> None:
        """Fetch the state after the batch `committed`, whose offsets' file is given. RemoteError."""
        version = committed + 1
        if self._version == version or self.left_out is not None:
            return
        if not self._described:
            self._describe()
        partitions = self._partitions if self._partitions is not None else self._choose(offsets)
        if partitions:
            deltas = [f"{partition}/{version}.delta" for partition in partitions]
            if self._version != version - 1 or not self._fetch(deltas):
                self._reload(partitions, version)
            self._drop_old(partitions, version - KEPT_DELTAS)
        self._version = version

    def _describe(self) -> None:
        """Read the kinds of the operators and the layout of their rows."""
        for operator in self._store.entries("state") or ():
            if not operator.name.isdecimal():
                continue
            (self._local / operator.name).mkdir(parents=True, exist_ok=True)
            for directory in (f"{operator.name}/_metadata", f"{operator.name}/0/_metadata"):
                self._copy(directory)
            for store in self._store.entries(f"state/{operator.name}/0") or ():
                if store.is_dir and not store.name.startswith("_"):  # a join's
                    self._copy(f"{operator.name}/0/{store.name}/_metadata")
            self._described = True

    def _copy(self, directory: str) -> None:
        entries = self._store.entries(f"state/{directory}") or ()
        (self._local / directory).mkdir(parents=True, exist_ok=True)
        for entry in entries:
            if entry.is_dir:
                (self._local / directory / entry.name).mkdir(exist_ok=True)
        self._fetch([f"{directory}/{entry.name}" for entry in entries if not entry.is_dir])

    def _choose(self, offsets: bytes) -> list[str]:
        """The partitions to copy, as `operator/partition`; none if none of them is readable."""
        if not self._described:
            return []
        try:
            conf = decode_offsets(offsets).conf
        except UnreadableError:
            return []
        partitions = conf.get(SHUFFLE_PARTITIONS, "")
        if not partitions.isdecimal() or "HDFSBacked" not in conf.get(STATE_PROVIDER, ""):
            self._partitions = []
            return []
        operators = list(self._windowed())
        if len(operators) * int(partitions) > MAX_PARTITIONS:
            self.left_out = WindowsUnknown(
                "remote_state", {"partitions": len(operators) * int(partitions), "limit": MAX_PARTITIONS}
            )
            return []
        self._partitions = [f"{operator}/{number}" for operator in operators for number in range(int(partitions))]
        return self._partitions

    def _windowed(self) -> Iterator[str]:
        for operator in sorted(self._local.iterdir()):
            try:
                name = decode_operator((operator / "_metadata" / "metadata").read_bytes()).operator_info.operator_name
            except (OSError, UnreadableError):
                yield operator.name
                continue
            if OPERATOR_KINDS.get(name, "other") not in NO_WINDOWS:
                yield operator.name

    def _reload(self, partitions: list[str], version: int) -> None:
        """Each partition's newest snapshot up to the version, and the deltas after it."""
        needed: list[str] = []
        size = 0
        for partition in partitions:
            for entry in _since_snapshot(self._store.entries(f"state/{partition}") or (), version):
                needed.append(f"{partition}/{entry.name}")
                size += entry.size
        if size > MAX_BYTES:
            self.left_out = WindowsUnknown("remote_state_size", {"bytes": size, "limit": MAX_BYTES})
            return
        self._fetch(needed)

    def _fetch(self, names: list[str]) -> bool:
        """Fetch files; returns whether all existed."""
        contents = self._store.read_all([f"state/{name}" for name in names])
        for name, content in zip(names, contents, strict=True):
            if content is not None:
                write_copy(self._local / name, content.data, None)
        return None not in contents

    def _drop_old(self, partitions: list[str], before: int) -> None:
        for partition in partitions:
            directory = self._local / partition
            if directory.is_dir():
                for path in directory.iterdir():
                    if (match := _FILE.fullmatch(path.name)) and int(match[1]) < before:
                        path.unlink()


def _since_snapshot(entries: Sequence[Entry], version: int) -> list[Entry]:
    files = [(int(match[1]), match[2], entry) for entry in entries if (match := _FILE.fullmatch(entry.name))]
    snapshot = max((number for number, kind, _ in files if kind == "snapshot" and number <= version), default=0)
    return [
        entry
        for number, kind, entry in files
        if (kind == "snapshot" and number == snapshot) or (kind == "delta" and snapshot < number <= version)
    ]


LIST_EVERY_S = 60.0
"""Seconds between two listings of the logs: only these show a checkpoint that was deleted or started over."""
MIN_INTERVAL_S, MAX_INTERVAL_S = 1.0, 15.0
"""Bounds of the polling interval (s), which is half a batch."""


class CheckpointMirror:
    """The copy at `local` of the checkpoint in `store`; `with_state`: with the state of its windows."""

    def __init__(
        self, store: Store, local: Path, *, with_state: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.local = local
        self.every_s = MIN_INTERVAL_S
        """How long to wait until the next refresh."""
        self._store = store
        self._clock = clock
        self._state = StateMirror(store, local) if with_state else None
        self._listed_s: float | None = None
        self._offsets: int | None = None
        self._commits: int | None = None
        self._begun_ms: dict[int, int] = {}

    @property
    def state_left_out(self) -> WindowsUnknown | None:
        """Why the state is not copied; None: it is, or there is none."""
        return None if self._state is None else self._state.left_out

    def state_read(self, windows: Sequence[OpenWindows]) -> None:
        """Note the result of reading the state: after gaps, it is fetched again from its last snapshots."""
        if self._state is not None and any(
            operator.reason and operator.reason.code == "vanished" for operator in windows
        ):
            self._state.reload_next()

    def refresh(self) -> None:
        """Fetch new files; RemoteError if the store does not answer: the copy stays as it was."""
        if self._listed_s is None or self._clock() - self._listed_s >= LIST_EVERY_S:
            self._list()
            self._listed_s = self._clock()
        self._follow()
        if self._state is not None and self._commits is not None:
            self._state.refresh(self._commits, self._newest_offsets())
        self.every_s = self._pace()

    def _follow(self) -> None:
        """Fetch the commit of the running batch, then the next batches, as far as they exist."""
        while True:
            if self._offsets is not None and self._commits != self._offsets:
                if not self._fetch("commits", self._offsets):
                    return
                self._commits = self._offsets
            following = 0 if self._offsets is None else self._offsets + 1
            if not self._fetch("offsets", following):
                return
            self._offsets = following

    def _list(self) -> None:
        query = self._store.read("metadata")
        offsets, commits = self._numbers("offsets"), self._numbers("commits")
        known = self.local / "metadata"
        begun_again = known.exists() and (query is None or query.data != known.read_bytes())
        if begun_again or self._is_behind(offsets):
            self._forget()
        if query is not None:
            write_copy(known, query.data, None)
        for log in ("offsets", "commits"):
            (self.local / log).mkdir(exist_ok=True)
        self._fetch_missing("offsets", _needed_history(offsets.values()))
        for entry in commits.values():  # of all but the last only name and time are needed
            path = self.local / "commits" / entry.name
            if not path.exists() and int(entry.name) != max(commits):
                write_copy(path, b"", entry.written_ms)
        self._fetch_missing("commits", [commits[max(commits)]] if commits else [])
        self._offsets = max((*offsets, *_known(self._offsets)), default=None)
        self._commits = max((*commits, *_known(self._commits)), default=None)
        self._prune("offsets", offsets)
        self._prune("commits", commits)

    def _is_behind(self, listed: dict[int, Entry]) -> bool:
        """Whether known files are gone; a listing alone does not prove it, since it may lag."""
        known = self._offsets
        return known is not None and max(listed, default=-1) < known and self._store.read(f"offsets/{known}") is None

    def _numbers(self, log: str) -> dict[int, Entry]:
        return {int(entry.name): entry for entry in self._store.entries(log) or () if entry.name.isdecimal()}

    def _fetch_missing(self, log: str, entries: Iterable[Entry]) -> None:
        missing = [entry for entry in entries if not _has_content(self.local / log / entry.name)]
        contents = self._store.read_all([f"{log}/{entry.name}" for entry in missing])
        for entry, content in zip(missing, contents, strict=True):
            if content is not None:
                self._keep(log, int(entry.name), content.data, entry.written_ms)

    def _fetch(self, log: str, number: int) -> bool:
        """Fetch the file of a batch; False: it is not there."""
        content = self._store.read(f"{log}/{number}")
        if content is None:
            return False
        written = content.written_ms
        if written is None and log == "commits":
            written = self._store.written_ms(f"{log}/{number}")
        self._keep(log, number, content.data, written)
        return True

    def _keep(self, log: str, number: int, data: bytes, written_ms: int | None) -> None:
        write_copy(self.local / log / str(number), data, written_ms)
        if log == "offsets" and written_ms is not None:
            self._begun_ms[number] = written_ms

    def _newest_offsets(self) -> bytes:
        try:
            return (self.local / "offsets" / str(self._commits)).read_bytes()
        except OSError:
            return b""

    def _prune(self, log: str, there: dict[int, Entry]) -> None:
        """Delete files that the query has purged."""
        oldest = min(there, default=0)
        for path in (self.local / log).iterdir():
            if path.name.isdecimal() and int(path.name) < oldest:
                path.unlink()
        self._begun_ms = {number: at for number, at in self._begun_ms.items() if number >= oldest}

    def _forget(self) -> None:
        """Forget the copy: another query writes there now, or none."""
        for part in ("offsets", "commits", "state"):
            shutil.rmtree(self.local / part, ignore_errors=True)
        (self.local / "metadata").unlink(missing_ok=True)
        self._offsets = self._commits = None
        self._begun_ms.clear()
        if self._state is not None:
            self._state = StateMirror(self._store, self.local)

    def _pace(self) -> float:
        times = [self._begun_ms[number] for number in sorted(self._begun_ms)[-10:]]
        apart = [after - before for before, after in pairwise(times)]
        return min(max(median(apart) / 2_000, MIN_INTERVAL_S), MAX_INTERVAL_S) if apart else MIN_INTERVAL_S


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _known(number: int | None) -> tuple[int, ...]:
    return () if number is None else (number,)


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


EVENT_LOG_EVERY_S = 5.0


class EventLogMirror:
    """The copy at `local` of the event log that `store` holds: one file, or the directory of a rolling log."""

    state_left_out: WindowsUnknown | None = None
    every_s = EVENT_LOG_EVERY_S
    """How long to wait until the next refresh."""

    def __init__(self, store: Store, local: Path, *, single: bool) -> None:
        self.local = local
        self._store = store
        self._single = single

    def state_read(self, windows: Sequence[OpenWindows]) -> None:
        """An event log has no state."""

    def refresh(self) -> None:
        """Fetch the additions; RemoteError if the store does not answer: the copy stays as it was."""
        if self._single:
            self._fetch("", self.local, None)
            return
        entries = self._store.entries() or ()
        self.local.mkdir(exist_ok=True)
        there = {entry.name for entry in entries}
        for path in self.local.iterdir():
            if path.name not in there:
                path.unlink()
        for entry in sorted(entries):
            if not entry.is_dir:
                self._fetch(entry.name, self.local / entry.name, entry)

    def _fetch(self, name: str, path: Path, entry: Entry | None) -> None:
        have = path.stat().st_size if path.exists() else 0
        if entry is not None and path.exists() and entry.size == have:
            return
        if entry is not None and entry.size < have:  # it is another file now
            path.unlink()
            have = 0
        content = self._store.read(name, have)
        if content is None:
            if entry is None and not path.exists():
                raise RemoteError(f"{self._store.uri} is not there")
            return
        with path.open("ab") as file:
            file.write(content.data)
        written = content.written_ms or (entry.written_ms if entry is not None else None)
        if written is not None:
            os.utime(path, ns=(written * 1_000_000, written * 1_000_000))


Mirror = CheckpointMirror | EventLogMirror
"""A local copy of files in a store."""


class Remote:
    """A checkpoint or an event log in a store. Its copy is removed when it is closed."""

    def __init__(self, uri: str, *, with_state: bool = True) -> None:
        self.store = Store(uri)
        self.uri = self.store.uri
        self._directory = tempfile.TemporaryDirectory(prefix="wmtop-copy-", ignore_cleanup_errors=True)
        try:
            self.mirror = _mirror(self.store, Path(self._directory.name), with_state=with_state)
            self.mirror.refresh()
        except RemoteError as error:
            self.close()
            raise UsageError(str(error)) from None
        except BaseException:
            self.close()
            raise

    @property
    def local(self) -> Path:
        """Where the copy is."""
        return self.mirror.local

    def refresh(self) -> str | None:
        """Fetch new files; returns why that failed, None if it did not."""
        try:
            self.mirror.refresh()
        except RemoteError as error:
            return str(error)
        return None

    def close(self) -> None:
        """Remove the copy."""
        self._directory.cleanup()


def _mirror(store: Store, directory: Path, *, with_state: bool) -> Mirror:
    """The copy for the URI; UsageError if it is neither a checkpoint nor one event log."""
    entries = store.entries()
    local = directory / (store.name or "checkpoint")
    if not entries:
        if store.is_file():
            return EventLogMirror(store, local, single=True)
        raise UsageError(f"there is nothing at {one_line(store.uri)}; check the path")
    names = [entry.name for entry in entries]
    if "offsets" in names or "metadata" in names:
        local.mkdir()
        return CheckpointMirror(store, local, with_state=with_state)
    if any(name.startswith("events_") for name in names):
        local.mkdir()
        return EventLogMirror(store, local, single=False)
    raise UsageError(_neither(store, entries))


def _neither(store: Store, entries: list[Entry]) -> str:
    uri = one_line(store.uri).rstrip("/")
    logs = sorted(
        (entry for entry in entries if EVENT_LOG_NAME.fullmatch(entry.name)), key=lambda entry: entry.written_ms or 0
    )
    if logs:
        return f"{uri} holds {len(logs)} event logs: give one of them, e.g. {uri}/{one_line(logs[-1].name)}"
    below = sorted(entry.name for entry in entries if entry.is_dir)
    likely = get_close_matches("checkpoint", below, 1, 0.5) or below
    hint = f"; did you mean {uri}/{one_line(likely[0])}?" if likely else ""
    return f"{uri} is neither a checkpoint (it has no offsets/) nor an event log{hint}"
