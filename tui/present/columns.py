"""The horizontal positions of the barrel's staves: as wide as there is room, the rest folded into a strip. Pure."""

from collections.abc import Sequence

from msgspec import Struct

_WIDEST, _ALONE = 14, 40
_FOLDED = 6
_LEAST = 3


class StavePositions(Struct, frozen=True):
    """All in cells: the first stave at `left`, one every `pitch`, `stave` wide; after `shown` of them the strip."""

    left: int
    pitch: int
    stave: int
    shown: int
    fold_left: int = 0
    fold_cells: int = 0
    per_cell: int = 0
    """Staves per cell of the strip."""

    def at(self, x: int) -> int | None:
        """The stave at cell `x`; for the strip: -1 - its cell."""
        if self.fold_cells and x >= self.fold_left:
            cell = x - self.fold_left
            return -1 - cell if cell < self.fold_cells else None
        place = (x - self.left + (self.pitch - self.stave) // 2) // self.pitch
        return place if 0 <= place < self.shown else None


def columns(count: int, width: int, label: int) -> StavePositions:
    """The positions of `count` staves in `width` cells; with folded ones, `label` cells is the least width."""
    if count * _LEAST <= width:
        pitch = min(width // max(count, 1), max(_WIDEST, _ALONE // max(count, 1)))
        stave = pitch - max(1, pitch // 3)
        used = count * pitch - (pitch - stave)
        return StavePositions((width - used) // 2, pitch, stave, count)
    strip = width // 3
    pitch = max(_LEAST, min(label + 1, _FOLDED))
    shown = max((width - strip - 1) // pitch, 1)
    rest = count - shown
    if rest <= 0:
        return StavePositions(0, pitch, pitch - 1, count)
    per_cell = -(-rest // max(strip - 1, 1))  # one cell more if two groups each begin with their own cell
    return StavePositions(0, pitch, pitch - 1, shown, shown * pitch + 1, -(-rest // per_cell) + 1, per_cell)


def common(names: Sequence[str]) -> str:
    """The common beginning of all names, up to a sign that is neither a letter nor a digit."""
    if len(names) < 2:
        return ""
    first, last = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[: max((i + 1 for i in range(same) if not first[i].isalnum()), default=0)]
