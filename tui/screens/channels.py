"""The channels in detail: what blocks the watermark, step by step; the operators and inputs; one channel alone."""

from collections.abc import Sequence
from functools import partial

from textual.app import ComposeResult

from ...engine.snapshot import ChannelView, Snapshot
from ...engine.text import formatting as f
from ...engine.verdict.blame import channel_named, holding_channel
from ..widgets.lateness_plot import LatenessPlot, LatenessScene
from ..widgets.lines import FactList, Prose, TextLine
from ..widgets.rows import Item, heading, more, paragraph, table
from ..words.barrel import instance_around, kind_of, rank
from ..words.channel_facts import facts
from ..words.channels import reference_ms
from ..words.keys import Hint, hint
from ..words.kinds import presenter_of
from ..words.late_records import About
from ..words.lateness import curve_of, place_of, shown
from ..words.operators import Row, Stage, rows
from ..words.recent import Moment, greatest
from ..words.spans import Column, Span, cells, fitted, lay, part, spark, value_column
from ..words.staircase import StepFacts, further_steps, steps
from ..words.texts import (
    ALL_IDLE,
    CHANNEL_GONE,
    CHANNELS_UNKNOWN,
    IN_FLIGHT,
    MAX_LATE_ONLY,
    NOT_BEHIND,
    Chosen,
    TableRecords,
    more_less_behind,
)
from ..words.windows import WindowGroup, waits_within, window_groups
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
            holder = presenter_of(snapshot).held_by() if snapshot.blockers is None else []
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
            Column("", lambda group: f.counted(group.records, "row"), rank=1, right=True),
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


_HELD, _LINK_BAR = 8, 12


class OperatorsScreen(DetailScreen):
    """The chain, and below it the inputs of the valve."""

    NAME, OPEN = "Operators", "operators-open"
    READING = (
        "From top to bottom, the way of a record; beside each operator is its own time. Between two of them: "
        "by how much the lower one is behind the upper one, and why. Their sum is how far the watermark is behind the "
        "clock. The valve's output is the minimum of its inputs that are not idle; they are listed below the chain, "
        "the one most behind first. With source instances (--subtasks) each is the minimum of its channels.\n"
        "For an attached query: its sources, its watermark nodes with their delays, the watermark of the query, "
        "and what its state keeps; dropped ≥ N is a lower bound.\n"
        "For a Flink job: its tasks in the order of the plan, with the watermark that each takes in (a source: sends), "
        "and by how much it is behind its fastest input. BUSY and BACK-PRESSURED tasks are marked: behind a busy one "
        "records wait, so its inputs are not to blame. Enter on a task goes one step upstream, to what holds it back: "
        "another task, and in the end the subtask and the split.\n"
        "For a target of a plug-in: below the inputs, the facts that only it reports.\n"
    )

    _opened: frozenset[str] = frozenset()

    def items(self, snapshot: Snapshot) -> Sequence[Item]:
        self._rows = {row.key: row for row in rows(snapshot, self._opened)}
        self._near_ms = reference_ms(snapshot)
        return [*self._chain(snapshot), *self._inputs(snapshot), *_facts(snapshot)]

    def records(self) -> TableRecords:
        return TableRecords("operators", list(self._rows.values()))

    def _toggle(self, instance: str) -> None:
        """Open or close a source instance."""
        self._opened = self._opened ^ {instance}
        self.repaint()

    def _walk(self, upstream: str) -> None:
        """Put the cursor on the cause that holds back the watermark; a channel's instance is opened first."""
        if upstream not in self._rows and (inside := instance_around(self.snapshot, upstream)) is not None:
            self._toggle(inside)
        self.sheet.go_to(upstream)

    def _chain(self, snapshot: Snapshot) -> list[Item]:
        chain = presenter_of(snapshot).stages(self.zone)
        most = max((stage.held_ms or 0 for stage in chain), default=0)
        least = max(len(stage.name) + 2 for stage in chain), max(len(self._time(stage)) for stage in chain)
        items: list[Item] = []
        for place, stage in enumerate(chain):
            if place:
                items.append(Item((partial(_link, stage, most),)))
            upstream = None if stage.upstream is None else partial(self._walk, stage.upstream)
            line = partial(self._stage, stage, least)
            items.append(Item((line,), stage.key, opens=upstream, word="upstream to the blocker"))
        return items

    def _time(self, stage: Stage) -> str:
        near_ms = self.snapshot.now_ms
        return stage.instead if stage.time_ms is None else f.clock(stage.time_ms, self.zone, near_ms).partition(".")[0]

    def _stage(self, stage: Stage, least: tuple[int, int], width: int) -> list[Span]:
        names, times = least
        time = self._time(stage)
        style = "level" if stage.name in ("valve", "one clock", "watermark") else "text"
        style = "dim" if stage.time_ms is None else style
        head: list[Span] = [(" ● ", "accent"), (f.pad(stage.name, names), "strong")]
        if time:
            head.append((f.pad(time, max(times, len(time))) + "  ", style))
        alarm: list[Span] = [(stage.alarm + "  ", "stale")] if stage.alarm else []
        what = fitted(stage.what, width - cells([*head, *alarm]))
        return [*head, *alarm, (what if what in stage.what or what.endswith(" …") else "", "dim")]

    def _inputs(self, snapshot: Snapshot) -> list[Item]:
        inputs = list(self._rows.values())
        if not inputs:
            return [heading(), heading((f" {presenter_of(snapshot).no('inputs')}", "dim"))]
        items = [heading()]
        if (note := presenter_of(snapshot).note_on_inputs()) is not None:
            items.append(heading((f" {note}", "dim")))
        items += table(
            self._columns(snapshot),
            inputs,
            lambda row: row.key,
            inside=lambda row: row.inside,
            opens=lambda row: partial(self.open_channel if row.channels is None else self._toggle, row.key),
            word=lambda row: (
                "channel" if row.channels is None else "close" if row.key in self._opened else "channels inside"
            ),
        )
        rest = len(snapshot.channels) - len(inputs) if snapshot.instances is None else 0
        return [*items, heading((f" {more_less_behind(rest)}", "dim"))] if rest > 0 else items

    def _columns(self, snapshot: Snapshot) -> Sequence[Column[Row]]:
        many = snapshot.instances is not None

        def time(row: Row) -> str:
            at = row.watermark_ms
            return f.NO_DATA if at is None else f.near(at, self.zone, self._near_ms).partition(".")[0]

        def channels(row: Row) -> str:
            return "" if row.channels is None else f"{row.channels:,}"

        def style(row: Row) -> str:
            return "holder" if row.kind == "holder" else "text"

        def state(row: Row) -> str:
            return style(row) if row.kind in ("holder", "catching_up") else "dim"

        inside = Column("channels", channels, rank=2, right=True, style=style, sort=lambda row: row.channels)
        return (
            Column("input", lambda row: "  " * row.inside + row.name, style=style, sort=lambda row: row.name),
            *([inside] if many else []),
            Column("watermark", time, style=style, sort=lambda row: row.watermark_ms),
            value_column("behind", lambda row: row.behind_ms, f.duration, rank=1, style=style),
            value_column("state", lambda row: row.words, str, rank=3, style=state),
        )


def _facts(snapshot: Snapshot) -> list[Item]:
    """The facts that only this target reports, a line each."""
    facts = presenter_of(snapshot).further_facts()
    names = max((len(name) for name, _ in facts), default=0)
    lines = [heading((f" {f.pad(name, names)}  ", "dim"), (value, "text")) for name, value in facts]
    return [heading(), *lines] if lines else []


def _link(stage: Stage, most: int, width: int) -> list[Span]:
    """The line between an operator and the one before it."""
    held = stage.held_ms
    spans: list[Span] = [(" │ ", "frame")]
    if held is None:
        indent = min(_HELD + _LINK_BAR + 3, max(width - len(stage.why) - 3, 2))
        return [*spans, (" " * indent, "dim"), (fitted(stage.why, width - indent - 3), "dim")]
    style = "holder" if stage.holds else "active"
    full = -(-_LINK_BAR * max(held, 0) // most) if most else 0
    words = f.signed(-held) if held else "0s"
    spans += [
        (f.pad(words, _HELD, right=True) + " ", "holder" if stage.holds else "strong"),
        ("▇" * full, style),
        (" " * (_LINK_BAR - full) + "  ", "dim"),
    ]
    return [*spans, (fitted(stage.why, width - cells(spans)), "text" if stage.holds else "dim")]


_BESIDE = 48
"""The cells beside a line of bars."""


class ChannelScreen(DetailScreen):
    """The selected channel; its last minutes are drawn as lines of bars."""

    NAME = "Channel"
    READING = (
        "First the state of the channel, then its counts since the start. Two lines of bars show at "
        "most the last 15 minutes, the newest at the right: how far the channel was ahead of the watermark, and for "
        "how long it had no data (a ramp ends with the next record). Below, how late its records are, if it is among "
        "the 16 channels with most late ones: the share is of those behind the watermark.\n"
    )

    def body(self) -> ComposeResult:
        yield Prose(id="explanation")
        yield FactList(id="facts")
        yield TextLine(id="ahead")
        yield TextLine(id="quiet")
        yield LatenessPlot(id="plot")

    @property
    def crumb(self) -> str:
        channel = self.shown.view.selected
        return self.NAME if channel is None else f.label(channel, 24)

    def show(self, snapshot: Snapshot) -> None:
        view = channel_named(snapshot, self.shown.view.selected)
        prose, table = self.query_one(Prose), self.query_one(FactList)
        if view is None:
            gone = CHANNEL_GONE if snapshot.channels else CHANNELS_UNKNOWN
            prose.show([(gone, "dim")])
            table.show([])
            self._show_curve(snapshot, None)
            return
        moments = self.recent.past.until(snapshot)
        prose.show(presenter_of(snapshot).channel_line(view))
        table.show(facts(snapshot, view, self.zone))
        table.styles.height = table.rows(self.size.width - 2)
        ahead = [_ahead(moment, view.channel) for moment in moments]
        quiet = [moment.quiet_ms(view.channel) for moment in moments]
        since_ms = moments[0].now_ms if moments else None
        self.query_one("#ahead").display = snapshot.target.has_watermark
        self._show_past("#ahead", "ahead of watermark", ahead, "level", since_ms)
        self._show_past("#quiet", "no data for", quiet, "idle", since_ms)
        self._show_curve(snapshot, view)

    def keys(self, snapshot: Snapshot) -> Sequence[Hint]:
        late = [] if channel_named(snapshot, self.shown.view.selected) is None else [hint("late-records")]
        return [*late, hint("channel-next")] if len(snapshot.channels) > 1 else late

    def records(self) -> TableRecords | None:
        view = channel_named(self.snapshot, self.shown.view.selected)
        return None if view is None else TableRecords("channel", [view])

    def chosen(self) -> Chosen | None:
        view = channel_named(self.snapshot, self.shown.view.selected)
        if view is None:
            return None
        reported = "".join(text for text, _ in presenter_of(self.snapshot).channel_line(view))
        return Chosen(f.clean(view.channel), f"{f.clean(view.channel)}: {reported}")

    def action_other(self, step: int) -> None:
        """Go to the page of the channel before or after, the most behind first."""
        snapshot = self.snapshot
        held = holding_channel(snapshot)
        order = sorted(
            snapshot.channels, key=lambda view: rank(kind_of(view.channel, view.state, held), view.watermark_ms)
        )
        names = [view.channel for view in order]
        if not names:
            return
        here = self.shown.view.selected
        place = names.index(here) + step if here in names else 0
        self.open_channel(names[place % len(names)])

    def action_late_records(self) -> None:
        """Open the last late records of the channel."""
        if (channel := self.shown.view.selected) is not None:
            self.open_late_records(About(channel))

    def _show_past(
        self, selector: str, what: str, past: Sequence[int | None], style: str, since_ms: int | None
    ) -> None:
        """A line of bars over all of the past that is kept; a bar is the greatest value of a stretch."""
        room = max(self.size.width - _BESIDE, 10)
        values = greatest(past, room)
        most = max((value for value in values if value is not None), default=None)
        bars = "".join(sign * max(room // len(values), 1) for sign in spark(values, most))
        line: list[Span] = [(f" {f.pad(what, 19)}", "dim"), (bars, style)]
        top = [part((f"≤{f.duration(most)}", "dim"), gap=" ")] if most is not None else []
        since = "" if since_ms is None else f" since {f.clock(since_ms, self.zone, self.snapshot.now_ms)}"
        self.query_one(selector, TextLine).show(
            [part(*line), *top, part((since.partition(".")[0], "dim"), rank=1, gap="")]
        )

    def _show_curve(self, snapshot: Snapshot, view: ChannelView | None) -> None:
        plot = self.query_one(LatenessPlot)
        curve = curve_of(snapshot, view.channel) if view is not None else None
        if curve is None:
            none = NOT_BEHIND if view and view.behind_watermark == 0 and view.records else MAX_LATE_ONLY
            plot.show(LatenessScene(empty="" if view is None or snapshot.whatif is None else none))
            return
        now = snapshot.settings.lateness_ms
        first, last = shown(curve, [now])
        plot.show(LatenessScene(curve, first, last, place_of(curve.edges, now or 0), now))


def _ahead(moment: Moment, channel: str) -> int | None:
    """How far the channel was ahead of the watermark (ms)."""
    time = moment.watermark_ms(channel)
    return None if time is None or moment.level_ms is None else max(time - moment.level_ms, 0)
