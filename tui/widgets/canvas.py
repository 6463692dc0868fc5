"""A widget that draws spans of text itself and repaints only the changed cells; lines of braille dots; time by time."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import UTC, tzinfo
from typing import Any, cast

from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.events import Resize
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from ..words.spans import Part, Span, cells, clip, joined, lay
from ..words.time_plot import Data, PlotFrame, PlotView, drawn, frame_of, x_labels, y_labels
from .themes import INKS, style_of


class Palette:
    """The inks of a widget in the present theme."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._inks: dict[str, Style] = {}

    def ink(self, name: str) -> Style:
        """The style of an ink; `holder@cursor` is the one on the background of the other."""
        style = self._inks.get(name)
        if style is None:
            style = self._inks[name] = self._mixed(*name.split("@"))
        return style

    def _mixed(self, name: str, ground: str | None = None) -> Style:
        app = cast(App[Any], self._widget.app)  # pyright: ignore[reportUnknownMemberType]
        below = self._widget.background_colors[1]
        style = style_of(INKS[name], app.theme_variables, below, colors=not app.no_color)
        if ground is None:
            return style
        other = style_of(INKS[ground], app.theme_variables, below, colors=not app.no_color)
        return style + Style(bgcolor=other.bgcolor, reverse=other.reverse)

    def paint(self, spans: Iterable[Span], width: int) -> Strip:
        """The runs as a strip of `width` cells."""
        strip = Strip([Segment(text, self.ink(name)) for text, name in joined(spans)])
        return strip.adjust_cell_length(width, self.ink("text"))

    def clear(self) -> None:
        """Drop the cached styles: the theme changed."""
        self._inks.clear()


class Canvas(Widget):
    """A widget drawn as lines; a redraw repaints only the differences."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._palette = Palette(self)
        self._lines: list[list[Span]] = []
        self._head: Sequence[Sequence[Part]] = ()
        """Lines above the picture, inside this widget, so that no other widget has to move for them."""

    def notify_style_update(self) -> None:
        self._palette.clear()
        super().notify_style_update()

    @abstractmethod
    def draw(self, width: int, height: int) -> list[list[Span]]:
        """The lines of the picture, at most `height` of them."""

    def redraw(self) -> None:
        """Draw again, and ask for a repaint of the cells that differ."""
        width, height = self.size
        if not width or not height:
            return
        lines = self._draw_all(width, height)
        if len(lines) != len(self._lines):
            self._lines = lines
            self.refresh()
            return
        pairs = enumerate(zip(self._lines, lines, strict=True))
        regions = [region for y, (old, new) in pairs if (region := differ(old, new, y, width))]
        self._lines = lines
        if regions:
            self.refresh(*regions)

    def _draw_all(self, width: int, height: int) -> list[list[Span]]:
        head = [lay(parts, width) for parts in self._head]
        return [*head, *self.draw(width, height - len(head))]

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        return self._palette.paint(self._lines[y] if y < len(self._lines) else (), width)

    def on_resize(self, event: Resize) -> None:
        width, height = self.size
        self._lines = self._draw_all(width, height) if width and height else []
        self.refresh()


def differ(old: Sequence[Span], new: Sequence[Span], y: int, width: int) -> Region | None:
    """The range of cells of line `y` that differs, None if none does."""
    if old == new:
        return None
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    start, kept = cells(new[:head]), cells(new[len(new) - tail :])
    total = cells(new)
    end = total - kept if total == cells(old) else width
    return Region(start, y, max(end - start, 1), 1)


_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


class Dots:
    """A grid of `width` by `height` cells; a cell has the ink of its last dot."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._bits: dict[tuple[int, int], int] = {}
        self._inks: dict[tuple[int, int], str] = {}

    def dot(self, x: float, y: float, ink: str) -> None:
        """Draw a dot at `x` cells from the left and `y` from the top; ignored if that is outside."""
        column, line = int(x * 2), int(y * 4)
        if 0 <= column < self.width * 2 and 0 <= line < self.height * 4:
            cell = (column // 2, line // 4)
            self._bits[cell] = self._bits.get(cell, 0) | _BITS[column % 2][line % 4]
            self._inks[cell] = ink

    def line(self, x0: float, y0: float, x1: float, y1: float, ink: str, every: int = 1) -> None:
        """Draw a straight line; with `every` above 1 only every n-th dot."""
        steps = max(int(max(abs(x1 - x0) * 2, abs(y1 - y0) * 4)), 1)
        for step in range(0, steps + 1, every):
            self.dot(x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps, ink)

    def row(self, y: int, ground: list[Span] | None = None) -> list[Span]:
        """Line `y` in runs of one cell each; without a dot, the cell of `ground` (one run per cell)."""
        empty: list[Span] = [(" ", "dim")] * self.width if ground is None else ground
        return [
            (chr(0x2800 + self._bits[x, y]), self._inks[x, y]) if (x, y) in self._bits else empty[x]
            for x in range(self.width)
        ]


_GUTTER = 10


class TimeCanvas(Canvas):
    """Draws `Data` in a given view, readable also without colours (`plain`); stores the part it shows."""

    def __init__(self, *, plain: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plain = plain
        self._data: Data | None = None
        self._look = PlotView()
        self._zone: tzinfo | None = UTC
        self._empty = ""
        self.frame: PlotFrame | None = None
        """The part that is shown."""

    def show(self, data: Data | None, look: PlotView, zone: tzinfo | None, empty: str) -> None:
        """Draw `data`; `empty` is the text without data."""
        self._data, self._look, self._zone, self._empty = data, look, zone, empty
        self.redraw()

    def draw(self, width: int, height: int) -> list[list[Span]]:
        data, columns, rows = self._data, width - _GUTTER - 1, height - 1
        if data is None or columns < 4 or rows < 3:
            return [[], clip([(f" {self._empty}", "dim")], width)][:height]
        frame = self.frame = frame_of(data, self._look, columns, rows, self.frame)
        labels = y_labels(frame, self._zone)
        lines: list[list[Span]] = []
        for place, spans in enumerate(drawn(data, frame, plain=self._plain)):
            text = labels.get(frame.rows - 1 - place)
            mark = f" {text or '':>{_GUTTER - 3}} "
            lines.append([(mark, "dim"), ("┤" if text else "│", "frame"), *spans])
        if self._empty:
            lines[1] = [*lines[1][:2], (f" {self._empty}"[:columns], "dim")]
        return [*lines, _bottom(frame, self._zone)]


def _bottom(frame: PlotFrame, zone: tzinfo | None) -> list[Span]:
    """The labels of the processing time."""
    line = " " * frame.columns
    for column, text in x_labels(frame, zone).items():
        if column + len(text) + 1 < frame.columns and not line[max(column - 1, 0) : column + len(text) + 2].strip():
            line = line[:column] + "╵" + text + line[column + 1 + len(text) :]
    return [(" " * _GUTTER, "dim"), (line, "dim")]
