"""The events of a run, from its points and snapshots: verdicts, alerts, takeovers, changed settings, notes. Pure."""

from collections import deque
from collections.abc import Iterable, Sequence

from ...engine.core.alerts import AlertRule, Event
from ...engine.core.history import HistoryPoint, is_overtaken
from ...engine.core.snapshot import Cause, Note, SettingsChange, Snapshot
from .holders import Holders
from .target import target_of

MOST_EVENTS = 1_000


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
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
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
        for change in snapshot.changes:
            if change.version not in self._versions:
                self._versions.add(change.version)
                self._events.append(SettingChanged(wall_ms=change.wall_ms, now_ms=change.now_ms, change=change))
        self._add_notes(snapshot.notes)
        if target_of(snapshot).is_attached:
            self._see_delay(snapshot, wall_ms)

    def lose(self, wall_ms: int, why: str | None = None, *, silent_ms: int | None = None) -> None:
        """Note that the engine is lost; call it again while it is."""
        self._take(self._rule.lose(wall_ms, why, silent_ms=silent_ms))

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

    def _add_notes(self, notes: Sequence[Note]) -> None:
        """Add the notes that are new in this snapshot: some stay as long as their condition."""
        # By names, not by numbers: a longer duration is not another event.
        keys = [(note.code, *(str(arg) for arg in note.args.values() if isinstance(arg, str))) for note in notes]
        for key, note in zip(keys, notes, strict=True):
            if key not in self._notes:
                self._events.append(Noted(wall_ms=note.wall_ms, note=note))
        self._notes = frozenset(keys)

    def _see_delay(self, snapshot: Snapshot, wall_ms: int) -> None:
        before, now = self._delay_ms, snapshot.settings.lateness_ms
        if now is None:
            return
        if before is not None and now != before:
            event = DelayChanged(wall_ms=wall_ms, now_ms=snapshot.now_ms, before_ms=before, now_delay_ms=now)
            self._events.append(event)
        self._delay_ms = now

    def _takeovers(self, brief_ms: int) -> list[Event]:
        found: list[Event] = []
        before: str | None = None
        first = True
        for hold in self._holders.until(None):
            if hold.length_ms < brief_ms or (hold.channel == before and not first):
                continue
            if not first:
                found.append(
                    HolderChanged(
                        wall_ms=hold.wall_ms, now_ms=hold.since_ms, channel=hold.channel, before=before,
                        cause=hold.causes[-1] if hold.causes else None, held_ms=hold.length_ms,
                        lag_ms=hold.lag_ms,
                    )
                )  # fmt: skip
            before, first = hold.channel, False
        return found


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
    """How long (processing time) a channel must hold back the watermark to be an event: as long as a verdict
    must hold.
    """
    return (snapshot.verdict.horizon_ms or 0) // 4
