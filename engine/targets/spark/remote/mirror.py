"""The target of a URI, and its local copy."""

import tempfile
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol

from ....snapshot import WindowsUnknown
from ....system.errors import UsageError, one_line
from ..checkpoint.checkpoint import EVENT_LOG_NAME
from ..checkpoint.open_windows import OpenWindows
from .checkpoint import CheckpointMirror
from .event_log import EventLogMirror
from .store import Entry, RemoteError, Store


class Mirror(Protocol):
    """A local copy of files in a store."""

    local: Path
    every_s: float

    @property
    def state_left_out(self) -> WindowsUnknown | None:
        """Why the state of windows is not copied; None: it is, or there is none."""
        ...

    def state_read(self, windows: Sequence[OpenWindows]) -> None:
        """Note the result of reading the state."""
        ...

    def look(self) -> None:
        """Fetch new files; RemoteError if the store does not answer: the copy stays as it was."""
        ...


class Remote:
    """A checkpoint or an event log in a store. Its copy is removed when it is closed."""

    def __init__(self, uri: str, *, with_state: bool = True) -> None:
        self.store = Store(uri)
        self.uri = self.store.uri
        self._directory = tempfile.TemporaryDirectory(prefix="wmtop-copy-", ignore_cleanup_errors=True)
        try:
            self.mirror = _mirror(self.store, Path(self._directory.name), with_state=with_state)
            self.mirror.look()
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

    def look(self) -> str | None:
        """Fetch new files; returns why that failed, None if it did not."""
        try:
            self.mirror.look()
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
        (entry for entry in entries if EVENT_LOG_NAME.fullmatch(entry.name)), key=lambda one: one.written_ms or 0
    )
    if logs:
        return f"{uri} holds {len(logs)} event logs: give one of them, e.g. {uri}/{one_line(logs[-1].name)}"
    below = sorted(entry.name for entry in entries if entry.is_dir)
    likely = get_close_matches("checkpoint", below, 1, 0.5) or below
    hint = f"; did you mean {uri}/{one_line(likely[0])}?" if likely else ""
    return f"{uri} is neither a checkpoint (it has no offsets/) nor an event log{hint}"
