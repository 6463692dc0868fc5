"""The events: alerts, verdicts, takeovers, changed settings and notes of a run, the newest first."""

from collections.abc import Sequence
from functools import partial

from textual.message import Message

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ...engine.verdict.history import Event
from ..widgets.rows import Item, heading, paragraph, titles
from ..words.history import ALERTED, EventWords, brief_ms, event_time, event_words, moment_of
from ..words.keys import Hint, hint
from ..words.main_screen import Shown
from ..words.spans import Span, clip
from ..words.texts import MOMENT_SHOWN, TableRecords
from .detail import DetailScreen

_WHAT = (8, 24)
_COLUMNS = ("time", "event", "details")
_NOTHING = "No events yet: verdicts, late bursts, takeovers and changed settings are listed here as they happen"


class EventsScreen(DetailScreen):
    """A row for each event; in a recording Enter goes to its moment, else it opens the channel's page."""

    NAME = "Events"
    READING = (
        "One line an event, the newest first: ● a verdict, ! a burst of late records, × a lost engine, "
        "◆ a channel begins to hold back the watermark, = a setting was changed, i a note of the source. "
        f"{ALERTED} it was an alert. Times are processing time. A channel is listed once it has held back the "
        "watermark as long as a verdict has to hold; the history (h) has the brief ones. The list begins with what "
        "the engine remembered when this screen was connected; of a recording it is the whole recording.\n"
    )

    class JumpWanted(Message):
        """A request to show the recording at this moment (wall clock, epoch ms)."""

        def __init__(self, wall_ms: int) -> None:
            self.wall_ms = wall_ms
            super().__init__()

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

    def keys(self, snapshot: Snapshot) -> Sequence[Hint]:
        chosen = self._chosen
        if chosen is None or self.preview is not None:
            return ()
        if self.shown.is_replay:
            return [hint("event-open", "go there")]
        return [hint("event-open", "channel")] if self._channel_of(chosen[1]) is not None else ()

    def records(self) -> TableRecords:
        return TableRecords("events", [event for event, _ in self._events])

    def name_of(self, key: str) -> str:
        return next((words.what for event, words in self._events if _key(event, words) == key), key)

    def action_open(self) -> None:
        """Go to the moment of the event in a recording; else open the page of its channel."""
        chosen = self._chosen
        if chosen is None:
            return
        event, words = chosen
        if self.shown.is_replay:
            self.dismiss(None)
            self.post_message(self.JumpWanted(event.wall_ms))
        elif (channel := self._channel_of(words)) is not None:
            self.open_channel(channel)

    @property
    def _chosen(self) -> tuple[Event, EventWords] | None:
        key = self.sheet.cursor
        return next((pair for pair in self._events if _key(*pair) == key), None)

    def _channel_of(self, words: EventWords) -> str | None:
        return words.channel if self.knows(words.channel) else None

    def items(self, snapshot: Snapshot) -> Sequence[Item]:
        if not self._events:
            return [paragraph(_NOTHING)]
        what = max(_WHAT[0], min(_WHAT[1], max(len(words.what) for _, words in self._events)))
        here_ms = snapshot.wall_ms if self.shown.is_replay else None
        items = [titles(f" {f.pad('time', 11)}     {f.pad('event', what)}  details", *_COLUMNS)]
        before = self.sheet.sorted_by is not None
        for event, words in self._events:
            ahead = here_ms is not None and event.wall_ms > here_ms
            if here_ms is not None and not ahead and not before:
                before = True
                items.append(heading((f" ─── {MOMENT_SHOWN} ───", "level")))
            line, sorts = partial(self._line, event, words, what, ahead), (moment_of(event), words.what, words.detail)
            items.append(Item((line,), _key(event, words), dict(zip(_COLUMNS, sorts, strict=True))))
        return items

    def _line(self, event: Event, words: EventWords, what: int, ahead: bool, width: int) -> list[Span]:
        time = event_time(event, self.zone, self.snapshot.now_ms)
        return clip(
            [
                (f" {f.pad(time, 11)} ", "dim" if ahead else "text"),
                (f"{ALERTED if event.alert else ' '} ", "stale"),
                (f"{words.sign} {f.pad(words.what, what)}  ", words.style),
                (words.detail, "dim" if ahead else "text"),
            ],
            width,
        )


def _key(event: Event, words: EventWords) -> str:
    return f"{event.wall_ms} {event.code} {words.what}"
