"""The table of targets."""

from collections.abc import Sequence

from textual.message import Message

from ..words.fleet import FleetRow, header_line, layout, row_line, title_at
from ..words.spans import Span, cells
from .rows import Rows, text_of


class FleetTable(Rows):
    """Draws rows of the fleet; the cursor stays with its target."""

    HEADER = 1

    class Moved(Message):
        """The cursor is on another target."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Sequence[FleetRow] = ()
        self._sort = ""
        self._reverse = False
        self._empty = ""
        self._selected: str | None = None
        self._chosen = False

    @property
    def selected(self) -> str | None:
        """The target that the cursor is on."""
        return self._selected

    @property
    def selected_row(self) -> FleetRow | None:
        """Its row."""
        return next((row for row in self._rows if row.target == self._selected), None)

    @property
    def rows(self) -> Sequence[FleetRow]:
        """The rows in their order."""
        return self._rows

    def line(self, target: str) -> str:
        """The row of a target as text."""
        found = [row for row in self._rows if row.target == target]
        width = self.row_cells
        return "\n".join(text_of(row_line(row, layout(self._rows, width), width)) for row in found)

    def select(self, target: str) -> None:
        """Put the cursor on a target."""
        self._selected, self._chosen = target, True

    def select_row(self, index: int) -> bool:
        """Put the cursor on a row; returns whether it was there already."""
        there = self._rows[index].target
        was, self._selected, self._chosen = self._selected, there, True
        self.redraw()
        self.post_message(self.Moved())
        return was == there

    def title_at(self, x: int) -> str:
        """The title of the column at cell `x`."""
        return title_at(layout(self._rows, self.size.width), x)

    def show(self, rows: Sequence[FleetRow], sort: str, *, reverse: bool, empty: str) -> None:
        """Draw the rows; the cursor is on the first until it is moved."""
        self._rows, self._sort, self._reverse, self._empty = rows, sort, reverse, empty
        targets = [row.target for row in rows]
        if not self._chosen or self._selected not in targets:
            self._selected = targets[0] if targets else None
        self.redraw()

    def move(self, by: int) -> None:
        targets = [row.target for row in self._rows]
        if not targets:
            return
        here = targets.index(self._selected) if self._selected in targets else 0
        there = max(min(here + by, len(targets) - 1), 0)
        self._selected, self._chosen = targets[there], True
        self.redraw()
        self.show_row(there)
        self.post_message(self.Moved())

    def row_count(self) -> int:
        return max(len(self._rows), 1)

    def header(self, width: int) -> Sequence[Span]:
        return header_line(layout(self._rows, width), self._sort, width, reverse=self._reverse)

    def row(self, index: int, width: int) -> Sequence[Span]:
        if not self._rows:
            return [(f" {self._empty}", "dim")]
        row = self._rows[index]
        spans = row_line(row, layout(self._rows, width), width)
        if row.target != self._selected:
            return spans
        return [*((text, f"{ink}@cursor") for text, ink in spans), (" " * (width - cells(spans)), "cursor")]
