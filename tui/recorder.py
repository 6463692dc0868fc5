"""Writes recordings and pictures into wmtop's start directory."""

import itertools
import re
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from ..engine.core.snapshot import Snapshot
from ..engine.errors import RunError
from ..engine.feed.background import BackgroundWriter
from ..engine.feed.messages import Header
from ..engine.feed.recording import RecordingWriter
from .present.screen_words import recorded


class Recording:
    """A recording in progress: its file, and the thread that writes it."""

    def __init__(self, path: Path, writer: BackgroundWriter) -> None:
        self.path = path
        self._writer = writer

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot, without waiting for the disk; RunError, once, if the recording has failed."""
        self._writer.append(snapshot)

    def finish(self) -> str:
        """Write waiting snapshots and close the file, which may take a while; returns a line for the user, or
        RunError.
        """
        self._writer.close()
        missing = (
            f" ({self._writer.skipped:,} snapshots skipped: the disk was too slow)" if self._writer.skipped else ""
        )
        return recorded(self.path, missing)


class Recorder:
    """One recording at a time; `path` is its file while there is one."""

    def __init__(self) -> None:
        self._recording: Recording | None = None

    @property
    def path(self) -> Path | None:
        """The file of the recording in progress."""
        return None if self._recording is None else self._recording.path

    def start(self, header: Header, snapshot: Snapshot, directory: Path, now: datetime) -> Path:
        """Start a new file in `directory` with `snapshot`; UsageError or RunError in one line."""
        path = _free(directory, f"wmtop-{file_name(header.name)}-{now:%Y%m%d-%H%M%S}")
        self._recording = Recording(path, BackgroundWriter(RecordingWriter(path, replace(header, history=[]))))
        self.add(snapshot)
        return path

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot, if there is a recording; RunError ends it. As in an engine's recording, the start is left
        out.
        """
        if self._recording is not None and snapshot.state != "starting":
            try:
                self._recording.add(snapshot)
            except RunError:
                self._recording = None
                raise

    def take(self) -> Recording:
        """Take the recording in progress, which the caller must finish: a new one may start in the meantime."""
        assert self._recording is not None
        recording, self._recording = self._recording, None
        return recording


def save_new(directory: Path, name: str, suffix: str, text: str) -> Path:
    """Write `text` to the first of `name-1`, `name-2`, … that does not exist yet; OSError with its file name."""
    for number in itertools.count(1):
        path = directory / f"{name}-{number}{suffix}"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            continue
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        return path
    raise AssertionError("there is always a free number")


def file_name(name: str) -> str:
    """A name from outside in the form of a file name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:60] or "screen"


def _free(directory: Path, name: str) -> Path:
    """A file that does not exist yet."""
    names = [f"{name}.rec", *(f"{name}-{number}.rec" for number in range(2, 100))]
    return directory / next((free for free in names if not (directory / free).exists()), names[-1])
