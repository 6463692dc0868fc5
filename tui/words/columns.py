"""Tables in columns: the least important columns go before anything is cut inside a cell. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len

from ...engine.text import formatting as f
from .spans import Span

Row = TypeVar("Row")
_GAP = 2


class Column(Struct, Generic[Row], frozen=True):
    """A column: rank 0 is always shown; others are dropped, the greatest `rank` first."""

    title: str
    text: Callable[[Row], str]
    rank: int = 0
    right: bool = False
    style: Callable[[Row], str] = lambda row: "text"
    cells: int = 0
    most: int = 0
    """It grows up to so many cells if there is room."""
    draw: Callable[[Row, int], list[Span]] | None = None
    """Draws a cell of that many cells; None: the text."""
    sort: Callable[[Row], Any] | None = None
    """The value that a click on the title sorts by, None last; without it the column does not sort."""


def sized(columns: Iterable[Column[Row]], rows: Sequence[Row]) -> list[Column[Row]]:
    """The columns, each as wide as its title and its longest text."""
    return [
        replace(one, cells=max(one.cells, cell_len(one.title), *(cell_len(one.text(row)) for row in rows)))
        for one in columns
    ]


def _taken(columns: Sequence[Column[Row]]) -> int:
    """The width of the columns in a line: one cell before the first and two between them."""
    return 1 + sum(one.cells + _GAP for one in columns) - _GAP


def laid(columns: Sequence[Column[Row]], width: int) -> list[Column[Row]]:
    """Those that fit, grown where there is room; without room even for those of rank 0 the widest is narrower."""
    kept = list(columns)
    while _taken(kept) > width and any(one.rank for one in kept):
        kept.remove(max(kept, key=lambda one: one.rank))
    if (over := _taken(kept) - width) > 0:
        widest = max(range(len(kept)), key=lambda place: kept[place].cells)
        kept[widest] = replace(kept[widest], cells=max(kept[widest].cells - over, 4))
    for place, one in enumerate(kept):
        kept[place] = replace(one, cells=max(min(one.cells + width - _taken(kept), one.most), one.cells))
    return kept


def titles_line(laid: Sequence[Column[Row]], sort: str | None = None, *, reverse: bool = False) -> list[Span]:
    """The titles of laid columns; the one that sorts has an arrow before it."""
    spans: list[Span] = []
    for column in laid:
        text = f.pad(column.title, column.cells, column.right)
        title = text.lstrip()
        gap = (_GAP if spans else 1) + len(text) - len(title)
        arrow: Span = (" ", "dim") if column.title != sort else ("▴" if reverse else "▾", "accent")
        spans += [(" " * (gap - 1), "dim"), arrow, (title, "dim")]
    return spans


def title_at(laid: Sequence[Column[Row]], x: int) -> str:
    """The title of the laid column at cell `x`, which reaches up to the next one."""
    end = 1
    for column in laid:
        end += column.cells + _GAP
        if x < end:
            return column.title
    return laid[-1].title


def row_line(laid: Sequence[Column[Row]], row: Row) -> list[Span]:
    """A row's cells in laid columns."""
    spans: list[Span] = []
    for one in laid:
        spans.append((" " * (_GAP if spans else 1), "text"))
        if one.draw is not None:
            spans += one.draw(row, one.cells)
        else:
            spans.append((f.pad(f.cut_middle(one.text(row), one.cells), one.cells, one.right), one.style(row)))
    return spans
