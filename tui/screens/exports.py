"""Files that a screen writes: tables, pictures, recordings; none is ever overwritten."""

import itertools
import re
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from ...engine.feed.messages import Header
from ...engine.feed.recording_writer import BackgroundWriter, RecordingWriter
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError
from ..words.texts import recorded

_FONT_FACE = re.compile(r"\s*@font-face\s*\{[^}]*\}")


def self_contained(svg: str) -> str:
    """Textual's picture without its web fonts: with a font name and the viewer's monospace font as fallback."""
    return _FONT_FACE.sub("", svg)


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


def free_file(directory: Path, name: str, suffix: str) -> Path:
    """The first of `name`, `name-2`, … that does not exist yet."""
    names = (f"{name}{'' if number == 1 else f'-{number}'}{suffix}" for number in itertools.count(1))
    return next(path for free in names if not (path := directory / free).exists())


class Recording:
    """A recording in progress: its file, and the thread that writes it."""

    def __init__(self, path: Path, writer: BackgroundWriter) -> None:
        self.path = path
        self._writer = writer

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot, without waiting for the disk; RunError, once, if the recording has failed."""
        self._writer.append(snapshot)

    def finish(self) -> str:
        """Write waiting snapshots and close the file, which may take a while; a line for the user, or RunError."""
        self._writer.close()
        skipped = self._writer.skipped
        return recorded(self.path, f" ({skipped:,} snapshots skipped: the disk was too slow)" if skipped else "")


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
        path = free_file(directory, f"wmtop-{file_name(header.name)}-{now:%Y%m%d-%H%M%S}", ".rec")
        self._recording = Recording(path, BackgroundWriter(RecordingWriter(path, replace(header, history=[]))))
        self.add(snapshot)
        return path

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot if there is a recording, without those of the start; RunError ends it."""
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
