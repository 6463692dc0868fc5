"""What a directory has that has not been read: files that have come to rest, and what keeps the others from it.

A file is not moved into place whole by everyone: some create it empty, some write it for minutes. So a file is read
once it is not empty and has not changed for `REST_S`, and what happens to it afterwards is noted, file by file.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from ...snapshot import LostDirectory
from ...system import clock
from ...system.errors import RunError
from .base import SourceNotes
from .data_files import Format, format_of, is_hidden

REST_S = 1.0
"""How long (s) a file must stay as it is before it is read."""
NAMED_AFTER_S = 10.0
"""How long (s) a file may stay unread before it is named."""
HUNG_AFTER_S = 10.0
"""How long (s) one look at the directory may take before the directory counts as lost."""
MAX_NAMED = 8
"""Files that one look names for the same reason, at most; the last note has the number of the others."""
UNFINISHED = (".tmp", ".part", ".partial", ".inprogress", "._copying_")
"""Endings of names that writers give to files that they have not finished."""
_FOOTER = b"PAR1"


class FileState(Struct, frozen=True, array_like=True):
    """Equal for a file that has not changed: its size (bytes) and when it was modified (ns)."""

    size: int
    modified_ns: int


class _Unread(Struct):
    """A file that has not been read."""

    state: FileState
    since_s: float
    """Since when (monotonic s) it is as it is."""
    first_seen_s: float
    named_as: str | None = None
    """The reason with which it was named last; None: not named."""


class DirectoryWatch:
    """Looks at a directory again and again; the caller reads what `look` returns, and nothing else.

    `any_name`: files of `format` may have any name; else their names must indicate it. `once`: only files of the first
    look count.
    """

    def __init__(
        self,
        directory: Path,
        format: Format,
        notes: SourceNotes,
        *,
        any_name: bool,
        once: bool,
        clock_s: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._directory = directory
        self._format: Format = format
        self._notes = notes
        self._any_name = any_name
        self._clock_s = clock_s
        self._wall_ns = wall_ns
        self._once = once
        self._wanted: set[str] | None = None
        """With `once`: the files of the first look."""
        self._read: dict[str, FileState] = {}
        self._changed: dict[str, FileState] = {}
        """Files that were read and have changed since, as they were named."""
        self._unread: dict[str, _Unread] = {}
        self._identity: tuple[int, int] | None = None
        """Device and inode of the directory."""
        self.lost: LostDirectory | None = None
        """The directory while it cannot be read, or is another one that has nothing."""
        self._lost_since_s: float | None = None
        self._looking_since_s: float | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the directory cannot be looked at, or is another one that has nothing."""
        looking = self._looking_since_s
        return self._lost_since_s is not None or (looking is not None and self._clock_s() - looking > HUNG_AFTER_S)

    @property
    def all_read(self) -> bool:
        """Whether each file with content that was seen has been read."""
        return not any(unread.state.size and self._is_of_format(path) for path, unread in self._unread.items())

    @property
    def ended(self) -> bool:
        """With `once`: whether nothing is left that may still be read."""
        return self._once and self._wanted is not None and not self._wanted

    def is_there(self) -> bool:
        """Whether the directory of the last look is at its place."""
        try:
            status = os.stat(self._directory)
        except OSError:
            return False
        return self._identity in (None, (status.st_dev, status.st_ino))

    def begin(self, read: Iterable[tuple[str, FileState]]) -> None:
        """Set what was read before."""
        self._read = dict(read)

    def name_gone(self, paths: list[str]) -> None:
        """Name files that were deleted between `look` and their reading."""
        self._name(paths, "gone")

    def take(self, files: Iterable[tuple[str, FileState]]) -> None:
        """Note that these files are read from now on."""
        for path, state in files:
            self._read[path] = state
            self._unread.pop(path, None)
            if self._wanted is not None:
                self._wanted.discard(path)

    def look(self) -> list[tuple[str, FileState]]:
        """The files that have come to rest (path below the directory, state), the oldest first.

        RunError with `once` if the directory is lost: what it had cannot be read any more.
        """
        self._looking_since_s = self._clock_s()
        try:
            found = self._found()
        finally:
            self._looking_since_s = None
        if found is None:
            return []
        if self._once and self._wanted is None:
            self._wanted = set(found) - self._read.keys()
        self._note_changed(found)
        self._forget_gone(found)
        self._note_moved(found)
        ready = [(path, state) for path, state in found.items() if self._is_ready(path, state)]
        self._name_unread()
        return sorted(ready, key=lambda file: (file[1].modified_ns, file[0]))

    def _found(self) -> dict[str, FileState] | None:
        """The files now; None: the directory is lost."""
        try:
            status = os.stat(self._directory)
            found = dict(_files_below(str(self._directory), "", set()))
        except OSError as error:
            self._lose(error.strerror or type(error).__name__)
            return None
        identity = status.st_dev, status.st_ino
        was_replaced = self._identity not in (None, identity)
        if was_replaced and not found and (self._read or self._unread):
            self._lose("it was replaced by an empty directory")
            return None
        if self._lost_since_s is not None:
            lost_ms = int((self._clock_s() - self._lost_since_s) * 1_000)
            self._lost_since_s = None
            self.lost = None
            self._notes.add("directory_back", directory=str(self._directory), lost_ms=lost_ms)
        self._identity = identity
        return found

    def _lose(self, why: str) -> None:
        if self._once:
            raise RunError(f"cannot read {self._directory}: {why}; run the same command again when it is back")
        if self._lost_since_s is None:
            self._lost_since_s = self._clock_s()
            self.lost = LostDirectory(str(self._directory), why, clock.now_ms())
            self._notes.add("directory_lost", directory=str(self._directory), why=why)

    def _is_ready(self, path: str, state: FileState) -> bool:
        """Whether the file is to be read now; remembers since when it is as it is."""
        if path in self._read or (self._wanted is not None and path not in self._wanted):
            return False
        now_s = self._clock_s()
        unread = self._unread.get(path)
        if unread is None:
            # One that is older than the time of rest was moved into place.
            is_old = self._wall_ns() - state.modified_ns > REST_S * 1e9
            since_s = now_s - REST_S if is_old else now_s
            unread = self._unread[path] = _Unread(state, since_s, now_s)
        elif unread.state != state:
            unread.state = state
            unread.since_s = now_s
            if unread.named_as == "empty":
                unread.named_as = None
        is_at_rest = _is_at_rest(unread, now_s)
        return bool(is_at_rest and state.size and self._is_of_format(path) and self._is_whole(path))

    def _is_of_format(self, path: str) -> bool:
        return _shown(path) == path and (self._any_name or format_of(os.path.basename(path)) == self._format)

    def _is_whole(self, path: str) -> bool:
        """Whether the file ends as a finished one of its format does."""
        if self._format != "parquet":
            return True
        try:
            with open(self._directory / path, "rb") as file:
                file.seek(-len(_FOOTER), os.SEEK_END)
                return file.read() == _FOOTER
        except FileNotFoundError:
            return False
        except OSError:  # too short, or its reader reports why it cannot be read
            return file_size(self._directory / path) >= len(_FOOTER)

    def _note_changed(self, found: dict[str, FileState]) -> None:
        """Name the files that have changed since they were read."""
        changed = [
            path for path, state in found.items() if state != self._changed.get(path, self._read.get(path, state))
        ]
        for path, more in _named(sorted(changed)):
            before = self._changed.get(path, self._read[path]).size
            self._notes.add("file_changed", file=_shown(path), bytes=before, bytes_now=found[path].size, more=more)
        self._changed |= {path: found[path] for path in changed}

    def _note_moved(self, found: dict[str, FileState]) -> None:
        """Files that were read and have been moved within the directory are not read again, and named."""
        new = [path for path in found if path not in self._read and path not in self._unread]
        if not new or not self._read.keys() - found.keys():
            return
        gone = {(os.path.basename(path), state) for path, state in self._read.items() if path not in found}
        moved = [path for path in new if (os.path.basename(path), found[path]) in gone]
        self._name(sorted(moved), "moved")
        self.take((path, found[path]) for path in moved)

    def _forget_gone(self, found: dict[str, FileState]) -> None:
        """Name the files that were deleted before they were read."""
        gone = [path for path in self._unread if path not in found]
        lost = [path for path in gone if self._unread[path].state.size and self._is_of_format(path)]
        self._name(sorted(lost), "gone")
        for path in gone:
            del self._unread[path]
        if self._wanted is not None:
            self._wanted &= found.keys()

    def _name_unread(self) -> None:
        """Name the files that stay unread, each once for a reason; with `once` those that will not be read."""
        now_s = self._clock_s()
        reasons: dict[str, list[str]] = {}
        for path, unread in self._unread.items():
            why = self._why_unread(path, unread, now_s)
            if why is None or not self._is_naming_due(path, unread, why, now_s):
                continue
            if unread.named_as != why:
                unread.named_as = why
                reasons.setdefault(why, []).append(path)
            if self._wanted is not None and why != "growing":
                self._wanted.discard(path)
        for why, paths in reasons.items():
            self._name(sorted(paths), why)
        if self._wanted is not None:
            self._wanted &= self._unread.keys()

    def _is_naming_due(self, path: str, unread: _Unread, why: str, now_s: float) -> bool:
        """Whether a file has stayed unread for long enough, or with `once` will never be read."""
        if now_s - unread.first_seen_s >= NAMED_AFTER_S:
            return True
        is_wanted = self._once and (self._wanted is None or path in self._wanted)
        return is_wanted and why in ("empty", "other_format") and _is_at_rest(unread, now_s)

    def _why_unread(self, path: str, unread: _Unread, now_s: float) -> str | None:
        """Why a file stays unread; None: it does not."""
        if not self._is_of_format(path):
            return "other_format"
        if not unread.state.size:
            return "empty"
        if not _is_at_rest(unread, now_s):
            return "growing"
        return None if self._is_whole(path) else "unfinished"

    def _name(self, paths: list[str], why: str) -> None:
        for path, more in _named(paths):
            self._notes.add("file_unread", file=_shown(path), why=why, format=self._format, more=more)


def _is_at_rest(unread: _Unread, now_s: float) -> bool:
    return now_s - unread.since_s >= REST_S


def file_size(path: Path) -> int:
    """The size of a file in bytes; 0 if it cannot be looked up."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def modified_ns(path: Path) -> int:
    """When a file was modified (ns); 0 if it cannot be looked up."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _named(paths: list[str]) -> Iterator[tuple[str, int]]:
    """The paths that are named, and at the last of them how many are not."""
    named = paths[:MAX_NAMED]
    for number, path in enumerate(named):
        yield path, len(paths) - len(named) if number == len(named) - 1 else 0


def _shown(path: str) -> str:
    """The path as text: a name may have bytes that are none, and then Spark cannot open it either."""
    return path.encode(errors="backslashreplace").decode()


def _files_below(directory: str, prefix: str, linked: set[tuple[int, int]]) -> Iterator[tuple[str, FileState]]:
    """The files below a directory that are finished by their names, each with its path below the first one.

    `linked`: the directories (device, inode) behind links that were followed, each once.

    OSError if the first directory cannot be read; one below it that is gone meanwhile has nothing.
    """
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        if not prefix:
            raise
        return
    for entry in entries:
        if is_hidden((entry.name,)) or entry.name.lower().endswith(UNFINISHED):
            continue
        try:
            status = entry.stat()
        except FileNotFoundError:  # deleted a moment ago, or a link to nothing
            continue
        if not entry.is_dir():
            yield f"{prefix}{entry.name}", FileState(status.st_size, status.st_mtime_ns)
            continue
        if entry.is_symlink():
            if (status.st_dev, status.st_ino) in linked:
                continue
            linked.add((status.st_dev, status.st_ino))
        yield from _files_below(entry.path, f"{prefix}{entry.name}/", linked)
