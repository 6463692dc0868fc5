"""Writes a recording on a thread of its own: the caller never waits for the compressor or the disk."""

import threading
from collections import deque
from types import TracebackType
from typing import Self

from ..core.snapshot import Snapshot
from ..errors import RunError
from .recording import RecordingWriter

QUEUED = 64
"""Snapshots that may wait for the disk, at most; further ones are skipped and counted."""
CLOSED_WITHIN_S = 20.0


class BackgroundWriter:
    """Appends snapshots to `writer`, which it owns, in order.

    A failure of the writer is raised once, by the next `append` or by `close`; nothing is written after it.
    """

    def __init__(self, writer: RecordingWriter) -> None:
        self._writer = writer
        self._waiting: deque[Snapshot] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._failure: RunError | None = None
        self._skipped = 0
        self._thread = threading.Thread(target=self._write_all, name="wmtop-recording", daemon=True)
        self._thread.start()

    @property
    def skipped(self) -> int:
        """The number of snapshots missing because the disk was too slow."""
        return self._skipped

    def append(self, snapshot: Snapshot) -> None:
        """Queue one snapshot for writing; RunError if an earlier one failed."""
        self._raise_failure()
        with self._changed:
            if len(self._waiting) < QUEUED:
                self._waiting.append(snapshot)
                self._changed.notify()
            else:
                self._skipped += 1

    def close(self) -> None:
        """Write the queue, then the index; RunError if that fails or takes too long."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(CLOSED_WITHIN_S)
        if self._thread.is_alive():
            raise RunError(
                f"{self._writer.path}: the disk does not answer; the end of the recording may be missing",
                code="disk_hangs",
            )
        self._raise_failure()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _write_all(self) -> None:
        """Write until `close`, or until writing fails."""
        try:
            while (snapshot := self._next()) is not None:
                self._writer.append(snapshot)
            self._writer.close()
        except RunError as error:
            self._failure = error

    def _next(self) -> Snapshot | None:
        """The next snapshot; None when all are written and the recording is being closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            return self._waiting.popleft() if self._waiting else None
