"""Events of a source that its user should know: the last few notes."""

import time
from collections.abc import Callable

from ...core.snapshot import Note, NoteCode

_KEPT = 20


class SourceNotes:
    """A `NoteLog`; notes may come from any thread."""

    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._on_note: Callable[[Note], None] = lambda note: None

    def add(self, code: NoteCode, **args: str | int | None) -> None:
        """Add a note with the present time, and pass it on."""
        note = Note(time.time_ns() // 1_000_000, code, args)
        self._notes = [*self._notes, note][-_KEPT:]
        self._on_note(note)

    def tell(self, on_note: Callable[[Note], None]) -> None:
        """Pass each note to `on_note` from now on."""
        self._on_note = on_note

    def notes(self) -> list[Note]:
        """The last notes, the oldest first."""
        return list(self._notes)
