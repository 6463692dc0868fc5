"""A widget that draws spans of text itself and repaints only the changed cells; bindings; what was picked; dots."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar, cast

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ...engine.text.formatting import pad
from ..words.keys import binds
from ..words.spans import Part, Span, cells, joined, lay
from .themes import STYLES, style_of

Content = TypeVar("Content")
EIGHTHS = " ▁▂▃▄▅▆▇█"
"""A row of a cell in eighths of its height."""


def bindings(*places: str) -> list[BindingType]:
    """The table of keys as Textual's bindings; a configuration uses their ids to assign other keys."""
    return [Binding(b.key, b.action, b.help, id=b.name, priority=b.priority) for b in binds(*places)]


class Picked(Message):
    """A part of `control` was clicked, or its cursor is on another row: `value` is a channel, a row's key or a place.

    `again`: the cursor was there already.
    """

    def __init__(self, control: Widget, value: Any = None, *, again: bool = False) -> None:
        self._control, self.value, self.again = control, value, again
        super().__init__()

    @property
    def control(self) -> Widget:
        return self._control


class Palette:
    """The Rich styles of a widget in the present theme, by name."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._styles: dict[str, Style] = {}

    def style(self, name: str) -> Style:
        """The style of that name; `holder@cursor` is the one on the background of the other."""
        style = self._styles.get(name)
        if style is None:
            style = self._styles[name] = self._mixed(*name.split("@"))
        return style

    def _mixed(self, name: str, ground: str | None = None) -> Style:
        app = cast(App[Any], self._widget.app)  # pyright: ignore[reportUnknownMemberType]
        below = self._widget.background_colors[1]
        style = style_of(STYLES[name], app.theme_variables, below, colors=not app.no_color)
        if ground is None:
            return style
        other = style_of(STYLES[ground], app.theme_variables, below, colors=not app.no_color)
        return style + Style(bgcolor=other.bgcolor, reverse=other.reverse)

    def paint(self, spans: Iterable[Span], width: int) -> Strip:
        """The spans as a strip of `width` cells."""
        strip = Strip([Segment(text, self.style(name)) for text, name in joined(spans)])
        return strip.adjust_cell_length(width, self.style("text"))

    def clear(self) -> None:
        """Drop the cached styles: the theme changed."""
        self._styles.clear()


class Canvas(Widget, Generic[Content]):
    """A widget that draws its content as lines; a redraw repaints only the differences.

    A subclass has an empty `content` and draws it in `draw`.
    """

    content: Content
    head: Sequence[Sequence[Part]] = ()
    """Lines above the picture, inside this widget, so that no other widget has to move for them."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._palette = Palette(self)
        self._lines: list[list[Span]] = []

    def show(self, content: Content, head: Sequence[Sequence[Part]] = ()) -> None:
        """Draw `content` below the lines `head`."""
        if content != self.content or head != self.head:
            self.content, self.head = content, head
            self.redraw()

    def notify_style_update(self) -> None:
        self._palette.clear()
        super().notify_style_update()

    @property
    def plain(self) -> bool:
        """Whether there are no colours: patterns and letters then say the same."""
        return cast(App[Any], self.app).no_color  # pyright: ignore[reportUnknownMemberType]

    @abstractmethod
    def draw(self, width: int, height: int) -> list[list[Span]]:
        """The lines of the picture, at most `height` of them."""

    def redraw(self) -> None:
        """Draw again, and ask for a repaint of the cells that differ."""
        width, height = self.size
        if not width or not height:
            return
        head = [lay(parts, width) for parts in self.head]
        lines = [*head, *self.draw(width, height - len(head))]
        if len(lines) != len(self._lines):
            self._lines = lines
            self.refresh()
            return
        pairs = enumerate(zip(self._lines, lines, strict=True))
        regions = [region for y, (old, new) in pairs if (region := differ(old, new, y, width))]
        self._lines = lines
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        return self._palette.paint(self._lines[y] if y < len(self._lines) else (), width)

    def on_resize(self, event: Resize) -> None:
        self._lines = []
        self.redraw()
        self.refresh()


def centered(text: str, width: int, height: int) -> list[list[Span]]:
    """The lines of a text instead of a picture, in its middle."""
    lines = text.splitlines()
    out: list[list[Span]] = [[] for _ in range(max((height - len(lines)) // 2, 0))]
    return [*out, *([(pad("", (width - cell_len(line)) // 2) + line, "dim")] for line in lines)]


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


def spark(values: Iterable[int | None], most: int | None, unknown: str = " ") -> str:
    """A bar for each value, the greatest as high as a row."""
    return "".join(unknown if value is None else EIGHTHS[1 + 7 * value // max(most or 0, 1)] for value in values)


_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


class Dots:
    """A grid of `width` by `height` cells; a cell has the style of its last dot."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._bits: dict[tuple[int, int], int] = {}
        self._styles: dict[tuple[int, int], str] = {}

    def dot(self, x: float, y: float, style: str) -> None:
        """Draw a dot at `x` cells from the left and `y` from the top; ignored if that is outside."""
        column, line = int(x * 2), int(y * 4)
        if 0 <= column < self.width * 2 and 0 <= line < self.height * 4:
            cell = (column // 2, line // 4)
            self._bits[cell] = self._bits.get(cell, 0) | _BITS[column % 2][line % 4]
            self._styles[cell] = style

    def line(self, x0: float, y0: float, x1: float, y1: float, style: str, every: int = 1) -> None:
        """Draw a straight line; with `every` above 1 only every n-th dot."""
        steps = max(int(max(abs(x1 - x0) * 2, abs(y1 - y0) * 4)), 1)
        for step in range(0, steps + 1, every):
            self.dot(x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps, style)

    def row(self, y: int, ground: list[Span]) -> list[Span]:
        """Line `y` in spans of one cell each; without a dot, the cell of `ground` (one span per cell)."""
        return [
            (chr(0x2800 + self._bits[x, y]), self._styles[x, y]) if (x, y) in self._bits else ground[x]
            for x in range(self.width)
        ]
