"""Derives how windows are made from windows that were seen."""

from collections.abc import Iterable
from math import gcd

from ....watermarks.settings import Session, Sliding, Tumbling, WindowSpec
from .open_windows import OpenWindows

_REMEMBERED = 200


class WindowShape:
    """Windows of one aggregation, by start and end (ms), collected until they show how they are made."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], None] = {}

    def see(self, windows: Iterable[tuple[int, int]]) -> WindowSpec | None:
        """Add windows; returns the shape, None while it is not known: a single window may be tumbling or sliding."""
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


def spec_of(found: Iterable[OpenWindows], shapes: dict[int, WindowShape]) -> WindowSpec | None:
    """How the windows are made, if all operators agree; `shapes` keeps each operator's windows."""
    specs: set[WindowSpec] = set()
    for operator in found:
        if operator.kind == "session":
            specs |= {Session(gap) for gap in _gaps(operator)}
            continue
        shape = shapes.setdefault(operator.operator, WindowShape())
        spec = shape.see((window.start_ms, window.end_ms) for window in operator.windows)
        if spec is not None:
            specs.add(spec)
    return specs.pop() if len(specs) == 1 else None


def _gaps(operator: OpenWindows) -> set[int]:
    """The gap (ms) of its sessions: the length of a session with one record."""
    gaps = {window.end_ms - window.start_ms for window in operator.windows if window.records == 1}
    return gaps if len(gaps) == 1 else set()
