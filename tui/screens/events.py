"""The events of the run: alerts, verdicts, changes of the holder, changed settings and notes, the newest first."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ...engine.verdict.history import Event
from ..widgets.rows import Item, heading, paragraph, table
from ..words.barrel import channel_named
from ..words.columns import Column
from ..words.history import ALERTED, EventWords, brief_ms, event_time, event_words, moment_of
from ..words.spans import Span, fitted
from ..words.texts import MOMENT_SHOWN, TableRecords
from .base_app import app_of
from .target_screen import DetailScreen

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
