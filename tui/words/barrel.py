"""The barrel as data: the vertical axis, the staves' order and kinds, and their horizontal positions. Pure."""

from collections import Counter
from collections.abc import Sequence
from math import ceil, floor, log
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...engine.snapshot import ChannelState, ChannelView, InstanceView, Snapshot
from ...engine.text.codes import CHANNEL_STATES
from ...engine.text.formatting import DAY, HOUR, MINUTE, SECOND, cut, short

STEPS = (
    *(base * ten for ten in (1, 10, 100) for base in (1, 2, 5)),
    *(base * SECOND for base in (1, 2, 5, 10, 15, 30)),
    *(base * MINUTE for base in (1, 2, 5, 10, 15, 30)),
    *(base * HOUR for base in (1, 2, 3, 6, 12)),
    *(base * DAY for base in (1, 2, 7, 14, 30, 90, 365, 1_825, 3_650, 36_500)),
)
"""Round times (ms)."""
WATER, _FULL = 0.28, 0.6
"""Position of the water line at first, and the part of the rest that the span may fill."""


class Tick(Struct, frozen=True):
    """A labelled row, counted from the bottom: `time_ms` is an epoch time, or a distance on a log axis."""

    row: int
    time_ms: int


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
        """Rows from the bottom up to `time_ms`: below 0 or above `rows` if it is outside."""
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
        for step in reversed(_ROUND):
            row = int(self.height(self.fastest_ms - step))
            if self.near_ms < step < self.far_ms and 0 <= row < self.rows and (not out or row > out[-1].row + 1):
                out.append(Tick(row, step))
        return out


Scale = Axis | LogAxis
"""Maps a time to its row."""
_ROUND = (
    1, 10, 100, SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR,
    *(DAY * days for days in (1, 7, 30, 365, 3_650)),
)  # fmt: skip


def top_of(times: list[int], level_ms: int) -> int:
    """The fastest watermark that is drawn to scale: one far beyond all others is cut off."""
    ahead = sorted(time - level_ms for time in times if time > level_ms)
    if len(ahead) < 3:
        return level_ms + (ahead[-1] if ahead else 0)
    limit = 8 * ahead[len(ahead) // 2]
    return level_ms + max(distance for distance in ahead if distance <= limit)


def follow(last: Axis | None, low_ms: int, high_ms: int, least_ms: int, rows: int, water: float = WATER) -> Axis:
    """The axis that shows `low_ms` (the water) to `high_ms`: the last one if it still fits, moved by whole rows if that
    is enough, else a new one. `least_ms` is the smallest span worth magnifying, `water` the part of the rows below the
    water line.
    """
    need = max(high_ms - low_ms, least_ms)
    shallow, deep, full = water / 2, water + 0.2, _FULL + WATER - water
    if last is not None and last.rows == rows and need > 0.25 * full * last.row_ms * rows:
        bottom, top = last.height(low_ms), last.height(high_ms)
        up = max(ceil(bottom - deep * rows), min(ceil(top - rows + 0.5), floor(bottom - shallow * rows)), 0)
        by = up if up else -max(ceil(shallow * rows - bottom), 0)  # as few whole rows as bring both into view
        moved = replace(last, low_ms=last.low_ms + by * last.row_ms) if by else last
        if moved.height(low_ms) >= 0 and moved.height(high_ms) <= rows:
            return moved
    below = max(round(water * rows), 1)
    room = max(min(full * rows, rows - below - 1.5), 0.5)
    fitting = sorted((step // n, n) for step in STEPS for n in (4, 3, 2) if not step % n)
    row_ms, per_tick = next(((row, n) for row, n in fitting if need / row <= room), fitting[-1])
    return Axis((low_ms // row_ms - below) * row_ms - row_ms // 2, row_ms, per_tick, rows)


_WIDEST, _ALONE = 14, 40
_LEAST, _ROOMY = 3, 5
"""The least distance of two staves, and a comfortable one."""


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


def is_crowded(count: int, width: int) -> bool:
    """Whether some of `count` staves must share cells."""
    return count * _LEAST > width


def columns(count: int, width: int) -> StavePositions:
    """The positions of `count` staves in `width` cells."""
    if not is_crowded(count, width):
        pitch = min(width // max(count, 1), max(_WIDEST, _ALONE // max(count, 1)))
        stave = pitch - max(1, pitch // 3)
        used = count * pitch - (pitch - stave)
        return StavePositions((width - used) // 2, pitch, stave, count)
    strip, pitch = width // 3, _LEAST
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


Kind = Literal["active", "holder", "idle", "catching_up", "never_seen", "finished", "drowned"]
STATES: dict[Kind, str] = {
    **{state: words.short for state, words in CHANNEL_STATES.items()}, "holder": "HOLDS", "drowned": "lagging",
}  # fmt: skip
"""Each kind in a word, for tables."""
PAUSED = "paused"
"""The word for an active channel that is paused until slower ones catch up."""


class Stave(Struct, frozen=True, gc=False):
    """One input of the valve (or a channel inside it) as the barrel draws it."""

    key: str
    watermark_ms: int | None
    """Its height; under Spark's one clock its event time: below the water its newest record is behind the watermark."""
    kind: Kind


def kind_of(channel: str, state: ChannelState, holder: str | None) -> Kind:
    """How a channel is drawn: as the holder, or by its state."""
    return "holder" if channel == holder else state


_GROUPS: dict[Kind, int] = {
    "holder": 0, "drowned": 1, "active": 1, "catching_up": 2, "never_seen": 3, "idle": 4, "finished": 5,
}  # fmt: skip
_BELOW_ALL = float("-inf")


def rank(kind: Kind, watermark_ms: int | None) -> tuple[int, float]:
    """The most behind first: channels in the minimum, then realigning ones, then those left out, then finished ones."""
    return _GROUPS[kind], _BELOW_ALL if watermark_ms is None else watermark_ms


LEFT_OUT: frozenset[Kind] = frozenset(("idle", "never_seen", "finished"))
"""The kinds that do not take part in the minimum."""


def valve_inputs(snapshot: Snapshot) -> Sequence[ChannelView | InstanceView]:
    """What the valve combines: source instances if there are any, else channels."""
    return snapshot.channels if snapshot.instances is None else snapshot.instances


def holding_instance(snapshot: Snapshot) -> str | None:
    """The instance that holds back the watermark: the holder itself, or its instance."""
    holder = snapshot.level.holder
    inside = (view.channel for view in snapshot.instances or () if holder and view.instance == holder.instance)
    return None if holder is None else next(inside, holder.channel)


def instance_around(snapshot: Snapshot, channel: str | None) -> str | None:
    """The source instance that a channel is in, by its name as a stave."""
    number = next((view.instance for view in snapshot.channels if view.channel == channel), None)
    return next((view.channel for view in snapshot.instances or () if view.instance == number), None)


def under_one_clock(view: ChannelView, level_ms: int | None) -> Kind:
    """How a channel is drawn under Spark's one clock: drowned if even its newest record is behind `level_ms`."""
    drowned = level_ms is not None and view.max_event_ms is not None and view.max_event_ms <= level_ms
    return "drowned" if drowned and view.state == "active" else view.state


class FoldedStaves(Struct, frozen=True):
    """Staves that share cells."""

    cells: list[list[Stave]] = []
    lowest: list[Stave] = []
    """The lowest of each cell, by which it is drawn."""
    keys: frozenset[str] = frozenset()
    count: int = 0
    left_out: int = 0


def fold(found: Sequence[Stave], per_cell: int) -> FoldedStaves:
    """The staves in their order, `per_cell` to a cell; those that are left out of the minimum last and apart."""
    out = [stave for stave in found if stave.kind in LEFT_OUT]
    counted = [stave for stave in found if stave.kind not in LEFT_OUT] if out else found
    cells = [
        list(group[start : start + per_cell]) for group in (counted, out) for start in range(0, len(group), per_cell)
    ]
    return FoldedStaves(
        cells=cells,
        lowest=[min(cell, key=lambda stave: rank("active", stave.watermark_ms)) for cell in cells],
        keys=frozenset(stave.key for stave in found),
        count=len(found),
        left_out=len(out),
    )


_FAR = 3
"""From so many on, staves far below are a group."""


class FarStaves(Struct, frozen=True):
    """The staves that are left out of the minimum and end below the picture, in `cells` cells from `left`."""

    staves: Sequence[Stave] = ()
    text: str = ""
    left: int = 0
    cells: int = 0

    def at(self, x: int) -> Stave | None:
        """The stave at cell `x`."""
        inside = self.staves and self.left <= x < self.left + self.cells
        return self.staves[(x - self.left) * len(self.staves) // self.cells] if inside else None


def far_below(found: Sequence[Stave], scale: Scale, level_ms: int | None, width: int) -> FarStaves:
    """The group at the right of a picture that is `width` cells wide; empty if there are too few such staves."""
    low = scale.low_ms if isinstance(scale, Axis) else _BELOW_ALL
    far = [s for s in found if s.kind in LEFT_OUT and s.watermark_ms is not None and s.watermark_ms < low]
    if len(far) < _FAR:
        return FarStaves()
    apart = [(low if level_ms is None else level_ms) - (stave.watermark_ms or 0) for stave in far]
    near, most = short(min(apart)), short(max(apart))
    kinds = Counter(STATES[stave.kind] for stave in far)
    who = ", ".join(f"{count:,} {word}" for word, count in kinds.items())
    others = len(found) - len(far)
    texts = (f"{who}, {near if near == most else f'{near} to {most}'} behind", f"{who}, {most} behind", who)
    room = max(width // 4, width - _ROOMY * others)
    text = next((text for text in texts if len(text) <= room), cut(who, room))
    left = (width - len(text)) // (1 if others else 2)
    return FarStaves(far, text, left, len(text))
