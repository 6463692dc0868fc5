"""The blockers: the channels that hold back the watermark, step by step, and what frees them."""

from collections.abc import Sequence
from functools import partial

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ..widgets.rows import Item, heading, more, paragraph, table
from ..words.channels import reference_ms
from ..words.presenter import presenter_of
from ..words.spans import Column, Span, fitted, lay, part
from ..words.targets import holder_parts
from ..words.texts import ALL_IDLE, IN_FLIGHT, TableRecords
from ..words.windows import StepFacts, WindowGroup, further_steps, steps, waits_within, window_groups
from .target_screen import DetailScreen

_BAR, _WAITS = (6, 40), (21, 80)
_ROOMY = 80


class BlockersScreen(DetailScreen):
    """A row for each step of the staircase, the holder first; below, the windows by what they wait for.

    A click on a title does not sort: a step's gain includes the steps above it, so it is only true in this order.
    """

    NAME, OPEN = "Blockers", "blocker-open"
    READING = (
        "Each step is a channel (or several with the same watermark) that takes part in the minimum and is "
        "behind the fastest. gain: how far the watermark would advance at the next emit if this channel and all above "
        "it were idle; the bar shows the same, full at the fastest channel. frees: what ends the blocking. At most "
        "ten steps are listed. Below: open windows that wait for the same channels, as one group.\n"
    )

    def items(self, snapshot: Snapshot) -> Sequence[Item]:
        return [*self._steps(snapshot), *self._groups(snapshot)]

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        blockers = snapshot.blockers
        if blockers is None:
            return ()
        count = len(blockers) + further_steps(snapshot)
        return [(f"  {f.counted(count, 'step')}" if blockers else "  none", "dim")]

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        if not snapshot.blockers:
            return ()
        return [("▇", "holder"), (" gained when freed down to here", "dim")]

    def records(self) -> TableRecords:
        return TableRecords("blockers", self.snapshot.blockers or [])

    def _steps(self, snapshot: Snapshot) -> list[Item]:
        staircase = steps(snapshot)
        if not staircase:
            holder = holder_parts(snapshot) if snapshot.blockers is None else []
            first = [Item((partial(lay, holder),))] if holder else []
            return [*first, paragraph(_no_blocker(snapshot, bool(holder)))]
        whole = snapshot.level.behind_fastest_ms or max(facts.step.gain_ms or 0 for facts in staircase)
        numbered = list(enumerate(staircase, 1))
        items = table(
            _step_columns(whole),
            numbered,
            lambda row: None if (channel := _channel(row)) is None else f"step {channel}",
            details=lambda row: (partial(self._frees, row[1]),),
            name=_channel,
            opens=lambda row: None if (channel := _channel(row)) is None else partial(self.open_channel, channel),
        )
        further = further_steps(snapshot)
        return [*items, heading((f" and {f.counted(further, 'further step')}", "dim"))] if further else items

    def _frees(self, facts: StepFacts, width: int) -> list[Span]:
        at = facts.step.watermark_ms
        near = reference_ms(self.snapshot)
        time = f.NO_DATA if at is None else f.near(at, self.zone, near).partition(".")[0]
        head = "    frees: " if width < _ROOMY else "   frees: "
        whole, short = ((head, "dim"), (facts.frees, "text")), fitted(facts.frees, width - len(head))
        parts = (
            part(("    watermark ", "dim"), (time, "text"), rank=1, gap=""),
            part(*whole, gap="", short=((head, "dim"), (short, "text"))),
        )
        return lay(parts, width)

    def _groups(self, snapshot: Snapshot) -> list[Item]:
        opened = [window for window in snapshot.windows.open if window.blockers is not None]
        if not opened:
            return []
        items = [heading(), heading((" windows that wait for the same channels", "dim"))]
        items += table(
            self._group_columns(),
            window_groups(opened),
            lambda group: f"windows {group.first.start_ms} {group.end_ms}",
            name=self._times,
            opens=lambda group: partial(self.open_further, "Windows"),
        )[1:]
        return [*items, *more((snapshot.windows.open_count or 0) - len(snapshot.windows.open), " that end later")]

    def _times(self, group: WindowGroup) -> str:
        return f.interval(group.first.start_ms, group.end_ms, self.zone, self.snapshot.now_ms)

    def _group_columns(self) -> Sequence[Column[WindowGroup]]:
        return (
            Column("", lambda group: f.counted(len(group.windows), "window"), right=True, style=lambda group: "strong"),
            Column("", self._times),
            Column("", lambda group: f"{f.count(group.records)} rows", rank=1, right=True),
            Column("", lambda group: "", cells=_WAITS[0], most=_WAITS[1], draw=_waits),
        )


def _channel(row: tuple[int, StepFacts]) -> str | None:
    return next(iter(row[1].step.channels), None)


def _waits(group: WindowGroup, room: int) -> list[Span]:
    who = waits_within(group.first, room - len("wait for "))
    return [("fire at the next emit", "good")] if who is None else [("wait for ", "dim"), (who, "holder")]


def _no_blocker(snapshot: Snapshot, is_held: bool) -> str:
    """Why there are no steps; `is_held`: who holds back the watermark is shown above."""
    if is_held:
        return f"The steps after it and what frees them: {f.ELSEWHERE}"
    if snapshot.blockers is None:
        return presenter_of(snapshot).no("holders") if snapshot.one_clock else f"blockers: {f.ELSEWHERE}"
    if snapshot.level.holder is not None and snapshot.level.holder.cause == "in_flight":
        return IN_FLIGHT
    if snapshot.level.idle:
        return ALL_IDLE
    if not snapshot.channels:
        return presenter_of(snapshot).no("channels")
    return "No channel holds back the watermark: none that counts is behind the fastest"


def _step_columns(whole_ms: int) -> Sequence[Column[tuple[int, StepFacts]]]:
    """Number, channel, gain, as a bar its part of `whole_ms`, and why it is a step."""

    def style(row: tuple[int, StepFacts]) -> str:
        return "holder" if row[0] == 1 else "text"

    def bar(row: tuple[int, StepFacts], room: int) -> list[Span]:
        gained = row[1].step.gain_ms
        full = min(max(room * gained // whole_ms, 1), room) if gained and whole_ms else 0
        return [("▇" * full, "holder"), ("▁" * (room - full), "frame")]

    least, most = _BAR
    return (
        Column("", lambda row: str(row[0]), right=True, style=lambda row: "dim"),
        Column("channel", lambda row: row[1].who, style=style),
        Column("gain", lambda row: f.signed(row[1].step.gain_ms), right=True, style=lambda row: "strong"),
        Column("", lambda row: "", rank=2, cells=least, most=most, draw=bar),
        Column("", lambda row: row[1].why, rank=1, style=style),
    )
