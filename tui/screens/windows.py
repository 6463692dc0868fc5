"""The windows, open, firing, fired; and one of them: why it is not closing, its records per channel."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from textual.app import ComposeResult

from ...engine.snapshot import ChannelView, FiredWindow, OpenWindow, Snapshot
from ...engine.text import formatting as f
from ...engine.text.codes import unknown_text
from ..widgets import windows as rows
from ..widgets.rows import Item, Sheet, column_cells, heading, titles
from ..widgets.text import Prose
from ..words import texts as lists
from ..words.barrel import STATES, holding
from ..words.channels import fastest_ms, reference_ms
from ..words.keys import Hint, hint
from ..words.late_records import About
from ..words.main_screen import Shown
from ..words.spans import Span, clip
from ..words.texts import TableRecords
from ..words.windows import blockers, closing, fired_words, kept_until_ms, pace, waits_for, window_groups
from .detail import DetailScreen

MAX_BLOCKERS = 200
_NAMES, _BAR = (7, 30), 24


class WindowScreen(DetailScreen):
    """The window of that key (`key_of`), as long as the snapshot knows it."""

    NAME = "Window"
    READING = (
        "First the channels that keep the window open: their watermarks are short of its end, the one most "
        "behind first. Then the channels that have records in it. A channel may be both.\n"
    )

    def __init__(self, shown: Shown, denied: frozenset[str], key: str) -> None:
        super().__init__(shown, denied)
        self._key = key

    def body(self) -> ComposeResult:
        yield Prose(id="story")
        yield Sheet(id="window")

    @property
    def crumb(self) -> str:
        window = find(self.snapshot, self._key)
        if window is None:
            return self.NAME
        return f.interval(window.start_ms, window.end_ms, self.zone, self.snapshot.now_ms)

    def show(self, snapshot: Snapshot) -> None:
        window = find(snapshot, self._key)
        story, sheet = self.query_one(Prose), self.sheet
        if window is None:
            story.show([(lists.FIRED_LONG_AGO, "dim")])
            sheet.show([])
        elif isinstance(window, FiredWindow):
            story.show(fired_words(window, snapshot, self.zone))
            sheet.show([])
        else:
            speed = pace(self.recent.until(snapshot), snapshot)
            story.show(closing(snapshot, window, speed, self.zone).why)
            sheet.show(self._channels(snapshot, window))

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        window = find(snapshot, self._key)
        if window is None:
            return ()
        count = f.ELSEWHERE if window.records is None else f.count(window.records)
        many = window.channel_count if isinstance(window, OpenWindow) else None
        channels = "" if many is None else f" of {f.counted(many, 'channel')}"
        return [("  rows ", "dim"), (count, "text"), (channels, "dim")]

    def keys(self, snapshot: Snapshot) -> Sequence[Hint]:
        known = self.sheet.cursor is not None
        opens = [hint("row-open")] if self.preview is None and known else []
        return [*opens, hint("late-records")] if find(snapshot, self._key) is not None else opens

    def records(self) -> TableRecords | None:
        window = find(self.snapshot, self._key)
        if not isinstance(window, OpenWindow):
            return None
        return TableRecords("window-channels", blockers(self.snapshot, window.end_ms))

    def name_of(self, key: str) -> str:
        return key.partition(" ")[2]

    def action_open(self) -> None:
        """Open the page of the channel that the cursor is on; without one the window's late records."""
        if (key := self.sheet.cursor) is not None:
            self.open_channel(key.partition(" ")[2])
        else:
            self.action_late_records()

    def action_late_records(self) -> None:
        """Open the last late records of the window."""
        if (window := find(self.snapshot, self._key)) is not None:
            self.open_late_records(About(start_ms=window.start_ms, end_ms=window.end_ms))

    def _channels(self, snapshot: Snapshot, window: OpenWindow) -> list[Item]:
        short = blockers(snapshot, window.end_ms)
        parts = window.channels or []
        cells = column_cells((f.label(channel.channel) for channel in (*short, *parts)), *_NAMES)
        held = holding(snapshot)
        items: list[Item] = []
        if short:
            title = f" {f.pad('short of its end', max(cells, 16))}  watermark          short  quiet   state"
            items.append(titles(title, "short of its end", "watermark", " short", "quiet"))
            for view in short[:MAX_BLOCKERS]:
                line = partial(self._blocker, view, window.end_ms, max(cells, 16), view.channel == held)
                items.append(Item((line,), f"short {view.channel}", _sorts(view, window.end_ms)))
            if len(short) > MAX_BLOCKERS:
                items.append(heading((f" and {len(short) - MAX_BLOCKERS:,} more", "dim")))
        elif not snapshot.channels:
            items.append(heading((f" channels: {f.ELSEWHERE}", "dim")))
        if parts:
            items += [heading(), heading((f" {f.pad('rows by channel', max(cells, 16))}", "dim"))]
            most = max(part.records for part in parts)
            for part in parts:
                line = partial(_part, f.label(part.channel, cells), part.records, most, max(cells, 16))
                items.append(Item((line,), f"rows {part.channel}"))
            rest = (window.channel_count or 0) - len(parts)
            if rest > 0:
                others = max((window.records or 0) - sum(part.records for part in parts), 0)
                items.append(heading((f" {rest:,} more, with {f.count(others)} rows", "dim")))
        return items

    def _blocker(self, view: ChannelView, end_ms: int, cells: int, holds: bool, width: int) -> list[Span]:
        near = reference_ms(self.snapshot)
        at = f.NO_DATA if view.watermark_ms is None else f.near(view.watermark_ms, self.zone, near)
        short = f.UNKNOWN if view.watermark_ms is None else f.duration(end_ms - 1 - view.watermark_ms)
        quiet = f.UNKNOWN if view.quiet_ms is None else f.duration(view.quiet_ms)
        style = "holder" if holds else "text"
        return clip(
            [
                (f" {f.pad(f.label(view.channel, cells), cells)}  ", style),
                (f"{f.pad(at, 12)}  {f.pad(short, 10, right=True)}  {f.pad(quiet, 6)}  ", "text"),
                ("HOLDS" if holds else STATES[view.state], style if holds else "dim"),
            ],
            width,
        )


def key_of(window: OpenWindow | FiredWindow) -> str:
    """The key of a window, open or fired."""
    operator = f" {window.operator}" if isinstance(window, OpenWindow) and window.operator is not None else ""
    return f"{window.start_ms} {window.end_ms}{operator}"


def find(snapshot: Snapshot, key: str) -> OpenWindow | FiredWindow | None:
    """The window with that key: open, else fired."""
    windows = snapshot.windows
    return next((window for window in (*windows.open, *windows.last_fired) if key_of(window) == key), None)


def _sorts(view: ChannelView, end_ms: int) -> dict[str, Any]:
    """Its values by the title of their columns."""
    short = None if view.watermark_ms is None else end_ms - view.watermark_ms
    values = {"watermark": view.watermark_ms, " short": short, "quiet": view.quiet_ms}
    return {"short of its end": view.channel, **values}


def _part(name: str, records: int, most: int, cells: int, width: int) -> list[Span]:
    bar = min(max(width - cells - 16, 4), _BAR)
    full = max(bar * records // max(most, 1), 1)
    return clip([(f" {f.pad(name, cells)}  ", "text"), (f.pad(f.count(records), 9, right=True) + "  ", "text"),
                 ("▇" * full, "active")], width)  # fmt: skip


class WindowsScreen(DetailScreen):
    """All windows that the snapshot knows: the open ones by end, then those that fired last, the newest first."""

    NAME = "Windows"
    READING = (
        "A window fires when the watermark reaches its end: its bar is full (▇) up to the watermark, light "
        "(▒) up to the fastest channel. closes: when, in processing time. ≈ in 9m: the missing event time takes so "
        "long at the pace of the channel that holds back the watermark; idle in 1h: then that channel, if it has no "
        "data, is left out of the minimum; never: what it needs.\n"
        "A fired window accepts late records for the allowed lateness, and each makes it fire again (late firings); "
        "records that come once it is closed are dropped (late drops), counted while the window is among the last 20 "
        "that fired. after end: how long after its end it fired; until: the watermark at which it accepts no more.\n"
    )

    def body(self) -> ComposeResult:
        yield Sheet(id="windows")
        yield Prose(id="why")

    def show(self, snapshot: Snapshot) -> None:
        super().show(snapshot)
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

    def moved(self) -> None:
        self._explain()

    def records(self) -> TableRecords:
        windows = self.snapshot.windows
        return TableRecords("windows", [*windows.open, *reversed(windows.last_fired)])

    def name_of(self, key: str) -> str:
        start, end = (int(part) for part in key.split()[:2])
        return f.interval(start, end, self.zone, self.snapshot.now_ms)

    def action_open(self) -> None:
        """Open the page of the window that the cursor is on."""
        key = self.sheet.cursor
        if key is not None:
            self.open_window(key)

    def _explain(self) -> None:
        """The text below the list: why the window under the cursor is not closing, or its outcome."""
        snapshot = self.snapshot
        window = find(snapshot, self.sheet.cursor or "")
        words: list[Span] = []
        if isinstance(window, FiredWindow):
            words = fired_words(window, snapshot, self.zone)
        elif window is not None:
            words = closing(snapshot, window, self._pace, self.zone).why
        self.query_one(Prose).show(words)

    @property
    def _pace(self) -> float | None:
        return pace(self.recent.until(self.snapshot), self.snapshot)

    def items(self, snapshot: Snapshot) -> Sequence[Item]:
        windows = snapshot.windows
        both: list[OpenWindow | FiredWindow] = [*windows.open, *windows.last_fired]
        shape = rows.shape_of(both, snapshot.level.watermark_ms, fastest_ms(snapshot), snapshot.now_ms, self.zone)
        unknown = unknown_text(windows.unknown, windows.unknown_args)
        why = [] if unknown is None else [heading((f" {unknown}", "stale"))]
        return [*why, *self._open_items(snapshot, shape), heading(), *self._fired_items(snapshot, shape)]

    def _open_items(self, snapshot: Snapshot, shape: rows.Shape) -> list[Item]:
        windows = snapshot.windows
        if not windows.open:
            words = lists.ALL_CLOSED if snapshot.ended else lists.NO_OPEN_WINDOW
            return [heading((f" {words if windows.open_count is not None else lists.OPEN_UNKNOWN}", "dim"))]
        columns = tuple(rows.open_sorts(windows.open[0], None))
        items, speed = [Item((partial(rows.open_titles, shape),), titles=columns)], self._pace
        own_order = self.sheet.sorted_by not in columns
        for group in window_groups(windows.open):
            grouped = len(group.windows) > 1 and own_order
            items += [Item((partial(rows.group_line, group),))] if grouped else []
            for window in group.windows:
                closes = closing(snapshot, window, speed, self.zone)
                first = partial(rows.open_line, window, closes.brief, closes.kind, shape)
                waits = not grouped and waits_for(window) is not None
                more = waits or window.channels or window.operator is not None
                details = [partial(rows.open_details, window, grouped)] if more else []
                items.append(Item((first, *details), key_of(window), rows.open_sorts(window, closes.in_ms)))
        later = (windows.open_count or 0) - len(windows.open)
        return [*items, heading((f" and {later:,} more that end later", "dim"))] if later > 0 else items

    def _fired_items(self, snapshot: Snapshot, shape: rows.Shape) -> list[Item]:
        windows = snapshot.windows
        if not windows.last_fired:
            words = lists.FIRED_UNKNOWN if windows.fired is None else lists.NO_FIRED_WINDOW
            return [heading((f" {words}", "dim"))]
        items = [Item((partial(rows.fired_titles, shape),), titles=tuple(rows.fired_sorts(windows.last_fired[0])))]
        for window in reversed(windows.last_fired):
            line = partial(rows.fired_line, window, kept_until_ms(window, snapshot), shape)
            items.append(Item((line,), key_of(window), rows.fired_sorts(window)))
        return items
