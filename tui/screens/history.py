"""The history: which channel held back the watermark, from when to when, and the cause."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from textual.app import ComposeResult

from ...engine.snapshot import SettingsChange, Snapshot
from ...engine.text import formatting as f
from ...engine.text.codes import CAUSES
from ..widgets.charts import HolderLanes, HolderSpan
from ..widgets.rows import Item, Sheet, heading, titles
from ..words.columns import Column, row_line, sized
from ..words.history import Hold, change_words
from ..words.main_screen import Shown
from ..words.presenter import presenter_of
from ..words.spans import Span
from ..words.texts import SETTINGS_CHANGED, TableRecords
from .target_screen import DetailScreen

_COLUMNS = ("since", "channel", "held", "moved", "lag")
_CHANGES = 4
"""Changes of settings that are listed, at most."""


class HistoryScreen(DetailScreen):
    """A lane for each channel that held back the watermark, and a row for each of these times, the newest first."""

    NAME, OPEN = "History", "row-open"
    READING = (
        "Each lane is a channel that held back the watermark: █ all of the cell's time, ░ some of it; at its "
        "end how long in all, the share of the time, and how often. Below, each time that a channel held it back: "
        "since when, how long, how far the watermark moved meanwhile, how far it was behind the fastest channel at "
        "most, and why, in the order in which the causes were seen. Times are processing time. The history begins with "
        "what the engine remembered when this screen was connected, and keeps at most 500 changes. Above: the "
        "last settings that were changed while it ran, when and by whom.\n"
    )

    def __init__(self, shown: Shown, denied: frozenset[str]) -> None:
        super().__init__(shown, denied)
        self._holds: Sequence[Hold] = ()

    def body(self) -> ComposeResult:
        yield HolderLanes(id="lanes")
        yield Sheet(id="history")

    def update(self, snapshot: Snapshot) -> None:
        self._holds = self.recent.holds(snapshot)

    def show(self, snapshot: Snapshot) -> None:
        holds = self._holds
        held = [hold for hold in holds if hold.channel is not None]
        lanes, sheet = self.query_one(HolderLanes), self.sheet
        first = holds[0].since_ms if holds else 0
        last = max(holds[-1].until_ms, snapshot.now_ms or 0) if holds else 0
        lanes.show(
            HolderSpan(held, first, last, self._holder(snapshot), self.zone, presenter_of(snapshot).no_holders())
        )
        lanes.styles.height = min(len({hold.channel for hold in held}), max(self.size.height // 4, 3)) + 1
        sheet.show([*self._changes(snapshot), *(self._items(snapshot, held) if held else [])])

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        changes = sum(hold.channel is not None for hold in self._holds)
        if not changes:
            return ()
        length = self._holds[-1].until_ms - self._holds[0].since_ms
        return [("  ", "dim"), (f"{changes:,}", "text"), (f" takeover{'s' * (changes != 1)} in ", "dim"),
                (f.duration(length), "text")]  # fmt: skip

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        if not any(hold.channel is not None for hold in self._holds):
            return ()
        return [("█", "active"), (" all the time   ", "dim"), ("░", "active"), (" some of it", "dim")]

    def records(self) -> TableRecords:
        return TableRecords("history", [hold for hold in self._holds if hold.channel is not None])

    def _holder(self, snapshot: Snapshot) -> str | None:
        return snapshot.level.holder.channel if snapshot.level.holder else None

    def _items(self, snapshot: Snapshot, holds: Sequence[Hold]) -> list[Item]:
        now = holds[-1] if self._holder(snapshot) == holds[-1].channel else None
        until = snapshot.now_ms if snapshot.now_ms is not None else holds[-1].until_ms
        columns = sized(self._columns(now, until), holds)
        lines: list[Item] = []
        for hold in reversed(holds):
            line, opens = partial(row_line, columns, hold), partial(self.open_known, hold.channel or "")
            lines.append(Item((line,), hold.key, self._sorts(hold), name=hold.channel, opens=opens))
        return [titles(columns, _COLUMNS), *lines]

    def _columns(self, now: Hold | None, until_ms: int) -> Sequence[Column[Hold]]:
        """The columns; `now` is the hold that lasts, until `until_ms`."""

        def held(hold: Hold) -> str:
            until = until_ms if hold is now else hold.until_ms
            return f.duration(max(until - hold.since_ms, 0)) + ("…" if hold is now else " ")

        def style(hold: Hold) -> str:
            return "holder" if hold is now else "text"

        return (
            Column("since", lambda hold: self._time(hold.since_ms)),
            Column("channel", lambda hold: f.label(hold.channel or ""), style=style),
            Column("held", held, right=True, style=style),
            Column("moved", _moved, rank=2, right=True, style=lambda hold: "level"),
            Column("lag", lambda hold: _lag(hold.lag_ms), rank=3, right=True),
            Column(
                "why", lambda hold: _why(hold, 0), rank=1, most=60, draw=lambda hold, room: [(_why(hold, room), "text")]
            ),
        )

    def _time(self, ms: int | None) -> str:
        return f.UNKNOWN if ms is None else f.near(ms, self.zone, self.snapshot.now_ms).partition(".")[0]

    def _sorts(self, hold: Hold) -> dict[str, Any]:
        """Its values by the title of their columns."""
        until = self.snapshot.now_ms or hold.until_ms
        known = hold.level_from_ms is not None and hold.level_to_ms is not None
        moved = (hold.level_to_ms or 0) - (hold.level_from_ms or 0) if known else None
        values = (hold.since_ms, hold.channel, min(hold.until_ms, until) - hold.since_ms, moved, hold.lag_ms)
        return dict(zip(_COLUMNS, values, strict=False))

    def _changes(self, snapshot: Snapshot) -> list[Item]:
        """The last settings that were changed while it ran, the newest first."""
        if not snapshot.own.changes:
            return []
        last = snapshot.own.changes[: -_CHANGES - 1 : -1]
        columns: list[Column[SettingsChange]] = sized(
            (
                Column("", lambda change: self._time(change.now_ms)),
                Column("", lambda change: f.label(change.who or f.UNKNOWN), rank=1),
                Column("", change_words),
            ),
            last,
        )
        earlier = len(snapshot.own.changes) - len(last)
        words = f" {SETTINGS_CHANGED}" + (f", {earlier:,} more before" if earlier else "")
        lines = (Item((partial(row_line, columns, change),)) for change in last)
        return [heading((words, "dim")), *lines, heading()]


def _lag(ms: int | None) -> str:
    return f.UNKNOWN if ms is None else "≤" + f.duration(ms)


def _why(hold: Hold, room: int) -> str:
    """The causes, in `room` cells; without room for all the last one."""
    causes = [CAUSES[cause].short for cause in hold.causes] or [f.ELSEWHERE]
    text = ", then ".join(causes)
    return text if len(text) <= room else causes[-1]


def _moved(hold: Hold) -> str:
    if hold.level_from_ms is None or hold.level_to_ms is None:
        return f.UNKNOWN
    moved = hold.level_to_ms - hold.level_from_ms
    return "frozen" if not moved else f.signed(moved)
