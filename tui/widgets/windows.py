"""The table of open windows: how far each one is from closing, and who it waits for."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec import Struct
from rich.cells import cell_len

from ...engine.core.snapshot import OpenWindow
from .. import formatting as f
from .line import Run, cells, clip
from .rows import Rows, wrapped

_BAR = (6, 24)
_NAME_CELLS = 20
_ROOMY = 42


class OpenWindows(Struct, frozen=True):
    """What the table shows: open windows, the earliest end first, of `open_count` in all."""

    open: Sequence[OpenWindow] = ()
    open_count: int | None = 0
    level_ms: int | None = None
    fastest_ms: int | None = None
    lateness_ms: int | None = None
    zone: tzinfo | None = None
    empty: str = ""


class WindowTable(Rows):
    """Draws `OpenWindows`: two lines each, the bar full as far as the level is, light as far as the fastest channel."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._windows = OpenWindows()
        self._wide = (0, 0)

    def show(self, windows: OpenWindows) -> None:
        """Draw `windows`."""
        if windows == self._windows:
            return
        self._windows = windows
        near = windows.level_ms
        self._wide = (
            max((cell_len(f.interval(w.start_ms, w.end_ms, windows.zone, near)) for w in windows.open), default=0),
            max((cell_len(f.count(w.records)) for w in windows.open), default=0),
        )
        self.redraw()

    @property
    def _more(self) -> int:
        """How many open windows are not listed."""
        return (self._windows.open_count or 0) - len(self._windows.open)

    def row_count(self) -> int:
        windows = self._windows
        if not windows.open:
            return len(wrapped(windows.empty, self.size.width))
        return 2 * len(windows.open) + (self._more > 0)

    def row(self, index: int, width: int) -> Sequence[Run]:
        windows = self._windows
        if not windows.open:
            return [(wrapped(windows.empty, width)[index], "dim")]
        place, second = divmod(index, 2)
        if place >= len(windows.open):
            return [(f" and {self._more:,} more that end later", "dim")]
        window = windows.open[place]
        return clip(self._waits(window, width) if second else self._fill(window, width), width)

    def _fill(self, window: OpenWindow, width: int) -> list[Run]:
        windows = self._windows
        ends = f.pad(f.interval(window.start_ms, window.end_ms, windows.zone, windows.level_ms), self._wide[0])
        rows = f.pad(f.count(window.records), self._wide[1], right=True)
        unit = "  " if width < _ROOMY else " row   " if window.records == 1 else " rows  "
        head: list[Run] = [(f" {ends}  ", "strong"), (rows, "text"), (unit, "dim")]
        tail: list[Run] = []
        if windows.lateness_ms is not None:
            needs = f.second(window.end_ms + windows.lateness_ms, windows.zone).removesuffix(":00")
            tail = [(" needs ", "dim"), (needs, "text")]
        room = width - cells(head) - 1
        if tail and room - cells(tail) < _BAR[0]:
            tail[0] = (" ", "dim")
        bar = reach_bar(window, windows.level_ms, windows.fastest_ms, min(room - cells(tail), _BAR[1]))
        return [*head, *bar, *tail]

    def _waits(self, window: OpenWindow, width: int) -> list[Run]:
        of_what = " of event time" if width >= _ROOMY and window.waits_for is not None else ""
        short = "" if window.short_ms is None else f" ({f.duration(window.short_ms)}{of_what} short)"
        if window.waits_for is None:
            return [("   waits for the level" + short, "dim")]
        return [("   waits for ", "dim"), (f.label(window.waits_for, _NAME_CELLS), "holder"), (short, "dim")]


def reach_bar(window: OpenWindow, level_ms: int | None, fastest_ms: int | None, width: int) -> list[Run]:
    """How far the level, and the fastest channel, have come in a window; nothing where there is no room."""
    if width < 3:
        return []
    size = max(window.end_ms - window.start_ms, 1)

    def reached(time_ms: int | None) -> int:
        return 0 if time_ms is None else max(min(width * (time_ms - window.start_ms) // size, width), 0)

    closed = reached(level_ms)
    ahead = max(reached(fastest_ms), closed)
    return [("▇" * closed, "level"), ("▒" * (ahead - closed), "ahead"), ("▁" * (width - ahead), "frame")]
