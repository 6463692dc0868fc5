"""The notes of a run: what happened to its source, and that many channels share one."""

import time
from collections.abc import Callable

from ..core.snapshot import Folded, Note
from .sources.base import Source


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
