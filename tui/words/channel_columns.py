"""The columns that a table of channels may have: what each shows, what a click on it sorts by, its rank. Pure.

Which of them a kind of target has, and in what order, is part of its words in `kinds`.
"""

from collections.abc import Callable
from datetime import tzinfo
from functools import partial

from msgspec import Struct

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ...engine.verdict.blame import is_close
from .barrel import PAUSED, STATES
from .channels import ChannelRow, Sort, reference_ms
from .spans import Column
from .watermark import ahead_elsewhere


class ListedChannel(Struct, frozen=True, gc=False):
    """A row of the table, and what its cells are computed from."""

    snapshot: Snapshot
    row: ChannelRow
    zone: tzinfo | None


class ChannelColumn(Column[ListedChannel], frozen=True):
    """A column of the table."""

    order: Sort = "behind"
    """What a click on its title sorts by."""


def channel_column(
    title: str, cells: int, text: Callable[[ListedChannel], str], order: Sort, *, rank: int = 0, right: bool = True
) -> ChannelColumn:
    """A column of `cells` cells, in the style of its values; see `Column` for `rank`."""
    return ChannelColumn(
        title, text, rank, right, lambda listed: _style(title, text(listed), listed.row), cells, order=order
    )


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


def _time(field: str, listed: ListedChannel) -> str:
    time: int | None = getattr(listed.row.view, field)
    missing = "ended" if listed.row.kind == "finished" else "none yet"
    return missing if time is None else f.near(time, listed.zone, reference_ms(listed.snapshot))


def _ahead(field: str, listed: ListedChannel) -> str:
    """The distance to the watermark, in six cells: `−12h30m` is `−12h`."""
    time: int | None = getattr(listed.row.view, field)
    level_ms = listed.snapshot.level.watermark_ms
    if time is None or level_ms is None:
        return f.UNKNOWN
    ms = time - level_ms
    text = f.signed(ms)
    return text if len(text) <= 6 else ("−" if ms < 0 else "+") + f.short(abs(ms))


def _state(listed: ListedChannel) -> str:
    snapshot = listed.snapshot
    entry = listed.row
    view = entry.view
    if entry.kind == "holder":
        if is_close(snapshot) or ahead_elsewhere(snapshot):
            return "slowest"
        since_ms = snapshot.level.holder.since_ms if snapshot.level.holder else None
        held = 0 if since_ms is None or snapshot.now_ms is None else snapshot.now_ms - since_ms
        if held < f.SECOND:
            return "HOLDS"
        text = f"HOLDS {f.duration(held)}"
        return text if len(text) <= _STATE else f"HOLDS {f.short(held)}"
    if entry.kind == "idle" and view.quiet_ms is not None:
        return f"idle {f.duration(view.quiet_ms)}"
    return PAUSED if view.held_back and entry.kind == "active" else STATES[entry.kind]


def _late(listed: ListedChannel) -> str:
    view = listed.row.view
    return f.share_of(view.late, view.records)


def _backlog(listed: ListedChannel) -> str:
    number = listed.row.view.backlog
    if number is not None and _MILLION <= number < 10 * _MILLION:  # a digit more than there is room for
        return f"{number / _MILLION:.2f}M"
    return f.count(number)


_STATE = 11
"""Cells of the state."""
_MILLION = 10**6
WATERMARK = channel_column("watermark", 12, partial(_time, "watermark_ms"), "behind", rank=1, right=False)
EVENT_TIME = channel_column("event time", 12, partial(_time, "max_event_ms"), "behind", rank=1, right=False)
AHEAD = channel_column("ahead", 6, partial(_ahead, "watermark_ms"), "behind", rank=2)
EVENT_AHEAD = channel_column("ahead", 6, partial(_ahead, "max_event_ms"), "behind", rank=2)
RATE = channel_column("rate/s", 7, lambda listed: f.rate(listed.row.view.rate), "rate", rank=4)
LATE = channel_column("late", 7, _late, "late", rank=3)
RECORDS = channel_column("records", 9, lambda listed: f.count(listed.row.view.records), "records", rank=6)
LATE_COUNT = channel_column("late n", 8, lambda listed: f.count(listed.row.view.late), "late n", rank=8)
BACKLOG = channel_column("backlog", 8, _backlog, "backlog", rank=3)
EVENT_LAG = channel_column(
    "event lag", 9, lambda listed: f.duration(listed.row.view.behind_end_ms), "event lag", rank=4
)
NO_DATA = channel_column("no data", 7, lambda listed: f.duration(listed.row.view.quiet_ms), "no data", rank=5)
IDLE_CHANGES = channel_column("idle changes", 12, lambda listed: f.count(listed.row.view.flaps), "idle changes", rank=9)
STATE = channel_column("state", _STATE, _state, "state", right=False)


def name_column(cells: int, most: int) -> ChannelColumn:
    """The channel's name, in `cells` cells or, where there is room, up to `most`; its title depends on its width."""
    return ChannelColumn(
        "",
        lambda listed: f.label(listed.row.view.channel),
        style=lambda listed: "holder" if listed.row.kind == "holder" else "text",
        cells=cells,
        most=most,
        order="name",
    )
