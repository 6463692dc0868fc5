"""A widget that draws spans of text itself and repaints only the changed cells; bindings; what was picked."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import MouseEvent, Resize
from textual.geometry import Offset, Region
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from ...engine.text.formatting import pad
from ..words.keys import binds
from ..words.spans import Part, Span, cells, joined, lay
from .themes import STYLES, style_of

Content = TypeVar("Content")


def bindings(*places: str) -> list[BindingType]:
    """The table of keys as Textual's bindings; a configuration uses their ids to assign other keys."""
    return [Binding(b.key, b.action, b.name, id=b.name, priority=b.priority) for b in binds(*places)]


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


class Painted(Widget):
    """A widget that draws spans, line by line; what the mouse selects in it can be copied."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rich: dict[str, Style] = {}
        """The Rich styles in the present theme, by name."""

    @abstractmethod
    def spans(self, y: int) -> Sequence[Span]:
        """Line `y` as it is shown."""

    def notify_style_update(self) -> None:
        self._rich.clear()
        super().notify_style_update()

    def _style(self, name: str) -> Style:
        """The style of that name; `holder@cursor` is the one on the background of the other."""
        style = self._rich.get(name)
        if style is None:
            style = self._rich[name] = self._mixed(*name.split("@"))
        return style

    def _mixed(self, name: str, ground: str | None = None) -> Style:
        app = cast(App[Any], self.app)  # pyright: ignore[reportUnknownMemberType]
        below = self.background_colors[1]
        style = style_of(STYLES[name], app.theme_variables, below, colors=not app.no_color)
        if ground is None:
            return style
        other = style_of(STYLES[ground], app.theme_variables, below, colors=not app.no_color)
        return style + Style(bgcolor=other.bgcolor, reverse=other.reverse)

    def render_line(self, y: int) -> Strip:
        strip = Strip([Segment(text, self._style(name)) for text, name in joined(self.spans(y))])
        strip, selection = strip.adjust_cell_length(self.size.width, self._style("text")), self.text_selection
        if selection is None or (ends := self._selected(selection, y)) is None:
            return strip
        start, end = ends
        chosen = Strip(Segment.apply_style(strip.crop(start, end), post_style=Style(reverse=True)))
        return Strip.join([strip.crop(0, start), chosen, strip.crop(end)])

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        spans = ((y, self._selected(selection, y)) for y in range(self.size.height))
        lines = (self.render_line(y).crop(*ends).text.rstrip() for y, ends in spans if ends is not None)
        return "\n".join(lines), "\n"

    def _selected(self, selection: Selection, y: int) -> tuple[int, int] | None:
        """The cells of line `y` that are selected."""
        ends = selection.get_span(y)
        return None if ends is None else (ends[0], self.size.width if ends[1] < 0 else ends[1])

    def spot(self, event: MouseEvent) -> Offset | None:
        """Where a click is, from the upper left; None: beside the content, or the end of a selection."""
        return None if self.screen.selections else event.get_content_offset(self)


class Canvas(Painted, Generic[Content]):
    """A widget that draws its content as lines; a redraw repaints only the differences.

    A subclass has an empty `content` and draws it in `draw`.
    """

    content: Content
    head: Sequence[Sequence[Part]] = ()
    """Lines above the picture, inside this widget, so that no other widget has to move for them."""
    _lines: Sequence[list[Span]] = ()

    def show(self, content: Content) -> None:
        """Draw `content`."""
        if content != self.content:
            self.content = content
            self.redraw()

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
        lines = self._drawn()
        if len(lines) != len(self._lines):
            self._lines = lines
            self.refresh()
            return
        pairs = enumerate(zip(self._lines, lines, strict=True))
        regions = [region for y, (old, new) in pairs if (region := differ(old, new, y, width))]
        self._lines = lines
        if regions:
            self.refresh(*regions)

    def _drawn(self) -> list[list[Span]]:
        width, height = self.size
        head = [lay(parts, width) for parts in self.head]
        return [*head, *self.draw(width, height - len(head))]

    def spans(self, y: int) -> Sequence[Span]:
        if not self._lines:  # a new screen is painted before its widgets hear of their size
            self._lines = self._drawn()
        return self._lines[y] if y < len(self._lines) else ()

    def on_resize(self, event: Resize) -> None:
        self._lines = ()
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
