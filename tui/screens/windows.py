"""The windows, open, firing, fired; and one of them: why it is not closing, its records per channel."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rich.cells import cell_len
from textual.app import ComposeResult

from ...engine.snapshot import ChannelRecords, ChannelView, FiredWindow, OpenWindow, Snapshot
from ...engine.text import formatting as f
from ...engine.text.codes import unknown_text
from ..widgets.lines import Prose
from ..widgets.rows import Draw, Item, Sheet, heading, titles
from ..widgets.tables import reach_bar
from ..words import texts
from ..words.barrel import STATES, holding
from ..words.channels import fastest_ms, reference_ms
from ..words.columns import Column, row_line, sized
from ..words.keys import Hint, hint
from ..words.late_records import About
from ..words.main_screen import Shown
from ..words.spans import Span, cells
from ..words.texts import TableRecords
from ..words.windows import (
    Closing,
    WindowGroup,
    blockers,
    closing,
    fired_words,
    kept_until_ms,
    pace,
    waits_for,
    waits_within,
    window_groups,
)
from .target_screen import DetailScreen

MAX_BLOCKERS = 200
_PART_BAR = (4, 24)
_BAR = (6, 24)
_NAMED, _CHANNEL_CELLS = 6, 14
_SHORT_COLUMNS: tuple[str, ...] = ("short of its end", "watermark", " short", "quiet")
_OPEN_COLUMNS: tuple[str, ...] = ("open", "rows", "short", "closes")
_FIRED_COLUMNS: tuple[str, ...] = ("fired", "rows", "fired at", "after end", "late firings", "late drops")
"""The titles of the columns that sort, from left to right."""
CLOSING_STYLES = {"now": "good", "pace": "text", "idle": "text", "never": "stale", "unknown": "dim"}
"""The certainty that a window closes."""


class WindowScreen(DetailScreen):
    """The window of that key (`key_of`), as long as the snapshot knows it."""

    NAME, OPEN = "Window", "row-open"
    READING = (
        "First the channels that keep the window open: their watermarks are short of its end, the one most "
        "behind first. Then the channels that have records in it. A channel may be both.\n"
    )

    def __init__(self, shown: Shown, denied: frozenset[str], key: str) -> None:
        super().__init__(shown, denied)
        self._key = key

    def body(self) -> ComposeResult:
        yield Prose(id="explanation")
        yield Sheet(id="window")

    @property
    def crumb(self) -> str:
        window = find(self.snapshot, self._key)
        if window is None:
            return self.NAME
        return f.interval(window.start_ms, window.end_ms, self.zone, self.snapshot.now_ms)

    def show(self, snapshot: Snapshot) -> None:
        window = find(snapshot, self._key)
        prose, sheet = self.query_one(Prose), self.sheet
        if window is None:
            prose.show([(texts.FIRED_LONG_AGO, "dim")])
            sheet.show([])
        elif isinstance(window, FiredWindow):
            prose.show(fired_words(window, snapshot, self.zone))
            sheet.show([])
        else:
            speed = pace(self.recent.until(snapshot), snapshot)
            prose.show(closing(snapshot, window, speed, self.zone).why)
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
        opens = super().keys(snapshot)
        return [*opens, hint("late-records")] if find(snapshot, self._key) is not None else opens

    def records(self) -> TableRecords | None:
        window = find(self.snapshot, self._key)
        if not isinstance(window, OpenWindow):
            return None
        return TableRecords("window-channels", blockers(self.snapshot, window.end_ms))

    def action_open(self) -> None:
        """Open the page of the channel that the cursor is on; without one the window's late records."""
        if self.sheet.item is not None:
            super().action_open()
        else:
            self.action_late_records()

    def action_late_records(self) -> None:
        """Open the last late records of the window."""
        if (window := find(self.snapshot, self._key)) is not None:
            self.open_late_records(About(start_ms=window.start_ms, end_ms=window.end_ms))

    def _channels(self, snapshot: Snapshot, window: OpenWindow) -> list[Item]:
        short = blockers(snapshot, window.end_ms)
        parts = window.channels or []
        items: list[Item] = []
        if short:
            columns = sized(self._short_columns(holding(snapshot), window.end_ms), short[:MAX_BLOCKERS])
            items.append(titles(columns, _SHORT_COLUMNS))
            for view in short[:MAX_BLOCKERS]:
                missing = None if view.watermark_ms is None else window.end_ms - view.watermark_ms
                values = (view.channel, view.watermark_ms, missing, view.quiet_ms)
                sorts = dict(zip(_SHORT_COLUMNS, values, strict=True))
                items.append(self._row(f"short {view.channel}", view.channel, partial(row_line, columns, view), sorts))
            if len(short) > MAX_BLOCKERS:
                items.append(heading((f" and {len(short) - MAX_BLOCKERS:,} more", "dim")))
        elif not snapshot.channels:
            items.append(heading((f" channels: {f.ELSEWHERE}", "dim")))
        if parts:
            columns = sized(_part_columns(max(part.records for part in parts)), parts)
            items += [heading(), titles(columns)]
            for part in parts:
                items.append(self._row(f"rows {part.channel}", part.channel, partial(row_line, columns, part)))
            rest = (window.channel_count or 0) - len(parts)
            if rest > 0:
                others = max((window.records or 0) - sum(part.records for part in parts), 0)
                items.append(heading((f" {rest:,} more, with {f.count(others)} rows", "dim")))
        return items

    def _row(self, key: str, channel: str, line: Draw, sorts: dict[str, Any] | None = None) -> Item:
        return Item((line,), key, sorts, name=channel, opens=partial(self.open_channel, channel))

    def _short_columns(self, held: str | None, end_ms: int) -> Sequence[Column[ChannelView]]:
        near = reference_ms(self.snapshot)

        def time(view: ChannelView) -> str:
            return f.NO_DATA if view.watermark_ms is None else f.near(view.watermark_ms, self.zone, near)

        def short(view: ChannelView) -> str:
            return f.UNKNOWN if view.watermark_ms is None else f.duration(end_ms - 1 - view.watermark_ms)

        def quiet(view: ChannelView) -> str:
            return f.UNKNOWN if view.quiet_ms is None else f.duration(view.quiet_ms)

        def style(view: ChannelView) -> str:
            return "holder" if view.channel == held else "text"

        return (
            Column(_SHORT_COLUMNS[0], lambda view: f.label(view.channel), style=style),
            Column("watermark", time, rank=3),
            Column("short", short, rank=1, right=True),
            Column("quiet", quiet, rank=4),
            Column("state", lambda view: "HOLDS" if view.channel == held else STATES[view.state], rank=2, style=style),
        )


def key_of(window: OpenWindow | FiredWindow) -> str:
    """The key of a window, open or fired."""
    operator = f" {window.operator}" if isinstance(window, OpenWindow) and window.operator is not None else ""
    return f"{window.start_ms} {window.end_ms}{operator}"


def find(snapshot: Snapshot, key: str) -> OpenWindow | FiredWindow | None:
    """The window with that key: open, else fired."""
    windows = snapshot.windows
    return next((window for window in (*windows.open, *windows.last_fired) if key_of(window) == key), None)


def _part_columns(most: int) -> Sequence[Column[ChannelRecords]]:
    def bar(part: ChannelRecords, room: int) -> list[Span]:
        return [("▇" * max(room * part.records // max(most, 1), 1), "active")]

    least, widest = _PART_BAR
    return (
        Column("rows by channel", lambda part: f.label(part.channel)),
        Column("", lambda part: f.count(part.records), right=True),
        Column("", lambda part: "", rank=1, cells=least, most=widest, draw=bar),
    )


class WindowsScreen(DetailScreen):
    """All windows that the snapshot knows: the open ones by end, then those that fired last, the newest first."""

    NAME, OPEN = "Windows", "windows-open"
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

    def moved(self) -> None:
        self._explain()

    def records(self) -> TableRecords:
        windows = self.snapshot.windows
        return TableRecords("windows", [*windows.open, *reversed(windows.last_fired)])

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
        unknown = unknown_text(windows.unknown, windows.unknown_args)
        why = [] if unknown is None else [heading((f" {unknown}", "stale"))]
        return [*why, *self._open_items(snapshot), heading(), *self._fired_items(snapshot)]

    def _times(self, window: OpenWindow | FiredWindow) -> str:
        return f.interval(window.start_ms, window.end_ms, self.zone, self.snapshot.now_ms)

    def _item(
        self, window: OpenWindow | FiredWindow, lines: tuple[Draw, ...], columns: tuple[str, ...], values: Sequence[Any]
    ) -> Item:
        """A window's item, with its values by the titles of their columns."""
        key = key_of(window)
        opens = partial(self.open_window, key)
        return Item(lines, key, dict(zip(columns, values, strict=True)), name=self._times(window), opens=opens)

    # The open ones

    def _open_items(self, snapshot: Snapshot) -> list[Item]:
        windows = snapshot.windows
        if not windows.open:
            words = texts.ALL_CLOSED if snapshot.ended else texts.NO_OPEN_WINDOW
            return [heading((f" {words if windows.open_count is not None else texts.OPEN_UNKNOWN}", "dim"))]
        speed = self._pace
        closes = {key_of(window): closing(snapshot, window, speed, self.zone) for window in windows.open}
        columns = sized(self._open_columns(snapshot, closes), windows.open)
        items = [titles(columns, _OPEN_COLUMNS)]
        own_order = self.sheet.sorted_by not in _OPEN_COLUMNS
        for group in window_groups(windows.open):
            grouped = len(group.windows) > 1 and own_order
            items += [Item((partial(group_line, group),))] if grouped else []
            for window in group.windows:
                waits = not grouped and waits_for(window) is not None
                more = waits or window.channels or window.operator is not None
                details = [partial(_open_details, window, grouped)] if more else []
                values = (window.start_ms, window.records, window.short_ms, closes[key_of(window)].in_ms)
                lines = (partial(row_line, columns, window), *details)
                items.append(self._item(window, lines, _OPEN_COLUMNS, values))
        later = (windows.open_count or 0) - len(windows.open)
        return [*items, heading((f" and {later:,} more that end later", "dim"))] if later > 0 else items

    def _open_columns(self, snapshot: Snapshot, closes: Mapping[str, Closing]) -> Sequence[Column[OpenWindow]]:
        level_ms, fastest = snapshot.level.watermark_ms, fastest_ms(snapshot)

        def bar(window: OpenWindow, room: int) -> list[Span]:
            return reach_bar(window.start_ms, window.end_ms, level_ms, fastest, room)

        def short(window: OpenWindow) -> str:
            return f.UNKNOWN if window.short_ms is None else f.duration(max(window.short_ms, 0))

        def style(window: OpenWindow) -> str:
            return CLOSING_STYLES[closes[key_of(window)].kind]

        least, most = _BAR
        return (
            Column("open", self._times, style=lambda window: "strong"),
            Column("rows", lambda window: f.count(window.records), rank=3, right=True),
            Column("", lambda window: "", rank=4, cells=least, most=most, draw=bar),
            Column("short", short, rank=2, right=True),
            Column("closes", lambda window: closes[key_of(window)].brief, rank=1, style=style),
        )

    # The fired ones

    def _fired_items(self, snapshot: Snapshot) -> list[Item]:
        windows = snapshot.windows
        if not windows.last_fired:
            words = texts.FIRED_UNKNOWN if windows.fired is None else texts.NO_FIRED_WINDOW
            return [heading((f" {words}", "dim"))]
        columns = sized(self._fired_columns(snapshot), windows.last_fired)
        items = [titles(columns, _FIRED_COLUMNS)]
        for window in reversed(windows.last_fired):
            late = (window.late_firings, window.late_drops)
            values = (window.start_ms, window.records, window.fired_ms, _after(window), *late)
            items.append(self._item(window, (partial(row_line, columns, window),), _FIRED_COLUMNS, values))
        return items

    def _fired_columns(self, snapshot: Snapshot) -> Sequence[Column[FiredWindow]]:
        near_ms = snapshot.now_ms

        def fired(window: FiredWindow) -> str:
            at = None if _after(window) is None else window.fired_ms
            return "end of run" if at is None else f.near(at, self.zone, near_ms)

        def after(window: FiredWindow) -> str:
            return f.UNKNOWN if (ms := _after(window)) is None else f.duration(ms)

        def until(window: FiredWindow) -> str:
            return "closed" if (ms := kept_until_ms(window, snapshot)) is None else f.near(ms, self.zone, near_ms)

        return (
            Column("fired", self._times, style=lambda window: "strong"),
            Column("rows", lambda window: f.count(window.records), rank=4, right=True),
            Column("fired at", fired, rank=2),
            Column("after end", after, rank=1, right=True),
            Column("late firings", lambda window: f.count(window.late_firings), rank=6, right=True,
                   style=lambda window: "text" if window.late_firings else "dim"),
            Column("late drops", lambda window: f.count(window.late_drops), rank=3, right=True,
                   style=lambda window: "stale" if window.late_drops else "dim"),
            Column("until", until, rank=5, style=lambda window: "dim" if until(window) == "closed" else "text"),
        )  # fmt: skip


def _after(window: FiredWindow) -> int | None:
    """How long after its end it fired; None: with the end of the run."""
    return None if window.ended or window.fired_ms is None else window.fired_ms - window.end_ms


def group_line(group: WindowGroup, width: int) -> list[Span]:
    """The line above windows that wait for the same channels, or, where these are not known, with the same times."""
    if group.first.blockers is None and waits_for(group.first) is None:
        return [(f" {f.counted(len(group.windows), 'window')} with the same start and end", "dim")]
    wait = f" {texts.windows_wait(len(group.windows))} "
    who = waits_within(group.first, width - cell_len(wait)) or "nothing: they fire at the next emit"
    return [(wait, "dim"), (who, "holder")]


def _open_details(window: OpenWindow, grouped: bool, width: int) -> list[Span]:
    """The channels it waits for (unless a line above its group names them), and those that fill it."""
    spans: list[Span] = [("   ", "dim")]
    who = waits_within(window, width - 13)
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
            (f.label(part.channel, _CHANNEL_CELLS), "text"),
            (f" {f.count(part.records)}", "dim"),
        ]
        if cells([*spans, *shown, *piece]) + len(more) > width:
            break
        shown += piece
    left = many - sum(1 for _, style in shown if style == "text")
    if shown and left:
        shown.append((f", {left:,} more", "dim"))
    return [*spans, *shown]
