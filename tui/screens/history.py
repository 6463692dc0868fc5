"""The history: which channel held back the watermark, from when to when, and the cause."""

from collections.abc import Sequence
from functools import partial

from textual.app import ComposeResult

from ...engine.snapshot import SettingsChange, Snapshot
from ...engine.text import formatting as f
from ...engine.text.codes import CAUSES
from ..widgets.charts import HolderLanes, HolderSpan
from ..widgets.rows import Item, Sheet, heading, table
from ..words.columns import Column
from ..words.history import Hold, change_words
from ..words.presenter import presenter_of
from ..words.spans import Span
from ..words.texts import SETTINGS_CHANGED, TableRecords
from .target_screen import DetailScreen

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

    _holds: Sequence[Hold] = ()
    _held: Sequence[Hold] = ()
    """Those by a channel."""

    def body(self) -> ComposeResult:
        yield HolderLanes(id="lanes")
        yield Sheet(id="history")

    def update(self, snapshot: Snapshot) -> None:
        self._holds = self.recent.holds(snapshot)
        self._held = [hold for hold in self._holds if hold.channel is not None]

    def show(self, snapshot: Snapshot) -> None:
        holds, held = self._holds, self._held
        lanes, sheet = self.query_one(HolderLanes), self.sheet
        first = holds[0].since_ms if holds else 0
        last = max(holds[-1].until_ms, snapshot.now_ms or 0) if holds else 0
        lanes.show(
            HolderSpan(held, first, last, self._holder(snapshot), self.zone, presenter_of(snapshot).no("holders"))
        )
        lanes.styles.height = min(len({hold.channel for hold in held}), max(self.size.height // 4, 3)) + 1
        sheet.show([*self._changes(snapshot), *(self._items(snapshot, held) if held else [])])

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        changes = len(self._held)
        if not changes:
            return ()
        length = self._holds[-1].until_ms - self._holds[0].since_ms
        return [("  ", "dim"), (f"{changes:,}", "text"), (f" takeover{'s' * (changes != 1)} in ", "dim"),
                (f.duration(length), "text")]  # fmt: skip

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        if not self._held:
            return ()
        return [("█", "active"), (" all the time   ", "dim"), ("░", "active"), (" some of it", "dim")]

    def records(self) -> TableRecords:
        return TableRecords("history", self._held)

    def _holder(self, snapshot: Snapshot) -> str | None:
        return snapshot.level.holder.channel if snapshot.level.holder else None

    def _items(self, snapshot: Snapshot, holds: Sequence[Hold]) -> list[Item]:
        now = holds[-1] if self._holder(snapshot) == holds[-1].channel else None
        until = snapshot.now_ms if snapshot.now_ms is not None else holds[-1].until_ms
        return table(
            self._columns(now, until),
            holds[::-1],
            lambda hold: hold.key,
            name=lambda hold: hold.channel,
            opens=lambda hold: partial(self.open_channel, hold.channel or ""),
        )

    def _columns(self, now: Hold | None, until_ms: int) -> Sequence[Column[Hold]]:
        """The columns; `now` is the hold that lasts, until `until_ms`."""

        def held_ms(hold: Hold) -> int:
            return max((until_ms if hold is now else hold.until_ms) - hold.since_ms, 0)

        def held(hold: Hold) -> str:
            return ("≥" if hold is now else "") + f.duration(held_ms(hold))

        def style(hold: Hold) -> str:
            return "holder" if hold is now else "text"

        return (
            Column("since", lambda hold: self._time(hold.since_ms), sort=lambda hold: hold.since_ms),
            Column("channel", lambda hold: f.label(hold.channel or ""), style=style, sort=lambda hold: hold.channel),
            Column("held", held, right=True, style=style, sort=held_ms),
            Column(
                "moved",
                lambda hold: f.signed(_moved(hold)),
                rank=2,
                right=True,
                style=lambda hold: "level",
                sort=_moved,
            ),
            Column(
                "lag",
                lambda hold: f.UNKNOWN if hold.lag_ms is None else f"≤{f.duration(hold.lag_ms)}",
                rank=3,
                right=True,
                sort=lambda hold: hold.lag_ms,
            ),
            Column(
                "why", lambda hold: _why(hold, 0), rank=1, most=60, draw=lambda hold, room: [(_why(hold, room), "text")]
            ),
        )

    def _time(self, ms: int | None) -> str:
        return f.UNKNOWN if ms is None else f.near(ms, self.zone, self.snapshot.now_ms).partition(".")[0]

    def _changes(self, snapshot: Snapshot) -> list[Item]:
        """The last settings that were changed while it ran, the newest first."""
        if not snapshot.own.changes:
            return []
        last = snapshot.own.changes[: -_CHANGES - 1 : -1]
        columns: tuple[Column[SettingsChange], ...] = (
            Column("", lambda change: self._time(change.now_ms)),
            Column("", lambda change: f.label(change.who or f.UNKNOWN), rank=1),
            Column("", change_words),
        )
        earlier = len(snapshot.own.changes) - len(last)
        words = f" {SETTINGS_CHANGED}" + (f", {earlier:,} more before" if earlier else "")
        return [heading((words, "dim")), *table(columns, last, lambda change: None)[1:], heading()]


def _why(hold: Hold, room: int) -> str:
    """The causes, in `room` cells; without room for all the last one."""
    # A channel behind which none was further: it only sets the watermark, as also the main screen says.
    causes = [
        "sets the watermark" if cause == "behind" and not hold.lag_ms else CAUSES[cause].short for cause in hold.causes
    ] or [f.ELSEWHERE]
    text = ", then ".join(causes)
    return text if len(text) <= room else causes[-1]


def _moved(hold: Hold) -> int | None:
    if hold.level_from_ms is None or hold.level_to_ms is None:
        return None
    return hold.level_to_ms - hold.level_from_ms
