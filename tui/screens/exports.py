"""The recording that a target's app writes; never over an existing file."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from ...engine.feed.messages import Header
from ...engine.feed.recording_writer import BackgroundWriter, RecordingWriter
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError
from ..words.texts import recorded
from .base_app import file_name, free_file


class Recorder:
    """One recording at a time, written by a thread of its own; `path` is its file while there is one."""

    path: Path | None = None
    _writer: BackgroundWriter | None = None

    def start(self, header: Header, snapshot: Snapshot, directory: Path, now: datetime) -> Path:
        """Start a new file in `directory` with `snapshot`; UsageError or RunError in one line."""
        path = free_file(directory, f"wmtop-{file_name(header.name)}-{now:%Y%m%d-%H%M%S}", ".rec")
        self._writer = BackgroundWriter(RecordingWriter(path, replace(header, history=[])))
        self.path = path
        self.add(snapshot)
        return path

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot if there is a recording, without those of the start; RunError, once, ends it."""
        if self._writer is not None and snapshot.state != "starting":
            try:
                self._writer.append(snapshot)
            except RunError:
                self.path = self._writer = None
                raise

    def take(self) -> Callable[[], str]:
        """End the recording in progress: a new one may start while the caller runs the function returned.

        It writes waiting snapshots and closes the file, which may take a while; a line for the user, or RunError.
        """
        path, writer = self.path, self._writer
        assert writer is not None
        self.path = self._writer = None

        def finish() -> str:
            writer.close()
            skipped = f" ({writer.skipped:,} snapshots skipped: the disk was too slow)" if writer.skipped else ""
            return recorded(path, skipped)

        return finish
