"""How windows are made, told from those that were seen."""

from collections.abc import Iterable
from math import gcd

from ..core.settings import Sliding, Tumbling, WindowSpec

_REMEMBERED = 200


class WindowShape:
    """Remembers windows of one aggregation, by start and end (ms), until they tell how they are made."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], None] = {}

    def see(self, windows: Iterable[tuple[int, int]]) -> WindowSpec | None:
        """Take some more of them; None while they do not tell: one alone may be tumbling or sliding."""
        self._seen |= dict.fromkeys(windows)
        while len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        sizes = {end - start for start, end in self._seen}
        starts = [start for start, _ in self._seen]
        if len(sizes) != 1 or len(starts) < 2:
            return None
        [size] = sizes
        step = gcd(*(start - starts[0] for start in starts))
        if step % size == 0:  # side by side, as far as there were records
            return Tumbling(size, starts[0] % size)
        return Sliding(size, step, starts[0] % step) if step < size else None
