"""The table of open windows: their distance from firing, and the channels they wait for; windows that wait alike are
grouped.
"""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec import Struct
from rich.cells import cell_len
from textual.events import Blur, Focus
from textual.message import Message

from ...engine.core.snapshot import OpenWindow
from ..present import formatting as f
from ..present.blockers import WindowGroup, waits_for, window_groups
from ..present.line import Span, cells, clip
from .rows import Rows, text_of, wrapped

_BAR = (6, 24)
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
    """Draws `OpenWindowTable`: two lines per group, with a bar that is full up to the watermark and light up to the fastest
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
        return [*((text, f"{ink}@cursor") for text, ink in spans), (" " * (width - cells(spans)), "cursor")]

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
        if room - cells(tail) < _BAR[0]:
            tail = []
        bar = reach_bar(
            window.start_ms, group.end_ms, windows.level_ms, windows.fastest_ms, min(room - cells(tail), _BAR[1])
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
