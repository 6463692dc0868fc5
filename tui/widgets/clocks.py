"""Clocks side by side: one for each task of a Kafka Streams application, by sub-topology; there is no minimum."""

from collections.abc import Sequence
from datetime import tzinfo
from functools import partial

from textual.events import Click

from ...engine.doctor.kinds.kafka_streams_words import clock_name, frees, producer_line, windows_wait
from ...engine.snapshot import Clock, Snapshot
from ...engine.text import formatting as f
from ..words.clocks import behind_words, counts, groups, ranked, time_words, verdict_words
from ..words.kinds import presenter_of
from ..words.main_screen import Shown
from ..words.spans import Part, Span, cells, clip, lay, part
from ..words.verdict_words import STYLES
from .canvas import Canvas, Picked, centered
from .lines import Heading
from .rows import Item

_FACES = ((26, 4), (22, 3), (16, 2))
"""Cells and lines of a clock's face, the largest first."""
_SIGNS = {"stalled": "S", "slow": "s", "unknown": "?", "waiting": "w", "moving": "·", "ended": "e"}
"""Where there is no room for faces, a clock is a sign."""
_GAP = 2


class ClockLines(Canvas[Sequence[Clock]]):
    """Draws the clocks of `shown`: faces if all fit, else a sign each and the faces of the worst. Says `Picked` with
    a partition of the clock that is clicked.
    """

    content: Sequence[Clock] = ()

    def __init__(self, shown: Shown, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown = shown
        self._seen: tuple[object, ...] = ()
        self._places: dict[tuple[int, int], Clock] = {}
        """The clocks by the line and column of their cells."""

    def draw_state(self, head: Sequence[Sequence[Part]] = ()) -> None:
        """Draw the present state below the lines `head`."""
        view, snapshot = self._shown.view, self._shown.snapshot
        seen = (view.selected, view.zone, snapshot, head)
        if seen != self._seen:
            self.content, self.head, self._seen = snapshot.clocks, head, seen
            self.redraw()

    def heading(self) -> Heading:
        """The title, and what the signs mean."""
        title: list[Span] = [("Clocks", "title"), (f"  {f.counted(len(self._shown.snapshot.clocks), 'clock')}", "dim")]
        return Heading(0, title, [("each task has its own; none waits for another", "dim")])

    def on_click(self, event: Click) -> None:
        offset = self.spot(event)
        clock = None if offset is None else self._places.get((offset.y - len(self.head), offset.x))
        if clock is not None and clock.channels:
            self.post_message(Picked(self, clock.channels[0]))

    def draw(self, width: int, height: int) -> list[list[Span]]:
        self._places = {}
        if not self.content or height < 2:
            return centered(presenter_of(self._shown.snapshot).no("barrel"), width, height)
        grouped = groups(self.content)
        for wide, high in _FACES:
            each = max((width + _GAP) // (wide + _GAP), 1)
            if sum(1 + high * -(-len(clocks) // each) for _, clocks in grouped) > height:
                continue
            lines: list[list[Span]] = []
            for title, clocks in grouped:
                lines.append([(f" {title}  ", "title"), *counts(clocks)])
                for start in range(0, len(clocks), each):
                    lines += self._row(clocks[start : start + each], wide, high, len(lines))
            return lines
        return self._signs(grouped, width, height)

    def _row(self, clocks: Sequence[Clock], wide: int, high: int, line: int) -> list[list[Span]]:
        rows: list[list[Span]] = [[(" ", "text")] for _ in range(high)]
        for place, clock in enumerate(clocks):
            left = 1 + place * (wide + _GAP)
            for y, spans in enumerate(self._face(clock, wide, high)):
                rows[y] += [*spans, (" " * (wide + _GAP - cells(spans)), "text")]
                self._places |= {(line + y, left + x): clock for x in range(wide)}
        return rows

    def _face(self, clock: Clock, wide: int, high: int) -> list[list[Span]]:
        """A clock: whose it is and its verdict, its stream time, how far it is behind, its partitions."""
        snapshot, style = self._shown.snapshot, STYLES[clock.verdict]
        chosen = self._shown.view.selected in clock.channels
        name = f.cut(clock.task or f.name(clock.channels[0] if clock.channels else ""), max(wide - 10, 6))
        said = verdict_words(clock)
        room = wide - len(name) - 1
        said = said if len(said) <= room else said.split(" ")[0]
        time = time_words(snapshot, clock, self._shown.view.zone)
        behind = behind_words(snapshot, clock).replace(" the clock", "")
        first: list[Span] = [(f"{name} ", "selected" if chosen else "strong"), (said, style)]
        if high == 2:
            return [clip(first, wide), clip([(time, "level")], wide)]
        whose = f.cut(", ".join(map(f.name, clock.channels)), wide)
        lines: list[list[Span]] = [first, [(time, "level")], [(behind, "text")], [(whose, "dim")]]
        return [clip(line, wide) for line in lines[:high]]

    def _signs(self, grouped: Sequence[tuple[str, Sequence[Clock]]], width: int, height: int) -> list[list[Span]]:
        """A sign for each clock (the worst of several where they share one), and the faces of the worst below."""
        wide, high = _FACES[1]
        each = max((width + _GAP) // (wide + _GAP), 1)
        faces = high if height >= len(grouped) * 2 + high else 0
        room = max((height - faces) // len(grouped) - 1, 0)
        lines: list[list[Span]] = []
        for title, clocks in grouped:
            lines.append(clip([(f" {title}  ", "title"), *counts(clocks)], width))
            if not room:
                continue
            inner = max(width - 2, 1)
            per = -(-len(clocks) // (inner * room))
            cells_of = [ranked(clocks[start : start + per])[0] for start in range(0, len(clocks), per)]
            for start in range(0, len(cells_of), inner):
                line = cells_of[start : start + inner]
                self._places |= {(len(lines), 1 + x): clock for x, clock in enumerate(line)}
                lines.append([(" ", "text"), *((_SIGNS[clock.verdict], STYLES[clock.verdict]) for clock in line)])
        worst = ranked(self.content)
        while faces and len(lines) + high <= height:
            lines += self._row(worst[:each], wide, high, len(lines))
            worst = worst[each:]
        return lines[:height]


def waiting_items(snapshot: Snapshot, zone: tzinfo | None) -> list[Item]:
    """The tasks for which windows are known to wait, the worst first, with the record that frees the first window; to
    be copied: the command that sends it.
    """
    clocks = [clock for clock in ranked(snapshot.clocks) if clock.waiting is not None]
    return [
        Item(
            (partial(_waits, snapshot, clock, zone), partial(_frees, snapshot, clock, zone)),
            clock_name(clock),
            name=producer_line(snapshot, clock),
        )
        for clock in clocks
    ]


def _waits(snapshot: Snapshot, clock: Clock, zone: tzinfo | None, width: int) -> list[Span]:
    assert clock.waiting is not None
    end = f.near(clock.waiting.end_ms, zone, snapshot.now_ms).partition(".")[0]
    waits = windows_wait(clock.waiting_count) or "windows wait"
    parts = (
        part((f" {clock_name(clock)}", "strong"), gap=""),
        part((verdict_words(clock), STYLES[clock.verdict]), rank=1, gap="  "),
        part((waits, "text"), gap="  "),
        part((f"the first ends {end}", "dim"), rank=2, gap=", "),
    )
    return lay(parts, width)


def _frees(snapshot: Snapshot, clock: Clock, zone: tzinfo | None, width: int) -> list[Span]:
    record = frees(clock, zone, snapshot.now_ms) or f.UNKNOWN
    article, _, least = record.partition(" of ")
    time, later, where = least.partition(" or later")
    parts = (
        part(("  ", "dim"), gap=""),
        part((" frees it:", "dim"), rank=2, gap=""),
        part((f" {article} of", "dim"), rank=3, gap=""),
        part((f" {time}{later}", "holder"), gap=""),
        part((where, "holder"), rank=1, gap=""),
    )
    return lay(parts, width)
