"""Tables in columns: the least important columns go before anything is cut inside a cell. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len

from ...engine.text.formatting import cut_middle, pad
from .spans import Span

Row = TypeVar("Row")
_GAP = 2


class _Ranked(Protocol):
    @property
    def cells(self) -> int: ...
    @property
    def rank(self) -> int: ...


Ranked = TypeVar("Ranked", bound=_Ranked)


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


def sized(columns: Iterable[Column[Row]], rows: Sequence[Row]) -> list[Column[Row]]:
    """The columns, each as wide as its title and its longest text."""
    return [
        replace(one, cells=max(one.cells, cell_len(one.title), *(cell_len(one.text(row)) for row in rows)))
        for one in columns
    ]


def fitting(columns: Iterable[Ranked], width: int) -> list[Ranked]:
    """Those that fit in `width` cells, with one cell before the first and two between them."""
    kept = list(columns)
    while taken(kept) > width and any(one.rank for one in kept):
        kept.remove(max(kept, key=lambda one: one.rank))
    return kept


def taken(columns: Sequence[_Ranked]) -> int:
    """The width of the columns in a line."""
    return 1 + sum(one.cells + _GAP for one in columns) - _GAP


def laid(columns: Sequence[Column[Row]], width: int) -> list[Column[Row]]:
    """Those that fit, grown where there is room; without room even for those of rank 0 the widest is narrower."""
    kept = fitting(columns, width)
    if (over := taken(kept) - width) > 0:
        widest = max(range(len(kept)), key=lambda place: kept[place].cells)
        kept[widest] = replace(kept[widest], cells=max(kept[widest].cells - over, 4))
    for place, one in enumerate(kept):
        kept[place] = replace(one, cells=max(min(one.cells + width - taken(kept), one.most), one.cells))
    return kept


def titles_line(columns: Sequence[Column[Row]], width: int) -> list[Span]:
    """The titles of the columns that fit."""
    return [(" " + "  ".join(pad(one.title, one.cells, one.right) for one in laid(columns, width)), "dim")]


def row_line(columns: Sequence[Column[Row]], row: Row, width: int) -> list[Span]:
    """A row's cells in the columns that fit."""
    spans: list[Span] = []
    for one in laid(columns, width):
        spans.append((" " * (_GAP if spans else 1), "text"))
        if one.draw is not None:
            spans += one.draw(row, one.cells)
        else:
            spans.append((pad(cut_middle(one.text(row), one.cells), one.cells, one.right), one.style(row)))
    return spans
