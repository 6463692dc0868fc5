"""A local copy of an event log in a store; each poll fetches the additions."""

import os
from collections.abc import Sequence
from pathlib import Path

from ..checkpoint.open_windows import OpenWindows
from .store import Entry, RemoteError, Store

EVERY_S = 5.0


class EventLogMirror:
    """The copy at `local` of the event log that `store` holds: one file, or the directory of a rolling log."""

    state_left_out = None
    every_s = EVERY_S
    """How long to wait until the next look."""

    def __init__(self, store: Store, local: Path, *, single: bool) -> None:
        self.local = local
        self._store = store
        self._single = single

    def state_read(self, windows: Sequence[OpenWindows]) -> None:
        """An event log has no state."""

    def look(self) -> None:
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
