"""Converts snapshots of stream version 1, whose notes are lines of text, to notes with the code `text`."""

import re
from typing import Any, cast

import msgspec

from ..core.snapshot import Note

_STAMPED = re.compile(r"(\d\d):(\d\d):(\d\d) (.*)", re.DOTALL)
_DAY_MS = 86_400_000


def with_note_records(line: bytes) -> dict[str, Any] | None:
    """A snapshot line of version 1 as plain JSON of version 2; None for any other line."""
    try:
        snapshot: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(snapshot, dict):
        return None
    fields = cast("dict[str, Any]", snapshot)
    notes, wall_ms = fields.get("notes"), fields.get("wall_ms")
    if not isinstance(notes, list) or not isinstance(wall_ms, int):
        return None
    lines = cast("list[Any]", notes)
    if not all(isinstance(text, str) for text in lines):
        return None
    return fields | {"notes": [msgspec.to_builtins(_note(text, wall_ms)) for text in lines]}


def _note(text: str, wall_ms: int) -> Note:
    """A version 1 note; a Kafka source's note begins with its time of day (UTC): the last such time before the
    snapshot.
    """
    found = _STAMPED.fullmatch(text)
    if found is None:
        return Note(wall_ms, "text", {"text": text})
    hours, minutes, seconds = map(int, found.groups()[:3])
    age_ms = (wall_ms - ((hours * 60 + minutes) * 60 + seconds) * 1_000) % _DAY_MS
    return Note(wall_ms - age_ms, "text", {"text": found[4]})
