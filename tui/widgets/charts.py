"""Pictures over time: figures on one axis, the heat map of channels, the holders, event against processing time."""

from collections.abc import Sequence
from datetime import UTC, tzinfo
from itertools import accumulate, islice

from msgspec import Struct
from rich.cells import cell_len
from textual.events import Click

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ...engine.verdict.history import HistoryPoint
from ..words.barrel import LEFT_OUT
from ..words.channels import ChannelRow
from ..words.history import Hold, shares, totals
from ..words.kinds import presenter_of
from ..words.main_screen import Shown
from ..words.progress import PHASES, Chart, Stack, UnreadPosition, cells_of, step_ms, unread
from ..words.recent import Moment, greatest
from ..words.spans import EIGHTHS, Part, Span, cells, clip, fitted, joined, lay, part
from ..words.texts import BACKLOG_BY_SOURCE, NO_CHANNEL_MATCHES, NONE_TAKES_PART, NOT_DRAWN
from ..words.time_plot import Data, PlotFrame, PlotView, drawn, frame_of, x_labels, y_labels
from .canvas import Canvas, Picked, centered
from .rows import column_cells

_LABEL, _ROOMY = (24, 30), 100
"""Widths of the names, and the screen width from which the greater one is used."""
_GAUGE = 8
_LEAST, _MOST = 2, 8
_STACK = (("█", "part-0"), ("▓", "part-1"), ("▒", "part-2"), ("░", "part-3"))
"""A pattern and an style for each part of a stack, from the bottom up."""
_OVER = ("text", "over-1", "over-2", "over-3")
"""The background of each part, if another part ends below it in the same cell."""
_AIR = 2
"""Free eighths of a row between two charts if there is no room for a line."""
_BAR = 30


class Charts(Canvas[tuple[Snapshot, Sequence[HistoryPoint]] | None]):
    """Draws the progress of a snapshot with its history; without colours the parts of a batch differ by their
    patterns alone.
    """

    content = None

    def draw(self, width: int, height: int) -> list[list[Span]]:
        if self.content is None:
            return []
        snapshot, points = self.content
        columns = columns_in(width)
        cell_ms = step_ms(points, columns)
        charts = presenter_of(snapshot).charts(points, cells_of(points, columns, cell_ms))
        positions = unread(snapshot)
        drawn = [chart for chart in charts if chart.note is None]
        notes = len(charts) - len(drawn)
        below = min(len(positions) + 1, max(height // 4, 2)) if positions else 0
        rows = max(min((height - 1 - below - 2 * notes) // max(len(drawn), 1), _MOST), 1)
        gap = 1 if rows > _LEAST else 0
        spare = height - 1 - below - notes * (1 + gap) - len(drawn) * rows
        lines: list[list[Span]] = [[]] if spare > 0 else []
        for chart in charts:
            lines += _chart(chart, rows - gap if chart.note is None else 1, width, 0 if gap else _AIR, self.plain)
            lines += [[]] * gap
        lines.append(_axis(cell_ms, width))
        lines += _unread(positions, height - len(lines), width)
        return lines[:height]


def columns_in(width: int) -> int:
    """The number of columns in a picture of that width."""
    return max(width - _label(width) - _GAUGE - 3, 1)


def legend(*, plain: bool = False) -> list[Span]:
    """The meaning of a batch's colours or patterns."""
    out: list[Span] = []
    for (pattern, style), (_, word) in zip(_STACK, PHASES, strict=True):
        out += [("  " if out else "batch: ", "dim"), (pattern if plain else EIGHTHS[8], style), (f" {word}", "dim")]
    return out


def _label(width: int) -> int:
    return _LABEL[width >= _ROOMY]


def _chart(chart: Chart, rows: int, width: int, airy: int, plain: bool) -> list[list[Span]]:
    names, room = _label(width), columns_in(width)
    words: list[list[Span]] = [[(f" {f.pad(chart.name, names - 1)}", "strong")]]
    words += [[(f" {f.pad(chart.now, names - 1)}", "text")]] if rows > 1 else []
    words += [[(" " * names, "dim")]] * (rows - len(words))
    if chart.note is not None:
        indent = min(_GAUGE + 2, max(width - names - cell_len(chart.note), 1))
        note = " " * indent + fitted(chart.note, width - names - indent)
        return [[*words[0], (note, "dim")], *words[1:]]
    bars = stacked(chart.columns[-room:], 8 * rows - airy, chart.top, plain=plain)
    gauge = [f.pad(chart.gauge, _GAUGE, right=True) if row == 0 else " " * _GAUGE for row in range(rows)]
    return [
        [*words[row], (f"{gauge[row]} ", "dim"), ("┤" if row == 0 else "│", "frame"), *bars[row]] for row in range(rows)
    ]


def stacked(columns: Sequence[Stack | None], eighths: int, top: float, *, plain: bool = False) -> list[list[Span]]:
    """The columns as rows of spans, the upper one first; `top` is `eighths` eighths of a row high.

    Unknown values stay empty, 0 has a foot, and `▲` marks a column that is cut off. `plain`: parts differ by pattern,
    not colour.
    """
    edges = [None if column is None else _edges(column, eighths / top if top > 0 else 0.0) for column in columns]
    rows = range(-(-eighths // 8) - 1, -1, -1)
    return [joined(_cell(edge, row, eighths, plain) for edge in edges) for row in rows]


def _edges(column: Stack, scale: float) -> list[int]:
    """Where the parts of a column end, in eighths; the last at least at 1."""
    ends = [round(scale * end) for end in accumulate(column)]
    return [*ends[:-1], max(ends[-1], 1)]


def _cell(edges: list[int] | None, row: int, eighths: int, plain: bool) -> Span:
    if edges is None:
        return " ", "text"
    foot, end = 8 * row, edges[-1]
    if end <= foot:
        return " ", "text"
    if end > eighths + 4 and foot + 8 >= eighths:
        return "▲", "stale"
    reached = min(end - foot, 8)
    if not plain and reached == 8 and (split := _split(edges, foot)) is not None:
        lower, upper = split
        return EIGHTHS[edges[lower] - foot], f"{_STACK[lower][1]}@{_OVER[upper]}"
    pattern, style = _STACK[_most(edges, foot, foot + reached)]
    return (pattern if plain and reached == 8 else EIGHTHS[reached]), style


def _split(edges: list[int], foot: int) -> tuple[int, int] | None:
    """The part at the bottom of a cell, and the largest part of the rest; None without a rest."""
    lower = next(place for place, end in enumerate(edges) if end > foot)
    return None if edges[lower] >= foot + 8 else (lower, _most(edges, edges[lower], foot + 8))


def _most(edges: list[int], low: int, high: int) -> int:
    """The largest part between two heights (eighths)."""
    starts = [0, *edges]
    return max(range(len(edges)), key=lambda place: min(edges[place], high) - max(starts[place], low))


def _axis(cell_ms: int, width: int) -> list[Span]:
    """How long ago: at the left end, in the middle, now."""
    room, indent = columns_in(width), _label(width) + _GAUGE + 2
    line = " " * (room - 3) + "now"
    for place in (0, room // 2):
        text = "−" + f.duration((room - place) * cell_ms)
        line = line[:place] + text + line[place + len(text) :]
    return [(" " * indent, "dim"), (line[:room], "dim")]


def _unread(positions: Sequence[UnreadPosition], rows: int, width: int) -> list[list[Span]]:
    """The most behind, as many as fit."""
    if not positions or rows < 2:
        return []
    shown = positions[: rows - 1]
    more = len(positions) - len(shown)
    title: list[Span] = [(f" {BACKLOG_BY_SOURCE}", "strong"), (f", {more:,} more below these" if more else "", "dim")]
    names = min(max(len(f.label(source.name)) for source in shown), max(width // 3, 12))
    most = max((source.records or 0 for source in shown), default=0)
    return [clip(title, width), *(_source(source, names, most, width) for source in shown)]


def _source(source: UnreadPosition, names: int, most: int, width: int) -> list[Span]:
    if source.records is None:
        return clip([(f" {f.pad(f.label(source.name, names), names)}  ", "text"), (f.ELSEWHERE, "dim")], width)
    behind = "" if source.behind_ms is None else f"{f.duration(source.behind_ms)} of event time"
    head: list[Span] = [
        (f" {f.pad(f.label(source.name, names), names)}  ", "text"),
        (f.pad(f.count(source.records), 11, right=True), "text"),
        (" records  ", "dim"),
    ]
    bar = max(min(_BAR, width - cells(head) - len(behind) - 3), 0)
    full = -(-bar * source.records // most) if most else 0
    return clip([*head, ("▇" * full, "active"), (" " * (bar - full) + "  ", "dim"), (behind, "dim")], width)


SHADES = ("·", "░", "▒", "▓", "█")
"""From almost nothing to the greatest lag in the picture."""
STEPS = (64, 16, 4, 2)
"""The shades end at these fractions of the greatest lag: one stuck channel does not hide the others."""
_HEAT_STYLES = ("dim", "active", "stale", "holder", "bad")
_NAMES, _LAG = (7, 24), 7


class HeatMap(Canvas[Sequence[Moment]]):
    """Draws the past of the channels of `shown` that take part, in their order; says `Picked` with a row's channel."""

    content: Sequence[Moment] = ()

    def __init__(self, shown: Shown, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown = shown
        self._rows: list[str] = []

    def draw_state(self, head: Sequence[Sequence[Part]] = ()) -> None:
        """Draw the present state below the lines `head`."""
        self.content, self.head = self._shown.recent.past.until(self._shown.snapshot), head
        self.redraw()

    def on_click(self, event: Click) -> None:
        offset = self.spot(event)
        row = -1 if offset is None else offset.y - len(self.head)
        if 0 <= row < len(self._rows):
            self.post_message(Picked(self, self._rows[row]))

    def draw(self, width: int, height: int) -> list[list[Span]]:
        moments, entries, rows = self.content, self._shown.entries, max(height - 2, 1)
        drawn = list(islice((entry for entry in entries if entry.kind not in LEFT_OUT), rows))
        self._rows = [entry.view.channel for entry in drawn]
        if not drawn or not moments:
            return centered(self._empty(), width, height)
        names = column_cells((f.label(key) for key in self._rows), *_NAMES)
        room = max(width - names - _LAG - 4, 1)
        lags = [greatest([moment.lag_ms(key) for moment in moments], room) for key in self._rows]
        most = max((lag for row in lags for lag in row if lag is not None), default=0)
        lines = [self._row(entry, row, names, room, most) for entry, row in zip(drawn, lags, strict=True)]
        first_ms, last_ms = moments[0].now_ms, moments[-1].now_ms
        axis = times_below(first_ms, last_ms, room, self._shown.view.zone)
        lines += [[(" " * (names + 2) + axis, "dim")], *([] for _ in range(rows - len(lines)))]
        rest = len(entries) - len(drawn)
        more = [part((f"+{rest:,} {NOT_DRAWN}", "dim"), rank=2, gap="  ")] if rest else []
        legend = [part((" behind the fastest:", "dim"), rank=1), part(*_legend(most), gap=""), *more]
        return [*lines, lay(legend, width)]

    def _empty(self) -> str:
        snapshot = self._shown.snapshot
        if not snapshot.channels:
            return presenter_of(snapshot).no("barrel")
        return NONE_TAKES_PART if self._shown.entries else NO_CHANNEL_MATCHES

    def _row(self, entry: ChannelRow, lags: Sequence[int | None], names: int, room: int, most: int) -> list[Span]:
        key = entry.view.channel
        style = "selected" if key == self._shown.view.selected else "holder" if entry.kind == "holder" else "text"
        shades = [_shade(lags[cell * len(lags) // room], most) for cell in range(room)]
        now = "" if lags[-1] is None else f.duration(lags[-1])
        name = f.pad(f.label(key, names), names)
        return [(f" {name} ", style), *joined(shades), (f" {f.pad(now, _LAG, right=True)}", style)]


def _legend(most: int) -> list[Span]:
    """The meaning of the shades, in their colours."""
    bounds = [most // share for share in (*STEPS, 1)]
    spans: list[Span] = []
    for place, (sign, style) in enumerate(zip(SHADES, _HEAT_STYLES, strict=True)):
        if bounds[place] not in bounds[:place]:
            spans += [(f" {sign}", style), (f"≤{f.duration(bounds[place])}", "dim")]
    return spans


def times_below(first_ms: int, last_ms: int, room: int, zone: tzinfo | None) -> str:
    """Times at equal distances from the first on, in `room` cells, and the last at the end if there is room."""
    whole, ticks = last_ms - first_ms, max(min(room // 16, 6), 1)
    step_ms = max(whole // ticks // 4, 1_000)
    last, line = f.brief(last_ms, zone, step_ms), ""
    for tick in range(ticks if whole else 0):
        text = f.brief(first_ms + whole * tick // ticks, zone, step_ms)
        if room * tick // ticks + len(text) + 1 + len(last) <= room:
            line = line.ljust(room * tick // ticks) + text
    return f.cut(line + last.rjust(room - len(line)), room)


def _shade(lag: int | None, most: int) -> Span:
    if lag is None:
        return " ", "dim"
    place = sum(lag * part > most for part in STEPS)
    return SHADES[place], _HEAT_STYLES[place]


_GUTTER = 11


class TimeScene(Struct, frozen=True):
    """The content: the data (None: there is none yet), the view of it, and the text without a record."""

    data: Data | None = None
    look: PlotView = PlotView()
    zone: tzinfo | None = UTC
    empty: str = ""


class TimeCanvas(Canvas[TimeScene]):
    """Draws a `TimeScene`, readable also without colours; stores the part it shows."""

    content = TimeScene()

    frame: PlotFrame | None = None
    """The part that is shown."""

    def draw(self, width: int, height: int) -> list[list[Span]]:
        scene, columns, rows = self.content, width - _GUTTER - 1, height - 1
        data, empty = scene.data, scene.empty
        if data is None or columns < 4 or rows < 3:
            return [[], [(fitted(f" {empty}", width), "dim")]][:height]
        frame = self.frame = frame_of(data, scene.look, columns, rows, self.frame)
        labels = y_labels(frame, scene.zone)
        lines: list[list[Span]] = []
        for place, spans in enumerate(drawn(data, frame, plain=self.plain)):
            text = labels.get(frame.rows - 1 - place)
            mark = f" {text or '':>{_GUTTER - 3}} "
            lines.append([(mark, "dim"), ("┤" if text else "│", "frame"), *spans])
        if empty:
            lines[1] = [*lines[1][:2], (fitted(f" {empty}", columns), "dim")]
        return [*lines, _bottom(frame, scene.zone)]


def _bottom(frame: PlotFrame, zone: tzinfo | None) -> list[Span]:
    """The labels of the processing time."""
    line = " " * frame.columns
    for column, text in x_labels(frame, zone).items():
        if column + len(text) + 1 < frame.columns and not line[max(column - 1, 0) : column + len(text) + 2].strip():
            line = line[:column] + "╵" + text + line[column + 1 + len(text) :]
    return [(" " * _GUTTER, "dim"), (line, "dim")]


_HELD_SHADES = " ░▒▓█"
"""A cell by the part of its time that a channel held: none, some, a half, most, all."""
NO_HOLDER = "·"
_HOLDER_NAME = (6, 20)
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
    """One line with the holders by name if there is room; says `Picked` when it is clicked."""

    content = HolderSpan()

    def on_click(self, event: Click) -> None:
        if self.spot(event) is not None:
            self.post_message(Picked(self))

    def draw(self, width: int, height: int) -> list[list[Span]]:
        held = self.content
        right = f" {f.duration(held.last_ms - held.first_ms)} "
        room = width - len(_LEFT) - len(right)
        if not held.holds or held.last_ms <= held.first_ms or room < 10:
            return [[]]
        parts_of = shares(held.holds, held.first_ms, held.last_ms, room)
        cells = [max(parts, key=parts.__getitem__, default=None) for parts in parts_of]
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
            return [[(fitted(f" {held.empty}", width), "dim")]]
        kept = channels[: height - 1]
        if held.holder is not None and all(total.channel != held.holder for total in kept):
            kept[-1:] = [total for total in channels if total.channel == held.holder]
        names = column_cells((f.label(total.channel) for total in kept), *_HOLDER_NAME)
        room = width - names - _TOTAL - 5
        cells = shares(held.holds, held.first_ms, held.last_ms, max(room, 0))
        whole = max(held.last_ms - held.first_ms, 1)
        lines: list[list[Span]] = []
        for total in kept:
            style, words = ("holder", "holder") if total.channel == held.holder else ("active", "text")
            held_parts = [parts.get(total.channel, 0.0) for parts in cells]
            shades = "".join(_HELD_SHADES[min(1 + int(part * 4), 4) if part > 0 else 0] for part in held_parts)
            part = f.share(min(total.held_ms / whole, 1.0))
            said = f"{f.pad(f.duration(total.held_ms), 6, right=True)} {f.pad(part, 7, right=True)} {total.times:>3,}×"
            name: Span = (f" {f.pad(f.label(total.channel, names), names)} ", words)
            lines.append(clip([name, ("│", "frame"), (shades, style), ("│", "frame"), (said, "dim")], width))
        rest, room = len(channels) - len(kept), max(room, 0)
        axis = times_below(held.first_ms, held.last_ms, room, held.zone).ljust(room)
        more = f"and {rest:,} more" if rest > 0 else ""
        return [*lines, [(f"{' ' * (names + 3)}{axis} {more}", "dim")]]


def _segment(channel: str | None, width: int, now: bool) -> list[Span]:
    """A stretch of one holder."""
    if channel is None:
        return [(NO_HOLDER * width, "frame")]
    style, words = ("holder", "holder") if now else ("active", "text")  # a stave's colour is too pale for words
    name = f.label(channel, 16)
    if cell_len(name) + 2 > width:
        return [("├" + "─" * (width - 1), style)]
    return [("├", style), (name, words), ("─" * (width - 1 - cell_len(name)), style)]
