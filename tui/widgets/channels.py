"""The table of channels: sorted, filtered, one row each."""

from collections.abc import Callable, Sequence
from datetime import tzinfo
from functools import lru_cache, partial

from msgspec import Struct
from msgspec.structs import replace
from textual.message import Message

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ..words.barrel import PAUSED, STATES
from ..words.channels import ChannelRow, Sort
from ..words.spans import Span
from ..words.watermark import ChannelFacts
from .rows import Rows, column_cells, text_of, wrapped

_NAME = (7, 40)
"""The least and the greatest width of a name."""


class ChannelColumn(Struct, frozen=True):
    """A column: rank 0 is always shown; others are dropped, the greatest `rank` first."""

    title: str
    width: int
    text: Callable[["Table", ChannelRow], str]
    rank: int = 0
    right: bool = True


class Table(Struct, frozen=True):
    """The table's content; `entries` are in order."""

    entries: Sequence[ChannelRow] = ()
    sort: Sort = "behind"
    reverse: bool = False
    level_ms: int | None = None
    now_ms: int | None = None
    held_since_ms: int | None = None
    close: bool = False
    """The holder is behind the fastest channel by no more than the lateness."""
    selected: str | None = None
    zone: tzinfo | None = None
    name_cells: int = _NAME[0]
    facts: ChannelFacts = "counted"
    empty: str = ""


def name_cells(snapshot: Snapshot) -> int:
    """The width of the names, within limits."""
    return column_cells((f.label(view.channel) for view in snapshot.channels), *_NAME)


class ChannelTable(Rows):
    """Draws a `Table`; says `Moved` when the cursor goes to another channel, `SortWanted` when a title is clicked."""

    HEADER = 1

    class Moved(Message):
        """The cursor is on another channel."""

        def __init__(self, channel: str) -> None:
            self.channel = channel
            super().__init__()

    class SortWanted(Message):
        """The title of a column was clicked."""

        def __init__(self, sort: Sort) -> None:
            self.sort: Sort = sort
            super().__init__()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._table = Table()
        self._places: dict[str, int] = {}

    def show(self, table: Table) -> None:
        """Draw `table`."""
        if table == self._table:
            return
        if table.entries is not self._table.entries:
            self._places = {entry.view.channel: place for place, entry in enumerate(table.entries)}
        moved = table.selected != self._table.selected
        self._table = table
        self.redraw()
        if moved and table.selected in self._places:
            self.show_row(self._places[table.selected])

    def move(self, by: int) -> None:
        rows = len(self._table.entries)
        if not rows:
            return
        here = self._places.get(self._table.selected or "")
        there = self.scroll_offset.y if here is None else max(min(here + by, rows - 1), 0)
        self.post_message(self.Moved(self._table.entries[there].view.channel))

    def channel(self, row: int) -> str | None:
        """The channel of a row."""
        return self._table.entries[row].view.channel if 0 <= row < len(self._table.entries) else None

    def line(self, channel: str) -> str | None:
        """The row of a channel as it is shown."""
        place = self._places.get(channel)
        return None if place is None else text_of(self.row(place, self.row_cells))

    def on_rows_header_clicked(self, event: Rows.HeaderClicked) -> None:
        names, columns = _layout(self.row_cells, self._table.name_cells, self._table.facts)
        end, sort = names + 1, _SORTED_BY["channel"]
        for column in columns:
            if event.x <= end:
                break
            end, sort = end + 2 + column.width, _SORTED_BY[column.title]
        self.post_message(self.SortWanted(sort))

    def row_count(self) -> int:
        return len(self._table.entries) or len(wrapped(self._table.empty, self.row_cells))

    def header(self, width: int) -> Sequence[Span]:
        names, columns = _layout(width, self._table.name_cells, self._table.facts)
        table = self._table
        sign = "▴" if table.reverse else "▾"
        titles = ["channel", *(column.title for column in columns)]
        sorted_by = next((title for title in titles if _SORTED_BY[title] == table.sort), None)
        title = "channel" if names >= len("channel") else "name"
        spans: list[Span] = [(sign if sorted_by == "channel" else " ", "accent"), (f.pad(title, names), "dim")]
        for column in columns:
            text = f.pad(column.title, column.width, column.right)
            gap = 1 + len(text) - len(text.lstrip())  # the sign is beside its title, also where that is at the right
            spans.append((" " * gap, "dim"))
            spans.append((sign if column.title == sorted_by else " ", "accent"))
            spans.append((text.lstrip(), "dim"))
        return spans

    def row(self, index: int, width: int) -> Sequence[Span]:
        table = self._table
        if not table.entries:
            return [(wrapped(table.empty, width)[index], "dim")]
        entry = table.entries[index]
        chosen = entry.view.channel == table.selected
        style = "cursor" if chosen else "text"
        name_style = "cursor" if chosen else "holder" if entry.kind == "holder" else "text"
        names, columns = _layout(width, table.name_cells, table.facts)
        spans: list[Span] = [(" " + f.pad(f.label(entry.view.channel, names), names), name_style)]
        for column in columns:
            text = f.pad(column.text(table, entry), column.width, column.right)
            spans += [("  ", style), (text, style if chosen else _style(column.title, text, entry))]
        return [*spans, (" " * width, style)] if chosen else spans


@lru_cache(maxsize=64)
def _layout(width: int, name_cells: int, facts: ChannelFacts) -> tuple[int, tuple[ChannelColumn, ...]]:
    """The width of names (at most what they need and the important columns leave), and the columns that fit."""
    kept = list(_COLUMNS[facts])
    if width < _ROOMY:
        kept[0] = replace(kept[0], width=11, text=_to_the_second(kept[0].text))
    needed = sum(2 + column.width for column in kept if column.rank < 2)
    names = max(min(name_cells, width - needed - 1), 4)
    while sum(2 + column.width for column in kept) > width - names - 1:
        worst = max(kept, key=lambda column: column.rank)
        if not worst.rank:
            break
        kept.remove(worst)
    return names, tuple(kept)


def _style(title: str, text: str, entry: ChannelRow) -> str:
    if entry.kind == "holder":
        return "holder" if title in ("state", "watermark") else "text"
    if entry.kind == "drowned" and title in ("state", "ahead"):
        return "bad"
    if title == "state":
        return "catching_up" if entry.kind == "catching_up" else "dim"
    if entry.kind in ("idle", "never_seen", "finished") or text.strip() in ("0", "0 %", "0.0", f.UNKNOWN):
        return "dim"
    return "text"


def _time(field: str, table: Table, entry: ChannelRow) -> str:
    time: int | None = getattr(entry.view, field)
    return f.NO_DATA if time is None else f.near(time, table.zone, f.reference_ms(table.now_ms, table.level_ms))


def _to_the_second(text: Callable[[Table, ChannelRow], str]) -> Callable[[Table, ChannelRow], str]:
    return lambda table, entry: text(table, entry).split(".")[0]


def _ahead(field: str, table: Table, entry: ChannelRow) -> str:
    time: int | None = getattr(entry.view, field)
    return f.UNKNOWN if time is None or table.level_ms is None else _within_six(time - table.level_ms)


def _within_six(ms: int) -> str:
    """A distance in six cells: `−12h30m` is `−12h`."""
    text = f.signed(ms)
    return text if len(text) <= 6 else ("−" if ms < 0 else "+") + f.short(abs(ms))


def _state(table: Table, entry: ChannelRow) -> str:
    view = entry.view
    if entry.kind == "holder":
        if table.close:
            return "slowest"
        if table.held_since_ms is None or table.now_ms is None:
            return "HOLDS"
        held = max(table.now_ms - table.held_since_ms, 0)
        if held < f.SECOND:
            return "HOLDS"
        text = f"HOLDS {f.duration(held)}"
        return text if len(text) <= _STATE else f"HOLDS {f.short(held)}"
    if entry.kind == "idle" and view.quiet_ms is not None:
        return f"idle {f.duration(view.quiet_ms)}"
    return PAUSED if view.held_back and entry.kind == "active" else STATES[entry.kind]


def _quiet(table: Table, entry: ChannelRow) -> str:
    return f.UNKNOWN if entry.view.quiet_ms is None else f.duration(entry.view.quiet_ms)


def _count(field: str, table: Table, entry: ChannelRow) -> str:
    number: int | None = getattr(entry.view, field)
    return f.UNKNOWN if number is None else f.count(number)


def _backlog(table: Table, entry: ChannelRow) -> str:
    number = entry.view.backlog
    if number is not None and _MILLION <= number < 10 * _MILLION:  # a digit more than there is room for
        return f"{number / _MILLION:.2f}M"
    return _count("backlog", table, entry)


def _behind_end(table: Table, entry: ChannelRow) -> str:
    behind = entry.view.behind_end_ms
    return f.UNKNOWN if behind is None else f.duration(behind)


_STATE = 11
"""Cells of the state."""
_WATERMARK = ChannelColumn("watermark", 12, partial(_time, "watermark_ms"), right=False)
_EVENT_TIME = ChannelColumn("event time", 12, partial(_time, "max_event_ms"), right=False)
_AHEAD = ChannelColumn("ahead", 6, partial(_ahead, "watermark_ms"))
_RATE = ChannelColumn("rate/s", 7, lambda table, entry: f.rate(entry.view.rate), rank=3)
_LATE = ChannelColumn("late", 7, lambda table, entry: f.share_of(entry.view.late, entry.view.records), rank=2)
_RECORDS = ChannelColumn("records", 9, partial(_count, "records"), rank=5)
_LATE_COUNT = ChannelColumn("late n", 8, partial(_count, "late"), rank=7)
_BACKLOG = ChannelColumn("backlog", 8, _backlog, rank=2)
_EVENT_LAG = ChannelColumn("event lag", 9, _behind_end, rank=3)
_NO_DATA = ChannelColumn("no data", 7, _quiet, rank=4)
_FLAPS = ChannelColumn("flaps", 5, partial(_count, "flaps"), rank=8)
_STATE_COLUMN = ChannelColumn("state", _STATE, _state, rank=1, right=False)

_COUNTED = (
    _WATERMARK, _AHEAD, _RATE, _LATE, _RECORDS, _LATE_COUNT, replace(_BACKLOG, rank=6), _NO_DATA, _FLAPS, _STATE_COLUMN,
)  # fmt: skip
_FIRST_QUEUED = {"backlog": 2, "late": 3, "rate/s": 4, "no data": 5, "records": 6}
"""Ranks of columns for backlogged sources: whether the backlog grows is the first question."""
_COLUMNS: dict[ChannelFacts, tuple[ChannelColumn, ...]] = {
    "counted": _COUNTED,
    "queued": tuple(replace(column, rank=_FIRST_QUEUED.get(column.title, column.rank)) for column in _COUNTED),
    "unread": (_WATERMARK, _AHEAD, _BACKLOG, _EVENT_LAG, replace(_RATE, rank=5), _NO_DATA, _FLAPS, _STATE_COLUMN),
    "one clock": (
        _EVENT_TIME,
        replace(_AHEAD, text=partial(_ahead, "max_event_ms")),
        _RATE,
        _RECORDS,
        _BACKLOG,
        replace(_EVENT_LAG, rank=6),
        _NO_DATA,
        _STATE_COLUMN,
    ),
}
_ROOMY = 46
_MILLION = 10**6

_SORTED_BY: dict[str, Sort] = {
    "channel": "name", "watermark": "behind", "event time": "behind", "ahead": "behind", "rate/s": "rate",
    "late": "late", "records": "records", "late n": "late n", "backlog": "backlog", "event lag": "event lag",
    "no data": "no data", "flaps": "flaps", "state": "state",
}  # fmt: skip
"""The order for a click on a title."""
