"""The chain from the clock to the windows: each operator's own time, and how far each link holds back. Pure."""

from collections.abc import Sequence
from datetime import tzinfo
from typing import TypeVar

from msgspec import Struct

from ...engine.core.history import max_event_ms
from ...engine.core.snapshot import ChannelState, ChannelView, InstanceView, Snapshot
from . import formatting as f
from .query_words import output_words
from .screen_words import NO_OPEN_WINDOW
from .staves import PAUSED, Kind, holding, holding_instance, kind_of, rank
from .target import target_of
from .windows_unknown import unknown_text
from .wording import cause, name, window

MAX_ROWS = 300
"""Channels listed, at most."""
_View = TypeVar("_View", ChannelView, InstanceView)


class Stage(Struct, frozen=True):
    """One operator: its name, its time (epoch ms) or a text in its place, its description, and the link to it."""

    name: str
    time_ms: int | None
    what: str
    held_ms: int | None = None
    """How far its time is behind the previous operator's."""
    why: str = ""
    """The cause, or what is known about the link."""
    holds: bool = False
    """The link holds back the watermark, and one channel is the cause."""
    stands_for: str = ""
    """Shown instead of an unknown time."""
    alarm: str = ""
    """A problem of the operator itself, shown before `what`."""
    key: str | None = None
    """The key of a Flink task, for the cursor."""
    upstream: str | None = None
    """The key of the task, or the barrel's input, that holds this task back."""


class Row(Struct, frozen=True):
    """An input of the valve, or a channel inside it: its state."""

    key: str
    name: str
    watermark_ms: int | None
    behind_ms: int | None
    """How far it is behind the fastest."""
    kind: Kind
    words: str
    channels: int | None = None
    """How many channels are inside; None for a channel."""
    inside: bool = False


def stages_of_run(snapshot: Snapshot, zone: tzinfo | None) -> list[Stage]:
    """The operators in the order in which records pass them, if the channels are known."""
    newest = max_event_ms(snapshot)
    fastest = max((v.watermark_ms for v in snapshot.channels if v.watermark_ms is not None), default=None)
    read = gap(snapshot.now_ms, newest)
    age = "age of the newest record" if (read or 0) >= 0 else "the newest record is ahead of the clock"
    chain = [
        clock_stage(snapshot),
        Stage("source", newest, _channels(snapshot), read, age, stands_for=f.NO_DATA),
        Stage("generators", fastest, _strategy(snapshot), gap(newest, fastest), _lateness(snapshot),
              stands_for=f.NO_DATA),
    ]  # fmt: skip
    return [*chain, *_combined(snapshot, fastest), windows_stage(snapshot, zone)]


def clock_stage(snapshot: Snapshot) -> Stage:
    """The clock, at the head of the chain."""
    source = snapshot.source
    speed = "" if source is None or source.speed is None else f", ×{source.speed:g}"
    return Stage("clock", snapshot.now_ms, "processing time" + speed, stands_for=f.NO_DATA)


def rows(snapshot: Snapshot, opened: frozenset[str], most: int = MAX_ROWS) -> list[Row]:
    """The inputs of the valve, the most behind first, at most `most` channels; below an instance that is `opened` the
    channels inside it.
    """
    inputs = _Inputs(snapshot)
    if snapshot.instances is None:
        return [inputs.channel(view) for view in inputs.sorted(snapshot.channels)[:most]]
    out: list[Row] = []
    for view in inputs.sorted(snapshot.instances):
        out.append(inputs.instance(view))
        if view.channel in opened:
            inside = [one for one in snapshot.channels if one.instance == view.instance]
            out += [inputs.channel(one, inside=True) for one in inputs.sorted(inside)[:most]]
    return out


def _combined(snapshot: Snapshot, fastest: int | None) -> list[Stage]:
    """What combines the channels: source instances where there are some, then the valve, or Spark's one clock."""
    level, out = snapshot.level, list[Stage]()
    before = fastest
    if snapshot.instances is not None:
        known = [view.watermark_ms for view in snapshot.instances if view.watermark_ms is not None]
        before = max(known, default=None)
        why = "each waits for its slowest channel"
        what = f"{len(snapshot.instances):,}, each the minimum of its channels"
        out.append(Stage("instances", before, what, gap(fastest, before), why, stands_for=f.NO_DATA))
    stands_for = "ended" if snapshot.ended else f.NO_DATA
    time = None if snapshot.ended else level.watermark_ms
    held_ms = gap(before, time)
    if target_of(snapshot).one_clock:
        what, why = "the maximum of all channels: no valve, no idleness", "it follows the fastest channel"
        if (frozen := snapshot.spark.frozen_ms) is not None:
            what = "above all channels: a restart with a longer delay"
            why = f"frozen until the records catch up: {f.duration(frozen)} of event time to go"
        return [*out, Stage("one clock", time, what, held_ms, why, stands_for=stands_for)]
    holder = level.holder
    why = f"held back by {name(holder.channel)}: {cause(snapshot)}" if holder else "no channel holds it back"
    return [*out, Stage("valve", time, _inputs(snapshot), held_ms, why, holder is not None, stands_for)]


def _inputs(snapshot: Snapshot) -> str:
    views = _valve_inputs(snapshot)
    words = f"minimum of {f.counted(len(views), 'input')}"
    left_out: tuple[tuple[ChannelState, str], ...] = (("idle", "idle"), ("catching_up", "realigning"))
    counts = [(sum(view.state == state for view in views), word) for state, word in left_out]
    reported = [f"{count:,} {word}" for count, word in counts if count]
    return words + (f"; left out: {', '.join(reported)}" if reported else "")


def _valve_inputs(snapshot: Snapshot) -> Sequence[ChannelView | InstanceView]:
    return snapshot.channels if snapshot.instances is None else snapshot.instances


def windows_stage(snapshot: Snapshot, zone: tzinfo | None) -> Stage:
    """The windows, at the end of the chain."""
    windows, settings = snapshot.windows, snapshot.settings
    counts = [(windows.open_count, "open"), (windows.fired, "fired"), (windows.late_firings, "late firings")]
    reported = [f"{f.count(number)} {word}" for number, word in counts if number is not None]
    reported += [] if snapshot.totals.late is None else [f"{f.count(snapshot.totals.late)} late drops"]
    extra = f", {f.setting(settings.allowed_lateness_ms)} allowed" if settings.allowed_lateness_ms else ""
    spec = f"size {f.ELSEWHERE}" if settings.window is None else window(settings) + extra
    what = ", ".join([spec, *reported])
    if windows.kept:
        what = f"{what}, {f.count(windows.kept)} ended and kept"
    if windows.open_count is None:
        return Stage(
            "windows", None, what, why=unknown_text(windows.unknown, windows.unknown_args) or "", stands_for=f.ELSEWHERE
        )
    if not windows.open:
        return Stage("windows", None, what, why=NO_OPEN_WINDOW, stands_for="all closed" if snapshot.ended else "")
    if (mode := output_words(snapshot)) is not None and snapshot.spark.output_mode != "append":
        return Stage("windows", None, what, why=mode)
    if any(node.pinned for node in snapshot.spark.nodes or ()) or snapshot.spark.never_moved:
        return Stage("windows", None, what, why="no window can fire: the watermark is stuck at 1970")
    first = windows.open[0]
    short = " is next" if first.short_ms is None else f" is {f.duration(max(first.short_ms, 0))} of event time short"
    ends = f.interval(first.start_ms, first.end_ms, zone, snapshot.now_ms)
    return Stage("windows", None, what, why=ends + short)


def _channels(snapshot: Snapshot) -> str:
    source, seen = snapshot.source, sum(view.state != "never_seen" for view in snapshot.channels)
    what = "" if source is None else f.cut(f.clean(source.description), 40) + ", "
    never = len(snapshot.channels) - seen
    return f"{what}{f.counted(len(snapshot.channels), 'channel')}" + (f", {never:,} never seen" if never else "")


def _strategy(snapshot: Snapshot) -> str:
    known = [view for view in snapshot.channels if view.watermark_ms is not None]
    fastest = max(known, key=lambda view: view.watermark_ms or 0, default=None)
    words = f"{snapshot.settings.strategy}, one a channel"
    return words if fastest is None else f"{words}; the fastest is {name(fastest.channel)}"


def _lateness(snapshot: Snapshot) -> str:
    settings = snapshot.settings
    return f"lateness {f.setting(settings.lateness_ms)}" if settings.tunable else f"strategy {settings.strategy}"


class _Inputs:
    """The values that all rows share, computed once: there may be thousands of rows."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._held = holding(snapshot)
        self._held_instance = holding_instance(snapshot)
        self._fastest = max((v.watermark_ms for v in snapshot.channels if v.watermark_ms is not None), default=None)
        held = self._held if snapshot.instances is None else self._held_instance
        rest = [v.watermark_ms for v in _valve_inputs(snapshot) if v.state == "active" and v.channel != held]
        known = [watermark for watermark in rest if watermark is not None]
        level = snapshot.level.watermark_ms
        self._gain_ms = None if level is None or not known else max(min(known) - level, 0)

    def sorted(self, views: Sequence[_View]) -> list[_View]:
        """The most behind first."""
        return sorted(views, key=lambda view: rank(self._kind(view), view.watermark_ms))

    def channel(self, view: ChannelView, *, inside: bool = False) -> Row:
        """A channel's row."""
        kind, behind = self._kind(view), gap(self._fastest, view.watermark_ms)
        words = "HOLDS" if inside and kind == "holder" else self._standing(kind, view.quiet_ms)
        words = PAUSED if view.held_back and kind == "active" else words
        return Row(view.channel, f.label(view.channel), view.watermark_ms, behind, kind, words, inside=inside)

    def instance(self, view: InstanceView) -> Row:
        """A source instance's row."""
        kind, behind = self._kind(view), gap(self._fastest, view.watermark_ms)
        words = self._standing(kind, None)
        return Row(view.channel, view.channel, view.watermark_ms, behind, kind, words, channels=view.channels)

    def _kind(self, view: ChannelView | InstanceView) -> Kind:
        held = self._held if isinstance(view, ChannelView) else self._held_instance
        return kind_of(view.channel, view.state, held)

    def _standing(self, kind: Kind, quiet_ms: int | None) -> str:
        if kind == "holder":
            return "HOLDS" + ("" if self._gain_ms is None else f", {f.duration(self._gain_ms)} behind the next")
        if kind == "idle" and quiet_ms is not None:
            return f"idle {f.duration(quiet_ms)}, left out"
        return {"idle": "idle, left out", "catching_up": "realigning, left out"}.get(kind, kind.replace("_", " "))


def held_instance(snapshot: Snapshot, channel: str) -> str | None:
    """The row of the instance that a channel is in."""
    number = next((view.instance for view in snapshot.channels if view.channel == channel), None)
    return next((view.channel for view in snapshot.instances or () if view.instance == number), None)


def gap(before: int | None, after: int | None) -> int | None:
    """How far `after` is behind `before` (ms)."""
    return None if before is None or after is None else before - after
