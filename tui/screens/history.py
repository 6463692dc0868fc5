"""The history: which channel held back the watermark, from when to when, and the cause."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from textual.app import ComposeResult

from ...engine.snapshot import SettingsChange, Snapshot
from ...engine.text import formatting as f
from ...engine.text.codes import CAUSES
from ..widgets.charts import HolderLanes, HolderSpan
from ..widgets.rows import Item, Sheet, column_cells, heading, titles
from ..words.history import Hold, change_words
from ..words.main_screen import Shown
from ..words.presenter import presenter_of
from ..words.spans import Span
from ..words.texts import SETTINGS_CHANGED, TableRecords
from .target_screen import DetailScreen

_NAMES = (7, 24)
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
        names = column_cells((f.label(hold.channel or "") for hold in holds), *_NAMES)
        now = holds[-1] if self._holder(snapshot) == holds[-1].channel else None
        lines: list[Item] = []
        for hold in reversed(holds):
            line, opens = partial(self._line, hold, hold is now, names), partial(self.open_known, hold.channel or "")
            lines.append(Item((line,), hold.key, self._sorts(hold), name=hold.channel, opens=opens))
        held, moved, lag = (f.pad(text, cells, right=True) for text, cells in (("held", 7), ("moved", 8), ("lag", 7)))
        title = f" {f.pad('since', 11)}  {f.pad('channel', names)}  {held}  {moved}  {lag}  why"
        return [titles(title, *_COLUMNS), *lines]

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
        lines = [partial(self._change_line, change) for change in reversed(snapshot.own.changes[-_CHANGES:])]
        earlier = len(snapshot.own.changes) - len(lines)
        words = f" {SETTINGS_CHANGED}" + (f", {earlier:,} more before" if earlier else "")
        return [heading((words, "dim")), *(Item((line,)) for line in lines), heading()]

    def _change_line(self, change: SettingsChange, width: int) -> list[Span]:
        near = self.snapshot.now_ms
        at = f.UNKNOWN if change.now_ms is None else f.near(change.now_ms, self.zone, near).partition(".")[0]
        who = f.label(change.who or f.UNKNOWN, 7)
        return [(f" {f.pad(at, 8)}  {f.pad(who, 7)} {change_words(change)}", "text")]

    def _line(self, hold: Hold, now: bool, names: int, width: int) -> list[Span]:
        snapshot = self.snapshot
        since = f.pad(f.near(hold.since_ms, self.zone, snapshot.now_ms).partition(".")[0], 11)
        until = snapshot.now_ms if now and snapshot.now_ms is not None else hold.until_ms
        causes = ", then ".join(CAUSES[cause].short for cause in hold.causes) or f.ELSEWHERE
        lag = f.UNKNOWN if hold.lag_ms is None else "≤" + f.duration(hold.lag_ms)
        style = "holder" if now else "text"
        spans: list[Span] = [
            (f" {since}  ", "text"),
            (f.pad(f.label(hold.channel or "", names), names), style),
            (f"  {f.pad(f.duration(max(until - hold.since_ms, 0)), 7, right=True)}", style),
            (f"{'…' if now else ' '} ", style),
            (f.pad(_moved(hold), 8, right=True), "level"),
            (f"  {f.pad(lag, 7, right=True)}  ", "text"),
            (causes, "text"),
        ]
        return spans


def _moved(hold: Hold) -> str:
    if hold.level_from_ms is None or hold.level_to_ms is None:
        return f.UNKNOWN
    moved = hold.level_to_ms - hold.level_from_ms
    return "frozen" if not moved else f.signed(moved)
