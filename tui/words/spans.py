"""Text as spans, each with the name of its style; lines of parts, and the lines at the top of every screen. Pure."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from rich.cells import cell_len

from ...engine.text.formatting import cut

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


def part(*spans: Span, rank: int = 0, right: bool = False, gap: str = "   ") -> Part:
    """A part of a line; see `Part`."""
    return Part(spans, rank, right, gap)


def cells(spans: Iterable[Span]) -> int:
    """The width of the runs in cells."""
    return sum(cell_len(text) for text, _ in spans)


def lay(parts: Sequence[Part], width: int, style: str = "text") -> list[Span]:
    """The parts in `width` cells: left ones, a filling gap, right ones; parts that do not fit are dropped, then cut."""
    kept = list(parts)
    while True:
        left, right = _side(kept, False), _side(kept, True)
        spare = width - cells(left) - cells(right)
        worst = max(range(len(kept)), key=lambda i: (kept[i].rank, i), default=None)
        if spare >= (2 if left and right else 0) or worst is None or not kept[worst].rank:
            break
        del kept[worst]
    if spare < 0:
        return clip([*left, ("  ", style), *right] if right else left, width)
    return [*left, (" " * spare, style), *right] if spare else [*left, *right]


def clip(spans: Iterable[Span], width: int) -> list[Span]:
    """The runs in at most `width` cells, `…` where they continue."""
    out: list[Span] = []
    for text, style in spans:
        room = width - cells(out)
        if room <= 0:
            break
        out.append((cut(text, room), style))
    return out


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
