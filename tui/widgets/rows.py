"""Lists that format only the rows in view and repaint only those that changed."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import groupby
from textwrap import wrap
from typing import Any, ClassVar

from msgspec import Struct
from rich.cells import cell_len
from textual.binding import BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView

from ..words.spans import (
    Column,
    Row,
    Span,
    cells,
    clip,
    clip_words,
    laid,
    row_line,
    sized,
    text_of,
    title_at,
    titles_line,
)
from ..words.texts import NOTHING_MATCHES, Filter
from .canvas import Painted, Picked, bindings, differ


class SortedBy(Message):
    """The title of a column was clicked."""

    def __init__(self, title: str) -> None:
        self.title = title
        super().__init__()


class Rows(Painted, ScrollView, can_focus=True, inherit_bindings=False):
    """Rows of spans, below `HEADER` fixed lines."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("list")
    HEADER = 0

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._seen: dict[int, Sequence[Span]] = {}

    @abstractmethod
    def row_count(self) -> int:
        """The number of rows."""

    @abstractmethod
    def row(self, index: int, width: int) -> Sequence[Span]:
        """Row `index` in at most `width` cells."""

    def title_at(self, x: int) -> str | None:
        """The title of the column in the fixed line, `x` cells from the left."""
        return None

    def pick(self, index: int, x: int) -> None:
        """Row `index` was clicked, `x` cells from the left."""

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

    def spans(self, y: int) -> Sequence[Span]:
        spans = self._seen[y] = self._line(y)
        return spans

    def on_resize(self, event: Resize) -> None:
        self._seen.clear()
        self.virtual_size = Size(0, self.row_count() + self.HEADER)
        self.refresh()

    def on_click(self, event: Click) -> None:
        offset = self.spot(event)
        if offset is None:
            return
        row = offset.y - self.HEADER + self.scroll_offset.y
        if offset.y < self.HEADER:
            if (title := self.title_at(offset.x)) is not None:
                self.post_message(SortedBy(title))
        elif row < self.row_count():
            self.pick(row, offset.x)

    def _line(self, y: int) -> Sequence[Span]:
        if y < self.HEADER:
            return self.header(self.row_cells)
        index = y - self.HEADER + self.scroll_offset.y
        return self.row(index, self.row_cells) if index < self.row_count() else ()


def marked(spans: Sequence[Span], width: int) -> list[Span]:
    """The row that the cursor is on: the spans on its background, which fills the line."""
    return [*((text, f"{style}@cursor") for text, style in spans), (" " * (width - cells(spans)), "cursor")]


def column_cells(texts: Iterable[str], least: int, most: int) -> int:
    """The width of a column for the longest of the texts, within limits (cells)."""
    return max(least, min(most, max((cell_len(text) for text in texts), default=0)))


_wrap = partial(wrap, break_on_hyphens=False)  # a path or an option stays in one piece


def wrapped(text: str, width: int) -> list[str]:
    """The text of an empty list, each line wrapped with its own indent."""
    out: list[str] = []
    for line in text.splitlines():
        indent = " " * (1 + len(line) - len(line.lstrip()))
        out += _wrap(line.lstrip(), max(width - 1, 20), initial_indent=indent, subsequent_indent=indent)
    return out


Draw = Callable[[int], list[Span]]
"""Draws a line for that many cells; what is longer is cut."""


_WHOLE = 400
"""Width at which an item is searched, so that nothing is cut."""


class Item(Struct, frozen=True):
    """An item, drawn as `lines`; the cursor can be on it only if it has a key."""

    lines: tuple[Draw, ...]
    key: str | None = None
    sorts: Mapping[str, Any] | None = None
    """The item's values for sorting, by the column's title; None comes last."""
    columns: Callable[[int], Sequence[Column[Any]]] | None = None
    """The columns of the line above a table that fit into so many cells; None: another line."""
    inside: bool = False
    """Whether it is part of the row above it, which it follows in every order."""
    name: str | None = None
    """What is copied as its name; None: the key."""
    opens: Callable[[], object] | None = None
    """What opens it."""
    word: str | None = None
    """The footer's word for that; None: that of the table of keys."""


def heading(*spans: Span) -> Item:
    """A line without a key."""
    return Item((lambda width: list(spans),))


def more(count: int, what: str = "") -> list[Item]:
    """The line below a list that leaves out so many."""
    return [heading((f" and {count:,} more{what}", "dim"))] if count > 0 else []


def table(
    columns: Iterable[Column[Row]], rows: Sequence[Row], key: Callable[[Row], str | None], **more: Callable[[Row], Any]
) -> list[Item]:
    """The rows in columns, below the titles of these; `more` gives further fields of a row's item, `details` its
    further lines.
    """
    columns = sized(columns, rows)
    fitting = cache(partial(laid, columns))
    sorts = [(column.title, column.sort) for column in columns if column.sort is not None]
    details = more.pop("details", lambda row: ())
    return [
        Item((lambda width: titles_line(fitting(width)),), columns=fitting),
        *(
            Item(
                (lambda width, row=row: row_line(fitting(width), row), *details(row)),
                key(row),
                {title: value(row) for title, value in sorts},
                **{field: value(row) for field, value in more.items()},
            )
            for row in rows
        ),
    ]


def paragraph(text: str, style: str = "dim", lines: int = 3) -> Item:
    """Text without a key, wrapped into at most `lines` lines."""

    def line(place: int, width: int) -> list[Span]:
        parts = wrapped(text, width)
        return [(parts[place], style)] if place < len(parts) else []

    return Item(tuple(partial(line, place) for place in range(lines)))


class Sheet(Rows):
    """Draws items, only those in view; says `Picked` when the cursor goes to another one or is clicked again.

    After `SortedBy` the list must be built without lines between its rows.
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._items: Sequence[Item] = ()
        self._rows: list[tuple[int, int]] = []
        self.cursor: str | None = None
        """The key of the item that the cursor is on."""
        self._chosen = False
        self._all: Sequence[Item] = ()
        self._pattern: Filter | None = None
        self.sorted_by: str | None = None
        """The title that was clicked; None: the list has its own order."""
        self._reverse = False
        self.shares = (0, 0)
        """The numbers of items with a key: those that match the filter, and all."""

    def filter(self, pattern: Filter | None) -> None:
        """Show only the items with a key whose text matches `pattern`; None: all."""
        if pattern != self._pattern:
            self._pattern = pattern
            self.show(self._all)

    def line(self, key: str) -> str:
        """An item as it is shown."""
        width = self.row_cells
        lines = next((item.lines for item in self._items if item.key == key), ())
        return "\n".join(text_of(clip_words(line(width), width)) for line in lines)

    @property
    def item(self) -> Item | None:
        """The item that the cursor is on."""
        return next((item for item in self._items if item.key is not None and item.key == self.cursor), None)

    def show(self, items: Sequence[Item]) -> None:
        """Draw `items`; once it was moved, the cursor stays with its item, else it is on the first."""
        self._all = items
        items = self._items = self._sorted(self._filtered(items))
        self._rows = [(place, line) for place, item in enumerate(items) for line in range(len(item.lines))]
        keys = self._keys()
        if not self._chosen or self.cursor not in keys:
            self.cursor, self._chosen = keys[0] if keys else None, False
        self.redraw()

    def _filtered(self, items: Sequence[Item]) -> Sequence[Item]:
        pattern, keyed = self._pattern, sum(item.key is not None for item in items)
        if pattern is None:
            self.shares = (keyed, keyed)
            return items
        texts = ([] if item.key is None else [text_of(line(_WHOLE)) for line in item.lines] for item in items)
        left = [item for item, of in zip(items, texts, strict=True) if item.key is None or pattern.matches(*of)]
        self.shares = (sum(item.key is not None for item in left), keyed)
        return left if self.shares[0] or not keyed else [heading((f" {NOTHING_MATCHES}", "dim"))]

    def _sorted(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items, with each table that has the column sorted by it; everything else stays in place."""
        column = self.sorted_by
        if column is None:
            return items

        def value(row: Sequence[Item]) -> Any:
            return (row[0].sorts or {})[column]

        out: list[Item] = []
        for has_column, table in groupby(items, key=lambda item: item.sorts is not None and column in item.sorts):
            rows: list[list[Item]] = []
            for item in table:
                if item.inside and rows:
                    rows[-1].append(item)
                else:
                    rows.append([item])
            if has_column:
                known = sorted((row for row in rows if value(row) is not None), key=value, reverse=self._reverse)
                rows = [*known, *(row for row in rows if value(row) is None)]
            out += (item for row in rows for item in row)
        return out

    def _sort_by(self, columns: Sequence[Column[Any]], x: int) -> None:
        """Sort by the column whose title was clicked; a second click reverses the order."""
        title = title_at(columns, x)
        if not any(column.title == title and column.sort is not None for column in columns):
            return
        self._reverse = title == self.sorted_by and not self._reverse
        self.sorted_by = title
        self.show(self._all)
        self.post_message(SortedBy(title))

    def go_to(self, key: str) -> None:
        """Put the cursor on an item, and scroll it into view."""
        self._chosen = True
        if key == self.cursor or key not in self._keys():
            return
        self.cursor = key
        self.redraw()
        self._show_item(key)
        self.post_message(Picked(self, key))

    def move(self, by: int) -> None:
        keys = self._keys()
        if not keys:
            super().move(by)
            return
        here = keys.index(self.cursor) if self.cursor in keys else 0
        self.go_to(keys[max(min(here + by, len(keys) - 1), 0)])

    def pick(self, index: int, x: int) -> None:
        item = self._items[self._rows[index][0]]
        if item.columns is not None:
            self._sort_by(item.columns(self.row_cells), x)
        elif item.key is not None and item.key == self.cursor:
            self._chosen = True
            self.post_message(Picked(self, item.key, again=True))
        elif item.key is not None:
            self.go_to(item.key)

    def row_count(self) -> int:
        return len(self._rows)

    def row(self, index: int, width: int) -> Sequence[Span]:
        key = self._items[self._rows[index][0]].key
        spans = self.unmarked(index, width)
        return spans if key is None or key != self.cursor else marked(spans, width)

    def unmarked(self, index: int, width: int) -> list[Span]:
        """Row `index` without the cursor."""
        place, line = self._rows[index]
        item = self._items[place]
        if item.columns is not None:
            return clip(titles_line(item.columns(width), self.sorted_by, reverse=self._reverse), width)
        return clip_words(item.lines[line](width), width)

    def _show_item(self, key: str) -> None:
        """Scroll so that all its lines are in view; with the first or last item, also the lines above or below it."""
        rows = [row for row, (place, _) in enumerate(self._rows) if self._items[place].key == key]
        keys = self._keys()
        self.show_row(len(self._rows) - 1 if key == keys[-1] else rows[-1])
        self.show_row(0 if key == keys[0] else rows[0])

    def _keys(self) -> list[str]:
        return [item.key for item in self._items if item.key is not None]


_WIDEST = 110
"""Longer lines are hard to read."""


class Section(Struct, frozen=True):
    """A title (or none), and lines that each begin with `sign`; `style` is the lines'."""

    title: str
    lines: Sequence[str]
    sign: str = ""
    style: str = "text"


class SectionedText(Rows):
    """Draws sections, one after the other."""

    _sections: Sequence[Section] = ()
    _laid: tuple[int, list[list[Span]]] = (0, [])

    def show(self, sections: Sequence[Section]) -> None:
        """Draw `sections`."""
        if sections != self._sections:
            self._sections, self._laid = sections, (0, [])
            self.redraw()

    def row_count(self) -> int:
        return len(self._lines(self.size.width))

    def row(self, index: int, width: int) -> Sequence[Span]:
        return self._lines(width)[index]

    def _lines(self, width: int) -> list[list[Span]]:
        if self._laid[0] != width:
            self._laid = (width, _section_lines(self._sections, width))
        return self._laid[1]


def _section_lines(sections: Sequence[Section], width: int) -> list[list[Span]]:
    """The sections in lines of at most `width` cells, an empty one between two of them."""
    out: list[list[Span]] = []
    for section in sections:
        if out:
            out.append([])
        if section.title:
            out.append([(" " + section.title, "title")])
        for line in section.lines:
            out += _wrapped(line, section, width)
    return out


def _wrapped(line: str, section: Section, width: int) -> list[list[Span]]:
    hang = " " * (3 if section.title else 1)
    room = max(min(width - 2, _WIDEST) - len(hang) - len(section.sign), 10)
    parts = _wrap(line, room) or [""]
    first: Span = (hang + section.sign, "dim")
    rest: Span = (" " * (len(hang) + len(section.sign)), "dim")
    return [clip([first if not place else rest, (part, section.style)], width) for place, part in enumerate(parts)]
