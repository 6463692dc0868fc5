"""The barrel's vertical axis: event time to rows, linear or by the log distance behind the fastest. Pure."""

from math import ceil, floor, log
from typing import Protocol

from msgspec import Struct

from .formatting import DAY, HOUR, MINUTE, SECOND

STEPS = (
    *(base * ten for ten in (1, 10, 100) for base in (1, 2, 5)),
    *(base * SECOND for base in (1, 2, 5, 10, 15, 30)),
    *(base * MINUTE for base in (1, 2, 5, 10, 15, 30)),
    *(base * HOUR for base in (1, 2, 3, 6, 12)),
    *(base * DAY for base in (1, 2, 7, 14, 30, 90, 365, 1_825, 3_650, 36_500)),
)
"""Round times (ms)."""
_WATER, _SHALLOW, _DEEP, _FULL = 0.28, 0.14, 0.48, 0.6
"""Position of the water line at first, its least and greatest position, and the part of the rest that the span may
fill.
"""


class Tick(Struct, frozen=True):
    """A labelled row, counted from the bottom: `time_ms` is an epoch time, or a distance on a log axis."""

    row: int
    time_ms: int


class Scale(Protocol):
    """Maps a time to its row."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        ...

    def height(self, time_ms: int) -> float:
        """Rows from the bottom up to `time_ms`: below 0 or above `rows` if it is outside."""
        ...

    def ticks(self) -> list[Tick]:
        """The labelled rows, from the bottom up."""
        ...


class Axis(Struct, frozen=True):
    """Linear event time: `low_ms` is the bottom edge, a row is `row_ms` high, every `per_tick`-th row has a label."""

    low_ms: int
    row_ms: int
    per_tick: int
    rows: int

    @property
    def tick_ms(self) -> int:
        """The distance between two labels (ms)."""
        return self.row_ms * self.per_tick

    def height(self, time_ms: int) -> float:
        """Rows from the bottom up to `time_ms`."""
        return (time_ms - self.low_ms) / self.row_ms

    def ticks(self) -> list[Tick]:
        """The rows whose middle is a round time."""
        first = -(-(self.low_ms + self.row_ms // 2) // self.tick_ms) * self.tick_ms
        out: list[Tick] = []
        while (row := int(self.height(first))) < self.rows:
            out.append(Tick(row, first))
            first += self.tick_ms
        return out


class LogAxis(Struct, frozen=True):
    """Distance behind the fastest channel: the top is distance 0, the bottom `far_ms`, each row a constant factor."""

    fastest_ms: int
    near_ms: int
    far_ms: int
    rows: int

    def height(self, time_ms: int) -> float:
        """Rows from the bottom up to `time_ms`."""
        distance = max(self.fastest_ms - time_ms, self.near_ms)
        return self.rows * (1 - log(distance / self.near_ms) / log(self.far_ms / self.near_ms))

    def ticks(self) -> list[Tick]:
        """Round distances, one row apart at least."""
        out: list[Tick] = []
        for step in (s for s in reversed(STEPS) if s in _ROUND):
            row = int(self.height(self.fastest_ms - step))
            if self.near_ms < step < self.far_ms and 0 <= row < self.rows and (not out or row > out[-1].row + 1):
                out.append(Tick(row, step))
        return out


_SHORT_ROUND = frozenset((1, 10, 100, SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR))
_ROUND = _SHORT_ROUND | {DAY * days for days in (1, 7, 30, 365, 3_650)}


def top_of(times: list[int], level_ms: int) -> int:
    """The fastest watermark that is drawn to scale: one far beyond all others is cut off."""
    ahead = sorted(time - level_ms for time in times if time > level_ms)
    if len(ahead) < 3:
        return level_ms + (ahead[-1] if ahead else 0)
    limit = 8 * ahead[len(ahead) // 2]
    return level_ms + max(distance for distance in ahead if distance <= limit)


def follow(last: Axis | None, low_ms: int, high_ms: int, least_ms: int, rows: int) -> Axis:
    """The axis that shows `low_ms` (the water) to `high_ms`: the last one if it still fits, moved by whole rows if that
    is enough, else a new one. `least_ms` is the smallest span worth magnifying.
    """
    need = max(high_ms - low_ms, least_ms)
    if last is not None and last.rows == rows and need > 0.25 * _FULL * last.row_ms * rows:
        moved = _moved(last, low_ms, high_ms)
        if moved.height(low_ms) >= 0 and moved.height(high_ms) <= rows:
            return moved
    water = max(round(_WATER * rows), 1)
    room = max(min(_FULL * rows, rows - water - 1.5), 0.5)
    fitting = sorted((step // n, n) for step in STEPS for n in (4, 3, 2) if not step % n)
    row_ms, per_tick = next(((row, n) for row, n in fitting if need / row <= room), fitting[-1])
    return Axis((low_ms // row_ms - water) * row_ms - row_ms // 2, row_ms, per_tick, rows)


def _moved(axis: Axis, low_ms: int, high_ms: int) -> Axis:
    """The axis moved by as few whole rows as bring the water line and the top back into view."""
    bottom, top, rows = axis.height(low_ms), axis.height(high_ms), axis.rows
    up = max(ceil(bottom - _DEEP * rows), min(ceil(top - rows + 0.5), floor(bottom - _SHALLOW * rows)), 0)
    down = ceil(_SHALLOW * rows - bottom) if not up else 0
    by = up - max(down, 0)
    return axis if not by else Axis(axis.low_ms + by * axis.row_ms, axis.row_ms, axis.per_tick, rows)
