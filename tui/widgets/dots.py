"""Lines drawn with braille dots: two across and four down in each cell. Pure."""

from ..present.line import Span

_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


class Dots:
    """A grid of `width` by `height` cells; a cell has the ink of its last dot."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._bits: dict[tuple[int, int], int] = {}
        self._inks: dict[tuple[int, int], str] = {}

    def dot(self, x: float, y: float, ink: str) -> None:
        """Draw a dot at `x` cells from the left and `y` from the top; ignored if that is outside."""
        column, line = int(x * 2), int(y * 4)
        if 0 <= column < self.width * 2 and 0 <= line < self.height * 4:
            cell = (column // 2, line // 4)
            self._bits[cell] = self._bits.get(cell, 0) | _BITS[column % 2][line % 4]
            self._inks[cell] = ink

    def line(self, x0: float, y0: float, x1: float, y1: float, ink: str, every: int = 1) -> None:
        """Draw a straight line; with `every` above 1 only every n-th dot."""
        steps = max(int(max(abs(x1 - x0) * 2, abs(y1 - y0) * 4)), 1)
        for step in range(0, steps + 1, every):
            self.dot(x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps, ink)

    def row(self, y: int, ground: list[Span] | None = None) -> list[Span]:
        """Line `y` in runs of one cell each; without a dot, the cell of `ground` (one run per cell)."""
        empty: list[Span] = [(" ", "dim")] * self.width if ground is None else ground
        return [
            (chr(0x2800 + self._bits[x, y]), self._inks[x, y]) if (x, y) in self._bits else empty[x]
            for x in range(self.width)
        ]
