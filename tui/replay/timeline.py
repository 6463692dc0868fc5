"""The timeline of a replay: how far the watermark was behind, the marks, the current position, and the keys."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec import Struct
from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import MouseDown, MouseMove, MouseUp, Resize
from textual.message import Message

from ...engine.core.history import HistoryPoint
from ..present.formatting import at, count, duration, pad, second
from ..present.keys import hint
from ..present.line import Span, part
from ..widgets.barrel import EIGHTHS
from ..widgets.canvas import Canvas
from ..widgets.lines import KeyLine, TextLine
from .marks import Kind, TimelineMark

SIGNS: dict[Kind, tuple[str, str]] = {"late": ("!", "bad"), "holder": ("◆", "holder"), "stall": ("━", "stale")}
"""A mark's sign and ink; of several in one cell, the first of these is drawn."""
CURSOR = "┃"
_LEGEND_CELLS, _LEGEND_FROM = 38, 108
"""The legend's width, and the width from which it is shown next to the keys."""


class Track(Struct, frozen=True):
    """A recording as its timeline shows it; `play_ms` is when each snapshot is shown, from the first."""

    points: Sequence[HistoryPoint | None]
    play_ms: Sequence[int]
    marks: Sequence[TimelineMark]


class _Picture(Struct, frozen=True):
    """The track in cells: the greatest lag (ms) and the mark of each cell."""

    lags: Sequence[int | None]
    marks: Sequence[TimelineMark | None]


class Timeline(Canvas):
    """Draws a track and the current position; sends `Scrubbed` with a playing time (ms) when it is clicked."""

    class Scrubbed(Message):
        """The user chose another position."""

        def __init__(self, play_ms: int) -> None:
            self.play_ms = play_ms
            super().__init__()

    def __init__(self, track: Track, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._track = track
        self._number = 0
        self._zone: tzinfo | None = None
        points = [point for point in track.points if point is not None]
        self._ends_ms = (points[0].now_ms, points[-1].now_ms) if points else None
        self._greatest = max((point.behind_fastest_ms or 0 for point in points), default=0)
        self._left = 0
        self._room: int = 0
        self._picture = _Picture((), ())
        self._dragged = False

    def show(self, number: int, zone: tzinfo | None) -> None:
        """Show the position at snapshot `number`, with times in `zone`."""
        if (number, zone) != (self._number, self._zone):
            self._number, self._zone = number, zone
            self.redraw()

    def mark_here(self) -> TimelineMark | None:
        """The mark in the cell of the current position."""
        cell = self._cell(self._number)
        return self._picture.marks[cell] if cell < len(self._picture.marks) else None

    def draw(self, width: int, height: int) -> list[list[Span]]:
        first, last = self._ends()
        here = f"{count(self._number + 1)} of {count(len(self._track.points))}"
        lag = f"lag ≤{duration(self._greatest)}"
        left, right = max(cell_len(first), cell_len(lag)), max(cell_len(last), cell_len(here))
        self._left = left + 2
        room: int = max(width - self._left - right - 2, 1)
        if room != self._room:
            self._room = room
            self._picture = self._drawn(room)
        lines = ((first, self._spark(), last), (lag, self._signs(), here))
        return [
            [(f" {pad(a, left)} ", "dim"), *spans, (f" {pad(b, right, right=True)} ", "dim")] for a, spans, b in lines
        ]

    def on_mouse_down(self, event: MouseDown) -> None:
        self._dragged = True
        self.capture_mouse()
        self._scrub(event.x)

    def on_mouse_move(self, event: MouseMove) -> None:
        if self._dragged:
            self._scrub(event.x)

    def on_mouse_up(self, event: MouseUp) -> None:
        self._dragged = False
        self.release_mouse()

    def _scrub(self, x: int) -> None:
        share = min(max((x - self._left + 0.5) / max(self._room, 1), 0.0), 1.0)
        self.post_message(self.Scrubbed(int(share * self._track.play_ms[-1])))

    def _cell(self, number: int) -> int:
        play_ms = self._track.play_ms
        return play_ms[number] * self._room // (play_ms[-1] + 1)

    def _drawn(self, room: int) -> _Picture:
        """The track in `room` cells; a cell without a snapshot repeats the one before."""
        track = self._track
        lags: list[int | None] = [None] * room
        filled = 0
        for number, point in enumerate(track.points):
            cell, lag = self._cell(number), point.behind_fastest_ms if point is not None else None
            for empty in range(filled, cell):
                lags[empty] = lags[empty - 1] if empty else None
            if lag is not None:
                lags[cell] = max(lag, lags[cell] or 0) if cell < filled else lag
            filled = cell + 1
        marks: list[TimelineMark | None] = [None] * room
        for kind in reversed(SIGNS):
            for mark in track.marks:
                if mark.kind == kind:
                    for cell in range(self._cell(mark.start), self._cell(mark.end) + 1):
                        marks[cell] = mark
        return _Picture(lags, marks)

    def _spark(self) -> list[Span]:
        greatest = max(self._greatest, 1)
        chars = ["─" if lag is None else EIGHTHS[1 + 7 * lag // greatest] for lag in self._picture.lags]
        cell = self._cell(self._number)
        return [("".join(chars[:cell]), "active"), (CURSOR, "level"), ("".join(chars[cell + 1 :]), "folded")]

    def _signs(self) -> list[Span]:
        return [(" ", "dim") if mark is None else SIGNS[mark.kind] for mark in self._picture.marks]

    def _ends(self) -> tuple[str, str]:
        """The times of the first and the last snapshot."""
        if self._ends_ms is None:
            return "", ""
        first, last = self._ends_ms
        if at(first, self._zone).date() == at(last, self._zone).date():
            return second(first, self._zone), second(last, self._zone)
        dated = [f"{at(ms, self._zone):%m-%d %H:%M}" for ms in (first, last)]
        return dated[0], dated[1]


class ReplayBar(Vertical):
    """The timeline, the keys that move on it, and the meaning of its signs."""

    def __init__(self, track: Track) -> None:
        super().__init__()
        self._timeline = Timeline(track)
        self._keys = KeyLine()
        self._legend = TextLine()
        self._has_marks = bool(track.marks)

    def compose(self) -> ComposeResult:
        yield self._timeline
        with Horizontal():
            yield self._keys
            yield self._legend

    def show(self, number: int, playing: bool, zone: tzinfo | None) -> None:
        """Show the position at snapshot `number`."""
        self._timeline.show(number, zone)
        marks = [hint("mark-next")] if self._has_marks else []
        self._keys.show(
            [
                hint("play", "pause" if playing else None),
                hint("step-forward"),
                hint("faster"),
                hint("scrub-forward"),
                *marks,
                hint("go-to"),
            ]
        )
        mark = self._timeline.mark_here()
        if mark is not None:
            sign, ink = SIGNS[mark.kind]
            self._legend.show([part((f"{sign} ", ink), (mark.words, "text")), part(right=True)])
        elif self._has_marks:
            words: dict[Kind, str] = {"late": "late burst", "holder": "new holder", "stall": "stall"}
            spans = [part(SIGNS[kind], (f" {word}", "dim"), gap="  ") for kind, word in words.items()]
            self._legend.show(spans)

    def on_resize(self, event: Resize) -> None:
        self._legend.display = event.size.width >= _LEGEND_FROM

    async def on_key_line_pressed(self, event: KeyLine.Pressed) -> None:
        event.stop()
        await self.run_action(event.action)
