"""Operators: the chain from source to windows, the time of each, how far each holds back, and the inputs."""

from collections.abc import Sequence
from functools import partial

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ..widgets.rows import Item, heading, table
from ..words.channels import reference_ms
from ..words.operators import Row, Stage, delay_words, held_instance, rows
from ..words.presenter import presenter_of
from ..words.spans import Column, Span, cells, fitted
from ..words.texts import NO_CHANNEL, TAP_SHOWS_CHANNELS, TableRecords, more_less_behind
from ..words.watermark import channels_known, fact_text, facts_of_plugin
from .target_screen import DetailScreen

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
        if upstream not in self._rows and (inside := held_instance(self.snapshot, upstream)) is not None:
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
        if not channels_known(snapshot):
            return [heading(), heading((f" {TAP_SHOWS_CHANNELS}", "dim"))]
        inputs = list(self._rows.values())
        if not inputs:
            return [heading(), heading((f" {NO_CHANNEL}", "dim"))]
        items = [heading()]
        if (delay := delay_words(snapshot)) is not None:
            items.append(heading((f" {delay}", "dim")))
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
            Column(
                "behind", lambda row: f.duration(row.behind_ms), rank=1, style=style, sort=lambda row: row.behind_ms
            ),
            Column("state", lambda row: row.words, rank=3, style=state, sort=lambda row: row.words),
        )


def _facts(snapshot: Snapshot) -> list[Item]:
    """The facts of a plug-in's target, a line each."""
    facts = facts_of_plugin(snapshot)
    names = max((len(f.label(fact.name)) for fact in facts), default=0)
    lines = [heading((f" {f.pad(f.label(fact.name), names)}  ", "dim"), (fact_text(fact), "text")) for fact in facts]
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
