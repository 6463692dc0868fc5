"""A list of items of one or more lines; the cursor can be on some of them."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from msgspec import Struct
from textual.message import Message

from ..present.line import Span, cells
from ..present.screen_words import NOTHING_MATCHES
from .rows import Rows, text_of, wrapped

Draw = Callable[[int], list[Span]]
"""Draws a line in at most that many cells."""


_WHOLE = 400
"""Width at which an item is searched, so that nothing is cut."""


class Item(Struct, frozen=True):
    """An item, drawn as `lines`; the cursor can be on it only if it has a key."""

    lines: tuple[Draw, ...]
    key: str | None = None
    sorts: Mapping[str, Any] | None = None
    """The item's values for sorting, by the column's title; None comes last."""
    titles: tuple[str, ...] = ()
    """The line above a table: its columns from left to right, as the line has them."""
    inside: bool = False
    """Whether it is part of the row above it, which it follows in every order."""


def heading(*spans: Span) -> Item:
    """A line without a key."""
    return Item((lambda width: list(spans),))


def paragraph(text: str, ink: str = "dim", lines: int = 3) -> Item:
    """Text without a key, wrapped into at most `lines` lines."""

    def line(place: int, width: int) -> list[Span]:
        found = wrapped(text, width)
        return [(found[place], ink)] if place < len(found) else []

    return Item(tuple(partial(line, place) for place in range(lines)))


class Sheet(Rows):
    """Draws items, only those in view; says `Moved` when the cursor goes to another one."""

    class Moved(Message):
        """The cursor is on another item."""

        def __init__(self, sheet: "Sheet", key: str) -> None:
            self.sheet, self.key = sheet, key
            super().__init__()

        @property
        def control(self) -> "Sheet":
            return self.sheet

    class Sorted(Message):
        """The title of a column was clicked: the list must be built without lines between its rows."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._items: Sequence[Item] = ()
        self._rows: list[tuple[int, int]] = []
        self._cursor: str | None = None
        self._chosen = False
        self._all: Sequence[Item] = ()
        self._pattern: re.Pattern[str] | None = None
        self._sort: str | None = None
        self._reverse = False
        self.shares = (0, 0)
        """The numbers of items with a key: those that match the filter, and all."""

    def filter(self, pattern: re.Pattern[str] | None) -> None:
        """Show only the items with a key whose text matches `pattern`; None: all."""
        if pattern != self._pattern:
            self._pattern = pattern
            self.show(self._all)

    def line(self, key: str) -> str:
        """An item as it is shown."""
        width = self.size.width
        lines = next((item.lines for item in self._items if item.key == key), ())
        return "\n".join(text_of(line(width)) for line in lines)

    @property
    def sorted_by(self) -> str | None:
        """The title that was clicked; None: the list has its own order."""
        return self._sort

    @property
    def cursor(self) -> str | None:
        """The key of the item that the cursor is on."""
        return self._cursor

    def show(self, items: Sequence[Item]) -> None:
        """Draw `items`; once it was moved, the cursor stays with its item, else it is on the first."""
        self._all = items
        items = self._items = self._sorted(self._filtered(items))
        self._rows = [(place, line) for place, item in enumerate(items) for line in range(len(item.lines))]
        keys = self._keys()
        if not self._chosen or self._cursor not in keys:
            self._cursor, self._chosen = keys[0] if keys else None, False
        self.redraw()

    def _filtered(self, items: Sequence[Item]) -> Sequence[Item]:
        pattern, keyed = self._pattern, sum(item.key is not None for item in items)
        if pattern is None:
            self.shares = (keyed, keyed)
            return items
        left = [item for item in items if item.key is None or _found(pattern, item)]
        self.shares = (sum(item.key is not None for item in left), keyed)
        return left if self.shares[0] or not keyed else [heading((f" {NOTHING_MATCHES}", "dim"))]

    def _sorted(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items, with each table that has the column sorted by it; everything else stays in place."""
        column = self._sort
        if column is None:
            return items
        out: list[Item] = []
        for known, run in groupby(items, key=lambda item: item.sorts is not None and column in item.sorts):
            rows = list(run)
            out += self._in_order(rows, column) if known else rows
        return out

    def _in_order(self, table: Sequence[Item], column: str) -> list[Item]:
        rows: list[list[Item]] = []
        for item in table:
            if item.inside and rows:
                rows[-1].append(item)
            else:
                rows.append([item])
        values = [(row[0].sorts or {})[column] for row in rows]
        have = [place for place, value in enumerate(values) if value is not None]
        have.sort(key=values.__getitem__, reverse=self._reverse)
        order = [*have, *(place for place, value in enumerate(values) if value is None)]
        return [item for place in order for item in rows[place]]

    def _sort_by(self, item: Item, x: int) -> None:
        """Sort by the column whose title was clicked; a second click reverses the order."""
        text = "".join(part for part, _ in item.lines[0](self.size.width))
        ends = [(text.find(title) + len(title), title) for title in item.titles if title in text]
        column = next((title for end, title in ends if x <= end), None)
        if column is None:
            return
        self._reverse = column == self._sort and not self._reverse
        self._sort = column
        self.show(self._all)
        self.post_message(self.Sorted())

    def go_to(self, key: str) -> None:
        """Put the cursor on an item, and scroll it into view."""
        self._chosen = True
        if key == self._cursor or key not in self._keys():
            return
        self._cursor = key
        self.redraw()
        self._show_item(key)
        self.post_message(self.Moved(self, key))

    def move(self, by: int) -> None:
        keys = self._keys()
        if not keys:
            super().move(by)
            return
        here = keys.index(self._cursor) if self._cursor in keys else 0
        self.go_to(keys[max(min(here + by, len(keys) - 1), 0)])

    def key_at(self, row: int) -> str | None:
        """The key of the item in a row."""
        return self._items[self._rows[row][0]].key if 0 <= row < len(self._rows) else None

    def on_rows_clicked(self, event: Rows.Clicked) -> None:
        event.stop()
        item = self._items[self._rows[event.row][0]]
        if item.titles:
            self._sort_by(item, event.x)
        elif (key := self.key_at(event.row)) is not None:
            self.go_to(key)

    def row_count(self) -> int:
        return len(self._rows)

    def row(self, index: int, width: int) -> Sequence[Span]:
        place, line = self._rows[index]
        item = self._items[place]
        spans = item.lines[line](width)
        if item.key is None or item.key != self._cursor:
            return spans
        return [*((text, f"{ink}@cursor") for text, ink in spans), (" " * (width - cells(spans)), "cursor")]

    def _show_item(self, key: str) -> None:
        """Scroll so that all its lines are in view; with the first or last item, also the lines above or below it."""
        rows = [row for row, (place, _) in enumerate(self._rows) if self._items[place].key == key]
        keys = self._keys()
        self.show_row(len(self._rows) - 1 if key == keys[-1] else rows[-1])
        self.show_row(0 if key == keys[0] else rows[0])

    def _keys(self) -> list[str]:
        return [item.key for item in self._items if item.key is not None]


def _found(pattern: re.Pattern[str], item: Item) -> bool:
    return any(pattern.search(text_of(line(_WHOLE))) for line in item.lines)
