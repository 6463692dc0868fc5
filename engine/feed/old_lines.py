"""Lines as they were written up to 0.1: without the name of the target's kind, and with notes in place of a condition.

Nothing else reads notes: what a newer line says of a target's state is typed.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ..snapshot import (
    Condition,
    EngineState,
    LostDirectory,
    Note,
    NoteCode,
    SourceView,
    StreamsApplication,
    TargetKind,
    Uncommitted,
)
from ..snapshot.condition import Pause, Standstill
from ..watermarks.settings import Settings

_Notes = dict[NoteCode, Note]
_NO_GUIDE: tuple[NoteCode, ...] = ("windows_untimed", "ended_early")
_PAUSES: dict[NoteCode, Pause] = {
    "pause_unknown": "unknown",
    "waits_for_trigger": "trigger",
    "no_batch_ended": "first_batch",
}
_STANDSTILLS: dict[NoteCode, Standstill] = {
    "no_new_batch": "no_new_batch",
    "batch_unfinished": "batch_unfinished",
    "query_silent": "silent",
    "application_gone": "gone",
}


class OldLine(Protocol):
    """The parts of a line that show the kind of its target where it has no part of its own."""

    @property
    def streams(self) -> StreamsApplication | UnsetType: ...
    @property
    def origin(self) -> dict[str, str] | None: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def source(self) -> SourceView | None: ...


def untagged_kind(line: OldLine) -> TargetKind:
    """The kind of target of a line that does not name it, and whose target has no part of its own."""
    if line.streams is not UNSET:
        return "kafka_streams"
    if line.origin is None:
        return "own"
    if line.settings.strategy == "spark":
        return "spark"
    return "group" if line.source is not None and line.source.kind == "group" else "topic"


def condition_of_notes(state: EngineState, notes: Sequence[Note]) -> Condition:
    """What the notes of a line in that state say of the target's condition."""
    by_code: _Notes = {note.code: note for note in reversed(notes)}  # of several the first counts
    query = _condition_of_query(by_code)
    has_stopped = state == "stale" and query.standstill is not None
    left_out = by_code.get("partitions_uncommitted")
    return replace(
        query,
        settled=query.continuous or query.pause == "unknown" or has_stopped,
        no_guide=any(code in by_code for code in _NO_GUIDE),
        clock_ahead="clock_ahead" in by_code,
        source_silent=_text(by_code, "broker_silent", "why"),
        directory_lost=_lost_directory(notes),
        unreadable=_text(by_code, "unreadable", "why"),
        jvm_silent_ms=_number(by_code, "jvm_silent", "silent_ms"),
        stopping="engine_stopping" in by_code,
        channels_left_out=_number(by_code, "snapshot_too_long", "channels"),
        one_batch="one_batch" in by_code,
        alive=any(note.args.get("alive") for note in notes),
        no_member="no_member" in by_code,
        uncommitted=None if left_out is None else _uncommitted(left_out),
    )


def _condition_of_query(by_code: _Notes) -> Condition:
    pauses: list[NoteCode] = [code for code in _PAUSES if code in by_code]
    standstills: list[NoteCode] = [code for code in _STANDSTILLS if code in by_code]
    last: NoteCode = pauses[0] if pauses else "application_gone"
    none_new = by_code.get("no_new_batch")
    return Condition(
        idle="query_idle" in by_code,
        continuous="continuous" in by_code,
        pause=_PAUSES[pauses[0]] if pauses else None,
        standstill=_STANDSTILLS[standstills[0]] if standstills else None,
        due=none_new is not None and none_new.args.get("due") is not None,
        silent_ms=_number(by_code, last, "silent_ms"),
    )


def _lost_directory(notes: Sequence[Note]) -> LostDirectory | None:
    lost: LostDirectory | None = None
    for note in notes:
        if note.code == "directory_lost":
            lost = LostDirectory(str(note.args.get("directory")), str(note.args.get("why")), note.wall_ms)
        elif note.code == "directory_back":
            lost = None
    return lost


def _uncommitted(note: Note) -> Uncommitted:
    partitions, first, records = (note.args.get(name) for name in ("partitions", "partition", "records"))
    return Uncommitted(
        partitions if isinstance(partitions, int) else 0,
        "" if first is None else first,
        records if isinstance(records, int) else 0,
    )


def _text(by_code: _Notes, code: NoteCode, name: str) -> str | None:
    note = by_code.get(code)
    return None if note is None else str(note.args.get(name) or "")


def _number(by_code: _Notes, code: NoteCode, name: str) -> int | None:
    note = by_code.get(code)
    value = None if note is None else note.args.get(name)
    return value if isinstance(value, int) else None
