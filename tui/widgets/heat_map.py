"""The heat map: each channel's distance behind the fastest one over the last minutes, a row per channel."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec import Struct
from rich.cells import cell_len
from textual.events import Click
from textual.message import Message

from ..present.formatting import clock, duration, label, pad
from ..present.line import Part, Span, clip, joined
from ..present.past import Moment, heat_lags
from ..present.screen_words import LESS_BEHIND
from ..present.staves import LEFT_OUT, Order, Stave
from .canvas import Canvas

SHADES = ("·", "░", "▒", "▓", "█")
"""From almost nothing to the greatest lag in the picture."""
STEPS = (64, 16, 4, 2)
"""The shades end at these fractions of the greatest lag: one stuck channel does not hide the others."""
_INKS = ("dim", "active", "stale", "holder", "bad")
_NAMES, _LAG = (7, 24), 7


class Heat(Struct, frozen=True):
    """The content: channels as staves, their past, the selected one."""

    staves: Sequence[Stave] = ()
    moments: Sequence[Moment] = ()
    selected: str | None = None
    zone: tzinfo | None = None
    empty: str = ""


class HeatMap(Canvas):
    """Draws a `Heat`, the channels most behind first; says `Picked` when a row is clicked."""

    class Picked(Message):
        """The row of a channel was clicked."""

        def __init__(self, key: str) -> None:
            self.key = key
            super().__init__()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._heat = Heat()
        self._order = Order()
        self._rows: list[str] = []
        self._now_s = 0.0

    def show(self, heat: Heat, now_s: float, head: Sequence[Sequence[Part]] = ()) -> None:
        """Draw `heat` below the lines `head`; `now_s` (monotonic seconds) is what the order's patience goes by."""
        if heat != self._heat or head != self._head:
            self._heat, self._now_s, self._head = heat, now_s, head
            self.redraw()

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        row = -1 if offset is None else offset.y - len(self._head)
        if 0 <= row < len(self._rows):
            self.post_message(self.Picked(self._rows[row]))

    def draw(self, width: int, height: int) -> list[list[Span]]:
        heat, rows = self._heat, height - 1
        taking_part = [stave for stave in heat.staves if stave.kind not in LEFT_OUT]
        self._rows = []
        if not taking_part or not heat.moments or rows < 1:
            return [clip([(f" {line}", "dim")], width) for line in (heat.empty or "no channel takes part").splitlines()]
        shown = self._order.arrange(taking_part, self._now_s, rows)[:rows]
        self._rows = [stave.key for stave in shown]
        names = max(_NAMES[0], min(_NAMES[1], max(cell_len(label(key)) for key in self._rows)))
        room = max(width - names - _LAG - 4, 1)
        lags = [heat_lags(heat.moments, key, room) for key in self._rows]
        most = max((lag for row in lags for lag in row if lag is not None), default=0)
        lines = [self._row(stave, row, names, room, most) for stave, row in zip(shown, lags, strict=True)]
        lines += [[] for _ in range(rows - len(lines))]
        return [*lines, clip([(f" {self._words(len(heat.staves) - len(shown), most)}", "dim")], width)]

    def _row(self, stave: Stave, lags: Sequence[int | None], names: int, room: int, most: int) -> list[Span]:
        chosen = stave.key == self._heat.selected
        ink = "selected" if chosen else "holder" if stave.kind == "holder" else "text"
        wide = max(room // len(lags), 1)
        shades = [(sign * wide, shade) for sign, shade in (_shade(lag, most) for lag in lags)]
        cells: list[Span] = [(" " * (room - wide * len(lags)), "dim"), *shades]
        now = "" if lags[-1] is None else duration(lags[-1])
        name = pad(label(stave.key, names), names)
        return [(f" {name} ", ink), *joined(cells), (f" {pad(now, _LAG, right=True)}", ink)]

    def _words(self, rest: int, most: int) -> str:
        """Since when, the meaning of the shades, and the number of channels not shown."""
        limits = [f"{sign}≤{duration(most // part)}" for sign, part in zip(SHADES, (*STEPS, 1), strict=True)]
        moments = self._heat.moments
        since = clock(moments[0].now_ms, self._heat.zone, moments[-1].now_ms).partition(".")[0]
        return f"since {since}  " + " ".join(limits) + (f"  +{rest:,} {LESS_BEHIND}" if rest else "")


def _shade(lag: int | None, most: int) -> Span:
    if lag is None:
        return " ", "dim"
    place = sum(lag * part > most for part in STEPS)
    return SHADES[place], _INKS[place]
