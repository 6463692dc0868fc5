"""The tables of the main screen: the channels, sorted and filtered, and the open windows."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from msgspec.structs import replace
from rich.cells import cell_len
from textual.events import Blur, Focus, Resize

from ...engine.snapshot import OpenWindow, Snapshot
from ...engine.text import formatting as f
from ..words.channel_columns import ChannelColumn, ListedChannel, name_column
from ..words.channels import Sort, View, reference_ms
from ..words.kinds import presenter_of
from ..words.main_screen import Shown
from ..words.output_mode import unclosed_words
from ..words.spans import Column, Span, cells, laid, row_line, text_of, title_at, titles_line
from ..words.texts import NO_CHANNEL_MATCHES, NO_WINDOW_MATCHES
from ..words.windows import WindowGroup, key_of, taking_part, waits_within, window_counts, window_groups
from .canvas import Picked
from .clocks import waiting_items
from .lines import Heading
from .rows import Item, Rows, Sheet, column_cells, heading, more, wrapped

_NAME, _TIME = (4, 7, 40), (8, 11)
"""The least width of a name, its width with room, and its greatest; the widths of a time without much room."""


class ChannelTable(Rows):
    """Draws the filtered channels of `shown` in their order; says `Picked` with a channel, `SortedBy` with an order."""

    HEADER = 1

    def __init__(self, shown: Shown, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown = shown
        self._drawn: tuple[object, ...] = ()
        self._places: dict[str | None, int] = {}
        self._named = -1
        self._orders: Mapping[str, Sort] = {}
        """What a click on each title sorts by."""
        self._layout: Callable[[int], Sequence[Column[ListedChannel]]] = lambda width: ()
        self._names = _NAME[0]

    def show(self) -> None:
        """Draw the present state."""
        snapshot, entries, view = self._shown.snapshot, self._shown.entries, self._shown.view
        drawn = (view.selected, entries, snapshot, view.sort, view.reverse, view.zone)
        before, self._drawn = self._drawn, drawn
        if drawn == before:
            return
        if not before or entries is not before[1]:
            self._places = {entry.view.channel: place for place, entry in enumerate(entries)}
        if len(snapshot.channels) != self._named:
            self._named = len(snapshot.channels)
            self._names = column_cells((f.label(view.channel) for view in snapshot.channels), *_NAME[::2])
        if not before or snapshot is not before[2] or view.zone != before[5]:
            known = [entry.time_ms for entry in entries if entry.time_ms is not None]
            ends = {f.near(ms, view.zone, reference_ms(snapshot)) for ms in (min(known), max(known))} if known else ()
            times = column_cells((text.partition(".")[0] for text in ends), *_TIME)
            columns = presenter_of(snapshot).channel_columns
            self._orders = {"channel": "name", "name": "name", **{column.title: column.order for column in columns}}
            self._layout = cache(partial(_layout, self._names, times, columns))
        self.redraw()
        if drawn[:1] != before[:1] and view.selected in self._places:
            self.show_row(self._places[view.selected])

    def heading(self, *, focused: bool) -> Heading:
        """The title: sort order and filter."""
        snapshot, view = self._shown.snapshot, self._shown.view
        title, arrow = [_title("Channels", focused)], "▴" if view.reverse else "▾"
        order: list[Span] = [(" ─ ", "frame"), ("sort: ", "dim"), (f"{view.sort} {arrow}", "text")]
        if view.pattern is not None:
            title += view.pattern.spans(len(self._shown.entries), len(snapshot.channels))
        return Heading(0, [*title, *order] if cells([*title, *order]) + _RULE <= self.size.width else title)

    def move(self, by: int) -> None:
        entries = self._shown.entries
        if entries:
            here = self._places.get(self._shown.view.selected)
            there = self.scroll_offset.y if here is None else max(min(here + by, len(entries) - 1), 0)
            self.pick(there, 0)

    def pick(self, index: int, x: int) -> None:
        if index < len(self._shown.entries):
            self.post_message(Picked(self, self._shown.entries[index].view.channel))

    def line(self, channel: str) -> str | None:
        """The row of a channel as it is shown."""
        place = self._places.get(channel)
        return None if place is None else text_of(self.row(place, self.row_cells))

    def title_at(self, x: int) -> str:
        return self._orders[title_at(self._layout(self.row_cells), x)]

    @property
    def _empty(self) -> str:
        snapshot = self._shown.snapshot
        return NO_CHANNEL_MATCHES if snapshot.channels else presenter_of(snapshot).no("channels")

    def row_count(self) -> int:
        return len(self._shown.entries) or len(wrapped(self._empty, self.row_cells))

    def header(self, width: int) -> Sequence[Span]:
        columns, view = self._layout(width), self._shown.view
        sorting = (column.title for column in columns if self._orders[column.title] == view.sort)
        return titles_line(columns, next(sorting, None), reverse=view.reverse)

    def row(self, index: int, width: int) -> Sequence[Span]:
        shown = self._shown
        if not shown.entries:
            return [(wrapped(self._empty, width)[index], "dim")]
        listed = ListedChannel(shown.snapshot, shown.entries[index], shown.view.zone)
        spans = row_line(self._layout(width), listed)
        if shown.entries[index].view.channel != shown.view.selected:
            return spans
        return [*((text, "cursor") for text, _ in spans), (" " * width, "cursor")]


def _title(name: str, focused: bool) -> Span:
    """A table's name, marked while it has the focus."""
    return (f"▶ {name}", "accent") if focused else (name, "title")


def _layout(names: int, times: int, columns: Sequence[ChannelColumn], width: int) -> Sequence[Column[ListedChannel]]:
    """The columns that fit; a name is cut only beside the state alone, and without room times end at the second."""
    time, *more = columns
    if width < _ROOMY:
        time = replace(time, cells=max(times, len(time.title)), text=_to_the_second(time.text))
    name, *kept = laid([name_column(names, _NAME[1]), time, *more], width)
    return [replace(name, title="channel" if name.cells >= len("channel") else "name"), *kept]


def _to_the_second(text: Callable[[ListedChannel], str]) -> Callable[[ListedChannel], str]:
    return lambda row: text(row).split(".")[0]


_ROOMY = 46

_BAR_CELLS = 24
_ROOMY_WINDOWS = 42
_RULE = 5
"""The cells that a rule and its joints have around a title."""


class WindowTable(Sheet):
    """Draws the filtered open windows of `shown`, the earliest end first: two lines a group, a bar full up to the
    watermark and light up to the fastest channel. The cursor is visible while it has the focus.
    """

    def __init__(self, shown: Shown, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown = shown
        self._drawn: tuple[object, ...] = ()
        self._groups: list[WindowGroup] = []
        self._wide = (0, 0)

    def show_windows(self) -> None:
        """Draw the present state."""
        snapshot, view = self._shown.snapshot, self._shown.view
        drawn = (view.windows_pattern, view.zone, snapshot)
        if drawn != self._drawn:
            self._drawn = drawn
            self._show()

    def _show(self) -> None:
        snapshot, windows = self._shown.snapshot, self._shown.snapshot.windows
        opened = matching_windows(snapshot, self._shown.view)
        filtered = self._shown.view.windows_pattern is not None and bool(windows.open)
        self._groups = window_groups(opened)
        self._wide = (
            max((cell_len(self._ends(group)) for group in self._groups), default=0),
            max((cell_len(f.count(group.records)) for group in self._groups), default=0),
        )
        items = [
            Item((partial(self._fill, group), partial(self._waits, group)), key_of(group.first))
            for group in self._groups
        ]
        items = items or waiting_items(snapshot, self._shown.view.zone)
        if not items:
            empty = NO_WINDOW_MATCHES if filtered else presenter_of(snapshot).no("windows")
            items = [heading((line, "dim")) for line in wrapped(empty, self.row_cells)]
        elif not filtered:
            items += more((windows.open_count or 0) - len(opened), " that end later")
        self.show(items)

    @property
    def chosen(self) -> WindowGroup | None:
        """The selected windows; the first ones until others are selected."""
        return next((group for group in self._groups if key_of(group.first) == self.cursor), None)

    def heading(self, *, focused: bool) -> Heading:
        """The title, as wide as the table: the counts, or the filter."""
        snapshot, view, windows = self._shown.snapshot, self._shown.view, self._shown.snapshot.windows
        start, width = self.region.x, self.region.width
        title: list[Span] = [_title("Windows", focused)]
        if view.windows_pattern is not None:
            left = len(matching_windows(snapshot, view))
            return Heading(start, [*title, *view.windows_pattern.spans(left, len(windows.open), 12)])
        roomy = width >= 44
        known = window_counts(snapshot)
        title.append((" ─" if roomy and known else "", "frame"))
        for place, (number, word) in enumerate(known):
            gap = " · " if place and roomy else " "
            longer: list[Span] = [*title, (gap, "dim"), (f.count(number), "text"), (f" {word}", "dim")]
            if cells(longer) + _RULE > width:
                break  # half a word means nothing
            title = longer
        return Heading(start, title)

    def on_focus(self, event: Focus) -> None:
        self.redraw()

    def on_blur(self, event: Blur) -> None:
        self.redraw()

    def on_resize(self, event: Resize) -> None:
        self._show()  # a text instead of windows is wrapped

    def row(self, index: int, width: int) -> Sequence[Span]:
        return super().row(index, width) if self.has_focus else self.unmarked(index, width)

    def _ends(self, group: WindowGroup) -> str:
        return f.interval(group.first.start_ms, group.end_ms, self._shown.view.zone, self._shown.snapshot.now_ms)

    def _fill(self, group: WindowGroup, width: int) -> list[Span]:
        snapshot, window = self._shown.snapshot, group.first
        ends = f.pad(self._ends(group), self._wide[0])
        rows = f.pad(f.count(group.records), self._wide[1], right=True)
        unit = "  " if width < _ROOMY_WINDOWS else " row   " if group.records == 1 else " rows  "
        head: list[Span] = [(f" {ends}  ", "strong"), (rows, "text"), (unit, "dim")]
        bar = min(width - cells(head) - 1, _BAR_CELLS)
        ends_ms = window.start_ms, group.end_ms
        return [*head, *reach_bar(*ends_ms, snapshot.level.watermark_ms, snapshot.level.fastest_ms, bar)]

    def _waits(self, group: WindowGroup, width: int) -> list[Span]:
        snapshot, window, count = self._shown.snapshot, group.first, len(group.windows)
        several = f"{count:,} {'windows ' if width >= _ROOMY_WINDOWS else ''}"
        wait = "waits" if count == 1 else f"{several}wait"
        missing = None if window.short_ms is None else f.duration(window.short_ms)
        head = f"   {wait} for "
        who = waits_within(window, width - len(head), taking_part(snapshot))
        if who is None and missing is None and (unclosed := unclosed_words(snapshot)) is not None:
            return [(f"   {several if count > 1 else ''}{unclosed}", "dim")]
        if who is None:
            return [(f"   {wait if missing is None else f'{missing} of event time short'}", "dim")]
        room = width - cell_len(head + who)
        texts = (f" ({missing} of event time short)" if count == 1 else "", f" ({missing} short)")
        short = next((text for text in texts if text and len(text) <= room), "") if missing is not None else ""
        return [(head, "dim"), (who, "holder"), (short, "dim")]


def matching_windows(snapshot: Snapshot, view: View) -> Sequence[OpenWindow]:
    """The open windows that match the filter, by their times and the channels they wait for."""
    pattern, windows = view.windows_pattern, snapshot.windows.open
    if pattern is None:
        return windows
    return [
        window
        for window in windows
        if pattern.matches(
            f.interval(window.start_ms, window.end_ms, view.zone, snapshot.now_ms),
            " ".join([*(window.blockers or ()), window.waits_for or ""]),
        )
    ]


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
