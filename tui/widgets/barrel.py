"""The barrel: every channel a stave, and water as high as the lowest of them."""

from collections.abc import Sequence
from math import floor
from textwrap import wrap

from msgspec import Struct
from rich.cells import cell_len
from textual.events import Click

from ...engine.text import formatting as f
from ...engine.verdict.blame import channel_named
from ..words import barrel as scales
from ..words.barrel import LEFT_OUT, STATES, WATER, Axis, Kind, LogAxis, Scale, Stave
from ..words.channels import stave_of
from ..words.kinds import presenter_of
from ..words.main_screen import Shown
from ..words.preview import preview_title
from ..words.spans import EIGHTHS, Part, Span, cells, fitted, joined
from ..words.texts import BY_DISTANCE
from .canvas import Canvas, Picked, centered
from .lines import Heading

PATTERNS: dict[Kind, str] = {
    "active": "█", "holder": "▓", "idle": "░", "catching_up": "╱", "never_seen": "?", "finished": "║",
    "drowned": "▚",
}  # fmt: skip
"""Each kind has a pattern as well as a colour."""
MEANINGS: dict[Kind, str] = {
    kind: "holds back" if kind == "holder" else STATES[kind]
    for kind in ("holder", "idle", "catching_up", "never_seen", "finished", "drowned")
}


class _StaveColumn(Struct):
    """One stave, or one cell of the strip, ready to be drawn; heights in eighths of a row."""

    left: int
    width: int
    kind: Kind
    eighths: int | None
    mark: str = ""
    folded: bool = False


class Barrel(Canvas[Sequence[Stave]]):
    """Draws the staves of `shown` in order, in letters without colours; says `Picked` with a stave's key."""

    content: Sequence[Stave] = ()

    def __init__(self, shown: Shown, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown = shown
        self._arranged: Sequence[Stave] = ()
        self._far = scales.FarStaves()
        self._axis: Axis | None = None
        self._columns = scales.StavePositions(0, 1, 1, 0)
        self._gutter = 0
        self._keys: set[str] = set()
        self._common = ""
        self._longest = 0
        self._times_of: tuple[Sequence[Stave], int | None, list[int], int, int] | None = None
        self._folded = scales.FoldedStaves()
        self._seen: tuple[object, ...] = ()
        self._drawn_of: tuple[object, ...] = ()
        self._picture: list[list[Span]] = []
        self._prefix = ""
        """The common beginning of all names, if the labels omit it."""

    @property
    def keys(self) -> list[str]:
        """The staves' keys from left to right, the folded ones included."""
        return [stave.key for stave in (*self._arranged, *self._far.staves)]

    @property
    def _level_ms(self) -> int | None:
        return self._shown.snapshot.level.watermark_ms

    @property
    def _barrel_ms(self) -> int | None:
        """Under Spark's one clock: the height of the water if the slowest channel set it."""
        barrel = self._shown.snapshot.barrel
        return None if barrel is None else barrel.watermark_ms

    @property
    def _preview_ms(self) -> int | None:
        preview = self._shown.preview
        return None if preview is None else preview.level_ms

    def draw_state(self, head: Sequence[Sequence[Part]] = ()) -> None:
        """Draw the present state below the lines `head`."""
        shown, staves = self._shown, self._shown.staves
        if staves is not self.content:  # without comparing thousands of them
            self._measure({stave.key for stave in staves})
        selected, view = stave_of(shown.snapshot, shown.view), shown.view
        seen = (selected, view.logarithmic, view.zone, self._preview_ms, head, shown.snapshot)
        if staves is not self.content or seen != self._seen:
            self.content, self.head, self._seen = staves, head, seen
            self.redraw()

    def heading(self) -> Heading:
        """The title, the selection, and the meaning of the patterns."""
        snapshot, view, preview = self._shown.snapshot, self._shown.view, self._shown.preview
        staves = self._shown.staves
        what = "instance" if snapshot.instances is not None and view.inside is None else "channel"
        title: list[Span] = [("Heat map" if view.heat else "Barrel", "title")]
        if staves:
            title.append((f"  {f.counted(len(staves), what)}", "dim"))
        if view.inside is not None:
            title.append((f" inside #{view.inside}", "strong"))
        if self._prefix:
            title.append((f", named {f.cut(self._prefix, 20)}…", "dim"))
        if view.logarithmic:
            title.append((f"  {BY_DISTANCE}", "dim"))
        chosen = channel_named(snapshot, view.selected)
        if chosen is not None:
            at = chosen.watermark_ms
            time = f.NO_DATA if at is None else f.clock(at, view.zone, snapshot.now_ms)
            title += [(" ─ ", "frame"), (f" {f.name(chosen.channel)} ", "selected"), (f" {time}", "text")]
        if preview is not None:
            right: list[Span] = [("┈ ", "preview"), (preview_title(preview), "preview")]
            while title[1:] and cells([*title, *right]) + 8 > self.size.width:  # the rule's own
                title.pop()
            return Heading(0, title, right, firm=True)
        words = _legend({stave.kind for stave in staves})
        if view.heat:
            words = [("how far behind the fastest, over time", "dim")]
        if self._barrel_ms is not None:
            words += [("   ╌ ", "held"), ("watermark by the slowest channel", "dim")]
        return Heading(0, title, words)

    def _measure(self, keys: set[str]) -> None:
        """Measure the names and their common beginning, if they have changed."""
        if keys != self._keys:
            self._keys = keys
            names = [f.label(key) for key in keys]
            self._common = scales.common(names)
            self._longest = max((cell_len(name) for name in names), default=0)

    def on_click(self, event: Click) -> None:
        offset = self.spot(event)
        if offset is None:
            return
        far, place = self._far.at(offset.x - self._gutter), self._columns.at(offset.x - self._gutter)
        if far is not None:
            self.post_message(Picked(self, far.key))
        elif place is None:
            return
        elif place >= 0:
            self.post_message(Picked(self, self._arranged[place].key))
        elif -1 - place < len(self._folded.cells):
            self.post_message(Picked(self, self._folded.cells[-1 - place][0].key))

    def draw(self, width: int, height: int) -> list[list[Span]]:
        shown, rows, level_ms = self._shown, height - 1, self._level_ms
        words = presenter_of(shown.snapshot)
        clock_ms = shown.snapshot.now_ms
        if not self.content and level_ms is not None and clock_ms is not None and rows >= 3:
            return self._still(level_ms, clock_ms, words.no("barrel"), width, height)
        is_empty = level_ms is None and all(stave.watermark_ms is None for stave in self.content)
        if is_empty or rows < 2:  # below a preview's lines there may be no room for a picture
            return centered(words.no("barrel") if is_empty or not self.content else "", width, height)
        how = (shown.view.logarithmic, shown.view.zone, self._preview_ms, width, height)
        drawn_of = (how, shown.snapshot, self.content)
        if drawn_of != self._drawn_of:
            self._drawn_of = drawn_of
            self._picture = self._draw_picture(width, rows)
        names = self._names(width - self._gutter)
        return [*self._picture, [(" " * self._gutter, "dim"), *names]]

    def _draw_picture(self, width: int, rows: int) -> list[list[Span]]:
        """Draw everything except the names, which alone show the selection."""
        scale = self._scale(rows)
        gutter = self._axis_cells(scale, rows)
        self._gutter = cells(gutter[0])
        inner = width - self._gutter
        far = self._far = scales.far_below(self.content, scale, self._level_ms, inner)
        self._arranged = self.content
        if far.staves:
            keys = {stave.key for stave in far.staves}
            self._arranged = [stave for stave in self.content if stave.key not in keys]
        cols = self._columns = scales.columns(len(self._arranged), inner - (far.cells + 1) * bool(far.staves))
        self._prefix = self._common if self._longest >= cols.pitch else ""
        self._folded = scales.fold(self._arranged[cols.shown :], max(cols.per_cell, 1))
        drawn = self._columns_drawn(scale, rows)
        water = _eighths(scale, self._level_ms, rows)
        lines = self._level_lines(scale)
        return [gutter[row] + _row(drawn, row, inner, water, lines, self.plain) for row in range(rows - 1, -1, -1)]

    def _still(self, level_ms: int, clock_ms: int, empty: str, width: int, rows: int) -> list[list[Span]]:
        """One watermark and no channel: water up to it, air up to the clock, and the text in the air."""
        is_old = clock_ms - level_ms >= f.YEAR  # up to the clock there would be years, and nothing in them
        heights = [level_ms, level_ms + f.MINUTE if is_old else max(clock_ms, level_ms + f.SECOND)]
        heights += [] if self._preview_ms is None else [self._preview_ms]
        scale = self._axis = scales.follow(self._axis, min(heights), max(heights), f.SECOND, rows)
        gutter = self._axis_cells(scale, rows)
        inner = width - cells(gutter[0])
        water = _eighths(scale, level_ms, rows)
        drawn = self._level_lines(scale)
        out = [gutter[row] + _row([], row, inner, water, drawn, self.plain) for row in range(rows - 1, -1, -1)]
        air = rows - 1 - (water or 0) // 8
        texts, beside, room = empty.splitlines(), max(inner - 4, 20), max(air - 1, 1)
        lines = [part for line in texts for part in wrap(line, beside)]
        lines = lines if len(lines) <= room else [fitted(line, beside) for line in texts][:room]
        for place, line in enumerate(lines, max((air - len(lines)) // 2, 0)):
            text = fitted(line, inner)
            left = (inner - cell_len(text)) // 2
            out[place] = [*gutter[rows - 1 - place], (" " * left, "text"), (text, "text")]
        return out

    def _scale(self, rows: int) -> Scale:
        staves, level_ms, preview_ms = self.content, self._level_ms, self._preview_ms
        lateness_ms = self._shown.snapshot.settings.lateness_ms or 0
        if self._times_of is None or self._times_of[0] is not staves or self._times_of[1] != level_ms:
            times = [s.watermark_ms for s in staves if s.watermark_ms is not None]
            taking_part = [s.watermark_ms for s in staves if s.watermark_ms is not None and s.kind != "idle"]
            level = level_ms if level_ms is not None else min(taking_part or times, default=0)
            self._times_of = (staves, level_ms, times, level, scales.top_of(taking_part or times, level))
        _, _, times, level, top = self._times_of
        if self._shown.view.logarithmic:
            fastest = max(times, default=0)
            distances = [fastest - time for time in [*times, level] if time < fastest] or [f.SECOND]
            near = max(min(distances) // 2, 1)
            return LogAxis(fastest, near, max(max(distances) * 2, near * 100), rows)
        low, high = level, max(top, level)
        if self._barrel_ms is not None:
            low = max(min(low, self._barrel_ms), low - 2 * max(high - low, lateness_ms))
        if preview_ms is not None:
            reach = 3 * max(high - low, lateness_ms)
            low, high = max(min(low, preview_ms), low - reach), min(max(high, preview_ms), high + reach)
        water = 1 / rows if scales.is_crowded(len(staves), self.size.width) else WATER
        self._axis = scales.follow(self._axis, low, high, max(lateness_ms // 8, f.SECOND), rows, water)
        return self._axis

    def _columns_drawn(self, scale: Scale, rows: int) -> list[_StaveColumn]:
        cols = self._columns
        out: list[_StaveColumn] = []
        for place, stave in enumerate(self._arranged[: cols.shown]):
            left, width = cols.left + place * cols.pitch, cols.stave
            eighths = _eighths(scale, stave.watermark_ms, rows)
            mark = _mark(scale, stave.watermark_ms, self._level_ms, rows)
            out.append(_StaveColumn(left, width, stave.kind, eighths, mark))
        for cell, lowest in enumerate(self._folded.lowest):
            eighths = _eighths(scale, lowest.watermark_ms, rows)
            out.append(_StaveColumn(cols.fold_left + cell, 1, lowest.kind, eighths, folded=True))
        far = self._far
        marks = (_StaveColumn(far.left + x, 1, one.kind, -1, "▼") for x, one in enumerate(far.staves[: far.cells]))
        return [*out, *marks]

    def _names(self, width: int) -> list[Span]:
        """The names that fit whole, the selected and the holder's first; below folded and far staves how many."""
        cols, far, selected = self._columns, self._far, stave_of(self._shown.snapshot, self._shown.view)
        seen, folded = self._arranged[: cols.shown], self._folded.count
        end = cols.fold_left - 1 if folded else far.left - 1 if far.staves and seen else width
        found: list[tuple[int, str, str]] = []
        if folded:
            room = (far.left - 1 if far.staves else width) - cols.fold_left
            out = f", {self._folded.left_out:,} left out ({PATTERNS['idle']})" if self._folded.left_out else ""
            each = f"+{folded:,}, {cols.per_cell} a cell"
            texts = (f"{each}{out}", each, f"+{folded:,}")
            text = next((text for text in texts if len(text) <= room), "")
            found.append((cols.fold_left, text, "selected" if selected in self._folded.keys else "dim"))
        if far.staves:
            found.append((far.left, far.text, "selected" if selected in {s.key for s in far.staves} else "idle"))
        free = [True] * (end + 1)
        for place in sorted(range(len(seen)), key=lambda p: (seen[p].key != selected, seen[p].kind != "holder")):
            stave = seen[place]
            text = f.cut_middle(f.label(stave.key).removeprefix(self._prefix), max(cols.pitch - 1, end // 3))
            taken = cell_len(text)
            left = min(max(cols.left + place * cols.pitch + (cols.stave - taken) // 2, 0), max(end - taken, 0))
            if all(free[max(left - 1, 0) : left + taken + 1]):
                free[left : left + taken] = [False] * taken
                style = "selected" if stave.key == selected else "holder" if stave.kind == "holder" else "dim"
                found.append((left, text, style))
        spans: list[Span] = []
        for left, text, style in sorted(found):
            spans += [(" " * (left - cells(spans)), "dim"), (text, style)]
        return spans

    def _axis_cells(self, scale: Scale, rows: int) -> list[list[Span]]:
        """The axis, from the bottom up: round times, the watermark's and the preview's own."""
        linear = isinstance(scale, Axis)
        zone = self._shown.view.zone
        step = scale.tick_ms if linear else 1
        wide = 5 if not linear or step >= f.FINE else 8 if step >= f.SECOND else 6
        ticks = scale.ticks()
        times = f.axis_times([tick.time_ms for tick in ticks], zone, step) if linear else []
        wide = 7 if linear and (step >= f.MONTH or any(len(text) > wide for text in times)) else wide

        def shown(time_ms: int) -> str:
            if isinstance(scale, LogAxis):
                return "−" + f.duration(max(scale.fastest_ms - time_ms, 0))
            return f.brief(time_ms, zone, step)

        out: list[list[Span]] = [[(" " * (wide + 2) + "│", "frame")] for _ in range(rows)]
        marks = ((self._barrel_ms, "held", "╌"), (self._level_ms, "level", "≈"), (self._preview_ms, "preview", "┈"))
        marked = {shown(time_ms) for time_ms, _, _ in marks if time_ms is not None}
        for place, tick in enumerate(ticks):
            text = times[place] if linear else "−" + f.short(tick.time_ms)
            if text not in marked:  # two rows with one time would look like an error
                out[tick.row] = [(" " + f.pad(text, wide, right=True), "dim"), (" ┤", "frame")]
        for time_ms, style, sign in marks:
            if time_ms is not None and 0 <= (row := int(scale.height(time_ms))) < rows:
                out[row] = [(" " + f.pad(shown(time_ms), wide, right=True), style), (" " + sign, style)]
        return out

    def _level_lines(self, scale: Scale) -> dict[int, Span]:
        """The lines across the gaps, by row: the barrel's own watermark under Spark's clock, and the previewed one."""
        lines = ((self._barrel_ms, "╌", "held"), (self._preview_ms, "┈", "preview"))
        return {int(scale.height(at)): (sign, style) for at, sign, style in lines if at is not None}


def _legend(kinds: set[Kind]) -> list[Span]:
    """The meaning of the patterns that occur."""
    out: list[Span] = []
    for kind, word in MEANINGS.items():
        if kind in kinds:
            out += [("   " if out else "", "dim"), (PATTERNS[kind], kind), (f" {word}", "dim")]
    return out


def _eighths(scale: Scale, time_ms: int | None, rows: int) -> int | None:
    """The height of a time in eighths of a row, None if the time is not known; at most the full height."""
    return None if time_ms is None else max(min(floor(scale.height(time_ms) * 8), rows * 8), -1)


def _mark(scale: Scale, time_ms: int | None, level_ms: int | None, rows: int) -> str:
    """`▼3d` for a stave that ends below the picture, 3 d behind the watermark, `▲3d` for one that goes above it."""
    if time_ms is None or not isinstance(scale, Axis) or 0 <= scale.height(time_ms) <= rows:
        return ""
    distance = f.short(abs(time_ms - (scale.low_ms if level_ms is None else level_ms)))
    return ("▼" if time_ms < scale.low_ms else "▲") + distance


def _row(
    drawn: list[_StaveColumn], row: int, width: int, water: int | None, lines: dict[int, Span], plain: bool
) -> list[Span]:
    """One row of the picture, counted from the bottom."""
    spans: list[Span] = []
    x = 0
    between = _between(row, water, lines, plain)
    for column in drawn:
        if column.left > x:
            spans.append((between[0] * (column.left - x), between[1]))
        spans.append(_cell(column, row, water) or (between[0] * column.width, between[1]))
        x = column.left + column.width
    if x < width:
        spans.append((between[0] * (width - x), between[1]))
    return joined(spans)


def _between(row: int, water: int | None, lines: dict[int, Span], plain: bool) -> Span:
    """The content of the gaps between the staves."""
    deep = water is not None and row < water // 8
    if row in lines:
        sign, style = lines[row]
        return sign, f"{style}-wet" if deep else style
    if water is None or row > water // 8:
        return " ", "text"
    if deep:
        return ("≈" if row == water // 8 - 1 else "~" if plain else " "), "ripple" if not plain else "water"
    return ("≈" if plain else EIGHTHS[water % 8]), "surface"


def _cell(column: _StaveColumn, row: int, water: int | None) -> Span | None:
    """The content of a stave's row, None above its end."""
    under = water is not None and row < water // 8 + (water % 8 >= 4)
    dry = "folded" if column.folded and column.kind == "active" else column.kind
    style = f"{dry}-wet" if under else dry
    if column.eighths is None:
        return (f"{'║' if column.kind == 'finished' else '?':^{column.width}}", style) if row == 0 else None
    if column.mark and not column.folded and (run := _cut_end(column, row, style)):
        return run
    full, rest = divmod(column.eighths, 8)
    if column.eighths < 0 or row > full:
        return None
    if column.folded:
        if column.kind in LEFT_OUT:
            return (PATTERNS[column.kind], style) if row < full or rest >= 3 else None
        return ("▌", style) if row < full else ("▖", style) if rest >= 3 else None
    if row < full:
        return PATTERNS[column.kind] * column.width, style
    if not rest:
        return None
    drowned = water is not None and (row < water // 8 or (row == water // 8 and column.eighths < water))
    return EIGHTHS[rest] * column.width, f"{dry}-wet" if drowned else dry


def _cut_end(column: _StaveColumn, row: int, style: str) -> Span | None:
    """The mark at the end of a stave that the picture cuts off: one row, or two for a narrow stave."""
    sign, text = column.mark[0], column.mark[1:]
    below = column.eighths == -1
    end = 0 if below else (column.eighths or 0) // 8 - 1
    inner = end + 1 if below else end - 1
    if len(text) + 2 <= column.width:
        return (f.pad(f"{sign} {text}", column.width), style) if row == end else None
    if row == end:
        return f.pad(sign, column.width), style
    return (f.pad(text, column.width), style) if row == inner and 0 < len(text) <= column.width else None
