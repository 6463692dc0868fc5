"""The timeline of a replay: how far the watermark was behind, the interesting places, the position, and the keys."""

from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from typing import ClassVar, Literal

from msgspec import Struct
from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import MouseDown, MouseMove, MouseUp, Resize

from ...engine.text import formatting as f
from ...engine.verdict.alerts import is_burst
from ...engine.verdict.history import HistoryPoint
from ..widgets.canvas import Canvas, Picked, bindings
from ..widgets.lines import KeyLine, TextLine
from ..words.keys import hint
from ..words.progress import lag_of
from ..words.spans import Span, part, spark

Kind = Literal["late", "holder", "stall"]
Points = Sequence[HistoryPoint | None]

PARTS = 100
"""The number of parts that a recording is divided into."""
MIN_HELD = 3
"""A holder counts if it held back the watermark for this many snapshots, and for a part of the recording."""


class TimelineMark(Struct, frozen=True):
    """Something that began with snapshot `start` and lasted until `end` (equal for a moment)."""

    kind: Kind
    start: int
    end: int
    words: str


class TimelinePart(Struct, frozen=True):
    """Consecutive snapshots, with the number of records and of late ones among them."""

    start: int
    end: int
    records: int
    late: int


def marks_of(points: Points, play_ms: Sequence[int]) -> list[TimelineMark]:
    """All marks of a recording, by start; `play_ms` says when each snapshot is shown."""
    return sorted([*holders(points, play_ms), *stalls(points), *bursts(points, play_ms)], key=lambda mark: mark.start)


def holders(points: Points, play_ms: Sequence[int]) -> Iterator[TimelineMark]:
    """The places where another channel began to hold back the watermark, for a while."""
    least = play_ms[-1] / PARTS if play_ms else 0
    before: str | None = None
    for start, end in _runs(points, lambda a, b: a.holder == b.holder):
        point = points[start]
        until = play_ms[min(end + 1, len(play_ms) - 1)]
        brief = end + 1 - start < MIN_HELD or until - play_ms[start] < least
        if brief or point is None or point.holder is None or point.holder == before:
            continue
        if before is not None:
            yield TimelineMark("holder", start, start, f"{f.label(point.holder, 24)} takes over")
        before = point.holder


def stalls(points: Points) -> Iterator[TimelineMark]:
    """The stretches in which the verdict was `stalled`, with the age of the watermark at their end."""
    for start, end in _runs(points, lambda a, b: a.verdict == b.verdict):
        last = points[end]
        if last is not None and last.verdict == "stalled":
            age = "" if last.age_ms is None else f" for {f.duration(last.age_ms)}"
            yield TimelineMark("stall", start, end, f"stalled{age}")


def bursts(points: Points, play_ms: Sequence[int]) -> Iterator[TimelineMark]:
    """The stretches in which far more records than usual were late; neighbouring parts are one burst.

    A part is judged as an alert judges a minute (semantics 11.7), but against the whole recording: it has hindsight.
    """
    parts = list(_parts(points, play_ms))
    records = sum(each.records for each in parts)
    usual = sum(each.late for each in parts) / records if records else 0.0
    found: list[TimelinePart] = []
    for new in (each for each in parts if is_burst(each.late, each.records, usual)):
        if found and (last := found[-1]).end + 1 == new.start:
            found[-1] = TimelinePart(last.start, new.end, last.records + new.records, last.late + new.late)
        else:
            found.append(new)
    for burst in found:
        yield TimelineMark("late", burst.start, burst.end, f"{f.share(burst.late / burst.records)} of the records late")


def _parts(points: Points, play_ms: Sequence[int]) -> Iterator[TimelinePart]:
    """The parts with records."""
    length = max(play_ms[-1] / PARTS, 1) if play_ms else 1
    base: HistoryPoint | None = None
    start = 0
    for number, point in enumerate(points):
        if point is None:
            continue
        if base is None or point.records < base.records or point.late < base.late:  # another engine starts here
            base, start = point, number
            continue
        last = number + 1 == len(points)
        if last or play_ms[number + 1] // length != play_ms[start] // length:
            if point.records > base.records:
                yield TimelinePart(start, number, point.records - base.records, point.late - base.late)
            base, start = point, number + 1


def _runs(points: Points, same: Callable[[HistoryPoint, HistoryPoint], bool]) -> Iterator[tuple[int, int]]:
    """First and last number of each stretch of equal points."""
    start = 0
    for number in range(1, len(points) + 1):
        before, point = points[number - 1], points[number] if number < len(points) else None
        if before is None:
            start = number
        elif point is None or not same(before, point) or point.now_ms < before.now_ms or point.records < before.records:
            yield start, number - 1
            start = number


SIGNS: dict[Kind, tuple[str, str]] = {"late": ("!", "bad"), "holder": ("◆", "holder"), "stall": ("━", "stale")}
"""A mark's sign and style; of several in one cell, the first of these is drawn."""
CURSOR = "┃"
_LEGEND_FROM = 108
"""The width from which the legend is shown next to the keys."""


class Timeline(Canvas[tuple[int, tzinfo | None]], can_focus=True, inherit_bindings=False):
    """Draws a recording and the current position; says `Picked` with a playing time (ms) when it is clicked.

    `play_ms` is when each snapshot is shown, from the first. `content`: the present snapshot's number, and the zone of
    the times.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("timeline")
    ALLOW_SELECT = False
    content = (0, None)

    def __init__(self, points: Points, play_ms: Sequence[int], found: Sequence[TimelineMark]) -> None:
        super().__init__()
        self._points, self._play_ms, self._found = points, play_ms, found
        known = [point for point in points if point is not None]
        self._ends_ms = (known[0].now_ms, known[-1].now_ms) if known else None
        self._greatest = max((lag for point in known if (lag := lag_of(point)) is not None), default=None)
        self._left = 0
        self._room: int = 0
        self._lags: list[int | None] = []
        self._marks: list[TimelineMark | None] = []

    def mark_here(self) -> TimelineMark | None:
        """The mark in the cell of the current position."""
        cell = self._cell(self.content[0])
        return self._marks[cell] if cell < len(self._marks) else None

    def draw(self, width: int, height: int) -> list[list[Span]]:
        first, last = self._ends()
        here = f"{f.count(self.content[0] + 1)} of {f.count(len(self._points))}"
        lag = "" if self._greatest is None else f"lag ≤{f.duration(self._greatest)}"
        left, right = max(cell_len(first), cell_len(lag)), max(cell_len(last), cell_len(here))
        self._left = left + 2
        room: int = max(width - self._left - right - 2, 1)
        if room != self._room:
            self._room = room
            self._lags, self._marks = self._cells(room)
        bars, cell = spark(self._lags, self._greatest, "─"), self._cell(self.content[0])
        cursor: Span = (CURSOR, "cursor" if self.has_focus else "level")
        position: list[Span] = [(bars[:cell], "active"), cursor, (bars[cell + 1 :], "folded")]
        signs: list[Span] = [(" ", "dim") if mark is None else SIGNS[mark.kind] for mark in self._marks]
        lines = ((first, position, last), (lag, signs, here))
        return [
            [(f" {f.pad(a, left)} ", "dim"), *spans, (f" {f.pad(b, right, right=True)} ", "dim")]
            for a, spans, b in lines
        ]

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def on_mouse_down(self, event: MouseDown) -> None:
        self.capture_mouse()
        self._scrub(event.x)

    def on_mouse_move(self, event: MouseMove) -> None:
        if self.app.mouse_captured is self:  # pyright: ignore[reportUnknownMemberType]
            self._scrub(event.x)

    def on_mouse_up(self, event: MouseUp) -> None:
        self.release_mouse()

    def _scrub(self, x: int) -> None:
        share = min(max((x - self._left + 0.5) / max(self._room, 1), 0.0), 1.0)
        self.post_message(Picked(self, int(share * self._play_ms[-1])))

    def _cell(self, number: int) -> int:
        return self._play_ms[number] * self._room // (self._play_ms[-1] + 1)

    def _cells(self, room: int) -> tuple[list[int | None], list[TimelineMark | None]]:
        """The greatest lag (ms) and the mark of each cell; a cell without a snapshot repeats the lag before."""
        lags: list[int | None] = [None] * room
        filled = 0
        for number, point in enumerate(self._points):
            cell, lag = self._cell(number), None if point is None else lag_of(point)
            for empty in range(filled, cell):
                lags[empty] = lags[empty - 1] if empty else None
            if lag is not None:
                lags[cell] = max(lag, lags[cell] or 0) if cell < filled else lag
            filled = cell + 1
        marks: list[TimelineMark | None] = [None] * room
        for kind in reversed(SIGNS):
            for mark in self._found:
                if mark.kind == kind:
                    for cell in range(self._cell(mark.start), self._cell(mark.end) + 1):
                        marks[cell] = mark
        return lags, marks

    def _ends(self) -> tuple[str, str]:
        """The times of the first and the last snapshot."""
        if self._ends_ms is None:
            return "", ""
        first, last = (f.at(ms, self.content[1]) for ms in self._ends_ms)
        style = "%H:%M:%S" if first.date() == last.date() else "%m-%d %H:%M"
        return f"{first:{style}}", f"{last:{style}}"


class ReplayBar(Vertical):
    """The timeline, the keys that move on it, and the meaning of its signs."""

    def __init__(self, points: Points, play_ms: Sequence[int], marks: Sequence[TimelineMark]) -> None:
        super().__init__()
        self._timeline = Timeline(points, play_ms, marks)
        self._keys = KeyLine()
        self._legend = TextLine()
        self._has_marks = bool(marks)

    def compose(self) -> ComposeResult:
        yield self._timeline
        with Horizontal():
            yield self._keys
            yield self._legend

    def show(self, number: int, playing: bool, zone: tzinfo | None) -> None:
        """Show the position at snapshot `number`."""
        self._timeline.show((number, zone))
        marks = ["mark-next"] if self._has_marks else []
        keys = map(hint, ("step-forward", "faster", "scrub-forward", *marks, "go-to"))
        self._keys.show([hint("play", "pause" if playing else None), *keys])
        mark = self._timeline.mark_here()
        if mark is not None:
            sign, style = SIGNS[mark.kind]
            self._legend.show([part((f"{sign} ", style), (mark.words, "text")), part(right=True)])
        elif self._has_marks:
            words: dict[Kind, str] = {"late": "late burst", "holder": "new holder", "stall": "stall"}
            spans = [part(SIGNS[kind], (f" {word}", "dim"), gap="  ") for kind, word in words.items()]
            self._legend.show(spans)

    def on_resize(self, event: Resize) -> None:
        self._legend.display = event.size.width >= _LEGEND_FROM
