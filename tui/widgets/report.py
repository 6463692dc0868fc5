"""A text in sections, each with a title and its lines, wrapped and scrolled."""

from collections.abc import Sequence
from textwrap import wrap

from msgspec import Struct

from ..present.line import Span, clip
from .rows import Rows

_WIDEST = 110
"""Longer lines are hard to read."""


class Section(Struct, frozen=True):
    """A title (or none), and lines that each begin with `sign`; `ink` is the lines'."""

    title: str
    lines: Sequence[str]
    sign: str = ""
    ink: str = "text"


class SectionedText(Rows):
    """Draws sections, one after the other."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._sections: Sequence[Section] = ()
        self._laid: tuple[int, list[list[Span]]] = (0, [])

    def show(self, sections: Sequence[Section]) -> None:
        """Draw `sections`."""
        if sections != self._sections:
            self._sections = sections
            self._laid = (0, [])
            self.redraw()

    def row_count(self) -> int:
        return len(self._lines(self.size.width))

    def row(self, index: int, width: int) -> Sequence[Span]:
        return self._lines(width)[index]

    def _lines(self, width: int) -> list[list[Span]]:
        if self._laid[0] != width:
            self._laid = (width, laid(self._sections, width))
        return self._laid[1]


def laid(sections: Sequence[Section], width: int) -> list[list[Span]]:
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
    parts = wrap(line, room) or [""]
    first: Span = (hang + section.sign, "dim")
    rest: Span = (" " * (len(hang) + len(section.sign)), "dim")
    return [clip([first if not place else rest, (part, section.ink)], width) for place, part in enumerate(parts)]
