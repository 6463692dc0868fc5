"""A checkpoint in a store, copied to a local directory as its query progresses; there it is read like any other.

Spark never changes a file of a checkpoint once it is written. So each file is fetched once, and a poll requests only
the next possible file: the commit of the running batch, or the offsets of the next one.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median

from ....snapshot import WindowsUnknown
from ..checkpoint.checkpoint import LOOKED_BACK_MS, MAX_LOOKED_BACK, MIN_LOOKED_BACK
from ..checkpoint.open_windows import OpenWindows
from ..files import UnreadableError
from .state import StateMirror
from .store import Entry, Store

LIST_EVERY_S = 60.0
"""Seconds between two listings of the logs: only these show a checkpoint that was deleted or started over."""
MIN_S, MAX_S = 1.0, 15.0
"""Bounds of the polling interval (s), which is half a batch."""
_AT_ONCE = 8


class CheckpointMirror:
    """The copy at `local` of the checkpoint in `store`; `with_state`: with the state of its windows."""

    def __init__(
        self, store: Store, local: Path, *, with_state: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.local = local
        self.every_s = MIN_S
        """How long to wait until the next look."""
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
        if self._state is not None and any(one.reason and one.reason.code == "vanished" for one in windows):
            self._state.reload_next()

    def look(self) -> None:
        """Fetch new files; RemoteError if the store does not answer: the copy stays as it was."""
        if self._listed_s is None or self._clock() - self._listed_s >= LIST_EVERY_S:
            self._list()
            self._listed_s = self._clock()
        self._follow()
        if self._state is not None and self._commits is not None:
            self._state.look(self._commits, self._newest_offsets())
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
            _write(known, query.data, None)
        for log in ("offsets", "commits"):
            (self.local / log).mkdir(exist_ok=True)
        self._fetch_missing("offsets", _looked_back(offsets.values()))
        for entry in commits.values():  # of all but the last only name and time are needed
            path = self.local / "commits" / entry.name
            if not path.exists() and int(entry.name) != max(commits):
                _write(path, b"", entry.written_ms)
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
        return {int(one.name): one for one in self._store.entries(log) or () if one.name.isdecimal()}

    def _fetch_missing(self, log: str, entries: Iterable[Entry]) -> None:
        missing = [one for one in entries if not _has_content(self.local / log / one.name)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            contents = list(pool.map(self._store.read, [f"{log}/{one.name}" for one in missing]))
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
        _write(self.local / log / str(number), data, written_ms)
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
            self._state.forget()

    def _pace(self) -> float:
        times = [self._begun_ms[number] for number in sorted(self._begun_ms)[-10:]]
        apart = [after - before for before, after in pairwise(times)]
        return min(max(median(apart) / 2_000, MIN_S), MAX_S) if apart else MIN_S


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _known(number: int | None) -> tuple[int, ...]:
    return () if number is None else (number,)


def _looked_back(entries: Iterable[Entry]) -> list[Entry]:
    """The batches that a verdict needs, the newest first."""
    newest = sorted(entries, key=lambda one: -int(one.name))[:MAX_LOOKED_BACK]
    if not newest or newest[0].written_ms is None:
        return newest
    since = newest[0].written_ms - LOOKED_BACK_MS
    return [
        one
        for place, one in enumerate(newest)
        if place < MIN_LOOKED_BACK or (one.written_ms is not None and one.written_ms >= since)
    ]


def _write(path: Path, data: bytes, written_ms: int | None) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if written_ms is not None:
            os.utime(path, ns=(written_ms * 1_000_000, written_ms * 1_000_000))
    except OSError as error:
        raise UnreadableError(f"cannot write the local copy {path}: {error.strerror}") from None
