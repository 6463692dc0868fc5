"""What happened, as events and as holds of the watermark by channels, and the words for it. Pure."""

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import tzinfo
from itertools import pairwise
from math import ceil
from typing import Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ...engine.snapshot import Cause, Note, SettingsChange, Snapshot, VerdictName
from ...engine.text import formatting as f
from ...engine.text.codes import CAUSES
from ...engine.verdict.alerts import AlertRule, EngineBack, EngineLost, Event, LateBurst, LateBurstEnded, VerdictChanged
from ...engine.verdict.history import HistoryPoint, is_overtaken
from .notes import note_text
from .verdict import AS_A_WHOLE, REASONS, blame
from .verdict_words import STYLES, WORDS
from .watermark import of_its_kind

MAX_HOLDS = 500
_MAX_CAUSES = 4


class Hold(Struct, frozen=True):
    """A channel (None: none) held back the watermark from `since_ms` to `until_ms` (processing time, epoch ms)."""

    channel: str | None
    since_ms: int
    until_ms: int
    wall_ms: int
    """When it was first seen (wall clock, epoch ms)."""
    causes: tuple[Cause, ...] = ()
    """The causes in order, at most a few."""
    level_from_ms: int | None = None
    level_to_ms: int | None = None
    lag_ms: int | None = None
    """The greatest distance of the watermark behind the fastest channel."""

    @property
    def length_ms(self) -> int:
        """How long it held (processing time)."""
        return self.until_ms - self.since_ms

    @property
    def key(self) -> str:
        """The key of the hold."""
        return f"{self.since_ms} {self.channel or ''}"


class Total(Struct, frozen=True):
    """The total time (ms) for which a channel held back the watermark, and how often."""

    channel: str
    held_ms: int
    times: int


class Holders:
    """The holds of a session, the oldest first, at most `MAX_HOLDS`; another engine begins another session."""

    def __init__(self) -> None:
        self._holds: list[Hold] = []
        self._last: HistoryPoint | None = None

    def add(self, point: HistoryPoint) -> None:
        """The next point of history."""
        last, self._last = self._last, point
        if last is not None and (point.now_ms < last.now_ms or point.wall_ms < last.wall_ms):
            self._holds.clear()
        before = self._holds[-1] if self._holds else None
        since = point.now_ms if point.held_since_ms is None else min(point.held_since_ms, point.now_ms)
        if before is not None:
            is_same = before.channel == point.holder
            if is_same and (point.held_since_ms is None or point.held_since_ms <= before.until_ms):
                self._holds[-1] = _longer(before, point)
                return
            since = max(since, before.until_ms)
            # At a takeover the watermark jumps because the old holder let go: the jump ends the old holder's hold.
            level = before.level_to_ms if point.watermark_ms is None else point.watermark_ms
            self._holds[-1] = replace(before, until_ms=before.until_ms if is_same else since, level_to_ms=level)
        new = Hold(point.holder, since, point.now_ms, point.wall_ms, level_from_ms=point.watermark_ms)
        self._holds = [*self._holds[-MAX_HOLDS + 1 :], _longer(new, point)]

    def until(self, wall_ms: int | None) -> Sequence[Hold]:
        """The holds up to a moment of the wall clock (epoch ms), for a frozen picture."""
        return [hold for hold in self._holds if wall_ms is None or hold.wall_ms <= wall_ms]


def _longer(hold: Hold, point: HistoryPoint) -> Hold:
    causes = hold.causes
    if point.cause is not None and causes[-1:] != (point.cause,):
        causes = (*causes, point.cause)[-_MAX_CAUSES:]
    lags = [lag for lag in (hold.lag_ms, point.behind_fastest_ms) if lag is not None]
    return replace(
        hold,
        until_ms=max(point.now_ms, hold.until_ms),
        causes=causes,
        level_from_ms=point.watermark_ms if hold.level_from_ms is None else hold.level_from_ms,
        level_to_ms=hold.level_to_ms if point.watermark_ms is None else point.watermark_ms,
        lag_ms=max(lags, default=None),
    )


def totals(holds: Iterable[Hold]) -> list[Total]:
    """How long each channel held, the longest first."""
    found: dict[str, Total] = {}
    for hold in holds:
        if hold.channel is not None:
            before = found.get(hold.channel, Total(hold.channel, 0, 0))
            found[hold.channel] = Total(hold.channel, before.held_ms + hold.length_ms, before.times + 1)
    return sorted(found.values(), key=lambda total: (-total.held_ms, total.channel))


def shares(holds: Sequence[Hold], first_ms: int, last_ms: int, cells: int) -> list[dict[str, float]]:
    """For each of `cells` stretches between two times (processing time, epoch ms), the share that each channel held."""
    out: list[dict[str, float]] = [{} for _ in range(cells)]
    width = max(last_ms - first_ms, 1) / max(cells, 1)
    for hold in holds:
        low, high = max(hold.since_ms, first_ms), min(hold.until_ms, last_ms)
        if hold.channel is None or low > high or not cells:
            continue
        start = min(int((low - first_ms) / width), cells - 1)
        end = min(max(ceil((high - first_ms) / width) - 1, start), cells - 1)
        for cell in range(start, end + 1):
            left = first_ms + cell * width
            part = (min(high, left + width) - max(low, left)) / width
            out[cell][hold.channel] = out[cell].get(hold.channel, 0.0) + max(part, 0.001)
    return out


MAX_EVENTS = 1_000


class HolderChanged(Event, frozen=True, kw_only=True, tag="holder_changed"):
    """`channel` (None: none) began to hold back the watermark and did so for `held_ms` (processing time) or longer."""

    channel: str | None
    before: str | None
    cause: Cause | None
    held_ms: int
    lag_ms: int | None = None
    """The greatest distance (ms) of the watermark behind the fastest channel in that time."""


class SettingChanged(Event, frozen=True, kw_only=True, tag="setting_changed"):
    """A setting was changed while the run continued."""

    change: SettingsChange


class DelayChanged(Event, frozen=True, kw_only=True, tag="delay_changed"):
    """An attached query came back with another watermark delay (ms)."""

    before_ms: int
    now_delay_ms: int


class Noted(Event, frozen=True, kw_only=True, tag="noted"):
    """Something happened to the source."""

    note: Note


class EventLog:
    """Collects the events of one run; those before it was opened come from its history."""

    def __init__(self, history: Iterable[HistoryPoint] = ()) -> None:
        self._rule = AlertRule()
        self._holders = Holders()
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self._alerts: list[Event] = []
        self._versions: set[int] = set()
        self._notes: frozenset[tuple[str, ...]] = frozenset()
        self._delay_ms: int | None = None
        self._last: HistoryPoint | None = None
        for point in history:
            self.see(point)
        self._alerts.clear()  # of the time before

    def see(self, point: HistoryPoint) -> None:
        """The next point of history."""
        if is_overtaken(point, self._last):
            return
        last, self._last = self._last, point
        if last is not None and point.wall_ms < last.wall_ms:
            self._events.clear()  # another engine
            self._versions.clear()
        self._holders.add(point)
        self._take(self._rule.see(point))

    def add(self, snapshot: Snapshot) -> None:
        """The events of a snapshot besides those of its point."""
        if snapshot.state == "failed":
            self.lose(snapshot.wall_ms or self._wall_ms, snapshot.error)
        wall_ms = snapshot.wall_ms or self._wall_ms
        for change in snapshot.own.changes:
            if change.version not in self._versions:
                self._versions.add(change.version)
                self._events.append(SettingChanged(wall_ms=change.wall_ms, now_ms=change.now_ms, change=change))
        # Some notes stay as long as their condition. By names, not by numbers: a longer duration is not another event.
        keys = [(n.code, *(str(arg) for arg in n.args.values() if isinstance(arg, str))) for n in snapshot.notes]
        for key, note in zip(keys, snapshot.notes, strict=True):
            if key not in self._notes:
                self._events.append(Noted(wall_ms=note.wall_ms, note=note))
        self._notes = frozenset(keys)
        before, now = self._delay_ms, snapshot.settings.lateness_ms
        if not snapshot.target.logs_changes and now is not None:
            if before is not None and now != before:
                event = DelayChanged(wall_ms=wall_ms, now_ms=snapshot.now_ms, before_ms=before, now_delay_ms=now)
                self._events.append(event)
            self._delay_ms = now

    def lose(self, wall_ms: int, why: str | None = None, *, silent_ms: int | None = None) -> None:
        """Note that the engine is lost; call it again while it is."""
        self._take(self._rule.lose(wall_ms, why, silent_ms=silent_ms))

    def holds(self, wall_ms: int | None) -> Sequence[Hold]:
        """The holds up to a moment of the wall clock (epoch ms), the oldest first; None: all."""
        return self._holders.until(wall_ms)

    def take_alerts(self) -> list[Event]:
        """The alerts since the last call."""
        alerts, self._alerts = self._alerts, []
        return alerts

    def events(self, until_ms: int | None = None, brief_ms: int = 0) -> list[Event]:
        """All events up to a moment of the wall clock (epoch ms), the oldest first.

        A channel that held back the watermark for less than `brief_ms` (processing time) is left out.
        """
        found = [*self._events, *self._takeovers(brief_ms)]
        return sorted((e for e in found if until_ms is None or e.wall_ms <= until_ms), key=moment_of)

    @property
    def _wall_ms(self) -> int:
        return self._last.wall_ms if self._last is not None else 0

    def _take(self, events: Sequence[Event]) -> None:
        self._events.extend(events)
        self._alerts += [event for event in events if event.alert]

    def _takeovers(self, brief_ms: int) -> list[Event]:
        holds = [hold for hold in self._holders.until(None) if hold.length_ms >= brief_ms]
        return [
            HolderChanged(
                wall_ms=hold.wall_ms, now_ms=hold.since_ms, channel=hold.channel, before=before.channel,
                cause=hold.causes[-1] if hold.causes else None, held_ms=hold.length_ms, lag_ms=hold.lag_ms,
            )
            for before, hold in pairwise(holds)
            if hold.channel != before.channel
        ]  # fmt: skip


def moment_of(event: Event) -> tuple[int, int]:
    """The key that puts events in the order of their times: one snapshot may report several moments."""
    return event.wall_ms, event.wall_ms if event.now_ms is None else event.now_ms


def log_of(points: Iterable[HistoryPoint | None], last: Snapshot) -> EventLog:
    """The events of a whole recording: its points, and the changes and notes of its last snapshot."""
    log = EventLog(point for point in points if point is not None)
    log.add(last)
    log.take_alerts()
    return log


def brief_ms(snapshot: Snapshot) -> int:
    """How long (processing time) a channel must hold back the watermark to be an event: a quarter of a stall."""
    return (snapshot.verdict.patience_ms or 0) // 4


Severity = Literal["information", "warning", "error"]
_SEVERITIES: dict[str, Severity] = {"bad": "error", "stale": "warning"}
ALERTED = "▲"
AT_THE_START = "at the start"
"""When a setting was changed before the first batch."""
_NAME = 32
_HOLDS = "holds back the watermark"


class EventWords(Struct, frozen=True):
    """A line of the list: its sign and the event (`style` is theirs), and the details."""

    sign: str
    what: str
    style: str
    detail: str = ""
    channel: str | None = None
    """The channel whose page shows more."""


def event_words(event: Event) -> EventWords:
    """An event in words; for a delayed alert, that it still holds."""
    words = _words(event)
    if isinstance(event, VerdictChanged) or not event.delayed:
        return words
    return replace(words, detail=f"still · {words.detail}" if words.detail else "still")


def _words(event: Event) -> EventWords:
    if isinstance(event, VerdictChanged):
        last = "last alert: " if event.delayed else "was "
        was = f"{last}{WORDS[event.before]}" if event.before is not None else ""
        detail = " · ".join(part for part in (_why(event), was) if part)
        return EventWords("●", WORDS[event.verdict], STYLES[event.verdict], detail, event.channel)
    if isinstance(event, LateBurst):
        return EventWords("!", "late burst", "bad", f"{_late(event)}; {f.share(event.usual)} before")
    if isinstance(event, LateBurstEnded):
        return EventWords("!", "late burst over", "good", _late(event))
    if isinstance(event, EngineLost):
        since = "since then" if event.silent_ms is None else f"for {f.duration(event.silent_ms)}"
        detail = f"no snapshot {since}" if event.why is None else f.first_line(event.why)
        return EventWords("×", "stale" if event.why is None else "failed", "bad", detail)
    if isinstance(event, EngineBack):
        return EventWords("×", "live again", "good", "snapshots come again")
    if isinstance(event, HolderChanged):
        held = f"for {f.duration(event.held_ms)}"
        if event.channel is None:
            return EventWords("◇", "none", "dim", f"no channel holds back the watermark, {held}")
        does = [_HOLDS if event.cause is None else f"holds back: {CAUSES[event.cause].short}"]
        if event.cause == "behind" and event.lag_ms is not None:  # some channel is always the slowest: no blame
            does = [f"sets the watermark, up to {f.duration(event.lag_ms)} behind the fastest"]
        after = [f"after {f.label(event.before, _NAME)}"] if event.before is not None else []
        detail = " · ".join([*does, held, *after])
        return EventWords("◆", f.label(event.channel, _NAME), "holder", detail, event.channel)
    if isinstance(event, SettingChanged):
        who = event.change.who
        by = "from a screen" if who == "screen" else f"by {f.label(who, _NAME)}" if who else ""
        return EventWords("=", "setting", "accent", f"{change_words(event.change)} {by}".strip())
    if isinstance(event, DelayChanged):
        delay = f"watermark delay {f.setting(event.now_delay_ms)}, was {f.setting(event.before_ms)}"
        return EventWords("=", "setting", "accent", delay)
    assert isinstance(event, Noted)
    return EventWords("i", "source", "text", note_text(event.note))


def event_time(event: Event, zone: tzinfo | None, near_ms: int | None) -> str:
    """When it was, in processing time where that is known, at most twelve cells; with its date on another day."""
    if isinstance(event, SettingChanged) and event.now_ms is None:
        return AT_THE_START
    at_ms = event.wall_ms if event.now_ms is None else event.now_ms
    return f.near(at_ms, zone, near_ms).partition(".")[0]


def alert_title(name: str) -> str:
    """The title of an alert's notice."""
    return f"wmtop {f.label(name, _NAME)}"


_ALERTS: dict[VerdictName, str] = {
    "moving": "The watermark moves",
    "slow": "The watermark falls behind",
    "stalled": "The watermark is stalled",
    "waiting": "The watermark waits for new records",
    "unknown": "The verdict is no longer known",
    "ended": "The stream has ended",
}


def alert_text(event: Event, snapshot: Snapshot | None, earlier: Iterable[Event]) -> str:
    """An alert in one line: whom the verdict's line names; once the watermark moves again, after how long."""
    if isinstance(event, VerdictChanged):
        text = _ALERTS[event.verdict] if snapshot is None else of_its_kind(snapshot, _ALERTS[event.verdict])
        if event.verdict in ("slow", "stalled"):
            who = None if snapshot is None else blame(snapshot)
            return text if who is None else f"{text}: {who}"
        blocked_ms = _last_blocked_ms([*earlier, event]) if event.verdict == "moving" else None
        return text if blocked_ms is None else f"{text} again after {f.duration(blocked_ms)}"
    words = event_words(event)
    return f"{words.what}: {words.detail}" if words.detail else words.what


def _last_blocked_ms(events: Iterable[Event]) -> int | None:
    """How long the last slow or stalled verdict lasted until another one; None: there is none."""
    start = end = None
    for event in events:
        if not isinstance(event, VerdictChanged):
            continue
        if event.verdict in ("slow", "stalled"):
            start, end = event if start is None or end is not None else start, None
        elif end is None:
            end = event
    return None if start is None or end is None else moment_of(end)[1] - moment_of(start)[1]


def alert_severity(event: Event) -> Severity:
    """The severity of the notice."""
    return _SEVERITIES.get(event_words(event).style, "information")


def _why(event: VerdictChanged) -> str:
    if event.reason in REASONS:
        return REASONS[event.reason]
    if event.reason == "lateness_raised":
        return "event time has to catch up"
    if event.channel is None and event.reason == "records_come":
        return AS_A_WHOLE
    if event.channel is None or event.verdict not in ("slow", "stalled"):
        return ""
    cause = f": {CAUSES[event.cause].short}" if event.cause is not None else ""
    return f"{f.label(event.channel, _NAME)} {_HOLDS}{cause}"


def _late(event: LateBurst | LateBurstEnded) -> str:
    if event.share is None:
        return "no records in the last minute"
    numbers = f"({f.count(event.late)} of {f.count(event.records)})"
    return f"{f.share(event.share)} late in the last minute {numbers}"


def change_words(change: SettingsChange) -> str:
    """The changed settings: `lateness 45m, idle timeout off`."""
    values = {"lateness": change.lateness_ms, "idle timeout": change.idle_after_ms}
    return ", ".join(f"{name} {f.setting(value)}" for name, value in values.items() if value is not UNSET)
