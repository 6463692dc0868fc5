"""The state of what is shown, in one word with a line on it: live, stale, failed, paused, a replay. Pure."""

from msgspec import Struct

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from .kinds import presenter_of
from .notes import note_text
from .progress import Playback
from .verdict import STALE_AFTER_MS

_NOTED_MS = 5 * f.MINUTE
"""How long (ms) a note stays on the screen."""


class Condition(Struct, frozen=True):
    """The word for the state, its style, and a line on it."""

    word: str
    style: str
    note: str | None = None


class Lost(Struct, frozen=True):
    """No more snapshots will come; `reason` is why, None: the engine stopped normally."""

    reason: str | None = None

    @property
    def text(self) -> str:
        """The reason as a line."""
        return self.reason or "The engine has stopped; this is its last snapshot"


def condition(snapshot: Snapshot, *, frozen: bool, silent_s: float, lost: Lost | None) -> Condition:
    """The state, `silent_s` after the last snapshot; `lost`: no more will come."""
    if snapshot.state == "failed":
        return Condition("FAILED", "bad", f.first_line(snapshot.error or "The engine failed"))
    if lost is not None and not snapshot.ended:
        return Condition("STOPPED" if lost.reason is None else "FAILED", "bad", lost.text)
    if frozen:
        return Condition("FROZEN", "stale")
    if snapshot.ended or snapshot.state == "ended":
        return Condition("ENDED", "dim", None if snapshot.target.notes_by_time else recent_note(snapshot))
    if snapshot.state == "paused":
        return Condition("PAUSED", "stale")
    if silent_s * 1_000 > STALE_AFTER_MS:
        return Condition(f"STALE {f.duration(int(silent_s) * 1_000)}", "stale")
    if (state_override := presenter_of(snapshot).state_override()) is not None:
        word, note = state_override
        return Condition(word, "stale", note)
    note = recent_note(snapshot)
    return {
        "starting": Condition("STARTING", "stale"),
        "stale": Condition("STALE", "stale", note),
        "partial": Condition("PARTIAL", "stale", "Some channels are unknown"),
    }.get(snapshot.state, Condition("LIVE", "good", note))


def recent_note(snapshot: Snapshot) -> str | None:
    """The last thing that happened to the source, for some minutes; else the note that matters most."""
    wall_ms = snapshot.wall_ms
    if wall_ms is None:
        return None
    notes = snapshot.notes if snapshot.target.notes_by_time else snapshot.notes[:1]
    recent = [note for note in notes if wall_ms - note.wall_ms < _NOTED_MS]
    return note_text(recent[-1]) if recent else None


def takes_changes(snapshot: Snapshot, *, replay: bool, gone: bool) -> bool:
    """Whether Enter does something with a preview: not in a recording, nor once the own engine is `gone`."""
    return not replay and not (gone and snapshot.target.can_apply)


def replay_condition(snapshot: Snapshot, playback: Playback) -> Condition:
    """The state of a replay, and the state at that moment of the recording."""
    then = condition(snapshot, frozen=False, silent_s=0.0, lost=None)
    word = playback.word if then.word == "LIVE" else f"{playback.word} · {then.word}"
    style = then.style if then.style == "bad" else "good" if playback.playing else "stale"
    return Condition(word, style, " · ".join(note for note in (then.note, playback.note) if note) or None)
