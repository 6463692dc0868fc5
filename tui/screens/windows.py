"""The windows, open, firing, fired; and one of them: why it is not closing, its records per channel."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

from rich.cells import cell_len
from textual.app import ComposeResult

from ...engine.snapshot import ChannelRecords, ChannelView, FiredWindow, OpenWindow, Snapshot
from ...engine.text import formatting as f
from ...engine.text.codes import unknown_text
from ...engine.verdict.blame import holding_channel
from ..widgets.clocks import waiting_items
from ..widgets.lines import Prose
from ..widgets.rows import Draw, Item, Sheet, heading, more, table
from ..widgets.tables import reach_bar
from ..words import texts
from ..words.barrel import STATES
from ..words.channels import reference_ms
from ..words.clocks import sending_words
from ..words.closing import Closing, blockers, closing, fired_words, kept_until_ms, pace
from ..words.keys import Hint, hint
from ..words.kinds import presenter_of
from ..words.late_records import About
from ..words.main_screen import Shown
from ..words.spans import Column, Span, cells, value_column
from ..words.texts import TableRecords
from ..words.windows import WindowGroup, key_of, waits_for, waits_within, window_counts, window_groups
from .target_screen import DetailScreen

MAX_BLOCKERS = 200
_PART_BAR = (4, 24)
_BAR = (6, 24)
_NAMED, _CHANNEL_CELLS = 6, 14
CLOSING_STYLES = {"now": "good", "pace": "text", "idle": "text", "never": "stale", "unknown": "dim"}
"""The certainty that a window closes."""


_Part = TypeVar("_Part", ChannelView, ChannelRecords)


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
        items: list[Item] = []
        if short:
            columns = self._short_columns(holding_channel(snapshot), window.end_ms)
            items += [*self._channel_rows("short", columns, short[:MAX_BLOCKERS]), *more(len(short) - MAX_BLOCKERS)]
        elif not snapshot.channels:
            items.append(heading((f" channels: {f.ELSEWHERE}", "dim")))
        if parts := window.channels:
            most = max(part.records for part in parts)
            items += [heading(), *self._channel_rows("rows", _part_columns(most), parts)]
            rest = (window.channel_count or 0) - len(parts)
            if rest > 0:
                others = max((window.records or 0) - sum(part.records for part in parts), 0)
                items.append(heading((f" {rest:,} more, with {f.counted(others, 'row')}", "dim")))
        return items

    def _channel_rows(self, what: str, columns: Sequence[Column[_Part]], rows: Sequence[_Part]) -> list[Item]:
        return table(
            columns,
            rows,
            lambda row: f"{what} {row.channel}",
            name=lambda row: row.channel,
            opens=lambda row: partial(self.open_channel, row.channel),
        )

    def _short_columns(self, held: str | None, end_ms: int) -> Sequence[Column[ChannelView]]:
        near = reference_ms(self.snapshot)

        def time(view: ChannelView) -> str:
            return f.NO_DATA if view.watermark_ms is None else f.near(view.watermark_ms, self.zone, near)

        def short_ms(view: ChannelView) -> int | None:
            return None if view.watermark_ms is None else end_ms - 1 - view.watermark_ms

        def style(view: ChannelView) -> str:
            return "holder" if view.channel == held else "text"

        return (
            value_column("short of its end", lambda view: view.channel, f.label, style=style),
            Column("watermark", time, rank=3, sort=lambda view: view.watermark_ms),
            value_column("short", short_ms, f.duration, rank=1, right=True),
            value_column("quiet", lambda view: view.quiet_ms, f.duration, rank=4),
            Column("state", lambda view: "HOLDS" if view.channel == held else STATES[view.state], rank=2, style=style),
        )


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
        if not snapshot.target.has_watermark:
            return [(f"  {f.counted(len(waiting_items(snapshot, None)), 'task')} whose tumbling windows wait", "dim")]
        out: list[Span] = []
        for number, word in window_counts(snapshot):
            out += [(" · " if out else "  ", "dim"), (f.count(number), "text"), (f" {word}", "dim")]
        return out or [(f"  {f.ELSEWHERE}", "dim")]

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        if not snapshot.target.has_watermark:
            return [("y", "key"), (" copies the command that frees the first", "dim")]
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
        words = sending_words(snapshot, self.sheet.cursor, self.zone)
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
        if not snapshot.target.has_watermark:
            return waiting_items(snapshot, self.zone) or [heading((f" {presenter_of(snapshot).no('windows')}", "dim"))]
        unknown = unknown_text(windows.unknown, windows.unknown_args)
        why = [] if unknown is None else [heading((f" {unknown}", "stale"))]
        return [*why, *self._open_items(snapshot), heading(), *self._fired_items(snapshot)]

    def _times(self, window: OpenWindow | FiredWindow) -> str:
        return f.interval(window.start_ms, window.end_ms, self.zone, self.snapshot.now_ms)

    def _opens(self, window: OpenWindow | FiredWindow) -> partial[None]:
        return partial(self.open_window, key_of(window))

    # The open ones

    def _open_items(self, snapshot: Snapshot) -> list[Item]:
        windows = snapshot.windows
        if not windows.open:
            words = texts.ALL_CLOSED if snapshot.ended else texts.NO_OPEN_WINDOW
            return [heading((f" {words if windows.open_count is not None else texts.OPEN_UNKNOWN}", "dim"))]
        speed = self._pace
        closes = {key_of(window): closing(snapshot, window, speed, self.zone) for window in windows.open}
        columns = self._open_columns(snapshot, closes)
        is_sorted = any(column.sort is not None and column.title == self.sheet.sorted_by for column in columns)
        groups = window_groups(windows.open)
        grouped = {key_of(group.first): group for group in groups if len(group.windows) > 1 and not is_sorted}
        inside = {key_of(window) for group in grouped.values() for window in group.windows}
        rows = [window for group in groups for window in group.windows]
        items: list[Item] = []
        details = partial(_details, inside)
        for item in table(columns, rows, key_of, details=details, name=self._times, opens=self._opens):
            if item.key in grouped:
                items.append(Item((partial(group_line, grouped[item.key]),)))
            items.append(item)
        return [*items, *more((windows.open_count or 0) - len(windows.open), " that end later")]

    def _open_columns(self, snapshot: Snapshot, closes: Mapping[str, Closing]) -> Sequence[Column[OpenWindow]]:
        level_ms, fastest = snapshot.level.watermark_ms, snapshot.level.fastest_ms

        def bar(window: OpenWindow, room: int) -> list[Span]:
            return reach_bar(window.start_ms, window.end_ms, level_ms, fastest, room)

        def short(window: OpenWindow) -> str:
            return f.duration(None if window.short_ms is None else max(window.short_ms, 0))

        def style(window: OpenWindow) -> str:
            return CLOSING_STYLES[closes[key_of(window)].kind]

        least, most = _BAR
        return (
            Column("open", self._times, style=lambda window: "strong", sort=lambda window: window.start_ms),
            value_column("rows", lambda window: window.records, f.count, rank=3, right=True),
            Column("", lambda window: "", rank=4, cells=least, most=most, draw=bar),
            Column("short", short, rank=2, right=True, sort=lambda window: window.short_ms),
            Column("closes", lambda window: closes[key_of(window)].brief, rank=1, style=style,
                   sort=lambda window: closes[key_of(window)].in_ms),
        )  # fmt: skip

    # The fired ones

    def _fired_items(self, snapshot: Snapshot) -> list[Item]:
        windows = snapshot.windows
        if not windows.last_fired:
            words = texts.FIRED_UNKNOWN if windows.fired is None else texts.NO_FIRED_WINDOW
            return [heading((f" {words}", "dim"))]
        rows = windows.last_fired[::-1]
        return table(self._fired_columns(snapshot), rows, key_of, name=self._times, opens=self._opens)

    def _fired_columns(self, snapshot: Snapshot) -> Sequence[Column[FiredWindow]]:
        def fired(window: FiredWindow) -> str:
            at = None if _after(window) is None else window.fired_ms
            return "end of run" if at is None else f.near(at, self.zone, snapshot.now_ms)

        def until(window: FiredWindow) -> str:
            ms = kept_until_ms(window, snapshot)
            return "closed" if ms is None else f.near(ms, self.zone, snapshot.now_ms)

        return (
            Column("fired", self._times, style=lambda window: "strong", sort=lambda window: window.start_ms),
            value_column("rows", lambda window: window.records, f.count, rank=4, right=True),
            Column("fired at", fired, rank=2, sort=lambda window: window.fired_ms),
            value_column("after end", _after, f.duration, rank=1, right=True),
            value_column("late firings", lambda window: window.late_firings, f.count, rank=6, right=True,
                         style=lambda window: "text" if window.late_firings else "dim"),
            value_column("late drops", lambda window: window.late_drops, f.count, rank=3, right=True,
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
    wait = f" {texts.windows_wait_for(len(group.windows))} "
    who = waits_within(group.first, width - cell_len(wait)) or "nothing: they fire at the next emit"
    return [(wait, "dim"), (who, "holder")]


def _details(grouped: Collection[str], window: OpenWindow) -> Sequence[Draw]:
    """The further line of a window, if it says more than the line above its group."""
    waits = key_of(window) not in grouped and waits_for(window) is not None
    is_more = waits or window.channels or window.operator is not None
    return [partial(_open_details, window, not waits)] if is_more else []


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
