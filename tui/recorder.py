"""Records what a screen sees, where wmtop was started."""

import re
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from ..engine.core.snapshot import Snapshot
from ..engine.feed.messages import Header
from ..engine.feed.recording import RecordingWriter


class Recorder:
    """One recording at a time; `path` is its file while there is one."""

    def __init__(self) -> None:
        self._writer: RecordingWriter | None = None
        self.path: Path | None = None

    def start(self, header: Header, snapshot: Snapshot, directory: Path, now: datetime) -> Path:
        """Begin a file of its own in `directory` with `snapshot`; UsageError or RunError in one line."""
        path = _free(directory, f"wmtop-{file_name(header.name)}-{now:%Y%m%d-%H%M%S}")
        self._writer = RecordingWriter(path, replace(header, history=[]))
        self.path = path
        self.add(snapshot)
        return path

    def add(self, snapshot: Snapshot) -> None:
        """Write a snapshot, if there is a recording; RunError ends it. As in an engine's, the start is not in it."""
        if self._writer is not None and snapshot.state != "starting":
            try:
                self._writer.append(snapshot)
            except BaseException:
                self._writer = self.path = None
                raise

    def stop(self) -> None:
        """End the recording, if there is one; RunError where its last part could not be written."""
        writer, self._writer, self.path = self._writer, None, None
        if writer is not None:
            writer.close()


def file_name(name: str) -> str:
    """A name from outside as a part of a file name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:60] or "screen"


def _free(directory: Path, name: str) -> Path:
    """A file that is not there yet."""
    names = [f"{name}.rec", *(f"{name}-{number}.rec" for number in range(2, 100))]
    return directory / next((free for free in names if not (directory / free).exists()), names[-1])
