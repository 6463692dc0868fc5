"""A list that formats only the rows in view and repaints only those that changed."""

from abc import abstractmethod
from collections.abc import Sequence
from textwrap import wrap
from typing import ClassVar

from textual.binding import BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ..bindings import bindings
from ..present.line import Span
from .canvas import Palette, differ


class Rows(ScrollView, can_focus=True, inherit_bindings=False):
    """Rows of runs, `HEADER` fixed lines above them; says `Clicked` with the row, `HeaderClicked` with the cell."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("list")
    HEADER = 0

    class Clicked(Message):
        """A row was clicked, `x` cells from the left."""

        def __init__(self, rows: "Rows", row: int, x: int = 0) -> None:
            self.rows, self.row, self.x = rows, row, x
            super().__init__()

        @property
        def control(self) -> "Rows":
            return self.rows

    class HeaderClicked(Message):
        """The line above the rows was clicked, `x` cells from the left."""

        def __init__(self, rows: "Rows", x: int) -> None:
            self.rows, self.x = rows, x
            super().__init__()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._palette = Palette(self)
        self._seen: dict[int, Sequence[Span]] = {}

    def notify_style_update(self) -> None:
        self._palette.clear()
        super().notify_style_update()

    @abstractmethod
    def row_count(self) -> int:
        """The number of rows."""

    @abstractmethod
    def row(self, index: int, width: int) -> Sequence[Span]:
        """Row `index` in at most `width` cells."""

    @property
    def row_cells(self) -> int:
        """The width of a row: the scroll bar takes the rest."""
        return self.scrollable_content_region.width

    def header(self, width: int) -> Sequence[Span]:
        """The fixed line above the rows."""
        return ()

    def action_by(self, step: int, pages: bool = False) -> None:
        """Move by rows or pages."""
        self.move(step * max(self.size.height - self.HEADER - 1, 1) if pages else step)

    def move(self, by: int) -> None:
        """Scroll by rows."""
        self.scroll_to(y=self.scroll_offset.y + by, animate=False)

    def redraw(self) -> None:
        """Draw the rows in view again, and ask for a repaint of those that differ."""
        self.virtual_size = Size(0, self.row_count() + self.HEADER)
        for y in range(self.size.height):
            if region := differ(self._seen.get(y, ()), self._line(y), y, self.size.width):
                self.refresh(region)

    def show_row(self, index: int) -> None:
        """Scroll so that row `index` is in view."""
        top, room = self.scroll_offset.y, max(self.size.height - self.HEADER, 1)
        if index < top:
            self.scroll_to(y=index, animate=False)
        elif index >= top + room:
            self.scroll_to(y=index - room + 1, animate=False)

    def render_line(self, y: int) -> Strip:
        spans = self._line(y)
        self._seen[y] = spans
        return self._palette.paint(spans, self.size.width)

    def on_resize(self, event: Resize) -> None:
        self._seen.clear()
        self.virtual_size = Size(0, self.row_count() + self.HEADER)
        self.refresh()

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y < self.HEADER:
            self.post_message(self.HeaderClicked(self, offset.x))
        else:
            row = offset.y - self.HEADER + self.scroll_offset.y
            if row < self.row_count():
                self.post_message(self.Clicked(self, row, offset.x))

    def _line(self, y: int) -> Sequence[Span]:
        if y < self.HEADER:
            return self.header(self.row_cells)
        index = y - self.HEADER + self.scroll_offset.y
        return self.row(index, self.row_cells) if index < self.row_count() else ()


def text_of(spans: Sequence[Span]) -> str:
    """The text of the runs, without the blanks at either end."""
    return "".join(text for text, _ in spans).strip()


def wrapped(text: str, width: int) -> list[str]:
    """The text of an empty list, each line wrapped with its own indent."""
    out: list[str] = []
    for line in text.splitlines():
        indent = " " * (1 + len(line) - len(line.lstrip()))
        out += wrap(line.lstrip(), max(width - 1, 20), initial_indent=indent, subsequent_indent=indent)
    return out
