"""The table of windows: how far each is from firing, which channels it waits for."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec import Struct
from rich.cells import cell_len
from textual.events import Blur, Focus
from textual.message import Message

from ...engine.snapshot import FiredWindow, OpenWindow
from ...engine.text import formatting as f
from ..words.spans import Span, cells, clip
from ..words.texts import windows_wait
from ..words.windows import WindowGroup, waits_for, window_groups
from .rows import Rows, marked, text_of, wrapped

_BAR_CELLS = (6, 24)
_ROOMY = 42


class OpenWindowTable(Struct, frozen=True):
    """The table's content: open windows, the earliest end first, of `open_count` in total."""

    open: Sequence[OpenWindow] = ()
    open_count: int | None = 0
    level_ms: int | None = None
    fastest_ms: int | None = None
    near_ms: int | None = None
    """Times on another day than this one have their date."""
    lateness_ms: int | None = None
    taking_part: int | None = None
    """How many channels (source instances) take part in the minimum."""
    zone: tzinfo | None = None
    empty: str = ""
    unclosed: str | None = None
    """What happens to windows that the watermark does not close; None: known only that they wait."""


class WindowTable(Rows):
    """Draws `OpenWindowTable`: two lines a group, a bar full up to the watermark and light up to the fastest
    channel.

    While it has the focus, the selected group is marked; says `Chosen` when that changes.
    """

    class Chosen(Message):
        """Another group was selected, or the table gained or lost the focus."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._windows = OpenWindowTable()
        self._groups: list[WindowGroup] = []
        self._wide = (0, 0)
        self._cursor = 0

    def show(self, windows: OpenWindowTable) -> None:
        """Draw `windows`."""
        if windows == self._windows:
            return
        self._windows = windows
        before = self.chosen
        self._groups = window_groups(windows.open)
        starts = [(group.first.start_ms, group.first.operator) for group in self._groups]
        if before is not None and (was := (before.first.start_ms, before.first.operator)) in starts:
            self._cursor = starts.index(was)
        self._wide = (
            max((cell_len(self._ends(group)) for group in self._groups), default=0),
            max((cell_len(f.count(group.records)) for group in self._groups), default=0),
        )
        self.redraw()

    @property
    def _more(self) -> int:
        """How many open windows are not listed."""
        return (self._windows.open_count or 0) - len(self._windows.open)

    def row_count(self) -> int:
        windows = self._windows
        if not windows.open:
            return len(wrapped(windows.empty, self.row_cells))
        return 2 * len(self._groups) + (self._more > 0)

    def group(self, row: int) -> WindowGroup | None:
        """The windows of a row."""
        place = row // 2
        return self._groups[place] if 0 <= place < len(self._groups) else None

    @property
    def chosen(self) -> WindowGroup | None:
        """The selected windows; the first ones until others are selected."""
        return self._groups[min(self._cursor, len(self._groups) - 1)] if self._groups else None

    @property
    def chosen_line(self) -> str:
        """The selected windows as they are shown."""
        place = 2 * min(self._cursor, len(self._groups) - 1)
        return "" if place < 0 else "\n".join(text_of(self._drawn(row, self.row_cells)) for row in (place, place + 1))

    def move(self, by: int) -> None:
        if self._groups:
            self.select(min(self._cursor, len(self._groups) - 1) + by)

    def select(self, place: int) -> None:
        """Select a group of windows."""
        self._cursor = max(min(place, len(self._groups) - 1), 0)
        self.show_row(2 * self._cursor + 1)
        self.show_row(2 * self._cursor)
        self.redraw()
        self.post_message(self.Chosen())

    def on_focus(self, event: Focus) -> None:
        self.redraw()

    def on_blur(self, event: Blur) -> None:
        self.redraw()

    def row(self, index: int, width: int) -> Sequence[Span]:
        spans = self._drawn(index, width)
        if not self.has_focus or index // 2 != min(self._cursor, len(self._groups) - 1) or not self._groups:
            return spans
        return marked(spans, width)

    def _drawn(self, index: int, width: int) -> Sequence[Span]:
        windows = self._windows
        if not windows.open:
            return [(wrapped(windows.empty, width)[index], "dim")]
        place, second = divmod(index, 2)
        if place >= len(self._groups):
            return [(f" and {self._more:,} more that end later", "dim")]
        group = self._groups[place]
        return clip(self._waits(group, width) if second else self._fill(group, width), width)

    def _ends(self, group: WindowGroup) -> str:
        windows = self._windows
        return f.interval(group.first.start_ms, group.end_ms, windows.zone, windows.near_ms)

    def _fill(self, group: WindowGroup, width: int) -> list[Span]:
        windows, window = self._windows, group.first
        ends = f.pad(self._ends(group), self._wide[0])
        rows = f.pad(f.count(group.records), self._wide[1], right=True)
        unit = "  " if width < _ROOMY else " row   " if group.records == 1 else " rows  "
        head: list[Span] = [(f" {ends}  ", "strong"), (rows, "text"), (unit, "dim")]
        tail: list[Span] = []
        if windows.lateness_ms is not None:
            needed = f.clock(window.end_ms + windows.lateness_ms, windows.zone, windows.near_ms).partition(".")[0]
            needed = needed.removesuffix(":00")
            tail = [(" until ", "dim"), (needed, "text")]
        room = width - cells(head) - 1
        if room - cells(tail) < _BAR_CELLS[0]:
            tail = []
        bar = reach_bar(
            window.start_ms, group.end_ms, windows.level_ms, windows.fastest_ms, min(room - cells(tail), _BAR_CELLS[1])
        )
        return [*head, *bar, *tail]

    def _waits(self, group: WindowGroup, width: int) -> list[Span]:
        window, count = group.first, len(group.windows)
        who = waits_for(window, 3 if width >= _ROOMY else 1, self._windows.taking_part)
        several = f"{count:,} {'windows ' if width >= _ROOMY else ''}"
        wait = "waits" if count == 1 else f"{several}wait"
        if who is None and window.short_ms is None and self._windows.unclosed is not None:
            return [(f"   {several if count > 1 else ''}{self._windows.unclosed}", "dim")]
        if who is None:
            missing = wait if window.short_ms is None else f"{f.duration(window.short_ms)} of event time short"
            return [(f"   {missing}", "dim")]
        head, short = f"   {wait} for ", ""
        if window.short_ms is not None:
            missing, of_what = f.duration(window.short_ms), " of event time"
            whole = f" ({missing}{of_what} short)"
            fits = count == 1 and cell_len(head + who + whole) <= width
            short = whole if fits else f" ({missing} short)"
        return [(head, "dim"), (who, "holder"), (short, "dim")]


def reach_bar(start_ms: int, end_ms: int, level_ms: int | None, fastest_ms: int | None, width: int) -> list[Span]:
    """How far the watermark and the fastest channel are between two times, as a bar; nothing if there is no room."""
    if width < 3:
        return []
    size = max(end_ms - start_ms, 1)

    def reached(time_ms: int | None) -> int:
        return 0 if time_ms is None else max(min(width * (time_ms - start_ms) // size, width), 0)

    closed = reached(level_ms)
    ahead = max(reached(fastest_ms), closed)
    return [("▇" * closed, "level"), ("▒" * (ahead - closed), "ahead"), ("▁" * (width - ahead), "frame")]


_BAR = (6, 24)
_SHORT, _CLOSES = 8, 24
_FIRED = 68
_AT = 12
"""The width of a fired window's line besides its name and rows."""
_NAMED, _NAME_CELLS = 6, 14
CLOSING_STYLES = {"now": "good", "pace": "text", "idle": "text", "never": "stale", "unknown": "dim"}
"""The certainty that a window closes."""


class Shape(Struct, frozen=True):
    """What all rows share: the watermark and the fastest channel's (epoch ms), and the widths of windows and counts."""

    level_ms: int | None
    fastest_ms: int | None
    near_ms: int | None
    """Times on another day than this one have their date."""
    zone: tzinfo | None
    window: int
    rows: int


def shape_of(
    windows: Sequence[OpenWindow | FiredWindow],
    level_ms: int | None,
    fastest_ms: int | None,
    near_ms: int | None,
    zone: tzinfo | None,
) -> Shape:
    """The shape that fits `windows`."""
    names = [f.interval(w.start_ms, w.end_ms, zone, near_ms) for w in windows]
    return Shape(
        level_ms,
        fastest_ms,
        near_ms,
        zone,
        max((cell_len(name) for name in names), default=0),
        max((cell_len(f.count(w.records)) for w in windows), default=0),
    )


def open_titles(shape: Shape, width: int) -> list[Span]:
    """The line above the open windows."""
    bar = _bar_cells(shape, width)
    text = f" {f.pad('open', shape.window)}  {f.pad('rows', max(shape.rows, 4), right=True)}  {' ' * bar}"
    return clip([(f"{text}  {f.pad('short', _SHORT, right=True)}  closes", "dim")], width)


def open_sorts(window: OpenWindow, in_ms: float | None) -> dict[str, float | None]:
    """An open window's values by the titles of `open_titles`, from left to right; `in_ms`: when it closes."""
    return {"open": window.start_ms, "rows": window.records, "short": window.short_ms, "closes": in_ms}


def open_line(window: OpenWindow, closes: str, kind: str, shape: Shape, width: int) -> list[Span]:
    """Window, rows, bar, missing event time, and how it closes."""
    short = f.UNKNOWN if window.short_ms is None else f.duration(max(window.short_ms, 0))
    spans: list[Span] = [
        *_head(window, shape),
        *reach_bar(window.start_ms, window.end_ms, shape.level_ms, shape.fastest_ms, _bar_cells(shape, width)),
        (f"  {f.pad(short, _SHORT, right=True)}  ", "text"),
        (closes, CLOSING_STYLES[kind]),
    ]
    return clip(spans, width)


def group_line(group: WindowGroup, width: int) -> list[Span]:
    """The line above windows that wait for the same channels, or, where these are not known, with the same times."""
    if group.first.blockers is None and waits_for(group.first) is None:
        return clip([(f" {f.counted(len(group.windows), 'window')} with the same start and end", "dim")], width)
    who = waits_for(group.first) or "nothing: they fire at the next emit"
    return clip([(f" {windows_wait(len(group.windows))} ", "dim"), (who, "holder")], width)


def open_details(window: OpenWindow, grouped: bool, width: int) -> list[Span]:
    """The channels it waits for (unless a line above its group names them), and those that fill it."""
    spans: list[Span] = [("   ", "dim")]
    who = waits_for(window)
    if who is not None and not grouped:
        spans += [("waits for ", "dim"), (who, "holder")]
    if window.operator is not None:
        spans.append((f"  operator {window.operator}", "dim"))
    parts, many = window.channels or [], window.channel_count or 0
    shown: list[Span] = []
    for place, part in enumerate(parts[:_NAMED]):
        rest = many - place - 1
        more = f", {rest:,} more" if rest else ""
        piece: list[Span] = [
            ("   " if not place else ", ", "dim"),
            (f.label(part.channel, _NAME_CELLS), "text"),
            (f" {f.count(part.records)}", "dim"),
        ]
        if cells([*spans, *shown, *piece]) + len(more) > width:
            break
        shown += piece
    left = many - sum(1 for _, style in shown if style == "text")
    if shown and left:
        shown.append((f", {left:,} more", "dim"))
    return clip([*spans, *shown], width)


def fired_titles(shape: Shape, width: int) -> list[Span]:
    """The line above the fired windows."""
    start = f" {f.pad('fired', shape.window)}  {f.pad('rows', max(shape.rows, 4), right=True)}"
    firings, drops = _late_titles(shape, width)
    return clip([(f"{start}  {f.pad('fired at', _AT)}  after end  {firings}  {drops}  until", "dim")], width)


def fired_sorts(window: FiredWindow) -> dict[str, int | None]:
    """A fired window's values by the titles of `fired_titles`, from left to right, long and short ones."""
    after = None if window.ended or window.fired_ms is None else window.fired_ms - window.end_ms
    return {
        "fired ": window.start_ms,
        "rows": window.records,
        "fired at": window.fired_ms,
        "after end": after,
        "late firings": window.late_firings,
        "refired": window.late_firings,
        "late drops": window.late_drops,
        "dropped": window.late_drops,
    }


def fired_line(window: FiredWindow, kept_until_ms: int | None, shape: Shape, width: int) -> list[Span]:
    """Window, rows, when it fired and how long after its end, late records, and whether it still accepts them."""
    fired = (
        "end of run" if window.ended or window.fired_ms is None else f.near(window.fired_ms, shape.zone, shape.near_ms)
    )
    after = f.UNKNOWN if window.ended or window.fired_ms is None else f.duration(window.fired_ms - window.end_ms)
    firings, drops = (len(title) for title in _late_titles(shape, width))
    until = "closed" if kept_until_ms is None else f.near(kept_until_ms, shape.zone, shape.near_ms)
    spans: list[Span] = [
        *_head(window, shape),
        (f.pad(fired, _AT), "text"),
        (f"  {f.pad(after, 9, right=True)}", "text"),
        (f"  {f.pad(f.count(window.late_firings), firings, right=True)}", "text" if window.late_firings else "dim"),
        (f"  {f.pad(f.count(window.late_drops), drops, right=True)}", "stale" if window.late_drops else "dim"),
        (f"  {until}", "dim" if kept_until_ms is None else "text"),
    ]
    return clip(spans, width)


def _head(window: OpenWindow | FiredWindow, shape: Shape) -> list[Span]:
    name = f.pad(f.interval(window.start_ms, window.end_ms, shape.zone, shape.near_ms), shape.window)
    rows = f.pad(f.count(window.records), max(shape.rows, 4), right=True)
    return [(f" {name}  ", "strong"), (f"{rows}  ", "text")]


def _late_titles(shape: Shape, width: int) -> tuple[str, str]:
    """The titles for late records, as wide as their columns: short ones if there is little room."""
    room = width - shape.window - max(shape.rows, 4) - _FIRED
    return ("late firings", "late drops") if room >= 0 else ("late", "dropped")


def _bar_cells(shape: Shape, width: int) -> int:
    spare = width - shape.window - max(shape.rows, 4) - _SHORT - _CLOSES - 9
    return max(min(spare, _BAR[1]), _BAR[0])
