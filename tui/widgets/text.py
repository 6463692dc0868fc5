"""Text: labelled facts, wrapped sentences, sections that scroll."""

import re
from collections.abc import Sequence
from textwrap import wrap

from msgspec import Struct

from ...engine.text.formatting import pad
from ..words.spans import Span, cells, clip
from .canvas import Canvas
from .rows import Rows

_LABEL = 17
_TWO = 120
"""Width from which there are two columns."""


class FactList(Canvas[Sequence[tuple[str, list[Span]]]]):
    """Draws facts: labels and known values."""

    content = ()

    def rows(self, width: int) -> int:
        """The number of lines."""
        return -(-len(self.content) // (2 if width >= _TWO else 1))

    def draw(self, width: int, height: int) -> list[list[Span]]:
        facts, rows = self.content, self.rows(width)
        if rows == len(facts):
            return [_line(fact, width) for fact in facts[:height]]
        half = width // 2
        lines: list[list[Span]] = []
        for place in range(min(rows, height)):
            left = _line(facts[place], half - 2)
            right = _line(facts[rows + place], width - half) if rows + place < len(facts) else []
            lines.append([*left, (" " * (half - cells(left)), "dim"), *right])
        return lines


def _line(fact: tuple[str, list[Span]], width: int) -> list[Span]:
    return clip([(f" {pad(fact[0], _LABEL)}", "dim"), *fact[1]], width)


class Prose(Canvas[Sequence[Span]]):
    """Draws a paragraph; lines beyond its height are cut."""

    content = ()

    def draw(self, width: int, height: int) -> list[list[Span]]:
        lines: list[list[Span]] = [[(" ", "text"), *line] for line in wrap_spans(self.content, width - 2)]
        if len(lines) > height > 0:
            lines[height - 1 :] = [clip([*lines[height - 1], (" …", "dim")], width)]
        return lines


def wrap_spans(spans: Sequence[Span], width: int) -> list[list[Span]]:
    """The spans in lines of at most `width` cells, broken at spaces; a word that is longer is cut."""
    lines: list[list[Span]] = [[]]
    used = 0
    for word in _words(spans):
        taken = cells(word)
        if used and used + taken - word[-1][0].endswith(" ") > width:
            lines.append([])
            used = 0
        lines[-1] += word
        used += taken
    return [clip(_stripped(line), width) for line in lines]


def _stripped(line: list[Span]) -> list[Span]:
    """The line without the space after its last word."""
    return [*line[:-1], (line[-1][0].rstrip(" "), line[-1][1])] if line else line


def _words(spans: Sequence[Span]) -> list[list[Span]]:
    """The spans as words, each with the space after it; a word may have several styles."""
    words: list[list[Span]] = []
    whole = True
    for text, style in spans:
        for piece in re.findall(r"[^ ]* |[^ ]+", text):
            if whole:
                words.append([])
            words[-1].append((piece, style))
            whole = piece.endswith(" ")
    return words


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
    return [clip([first if not place else rest, (part, section.style)], width) for place, part in enumerate(parts)]
