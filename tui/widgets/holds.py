"""The holders of the watermark over time: one line for the main screen, and a lane for each channel."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec import Struct
from rich.cells import cell_len
from textual.message import Message

from ...engine.text import formatting as f
from ..words.history import Hold, shares, totals
from ..words.spans import Span, clip
from .canvas import Canvas
from .rows import column_cells

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


class HolderStrip(Canvas[HolderSpan]):
    """One line with the holders by name if there is room; posts `Picked` when it is clicked."""

    class Picked(Message):
        """The line was clicked."""

    content = HolderSpan()

    def on_click(self) -> None:
        self.post_message(self.Picked())

    def draw(self, width: int, height: int) -> list[list[Span]]:
        held = self.content
        right = f" {f.duration(held.last_ms - held.first_ms)} "
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


class HolderLanes(Canvas[HolderSpan]):
    """A lane for each channel that held, the longest first, and the times below them."""

    content = HolderSpan()

    def draw(self, width: int, height: int) -> list[list[Span]]:
        held = self.content
        channels = totals(held.holds)
        if not channels or height < 2:
            return [clip([(f" {held.empty}", "dim")], width)]
        kept = channels[: height - 1]
        if held.holder is not None and all(total.channel != held.holder for total in kept):
            kept[-1:] = [total for total in channels if total.channel == held.holder]
        names = column_cells((f.label(total.channel) for total in kept), *_NAME)
        room = width - names - _TOTAL - 5
        cells = shares(held.holds, held.first_ms, held.last_ms, max(room, 0))
        whole = max(held.last_ms - held.first_ms, 1)
        lines: list[list[Span]] = []
        for total in kept:
            style, words = ("holder", "holder") if total.channel == held.holder else ("active", "text")
            shades = "".join(SHADES[_shade(parts.get(total.channel, 0.0))] for parts in cells)
            part = f.share(min(total.held_ms / whole, 1.0))
            said = f"{f.pad(f.duration(total.held_ms), 6, right=True)} {f.pad(part, 7, right=True)} {total.times:>3,}×"
            spans: list[Span] = [
                (f" {f.pad(f.label(total.channel, names), names)} ", words),
                ("│", "frame"),
                (shades, style),
            ]
            lines.append(clip([*spans, ("│", "frame"), (said, "dim")], width))
        more = len(channels) - len(kept)
        return [*lines, _axis(held, names, room, f"and {more:,} more" if more > 0 else "")]


def _axis(held: HolderSpan, names: int, room: int, more: str) -> list[Span]:
    """The times below the lanes."""
    step = max(held.last_ms - held.first_ms, 1)
    ticks = max(min(room // 16, 6), 1)
    text = ""
    for tick in range(ticks):
        time = f.brief(held.first_ms + step * tick // ticks, held.zone, max(step // ticks // 4, 1_000))
        text = text.ljust(room * tick // ticks) + time
    return [(" " * (names + 3) + f.cut(text, max(room, 0)).ljust(max(room, 0)) + " " + more, "dim")]


def _segment(channel: str | None, width: int, now: bool) -> list[Span]:
    """A stretch of one holder."""
    if channel is None:
        return [(NO_HOLDER * width, "frame")]
    style, words = ("holder", "holder") if now else ("active", "text")  # a stave's colour is too pale for words
    name = f.label(channel, 16)
    if cell_len(name) + 2 > width:
        return [("├" + "─" * (width - 1), style)]
    return [("├", style), (name, words), ("─" * (width - 1 - cell_len(name)), style)]


def _most(parts: dict[str, float]) -> str | None:
    return max(parts, key=lambda channel: parts[channel]) if parts else None


def _shade(part: float) -> int:
    return 0 if part <= 0 else min(1 + int(part * 4), 4) if part < 0.95 else 4
