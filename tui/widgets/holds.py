"""The holders of the watermark over time: one line for the main screen, and a lane for each channel."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec import Struct
from rich.cells import cell_len
from textual.message import Message

from ...engine.text.formatting import brief, cut, duration, label, pad, share
from ..words.history import Hold, shares, totals
from ..words.spans import Span, clip
from .canvas import Canvas

SHADES = " ░▒▓█"
"""A cell by the part of its time that a channel held: none, some, a half, most, all."""
NO_HOLDER = "·"
_NAME = (6, 20)
_LEFT = " holders "
_TOTAL = 18


class HolderSpan(Struct, frozen=True):
    """The content: the holds between two times (processing time, epoch ms), and the present holder."""

    holds: Sequence[Hold] = ()
    first_ms: int = 0
    last_ms: int = 0
    holder: str | None = None
    zone: tzinfo | None = None
    empty: str = ""


class HolderStrip(Canvas):
    """One line with the holders by name if there is room; posts `Picked` when it is clicked."""

    class Picked(Message):
        """The line was clicked."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._held = HolderSpan()

    def show(self, held: HolderSpan) -> None:
        """Draw `held`."""
        if held != self._held:
            self._held = held
            self.redraw()

    def on_click(self) -> None:
        self.post_message(self.Picked())

    def draw(self, width: int, height: int) -> list[list[Span]]:
        held = self._held
        right = f" {duration(held.last_ms - held.first_ms)} "
        room = width - len(_LEFT) - len(right)
        if not held.holds or held.last_ms <= held.first_ms or room < 10:
            return [[]]
        cells = [_most(parts) for parts in shares(held.holds, held.first_ms, held.last_ms, room)]
        spans: list[Span] = [(_LEFT, "dim")]
        start = 0
        for end in range(1, room + 1):
            if end == room or cells[end] != cells[start]:
                spans += _segment(cells[start], end - start, cells[start] == held.holder and end == room)
                start = end
        return [[*spans, (right, "dim")]]


class HolderLanes(Canvas):
    """A lane for each channel that held, the longest first, and the times below them."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._held = HolderSpan()

    def show(self, held: HolderSpan) -> None:
        """Draw `held`."""
        if held != self._held:
            self._held = held
            self.redraw()

    def draw(self, width: int, height: int) -> list[list[Span]]:
        held = self._held
        found = totals(held.holds)
        if not found or height < 2:
            return [clip([(f" {held.empty}", "dim")], width)]
        kept = found[: height - 1]
        if held.holder is not None and all(total.channel != held.holder for total in kept):
            kept[-1:] = [total for total in found if total.channel == held.holder]
        names = max(_NAME[0], min(_NAME[1], max(cell_len(label(total.channel)) for total in kept)))
        room = width - names - _TOTAL - 5
        cells = shares(held.holds, held.first_ms, held.last_ms, max(room, 0))
        whole = max(held.last_ms - held.first_ms, 1)
        lines: list[list[Span]] = []
        for total in kept:
            ink, words = ("holder", "holder") if total.channel == held.holder else ("active", "text")
            shades = "".join(SHADES[_shade(parts.get(total.channel, 0.0))] for parts in cells)
            part = share(min(total.held_ms / whole, 1.0))
            said = f"{pad(duration(total.held_ms), 6, right=True)} {pad(part, 7, right=True)} {total.times:>3,}×"
            spans: list[Span] = [(f" {pad(label(total.channel, names), names)} ", words), ("│", "frame"), (shades, ink)]
            lines.append(clip([*spans, ("│", "frame"), (said, "dim")], width))
        more = len(found) - len(kept)
        return [*lines, _axis(held, names, room, f"and {more:,} more" if more > 0 else "")]


def _axis(held: HolderSpan, names: int, room: int, more: str) -> list[Span]:
    """The times below the lanes."""
    step = max(held.last_ms - held.first_ms, 1)
    ticks = max(min(room // 16, 6), 1)
    text = ""
    for tick in range(ticks):
        time = brief(held.first_ms + step * tick // ticks, held.zone, max(step // ticks // 4, 1_000))
        text = text.ljust(room * tick // ticks) + time
    return [(" " * (names + 3) + cut(text, max(room, 0)).ljust(max(room, 0)) + " " + more, "dim")]


def _segment(channel: str | None, width: int, now: bool) -> list[Span]:
    """A stretch of one holder."""
    if channel is None:
        return [(NO_HOLDER * width, "frame")]
    ink, words = ("holder", "holder") if now else ("active", "text")  # a stave's colour is too pale for words
    name = label(channel, 16)
    if cell_len(name) + 2 > width:
        return [("├" + "─" * (width - 1), ink)]
    return [("├", ink), (name, words), ("─" * (width - 1 - cell_len(name)), ink)]


def _most(parts: dict[str, float]) -> str | None:
    return max(parts, key=lambda channel: parts[channel]) if parts else None


def _shade(part: float) -> int:
    return 0 if part <= 0 else min(1 + int(part * 4), 4) if part < 0.95 else 4
