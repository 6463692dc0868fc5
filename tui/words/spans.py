"""Text as spans, each with the name of its style: lines of parts, tables, bars and dots, the top of a screen. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from math import floor
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len

from ...engine.text import formatting as f

Span = tuple[str, str]
"""A stretch of text and the name of its style."""


class Part(Struct, frozen=True):
    """Runs that are shown or dropped together; the greatest `rank` is dropped first, rank 0 never."""

    spans: tuple[Span, ...]
    rank: int = 0
    right: bool = False
    """At the right end of the line."""
    gap: str = "   "
    """The text before it, unless it comes first on its side."""
    short: tuple[Span, ...] = ()
    """What is shown instead before it is dropped or cut."""
    shortest: tuple[Span, ...] = ()
    """What is shown instead of `short` where there is no room for that either."""
    short_rank: int = 0
    """Shortened before parts of this rank are dropped, where that is greater than its own."""


def part(
    *spans: Span,
    rank: int = 0,
    right: bool = False,
    gap: str = "   ",
    short: tuple[Span, ...] = (),
    shortest: tuple[Span, ...] = (),
    short_rank: int = 0,
) -> Part:
    """A part of a line; see `Part`."""
    return Part(spans, rank, right, gap, short, shortest, short_rank)


def cells(spans: Iterable[Span]) -> int:
    """The width of the runs in cells."""
    return sum(cell_len(text) for text, _ in spans)


def text_of(spans: Iterable[Span]) -> str:
    """The text of the spans, without the blanks at either end."""
    return "".join(text for text, _ in spans).strip()


def lay(parts: Sequence[Part], width: int) -> list[Span]:
    """The parts in `width` cells: left ones, a gap, right ones; what does not fit is shortened, dropped, cut."""
    kept = list(parts)
    while True:
        left, right = _side(kept, False), _side(kept, True)
        spare = width - cells(left) - cells(right)
        worst = max(range(len(kept)), key=lambda i: (*_given_up(kept[i]), i), default=None)
        if spare >= (2 if left and right else 0) or worst is None:
            break
        if kept[worst].short:
            kept[worst] = replace(kept[worst], spans=kept[worst].short, short=kept[worst].shortest, shortest=())
        elif kept[worst].rank:
            indent = worst == 0 and kept[0].spans[0][0].startswith(" ")
            del kept[worst]
            if indent and kept and not kept[0].right:  # the line begins where it would with that part
                kept[0] = replace(kept[0], spans=((" ", "text"), *kept[0].spans))
        else:
            break
    if spare < 0 and len(left) == 1 and not right:
        return [(fitted(left[0][0], width), left[0][1])]
    if spare < 0:
        return clip_words([*left, ("  ", "text"), *right] if right else left, width)
    return [*left, (" " * spare, "text"), *right] if spare else [*left, *right]


def _given_up(item: Part) -> tuple[int, bool]:
    """The rank at which the part gives up something, and whether that leaves its short form."""
    return (max(item.rank, item.short_rank), True) if item.short else (item.rank, False)


def clip(spans: Iterable[Span], width: int) -> list[Span]:
    """The runs in at most `width` cells, `…` where they continue."""
    out: list[Span] = []
    for text, style in spans:
        room = width - cells(out)
        if room <= 0:
            break
        out.append((f.cut(text, room), style))
    return out


def clip_words(spans: Sequence[Span], width: int) -> list[Span]:
    """The runs in at most `width` cells; where they continue, ` …` after a whole word."""
    end = _last_word_end("".join(text for text, _ in spans), width)
    if not end or cells(spans) <= width:
        return clip(spans, width)
    out = _first_characters(spans, end)
    return [*out, (" …", out[-1][1])]


def _first_characters(spans: Sequence[Span], left: int) -> list[Span]:
    out: list[Span] = []
    for text, style in spans:
        out += [(text[:left], style)] if left > 0 else []
        left -= len(text)
    return out


def clip_clauses(spans: Sequence[Span], width: int) -> list[Span]:
    """The runs in at most `width` cells; where they continue, their first clauses, or else words and ` …`."""
    text = "".join(text for text, _ in spans)
    end = _last_clause_end(text, width)
    return clip_words(spans, width) if end is None else _first_characters(spans, end)


def joined(spans: Iterable[Span]) -> list[Span]:
    """The runs, with neighbours of the same style combined."""
    out: list[Span] = []
    for text, style in spans:
        if out and out[-1][1] == style:
            out[-1] = (out[-1][0] + text, style)
        else:
            out.append((text, style))
    return out


def _side(parts: Sequence[Part], right: bool) -> list[Span]:
    out: list[Span] = []
    for item in parts:
        if item.right == right:
            out += [(item.gap, "dim"), *item.spans] if out else item.spans
    return out


EIGHTHS = " ▁▂▃▄▅▆▇█"
"""A row of a cell in eighths of its height."""


def spark(values: Sequence[int | None], most: int | None = None, unknown: str = " ") -> str:
    """A bar for each value, the greatest (or `most`) as high as a row."""
    greatest = max((value for value in values if value is not None), default=0) if most is None else most
    return "".join(unknown if value is None else EIGHTHS[1 + 7 * value // max(greatest, 1)] for value in values)


_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


class Dots:
    """A grid of `width` by `height` cells; a cell has the style of its last dot."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._bits: dict[tuple[int, int], int] = {}
        self._styles: dict[tuple[int, int], str] = {}

    def dot(self, x: float, y: float, style: str) -> None:
        """Draw a dot at `x` cells from the left and `y` from the top; ignored if that is outside."""
        column, line = floor(x * 2), floor(y * 4)
        if 0 <= column < self.width * 2 and 0 <= line < self.height * 4:
            cell = (column // 2, line // 4)
            self._bits[cell] = self._bits.get(cell, 0) | _BITS[column % 2][line % 4]
            self._styles[cell] = style

    def line(self, x0: float, y0: float, x1: float, y1: float, style: str, every: int = 1) -> None:
        """Draw a straight line; with `every` above 1 only every n-th dot."""
        steps = max(int(max(abs(x1 - x0) * 2, abs(y1 - y0) * 4)), 1)
        for step in range(0, steps + 1, every):
            self.dot(x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps, style)

    def row(self, y: int, ground: list[Span], sign: str | None = None) -> list[Span]:
        """Line `y` in spans of one cell each, its dots or the `sign`; elsewhere the cells of `ground`."""
        return [
            (sign or chr(0x2800 + self._bits[x, y]), self._styles[x, y]) if (x, y) in self._bits else ground[x]
            for x in range(self.width)
        ]


SPARK_CELLS, SPARK_CELL_MS = 36, 5_000
"""The sparkline of lags: how many cells, and the time of each."""


class WatermarkLine(Struct, frozen=True):
    """The watermark's line: the watermark, its holder, and the lags of the last minutes (ms, the newest last)."""

    level: Sequence[Part] = ()
    holder: Sequence[Part] = ()
    lags: Sequence[int | None] = ()


class Top(Struct, frozen=True):
    """The lines' content; `banner` (text and style) and `log` are empty if there is nothing to show."""

    status: Sequence[Part] = ()
    verdict: Sequence[Part] = ()
    watermark_line: WatermarkLine = WatermarkLine()
    tuning: Sequence[Part] = ()
    now: Sequence[Part] = ()
    """The effect of the preview at the next emit, or of an applied setting; else nothing."""
    from_start: Sequence[Part] = ()
    """The effect of the preview from the start; empty without a preview."""
    banner: tuple[str, str] | None = None
    log: str | None = None


_CLAUSE = re.compile(r"; | · |, |: |$")
_ASIDE = re.compile(r" \([^()]*\)")
_DIRECTORIES = re.compile(r"(?<!\S)/(?:[^/\s]+/)+")


def fitted(text: str, width: int) -> str:
    """The text; where that is longer than `width` cells, without what is in parentheses, its first clauses or else
    words, never a part of a word; of a path the file's name.
    """
    short = _ASIDE.sub("", text)
    wholes = (text, _DIRECTORIES.sub("…/", text), short, _DIRECTORIES.sub("…/", short))
    fitting = next((whole for whole in wholes if cell_len(whole) <= width), None)
    if fitting is not None:
        return fitting
    clauses = [whole[:end] for whole in wholes if (end := _last_clause_end(whole, width)) is not None]
    if clauses:
        return max(clauses, key=len)
    end = _last_word_end(text, width)
    return f"{text[:end]} …" if end else f.cut(text, width)


_ENOUGH = 1 / 2
"""Clauses are shown alone where they fill at least that part of the room; else more words say more."""


def _last_clause_end(text: str, width: int) -> int | None:
    """Where the last clause ends that fits into `width` cells, with all parentheses closed; None: none says enough."""
    ends = (end.start() for end in _CLAUSE.finditer(text))
    fitting = [
        end for end in ends if cell_len(text[:end]) <= width and text.count("(", 0, end) == text.count(")", 0, end)
    ]
    if not fitting or (fitting[-1] < len(text) and cell_len(text[: fitting[-1]]) < _ENOUGH * width):
        return None
    return fitting[-1]


def _last_word_end(text: str, width: int) -> int:
    """Where the last word ends that leaves room for ` …` in `width` cells; 0: none does."""
    ends = (end.end() for end in re.finditer(r"\w\S*(?= )", text))
    return max((end for end in ends if cell_len(text[:end]) <= width - 2), default=0)


Row = TypeVar("Row")
Value = TypeVar("Value")
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


def value_column(
    title: str, value: Callable[[Row], Value], words: Callable[[Value], str],
    *, rank: int = 0, right: bool = False, style: Callable[[Row], str] = lambda row: "text",
) -> Column[Row]:  # fmt: skip
    """A column of values, in words, which also sort it."""
    return Column(title, lambda row: words(value(row)), rank, right, style, sort=value)


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
