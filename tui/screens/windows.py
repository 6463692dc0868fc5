"""The windows: open, firing, fired; how far from closing, who they wait for, and why."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from ...engine.core.snapshot import FiredWindow, OpenWindow, Snapshot
from .. import formatting as f
from ..closing import closing, fired_words, kept_until_ms, pace
from ..widgets.line import Run
from ..widgets.lines import Key
from ..widgets.prose import Prose
from ..widgets.sheet import Item, Sheet, heading
from ..widgets.window_rows import Shape, fired_line, fired_titles, open_details, open_line, open_titles, shape_of
from .detail import DetailScreen, Help, app_of
from .picture import fastest_ms
from .window import WindowScreen, find, key_of


class WindowsScreen(DetailScreen):
    """All windows that the snapshot knows: the open ones by end, then those that fired last, the newest first."""

    NAME = "Windows"
    ABOUT = Help(
        keys=(
            ("↑ ↓", "select a window; below stands why it is not closing"),
            ("Enter", "its page, channel by channel"),
        ),
        reading="An open window closes when the level reaches its end: its bar is full as far as the level is (▇), "
        "light as far as the fastest channel (▒). closes says when, in processing time: ≈ in 9m is what the missing "
        "event time takes at the pace of the channel that holds the level; idle in 1h is when that channel, if it "
        "stays silent, is left out of the minimum; never says what is needed.\n"
        "A fired window takes late records for the allowed lateness, and each makes it fire again (late firings); what "
        "comes once it is closed is dropped (late drops), counted while the window is among the last 20 that fired. "
        "after end is how long after its end it fired, until the level at which it takes no more late records.\n",
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "the window's page")]

    def body(self) -> ComposeResult:
        yield Sheet(id="windows")
        yield Prose(id="why")

    def show(self, snapshot: Snapshot) -> None:
        self.query_one(Sheet).show(self._items(snapshot))
        self._explain()

    def heading(self, snapshot: Snapshot) -> Sequence[Run]:
        windows = snapshot.windows
        figures = ((windows.open_count, "open"), (windows.fired, "fired"), (windows.late_firings, "late firings"))
        out: list[Run] = []
        for number, word in figures:
            out += [(" · " if out else "  ", "dim"), (f.count(number), "text"), (f" {word}", "dim")]
        return out

    def legend(self, snapshot: Snapshot) -> Sequence[Run]:
        return [("▇", "level"), (" level   ", "dim"), ("▒", "ahead"), (" fastest", "dim")]

    def keys(self, snapshot: Snapshot) -> Sequence[Key]:
        windows = snapshot.windows
        if self.preview is not None or not (windows.open or windows.last_fired):
            return ()
        return (Key("Enter", "why", "open"),)

    def on_sheet_moved(self, event: Sheet.Moved) -> None:
        self._explain()

    def action_open(self) -> None:
        """Open the page of the window that the cursor is on."""
        key = self.query_one(Sheet).cursor
        if key is not None:
            app_of(self).push_screen(WindowScreen(self.host, key))

    def _explain(self) -> None:
        """Below the list: why the window under the cursor is not closing, or what became of it."""
        snapshot = self.seen.snapshot
        window = find(snapshot, self.query_one(Sheet).cursor or "")
        words: list[Run] = []
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
        shape = shape_of(both, snapshot.level.watermark_ms, fastest_ms(snapshot), self.zone)
        unknown = [heading((f" {f.clean(windows.unknown)}", "stale"))] if windows.unknown else []
        return [*unknown, *self._open_items(snapshot, shape), heading(), *self._fired_items(snapshot, shape)]

    def _open_items(self, snapshot: Snapshot, shape: Shape) -> list[Item]:
        windows = snapshot.windows
        if not windows.open:
            words = "all windows have closed" if snapshot.ended else "no window is open"
            return [heading((f" {words if windows.open_count is not None else f'open windows: {f.ELSEWHERE}'}", "dim"))]
        items, speed = [Item((partial(open_titles, shape),))], self._pace
        for window in windows.open:
            closes = closing(snapshot, window, speed, self.zone)
            first = partial(open_line, window, closes.brief, closes.kind, shape)
            more = window.waits_for is not None or window.channels or window.operator is not None
            items.append(Item((first, *([partial(open_details, window)] if more else [])), key_of(window)))
        later = (windows.open_count or 0) - len(windows.open)
        return [*items, heading((f" and {later:,} more that end later", "dim"))] if later > 0 else items

    def _fired_items(self, snapshot: Snapshot, shape: Shape) -> list[Item]:
        windows = snapshot.windows
        if not windows.last_fired:
            words = f"fired windows: {f.ELSEWHERE}" if windows.fired is None else "no window has fired yet"
            return [heading((f" {words}", "dim"))]
        items = [Item((partial(fired_titles, shape),))]
        for window in reversed(windows.last_fired):
            line = partial(fired_line, window, kept_until_ms(window, snapshot), shape)
            items.append(Item((line,), key_of(window)))
        return items
