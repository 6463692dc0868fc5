"""The words for events: a line in the list, and the notice of an alert. Pure."""

from datetime import tzinfo
from typing import Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ...engine.snapshot import SettingsChange
from ...engine.text import formatting as f
from ...engine.text.codes import CAUSES
from ...engine.verdict.alerts import EngineBack, EngineLost, Event, LateBurst, LateBurstEnded, VerdictChanged
from .history import DelayChanged, HolderChanged, Noted, SettingChanged
from .notes import note_text
from .verdict import AS_A_WHOLE, INKS, REASONS, WORDS

Severity = Literal["information", "warning", "error"]
_SEVERITIES: dict[str, Severity] = {"bad": "error", "stale": "warning"}
ALERTED = "▲"
AT_THE_START = "at the start"
"""When a setting was changed before the first batch."""
_NAME = 32


class EventWords(Struct, frozen=True):
    """A line of the list: its sign and the event (`ink` is theirs), and the details."""

    sign: str
    what: str
    ink: str
    detail: str = ""
    channel: str | None = None
    """The channel whose page shows more."""


def event_words(event: Event) -> EventWords:
    """An event in words; for a delayed alert, that it still holds."""
    words = _words(event)
    if isinstance(event, VerdictChanged):
        return words
    return replace(words, detail=f"still · {words.detail}" if words.detail else "still") if event.delayed else words


def _words(event: Event) -> EventWords:
    if isinstance(event, VerdictChanged):
        last = "last alert: " if event.delayed else "was "
        was = f"{last}{WORDS[event.before]}" if event.before is not None else ""
        detail = " · ".join(part for part in (_why(event), was) if part)
        return EventWords("●", WORDS[event.verdict], INKS[event.verdict], detail, event.channel)
    if isinstance(event, LateBurst):
        return EventWords("!", "late burst", "bad", f"{_late(event)}; {f.share(event.usual)} before")
    if isinstance(event, LateBurstEnded):
        return EventWords("!", "late burst over", "good", _late(event))
    if isinstance(event, EngineLost):
        return EventWords("×", "engine lost", "bad", _lost(event))
    if isinstance(event, EngineBack):
        return EventWords("×", "engine back", "good", "snapshots come again")
    if isinstance(event, HolderChanged):
        return _takeover(event)
    if isinstance(event, SettingChanged):
        return _setting(event)
    if isinstance(event, DelayChanged):
        return EventWords(
            "=",
            "setting",
            "accent",
            f"watermark delay {f.setting(event.now_delay_ms)}, was {f.setting(event.before_ms)}",
        )
    if isinstance(event, Noted):
        return EventWords("i", "source", "text", note_text(event.note))
    return EventWords(" ", event.code, "text")


def event_time(event: Event, zone: tzinfo | None, near_ms: int | None) -> str:
    """When it was, in processing time where that is known, at most twelve cells; with its date on another day."""
    if isinstance(event, SettingChanged) and event.now_ms is None:
        return AT_THE_START
    at_ms = event.wall_ms if event.now_ms is None else event.now_ms
    return f.near(at_ms, zone, near_ms).partition(".")[0]


def alert_title(name: str) -> str:
    """The title of an alert's notice."""
    return f"wmtop {f.label(name, _NAME)}"


def alert_text(event: Event) -> str:
    """An alert in one line."""
    words = event_words(event)
    return f"{words.what}: {words.detail}" if words.detail else words.what


def alert_severity(event: Event) -> Severity:
    """The severity of the notice."""
    return _SEVERITIES.get(event_words(event).ink, "information")


def _why(event: VerdictChanged) -> str:
    if event.reason in REASONS:
        return REASONS[event.reason]
    if event.channel is None and event.reason == "event_time_ahead":
        return AS_A_WHOLE
    if event.channel is None or event.verdict not in ("slow", "stalled"):
        return ""
    cause = f": {CAUSES[event.cause].short}" if event.cause is not None else ""
    return f"{f.label(event.channel, _NAME)} holds back the watermark{cause}"


def _late(event: LateBurst | LateBurstEnded) -> str:
    if event.share is None:
        return "no records in the last minute"
    return (
        f"{f.share(event.share)} of the last minute's records late ({f.count(event.late)} of {f.count(event.records)})"
    )


def _lost(event: EngineLost) -> str:
    if event.why is not None:
        return f.first_line(event.why)
    return "it stopped" if event.silent_ms is None else f"no snapshot for {f.duration(event.silent_ms)}"


def _takeover(event: HolderChanged) -> EventWords:
    held = f"for {f.duration(event.held_ms)}"
    if event.channel is None:
        return EventWords("◇", "none", "dim", f"no channel holds back the watermark, {held}")
    if event.cause == "behind" and event.lag_ms is not None:  # some channel is always the slowest: no blame
        does = [f"sets the watermark, up to {f.duration(event.lag_ms)} behind the fastest"]
    else:
        does = ["holds back the watermark", *([CAUSES[event.cause].short] if event.cause is not None else [])]
    after = [f"after {f.label(event.before, _NAME)}"] if event.before is not None else []
    return EventWords("◆", f.label(event.channel, _NAME), "holder", " · ".join([*does, held, *after]), event.channel)


def _setting(event: SettingChanged) -> EventWords:
    change = event.change
    by = f"by {f.label(change.who, _NAME)}" if change.who else ""
    who = "from a screen" if change.who == "screen" else by
    return EventWords("=", "setting", "accent", f"{change_words(change)} {who}".strip())


def change_words(change: SettingsChange) -> str:
    """The changed settings: `lateness 45m, idle timeout off`."""
    values = {"lateness": change.lateness_ms, "idle timeout": change.idle_after_ms}
    return ", ".join(f"{name} {f.setting(value)}" for name, value in values.items() if value is not UNSET)
