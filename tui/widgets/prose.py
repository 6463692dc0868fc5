"""A sentence or two, wrapped at words."""

import re

from ..present.line import Span, cells, clip
from .canvas import Canvas


class Prose(Canvas):
    """Draws paragraphs of runs; lines beyond its height are cut."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._paragraphs: list[list[Span]] = []

    def show(self, *paragraphs: list[Span]) -> None:
        """Draw `paragraphs`."""
        if list(paragraphs) != self._paragraphs:
            self._paragraphs = list(paragraphs)
            self.redraw()

    def draw(self, width: int, height: int) -> list[list[Span]]:
        lines = [[(" ", "text"), *line] for spans in self._paragraphs for line in wrap(spans, width - 2)]
        if len(lines) > height > 0:
            lines[height - 1 :] = [clip([*lines[height - 1], (" …", "dim")], width)]
        return lines


def wrap(spans: list[Span], width: int) -> list[list[Span]]:
    """The runs in lines of at most `width` cells, broken at spaces; a word that is longer is cut."""
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


def _words(spans: list[Span]) -> list[list[Span]]:
    """The runs as words, each with the space after it; a word may have several inks."""
    words: list[list[Span]] = []
    whole = True
    for text, ink in spans:
        for piece in re.findall(r"[^ ]* |[^ ]+", text):
            if whole:
                words.append([])
            words[-1].append((piece, ink))
            whole = piece.endswith(" ")
    return words
