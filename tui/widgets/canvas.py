"""A widget that draws runs of text itself and repaints only the cells that changed."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, cast

from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.events import Resize
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from ..inks import INKS, style_of
from ..present.line import Part, Span, cells, joined, lay


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
