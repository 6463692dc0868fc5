"""The blockers: the channels that hold back the watermark, step by step, and what frees them."""

from collections.abc import Sequence
from functools import partial

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ..widgets.rows import Item, column_cells, heading, paragraph, titles
from ..words.channels import reference_ms
from ..words.presenter import presenter_of
from ..words.spans import Span
from ..words.texts import IN_FLIGHT, TableRecords
from ..words.windows import StepFacts, WindowGroup, steps, waits_for, window_groups
from .target_screen import DetailScreen

_WHO, _GAIN = (8, 30), 8
_BAR = (6, 40)


class BlockersScreen(DetailScreen):
    """A row for each step of the staircase, the holder first; below, the windows by what they wait for.

    A click on a title does not sort: a step's gain includes the steps above it, so it is only true in this order.
    """

    NAME, OPEN = "Blockers", "blocker-open"
    READING = (
        "Each step is a channel (or several with the same watermark) that takes part in the minimum and is "
        "behind the fastest. gain: how far the watermark would advance at the next emit if this channel and all above "
        "it were idle; the bar shows the same, full at the last step. frees: what makes the channel stop blocking. At "
        "most ten steps are listed. Below: open windows that wait for the same channels, as one group.\n"
    )

    def items(self, snapshot: Snapshot) -> Sequence[Item]:
        return [*self._steps(snapshot), *self._groups(snapshot)]

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        blockers = snapshot.blockers
        if blockers is None:
            return ()
        return [(f"  {f.counted(len(blockers), 'step')}" if blockers else "  none", "dim")]

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        if not snapshot.blockers:
            return ()
        return [("▇", "holder"), (" gained when freed down to here", "dim")]

    def records(self) -> TableRecords:
        return TableRecords("blockers", self.snapshot.blockers or [])

    def _steps(self, snapshot: Snapshot) -> list[Item]:
        staircase = steps(snapshot)
        if not staircase:
            return [paragraph(_no_blocker(snapshot))]
        names = column_cells((facts.who for facts in staircase), *_WHO)
        most = max(facts.step.gain_ms or 0 for facts in staircase)
        items = [titles(f"    {f.pad('channel', names)}  {f.pad('gain', _GAIN, right=True)}")]
        for place, facts in enumerate(staircase, 1):
            lines = (partial(_step, place, facts, names, most), partial(self._frees, facts))
            channel = facts.step.channels[0] if facts.step.channels else None
            key, opens = (None, None) if channel is None else (f"step {channel}", partial(self.open_known, channel))
            items.append(Item(lines, key, name=channel, opens=opens))
        return items

    def _frees(self, facts: StepFacts, width: int) -> list[Span]:
        at = facts.step.watermark_ms
        near = reference_ms(self.snapshot)
        time = f.NO_DATA if at is None else f.near(at, self.zone, near).partition(".")[0]
        return [("    watermark ", "dim"), (time, "text"), ("   frees: ", "dim"), (facts.frees, "text")]

    def _groups(self, snapshot: Snapshot) -> list[Item]:
        opened = [window for window in snapshot.windows.open if window.blockers is not None]
        if not opened:
            return []
        items = [heading(), heading((" windows that wait for the same channels", "dim"))]
        for group in window_groups(opened):
            key, opens = f"windows {group.first.start_ms} {group.end_ms}", partial(self.open_further, "Windows")
            items.append(Item((partial(self._group, group),), key, name=self._times(group), opens=opens))
        later = (snapshot.windows.open_count or 0) - len(snapshot.windows.open)
        return [*items, heading((f" and {later:,} more that end later", "dim"))] if later > 0 else items

    def _times(self, group: WindowGroup) -> str:
        return f.interval(group.first.start_ms, group.end_ms, self.zone, self.snapshot.now_ms)

    def _group(self, group: WindowGroup, width: int) -> list[Span]:
        count = len(group.windows)
        who = waits_for(group.first)
        return [
            (f" {count:>4,} window{'s' if count != 1 else ' '}  ", "strong"),
            (f.pad(self._times(group), 24), "text"),
            (f"  {f.pad(f.count(group.records), 8, right=True)} rows  ", "text"),
            *([("fire at the next emit", "good")] if who is None else [("wait for ", "dim"), (who, "holder")]),
        ]


def _no_blocker(snapshot: Snapshot) -> str:
    if snapshot.blockers is None:
        return presenter_of(snapshot).no_holders() if snapshot.one_clock else f"blockers: {f.ELSEWHERE}"
    if snapshot.level.holder is not None and snapshot.level.holder.cause == "in_flight":
        return IN_FLIGHT
    if snapshot.level.idle:
        return "All channels are idle; the watermark is frozen until new data arrives"
    return "No channel holds back the watermark: none that counts is behind the fastest"


def _step(place: int, facts: StepFacts, names: int, most: int, width: int) -> list[Span]:
    gain = facts.step.gain_ms
    room = max(min(width - names - _GAIN - 8 - len(facts.why) - 3, _BAR[1]), _BAR[0])
    full = 0 if not gain or not most else max(room * gain // most, 1)
    style = "holder" if place == 1 else "text"
    return [
        (f" {place:>2} ", "dim"),
        (f.pad(facts.who, names), style),
        (f"  {f.pad(f.UNKNOWN if gain is None else f.signed(gain), _GAIN, right=True)}  ", "strong"),
        ("▇" * full, "holder"),
        ("▁" * (room - full), "frame"),
        (f"  {facts.why}", style),
    ]
