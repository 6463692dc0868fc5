"""What happened: which channel held back the watermark, how long and why; the events of the run, the newest first."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from textual.app import ComposeResult

from ...engine.snapshot import SettingsChange, Snapshot
from ...engine.text import formatting as f
from ...engine.text.codes import CAUSES
from ...engine.verdict.alerts import Event
from ...engine.verdict.blame import channel_named
from ..widgets.charts import HolderLanes, HolderSpan
from ..widgets.rows import Item, Sheet, heading, paragraph, table
from ..words.history import ALERTED, EventWords, Hold, brief_ms, change_words, event_time, event_words, moment_of
from ..words.kinds import presenter_of
from ..words.spans import Column, Span, fitted, value_column
from ..words.texts import MOMENT_SHOWN, SETTINGS_CHANGED, TableRecords
from .base_app import app_of
from .target_screen import DetailScreen

_CHANGES = 4
"""Changes of settings that are listed, at most."""


class HistoryScreen(DetailScreen):
    """A lane for each channel that held back the watermark, and a row for each of these times, the newest first."""

    NAME, OPEN = "History", "row-open"
    READING = (
        "Each lane is a channel that held back the watermark: █ all of the cell's time, ░ some of it; at its "
        "end how long in all, the share of the time, and how often. Below, each time that a channel held it back: "
        "since when, how long, how far the watermark moved meanwhile, how far it was behind the fastest channel at "
        "most, and why, in the order in which the causes were seen. Times are processing time. The history begins with "
        "what the engine remembered when this screen was connected, and keeps at most 500 changes. Above: the "
        "last settings that were changed while it ran, when and by whom.\n"
    )

    _holds: Sequence[Hold] = ()
    _held: Sequence[Hold] = ()
    """Those by a channel."""

    def body(self) -> ComposeResult:
        yield HolderLanes(id="lanes")
        yield Sheet(id="history")

    def update(self, snapshot: Snapshot) -> None:
        self._holds = self.recent.holds(snapshot)
        self._held = [hold for hold in self._holds if hold.channel is not None]

    def show(self, snapshot: Snapshot) -> None:
        holds, held = self._holds, self._held
        lanes, sheet = self.query_one(HolderLanes), self.sheet
        first = holds[0].since_ms if holds else 0
        last = max(holds[-1].until_ms, snapshot.now_ms or 0) if holds else 0
        lanes.show(
            HolderSpan(held, first, last, self._holder(snapshot), self.zone, presenter_of(snapshot).no("holders"))
        )
        lanes.styles.height = min(len({hold.channel for hold in held}), max(self.size.height // 4, 3)) + 1
        sheet.show([*self._changes(snapshot), *(self._items(snapshot, held) if held else [])])

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        changes = len(self._held)
        if not changes:
            return ()
        length = self._holds[-1].until_ms - self._holds[0].since_ms
        return [("  ", "dim"), (f"{changes:,}", "text"), (f" takeover{'s' * (changes != 1)} in ", "dim"),
                (f.duration(length), "text")]  # fmt: skip

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        if not self._held:
            return ()
        return [("█", "active"), (" all the time   ", "dim"), ("░", "active"), (" some of it", "dim")]

    def records(self) -> TableRecords:
        return TableRecords("history", self._held)

    def _holder(self, snapshot: Snapshot) -> str | None:
        return snapshot.level.holder.channel if snapshot.level.holder else None

    def _items(self, snapshot: Snapshot, holds: Sequence[Hold]) -> list[Item]:
        now = holds[-1] if self._holder(snapshot) == holds[-1].channel else None
        until = snapshot.now_ms if snapshot.now_ms is not None else holds[-1].until_ms
        return table(
            self._columns(now, until),
            holds[::-1],
            lambda hold: hold.key,
            name=lambda hold: hold.channel,
            opens=lambda hold: partial(self.open_channel, hold.channel or ""),
        )

    def _columns(self, now: Hold | None, until_ms: int) -> Sequence[Column[Hold]]:
        """The columns; `now` is the hold that lasts, until `until_ms`."""

        def held_ms(hold: Hold) -> int:
            return max((until_ms if hold is now else hold.until_ms) - hold.since_ms, 0)

        def held(hold: Hold) -> str:
            return ("≥" if hold is now else "") + f.duration(held_ms(hold))

        def style(hold: Hold) -> str:
            return "holder" if hold is now else "text"

        def at_most(lag_ms: int | None) -> str:
            return f.UNKNOWN if lag_ms is None else f"≤{f.duration(lag_ms)}"

        def why(hold: Hold, room: int) -> list[Span]:
            return [(_why(hold, room), "text")]

        return (
            value_column("since", lambda hold: hold.since_ms, self._time),
            Column("channel", lambda hold: f.label(hold.channel or ""), style=style, sort=lambda hold: hold.channel),
            Column("held", held, right=True, style=style, sort=held_ms),
            value_column("moved", _moved, f.signed, rank=2, right=True, style=lambda hold: "level"),
            value_column("lag", lambda hold: hold.lag_ms, at_most, rank=3, right=True),
            Column("why", lambda hold: _why(hold, 0), rank=1, most=60, draw=why),
        )

    def _time(self, ms: int | None) -> str:
        return f.UNKNOWN if ms is None else f.near(ms, self.zone, self.snapshot.now_ms).partition(".")[0]

    def _changes(self, snapshot: Snapshot) -> list[Item]:
        """The last settings that were changed while it ran, the newest first."""
        if not snapshot.own.changes:
            return []
        last = snapshot.own.changes[: -_CHANGES - 1 : -1]
        columns: tuple[Column[SettingsChange], ...] = (
            Column("", lambda change: self._time(change.now_ms)),
            Column("", lambda change: f.label(change.who or f.UNKNOWN), rank=1),
            Column("", change_words),
        )
        earlier = len(snapshot.own.changes) - len(last)
        words = f" {SETTINGS_CHANGED}" + (f", {earlier:,} more before" if earlier else "")
        return [heading((words, "dim")), *table(columns, last, lambda change: None)[1:], heading()]


def _why(hold: Hold, room: int) -> str:
    """The causes, in `room` cells; without room for all the last one."""
    # A channel behind which none was further: it only sets the watermark, as also the main screen says.
    causes = [
        "sets the watermark" if cause == "behind" and not hold.lag_ms else CAUSES[cause].short for cause in hold.causes
    ] or [f.ELSEWHERE]
    text = ", then ".join(causes)
    return text if len(text) <= room else causes[-1]


def _moved(hold: Hold) -> int | None:
    if hold.level_from_ms is None or hold.level_to_ms is None:
        return None
    return hold.level_to_ms - hold.level_from_ms


_NOTHING = "No events yet: verdicts, late bursts, takeovers and changed settings are listed here as they happen"


_Event = tuple[Event, EventWords]


def _key(event: _Event) -> str:
    return f"{event[0].wall_ms} {event[0].code} {event[1].what}"


class EventsScreen(DetailScreen):
    """A row for each event; in a recording Enter goes to its moment, else it opens the channel's page."""

    NAME, OPEN = "Events", "event-open"
    READING = (
        "One line an event, the newest first: ● a verdict, ! a burst of late records, × a lost engine, "
        "◆ a channel begins to hold back the watermark, = a setting was changed, i a note of the source. "
        f"{ALERTED} it was an alert. Times are processing time. A channel is listed once it has held back the "
        "watermark as long as a verdict has to hold; the history (h) has the brief ones. The list begins with what "
        "the engine remembered when this screen was connected; of a recording it is the whole recording.\n"
    )

    _events: Sequence[_Event] = ()
    _placed = False

    def update(self, snapshot: Snapshot) -> None:
        until = snapshot.wall_ms if self.shown.view.frozen else None
        events = self.recent.log.events(until, brief_ms(snapshot))
        self._events = [(event, event_words(event)) for event in reversed(events)]

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        count = len(self._events)
        alerts = sum(event.alert for event, _ in self._events)
        words = f"  {f.counted(count, 'event')}, {f.counted(alerts, 'alert')}"
        return [(words, "dim")] if count else ()

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        return [(ALERTED, "stale"), (" alert", "dim")] if any(event.alert for event, _ in self._events) else ()

    def records(self) -> TableRecords:
        return TableRecords("events", [event for event, _ in self._events])

    def _jump(self, wall_ms: int) -> None:
        """Go to a moment of the recording."""
        self.dismiss(None)
        app_of(self).show_moment(wall_ms)

    def show(self, snapshot: Snapshot) -> None:
        """A recording's list begins at the moment that is shown, not at the recording's end."""
        super().show(snapshot)
        if self.shown.is_replay and not self._placed and (event := next(self._past(snapshot), None)) is not None:
            self._placed = True
            self.call_after_refresh(self.sheet.go_to, _key(event))  # which scrolls: the list has to have its size

    def items(self, snapshot: Snapshot) -> Sequence[Item]:
        if not self._events:
            return [paragraph(_NOTHING)]
        here_ms = snapshot.wall_ms if self.shown.is_replay else None
        word = "go there" if self.shown.is_replay else "channel"
        items = table(
            self._columns(here_ms),
            self._events,
            _key,
            name=lambda event: event[1].what,
            opens=self._opens,
            word=lambda event: word,
        )
        if here_ms is not None and self.sheet.sorted_by is None:
            past = len(list(self._past(snapshot)))
            items[len(items) - past : len(items) - past] = [heading((f" ─── {MOMENT_SHOWN} ───", "level"))] * bool(past)
        return items

    def _past(self, snapshot: Snapshot) -> Iterator[_Event]:
        """The events up to the moment of a recording that is shown, the newest first."""
        return (event for event in self._events if event[0].wall_ms <= (snapshot.wall_ms or 0))

    def _opens(self, event: _Event) -> Callable[[], object] | None:
        channel = event[1].channel
        if self.shown.is_replay:
            return partial(self._jump, event[0].wall_ms)
        known = channel_named(self.snapshot, channel)
        return None if known is None else partial(self.open_channel, known.channel)

    def _columns(self, here_ms: int | None) -> Sequence[Column[_Event]]:
        """The columns; in a replay what is later than `here_ms` is dim."""

        def style(row: _Event) -> str:
            return "dim" if here_ms is not None and row[0].wall_ms > here_ms else "text"

        def details(row: _Event, room: int) -> list[Span]:
            return [(fitted(row[1].detail, room), style(row))]

        return (
            Column(
                "time",
                lambda row: event_time(row[0], self.zone, self.snapshot.now_ms),
                style=style,
                sort=lambda row: moment_of(row[0]),
            ),
            Column("", lambda row: ALERTED if row[0].alert else " ", style=lambda row: "stale", rank=1),
            Column("", lambda row: row[1].sign, style=lambda row: row[1].style, rank=2),
            Column("event", lambda row: row[1].what, style=lambda row: row[1].style, sort=lambda row: row[1].what),
            Column("details", lambda row: "", cells=22, most=400, draw=details, sort=lambda row: row[1].detail),
        )
