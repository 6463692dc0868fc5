"""Why a query failed, what is tried again, and the notes of a run."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from ..snapshot import Folded, Note
from .sources.base import Source
from .sources.capabilities import Retries
from .spark_error import SparkError, reason_of


class QueryFailures:
    """The failures of one query since its last batch, and when it starts again."""

    def __init__(
        self, retries: Retries | None, checkpoint: Path, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._retries = retries
        self._checkpoint = checkpoint
        self._clock_s = clock_s
        self.read_error: BaseException | None = None
        """The error that kept the last batch from being read: its source may say that a retry helps."""
        self._count = 0
        self._retry_at: float | None = None

    def batch_applied(self) -> None:
        """Reset: the next failure counts as the first."""
        self._count = 0

    def is_restart_due(self, error: BaseException) -> bool:
        """Whether the query that ended with `error` starts again now; SparkError if it has failed for good."""
        if self._retry_at is None:
            self._count += 1
            why = reason_of(self.read_error or error)
            wait_s = None if self._retries is None else self._retries.retry_after_s(self._count, why)
            if wait_s is None:
                raise SparkError(self._with_advice(why))
            self._retry_at = self._clock_s() + wait_s
        if self._clock_s() < self._retry_at:
            return False
        self._retry_at = self.read_error = None
        return True

    def _with_advice(self, why: str) -> str:
        """Spark's message about a full disk, which names no file, with the directory and the fix."""
        if os.strerror(errno.ENOSPC) not in why:
            return why
        return (
            f"Spark cannot write in {self._checkpoint} or its local directory: {why}; free some space and run "
            "the same command again: with --state-dir it continues after the last saved batch"
        )


class RunNotes:
    """`on_note` gets each note as it comes."""

    def __init__(self, source: Source, max_channels: int, on_note: Callable[[Note], None]) -> None:
        self._journal = source.journal
        self._max_channels = max_channels
        self._on_note = on_note
        self._folded: Folded | None = None
        self._one_batch: Note | None = None
        if self._journal is not None:
            self._journal.tell(on_note)

    def now(self) -> list[Note]:
        """The present notes, the newest last."""
        notes = [] if self._journal is None else self._journal.notes()
        notes = notes if self._one_batch is None else [*notes, self._one_batch]
        # First, so that events of the source are shown before it.
        return notes if self._folded is None else [self._folded_note(self._folded), *notes]

    def see_one_batch(self, kind: str) -> None:
        """Note, once, that the whole stream of a source of that kind was one batch."""
        if self._one_batch is None:
            self._one_batch = Note(time.time_ns() // 1_000_000, "one_batch", {"source": kind})
            self._on_note(self._one_batch)

    def see_folded(self, folded: Folded | None) -> None:
        """Note that channels share one; the first time it is passed on."""
        before, self._folded = self._folded, folded
        if folded is not None and before is None:
            self._on_note(self._folded_note(folded))

    def _folded_note(self, folded: Folded) -> Note:
        """A note with the present time: it is valid for the whole run."""
        args: dict[str, str | int | None] = {
            "into": folded.into,
            "channels": folded.channels,
            "at_least": int(folded.at_least),
            "records": folded.records,
            "limit": self._max_channels,
        }
        return Note(time.time_ns() // 1_000_000, "channels_folded", args)
