"""Labelled facts, in one column or two."""

from collections.abc import Sequence

from ..present.formatting import pad
from ..present.line import Span, cells, clip
from .canvas import Canvas

_LABEL = 17
_TWO = 120
"""Width from which there are two columns."""


class FactList(Canvas):
    """Draws facts: labels and known values."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._facts: Sequence[tuple[str, list[Span]]] = ()

    def show(self, facts: Sequence[tuple[str, list[Span]]]) -> None:
        """Draw `facts`."""
        if facts != self._facts:
            self._facts = facts
            self.redraw()

    def rows(self, width: int) -> int:
        """The number of lines."""
        return -(-len(self._facts) // (2 if width >= _TWO else 1))

    def draw(self, width: int, height: int) -> list[list[Span]]:
        rows = self.rows(width)
        if rows == len(self._facts):
            return [_line(fact, width) for fact in self._facts[:height]]
        half = width // 2
        lines: list[list[Span]] = []
        for place in range(min(rows, height)):
            left = _line(self._facts[place], half - 2)
            right = _line(self._facts[rows + place], width - half) if rows + place < len(self._facts) else []
            lines.append([*left, (" " * (half - cells(left)), "dim"), *right])
        return lines


def _line(fact: tuple[str, list[Span]], width: int) -> list[Span]:
    return clip([(f" {pad(fact[0], _LABEL)}", "dim"), *fact[1]], width)
