"""The picture of lateness: a histogram of how late records are, and below it the cost of each lateness."""

from collections.abc import Sequence
from math import log, log10

from msgspec import Struct
from rich.cells import cell_len
from textual.events import Click

from ...engine.text.formatting import count, duration, horizon_words, pad, setting
from ..words.lateness import Curve, place_of
from ..words.spans import EIGHTHS, Dots, Span
from ..words.texts import OF_THIS_CHANNEL, SHARE_BEHIND
from .canvas import Canvas, Picked
from .rows import wrapped

_LEFT, _RIGHT = 9, 8
_EVEN = 3
"""Cells per edge from which all edges have the same width."""
_DECADES = 4
"""The powers of ten that the share's axis covers, from 100 % down."""
_BOTH, _LEGEND, _TITLED = 7, 8, 15
"""Heights from which there are both pictures, one line that names what is drawn, and a title for each."""
NOW, PREVIEW, RECOMMENDED = "▲", "▸", "◆"


class LatenessScene(Struct, frozen=True):
    """The content: the edges from `first` to `last`, the cursor on one of them, marks at latenesses (ms)."""

    curve: Curve | None = None
    first: int = 0
    last: int = 0
    cursor: int = 0
    now_ms: int | None = None
    preview_ms: int | None = None
    recommended_ms: int | None = None
    empty: str = ""


class LatenessPlot(Canvas[LatenessScene]):
    """Draws a `LatenessScene`; says `Picked` when an edge is clicked."""

    content = LatenessScene()

    def on_click(self, event: Click) -> None:
        offset, scene = self.spot(event), self.content
        if offset is None or scene.curve is None:
            return
        places = range(scene.first, scene.last + 1)
        starts = [place for place in places if _x(scene, place, self.size.width) <= offset.x - _LEFT]
        if starts:
            self.post_message(Picked(self, starts[-1]))

    def draw(self, width: int, height: int) -> list[list[Span]]:
        scene = self.content
        if scene.curve is None or height < 3 or width < _LEFT + _RIGHT + 8:
            text: list[list[Span]] = [[(line, "dim")] for line in wrapped(scene.empty, width)]
            return [*([] for _ in range(height // 3)), *text][:height]
        return _Drawing(scene, scene.curve, width, height).lines()


def _x(scene: LatenessScene, place: int, width: int) -> int:
    """The place of an edge, in cells from the left of the plot."""
    many, room = scene.last - scene.first + 1, width - _LEFT - _RIGHT
    if room >= _EVEN * many:
        room = room // many * many
    return (place - scene.first) * room // many


class _Drawing:
    """One drawing of a scene; x in cells from the left of the plot."""

    def __init__(self, scene: LatenessScene, curve: Curve, width: int, height: int) -> None:
        self._scene, self._curve = scene, curve
        self._all = width
        self._width = _x(scene, scene.last + 1, width)
        both = height >= _BOTH
        self._titles = (height >= _LEGEND) + (height >= _TITLED) if both else int(height > 3)
        rows = height - (3 if both else 1) - self._titles
        self._bars = max(rows * 2 // 5, 2) if both else rows
        self._rows = rows - self._bars

    def lines(self) -> list[list[Span]]:
        """All lines from top to bottom; with little room the histogram alone."""
        of_part = self._curve.of_part
        horizon = self._curve.horizon_ms
        of = f", {OF_THIS_CHANNEL}" if of_part else "" if horizon is None else f", {horizon_words(horizon)}"
        records: Span = (f"▇ records by how late they are{of} (log)", "active")
        share: Span = (f"⣀⣀ {SHARE_BEHIND if of_part else 'late share'}", "stale")
        delay: Span = ("⠄⠄ result delay" + " since the start" * (horizon is not None), "level")
        if not self._rows:
            return [*([self._title(records)] if self._titles else []), *self._histogram(), self._labels()]
        lines = [*self._histogram(), *self._curves(), *self._marks(), self._labels()]
        if self._titles == 1:
            lines.insert(0, self._title(("▇ records (log)", "active"), share, delay))
        if self._titles == 2:
            lines.insert(self._bars, self._title(share, delay))
            lines.insert(0, self._title(records))
        return lines

    def _title(self, *names: Span) -> list[Span]:
        """Each name after its sign, which has the colour of what it stands for."""
        line: list[Span] = []
        for place, (text, style) in enumerate(names):
            sign, _, words = text.partition(" ")
            line += [(" " * (_LEFT if not place else 3) + sign, style), (f" {words}", "text")]
        return line

    def _x(self, place: int) -> int:
        return _x(self._scene, place, self._all)

    def _x_of(self, value_ms: int) -> int:
        """The place of a lateness (ms), also between two edges."""
        edges = self._curve.edges
        place = max(place_of(edges, value_ms), self._scene.first)  # what is shorter costs the same as the first
        if place + 1 >= len(edges) or edges[place] >= value_ms:
            return self._x(place)
        low, high = max(edges[place], 1), edges[place + 1]
        return self._x(place) + round(self._pitch(place) * log(max(value_ms, low) / low) / log(high / low))

    def _pitch(self, place: int) -> int:
        return self._x(place + 1) - self._x(place)

    def _ground(self) -> list[Span]:
        """An empty line with the cursor, the lateness in force and the preview."""
        cells: list[Span] = [(" ", "dim")] * self._width
        for value, style in ((self._scene.now_ms, "dim"), (self._scene.preview_ms, "preview")):
            if value is not None and 0 <= self._x_of(value) < self._width:
                cells[self._x_of(value)] = ("┊", style)
        x = self._x(max(self._scene.cursor, self._scene.first))
        if 0 <= x < self._width:
            cells[x] = ("│", "accent")
        return cells

    def _histogram(self) -> list[list[Span]]:
        curve, scene = self._curve, self._scene
        most = max(curve.counts[scene.first : scene.last + 1], default=0)
        heights = [self._height(curve.counts[place], most) for place in range(scene.first, scene.last + 1)]
        lines: list[list[Span]] = []
        for row in range(self._bars - 1, -1, -1):
            cells = self._ground()
            for place, eighths in enumerate(heights, scene.first):
                full = min(max(eighths - 8 * row, 0), 8)
                style = "stale" if place >= scene.cursor else "active"
                wide = self._pitch(place)
                for x in range(self._x(place), self._x(place) + wide - (wide > 2)):
                    if full:
                        cells[x] = (EIGHTHS[full], style)
            label = count(most) if row == self._bars - 1 else "1" if not row and most > 1 else ""
            lines.append([(pad(label, _LEFT - 2, right=True), "dim"), ("┤ " if label else "│ ", "frame"), *cells])
        return lines

    def _height(self, records: int, most: int) -> int:
        """A bar's height in eighths of a row, by the logarithm of its records."""
        return max(round(8 * self._bars * log(1 + records) / log(1 + most)), 1) if records else 0

    def _curves(self) -> list[list[Span]]:
        scene, curve = self._scene, self._curve
        dots = Dots(self._width, self._rows)
        delays = [curve.delays[place] for place in range(scene.first, scene.last + 1)]
        known = [max(delay, 1.0) for delay in delays if delay is not None]
        low, high = min(known, default=1.0), max(known, default=1.0)
        self._polyline(dots, [None if d is None else self._delay_y(d, low, high) for d in delays], "level", every=2)
        shares = [curve.shares[place] for place in range(scene.first, scene.last + 1)]
        self._polyline(dots, [None if share is None else self._share_y(share) for share in shares], "stale")
        names = {int(min(self._rows * n / _DECADES, self._rows - 1)): n for n in range(_DECADES, -1, -1)}
        lines: list[list[Span]] = []
        for row in range(self._rows):
            label = {0: "100 %", 1: "10 %", 2: "1 %", 3: "0.1 %", 4: "≤0.01 %"}[names[row]] if row in names else ""
            right = "" if not known else duration(high) if not row else duration(low) if row == self._rows - 1 else ""
            left: list[Span] = [(pad(label, _LEFT - 1, right=True), "dim"), ("┤" if label else "│", "frame")]
            lines.append([*left, *dots.row(row, self._ground()), (f" {right}", "level")])
        return lines

    def _share_y(self, share: float) -> float:
        depth = _DECADES if share <= 0 else min(-log10(min(share, 1.0)), _DECADES)
        return depth / _DECADES * (self._rows - 0.25)

    def _delay_y(self, delay: float, low: float, high: float) -> float:
        part = 0.5 if high <= low else log(high / max(delay, 1.0)) / log(high / low)
        return part * (self._rows - 0.25)

    def _polyline(self, dots: Dots, ys: Sequence[float | None], style: str, every: int = 1) -> None:
        before: tuple[float, float] | None = None
        for place, y in enumerate(ys, self._scene.first):
            here = None if y is None else (float(self._x(place)), y)
            if here is not None:
                start = before or here
                dots.line(start[0], start[1], here[0], here[1], style, every)
            before = here

    def _marks(self) -> list[list[Span]]:
        scene = self._scene
        marks: list[tuple[int, str, str]] = []
        if scene.now_ms is not None:
            marks.append((self._x_of(scene.now_ms), f"{NOW} now {setting(scene.now_ms)}", "strong"))
        if scene.preview_ms is not None:
            marks.append((self._x_of(scene.preview_ms), f"{PREVIEW} {setting(scene.preview_ms)}?", "preview"))
        best = scene.recommended_ms
        here = [] if best is None else [(self._x_of(best), f"{RECOMMENDED} recommended {setting(best)}", "good")]
        return [self._placed(marks), self._placed(here)]

    def _labels(self) -> list[Span]:
        scene, edges = self._scene, self._curve.edges
        taken: list[tuple[int, int, int]] = []
        places = range(scene.first, scene.last + 1)
        for place in sorted(places, key=lambda place: (place != scene.cursor, setting(edges[place])[:1] != "1", place)):
            start = self._x(place)
            end = start + cell_len(setting(edges[place]))
            if end <= self._width + _RIGHT and all(end < left or start > right for left, right, _ in taken):
                taken.append((start, end, place))
        styles = {scene.cursor: "accent"}
        marks = [(start, setting(edges[p]), styles.get(p, "dim")) for start, _, p in sorted(taken)]
        return [(pad("lateness", _LEFT), "dim"), *self._placed(marks, gap=0)[1:]]

    def _placed(self, marks: Sequence[tuple[int, str, str]], gap: int = 1) -> list[Span]:
        """Texts at their places, or one after the other if they would overlap."""
        spans: list[Span] = [(" " * _LEFT, "dim")]
        at = 0
        for x, text, style in sorted(marks):
            start = max(x, at)
            spans += [(" " * (start - at), "dim"), (text, style), (" " * gap, "dim")]
            at = start + cell_len(text) + gap
        return spans
