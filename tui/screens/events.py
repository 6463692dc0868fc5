"""The events of the run: alerts, verdicts, changes of the holder, changed settings and notes, the newest first."""

from collections.abc import Sequence
from functools import partial

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ...engine.verdict.history import Event
from ..widgets.rows import Item, heading, paragraph, titles
from ..words.columns import Column, row_line, sized
from ..words.history import ALERTED, EventWords, brief_ms, event_time, event_words, moment_of
from ..words.main_screen import Shown
from ..words.spans import Span
from ..words.texts import MOMENT_SHOWN, TableRecords
from .base_app import app_of
from .target_screen import DetailScreen

_EVENT_COLUMNS = ("time", "event", "details")
_NOTHING = "No events yet: verdicts, late bursts, takeovers and changed settings are listed here as they happen"


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

    def __init__(self, shown: Shown, denied: frozenset[str]) -> None:
        super().__init__(shown, denied)
        self._events: list[tuple[Event, EventWords]] = []

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

    def items(self, snapshot: Snapshot) -> Sequence[Item]:
        if not self._events:
            return [paragraph(_NOTHING)]
        here_ms = snapshot.wall_ms if self.shown.is_replay else None
        columns = sized(self._columns(here_ms), self._events)
        items = [titles(columns, _EVENT_COLUMNS)]
        before = self.sheet.sorted_by is not None
        channels = {view.channel for view in snapshot.channels}
        for event, words in self._events:
            ahead = here_ms is not None and event.wall_ms > here_ms
            if here_ms is not None and not ahead and not before:
                before = True
                items.append(heading((f" ─── {MOMENT_SHOWN} ───", "level")))
            values = (moment_of(event), words.what, words.detail)
            opens, word = None, "go there" if self.shown.is_replay else "channel"
            if self.shown.is_replay:
                opens = partial(self._jump, event.wall_ms)
            elif words.channel is not None and words.channel in channels:
                opens = partial(self.open_channel, words.channel)
            items.append(
                Item(
                    (partial(row_line, columns, (event, words)),),
                    f"{event.wall_ms} {event.code} {words.what}",
                    dict(zip(_EVENT_COLUMNS, values, strict=True)),
                    name=words.what,
                    opens=opens,
                    word=word,
                )
            )
        return items

    def _columns(self, here_ms: int | None) -> Sequence[Column[tuple[Event, EventWords]]]:
        """The columns; in a replay what is later than `here_ms` is dim."""

        def style(row: tuple[Event, EventWords]) -> str:
            return "dim" if here_ms is not None and row[0].wall_ms > here_ms else "text"

        def details(row: tuple[Event, EventWords], room: int) -> list[Span]:
            return [(f.cut(row[1].detail, room), style(row))]

        return (
            Column("time", lambda row: event_time(row[0], self.zone, self.snapshot.now_ms), style=style),
            Column("", lambda row: ALERTED if row[0].alert else " ", style=lambda row: "stale", rank=2),
            Column("", lambda row: row[1].sign, style=lambda row: row[1].style, rank=1),
            Column("event", lambda row: row[1].what, style=lambda row: row[1].style),
            Column("details", lambda row: "", most=400, draw=details),
        )
