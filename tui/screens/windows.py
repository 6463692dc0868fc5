"""The windows: open, firing, fired; their distance from closing, the channels they wait for, and the cause."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from ...engine.core.snapshot import FiredWindow, OpenWindow, Snapshot
from ..bindings import bindings
from ..present import formatting as f
from ..present.blockers import waits_for, window_groups
from ..present.closing import closing, fired_words, kept_until_ms, pace
from ..present.keys import Hint, hint
from ..present.line import Span
from ..present.screen_words import ALL_CLOSED, FIRED_UNKNOWN, NO_FIRED_WINDOW, NO_OPEN_WINDOW, OPEN_UNKNOWN
from ..present.table import TableRecords
from ..present.view import fastest_ms
from ..present.windows_unknown import unknown_text
from ..widgets.prose import Prose
from ..widgets.sheet import Item, Sheet, heading
from ..widgets.window_rows import (
    Shape,
    fired_line,
    fired_sorts,
    fired_titles,
    group_line,
    open_details,
    open_line,
    open_sorts,
    open_titles,
    shape_of,
)
from .detail import DetailScreen
from .host import Help, app_of
from .window import WindowScreen, find, key_of


class WindowsScreen(DetailScreen):
    """All windows that the snapshot knows: the open ones by end, then those that fired last, the newest first."""

    NAME = PLACE = "Windows"
    ABOUT = Help(
        reading="A window fires when the watermark reaches its end: its bar is full (▇) up to the watermark, light "
        "(▒) up to the fastest channel. closes: when, in processing time. ≈ in 9m: the missing event time takes so "
        "long at the pace of the channel that holds back the watermark; idle in 1h: then that channel, if it has no "
        "data, is left out of the minimum; never: what it needs.\n"
        "A fired window accepts late records for the allowed lateness, and each makes it fire again (late firings); "
        "records that come once it is closed are dropped (late drops), counted while the window is among the last 20 "
        "that fired. after end: how long after its end it fired; until: the watermark at which it accepts no more.\n"
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings("Windows")

    def body(self) -> ComposeResult:
        yield Sheet(id="windows")
        yield Prose(id="why")

    def show(self, snapshot: Snapshot) -> None:
        self.query_one(Sheet).show(self._items(snapshot))
        self._explain()

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        windows = snapshot.windows
        figures = ((windows.open_count, "open"), (windows.fired, "fired"), (windows.late_firings, "late firings"))
        known = [(number, word) for number, word in figures if number is not None]
        if not known:
            return [(f"  {f.ELSEWHERE}", "dim")]
        out: list[Span] = []
        for number, word in known:
            out += [(" · " if out else "  ", "dim"), (f.count(number), "text"), (f" {word}", "dim")]
        return out

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        return [("▇", "level"), (" watermark   ", "dim"), ("▒", "ahead"), (" fastest", "dim")]

    def keys(self, snapshot: Snapshot) -> Sequence[Hint]:
        windows = snapshot.windows
        if self.preview is not None or not (windows.open or windows.last_fired):
            return ()
        return (hint("windows-open"),)

    def on_sheet_sorted(self) -> None:
        self.repaint()

    def on_sheet_moved(self, event: Sheet.Moved) -> None:
        self._explain()

    def records(self) -> TableRecords:
        windows = self.seen.snapshot.windows
        return TableRecords("windows", [*windows.open, *reversed(windows.last_fired)])

    def name_of(self, key: str) -> str:
        start, end = (int(part) for part in key.split()[:2])
        return f.interval(start, end, self.zone, self.seen.snapshot.now_ms)

    def action_open(self) -> None:
        """Open the page of the window that the cursor is on."""
        key = self.query_one(Sheet).cursor
        if key is not None:
            app_of(self).push_screen(WindowScreen(self.host, key))

    def _explain(self) -> None:
        """The text below the list: why the window under the cursor is not closing, or its outcome."""
        snapshot = self.seen.snapshot
        window = find(snapshot, self.query_one(Sheet).cursor or "")
        words: list[Span] = []
        if isinstance(window, FiredWindow):
            words = fired_words(window, snapshot, self.zone)
        elif window is not None:
            words = closing(snapshot, window, self._pace, self.zone).why
        self.query_one(Prose).show(words)

    @property
    def _pace(self) -> float | None:
        return pace(self.seen.recent.until(self.seen.snapshot), self.seen.snapshot)

    def _items(self, snapshot: Snapshot) -> list[Item]:
        windows = snapshot.windows
        both: list[OpenWindow | FiredWindow] = [*windows.open, *windows.last_fired]
        shape = shape_of(both, snapshot.level.watermark_ms, fastest_ms(snapshot), snapshot.now_ms, self.zone)
        unknown = unknown_text(windows.unknown, windows.unknown_args)
        why = [] if unknown is None else [heading((f" {unknown}", "stale"))]
        return [*why, *self._open_items(snapshot, shape), heading(), *self._fired_items(snapshot, shape)]

    def _open_items(self, snapshot: Snapshot, shape: Shape) -> list[Item]:
        windows = snapshot.windows
        if not windows.open:
            words = ALL_CLOSED if snapshot.ended else NO_OPEN_WINDOW
            return [heading((f" {words if windows.open_count is not None else OPEN_UNKNOWN}", "dim"))]
        titles = tuple(open_sorts(windows.open[0], None))
        items, speed = [Item((partial(open_titles, shape),), titles=titles)], self._pace
        own_order = self.query_one(Sheet).sorted_by not in titles
        for group in window_groups(windows.open):
            grouped = len(group.windows) > 1 and own_order
            items += [Item((partial(group_line, group),))] if grouped else []
            for window in group.windows:
                closes = closing(snapshot, window, speed, self.zone)
                first = partial(open_line, window, closes.brief, closes.kind, shape)
                waits = not grouped and waits_for(window) is not None
                more = waits or window.channels or window.operator is not None
                details = [partial(open_details, window, grouped)] if more else []
                items.append(Item((first, *details), key_of(window), open_sorts(window, closes.in_ms)))
        later = (windows.open_count or 0) - len(windows.open)
        return [*items, heading((f" and {later:,} more that end later", "dim"))] if later > 0 else items

    def _fired_items(self, snapshot: Snapshot, shape: Shape) -> list[Item]:
        windows = snapshot.windows
        if not windows.last_fired:
            words = FIRED_UNKNOWN if windows.fired is None else NO_FIRED_WINDOW
            return [heading((f" {words}", "dim"))]
        items = [Item((partial(fired_titles, shape),), titles=tuple(fired_sorts(windows.last_fired[0])))]
        for window in reversed(windows.last_fired):
            line = partial(fired_line, window, kept_until_ms(window, snapshot), shape)
            items.append(Item((line,), key_of(window), fired_sorts(window)))
        return items
