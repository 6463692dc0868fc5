"""The operators from the clock to the windows, each with its time, what lags, and the inputs of the valve. Pure."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec import Struct

from ...engine.snapshot import ChannelState, ChannelView, InstanceView, Snapshot, StatefulOperator, WatermarkNode
from ...engine.text import formatting as f
from ...engine.text.codes import CHANNEL_STATES, OPERATORS, unknown_text
from ...engine.text.formatting import name
from ...engine.verdict.blame import fastest_view, holding_channel
from ...engine.verdict.history import max_event_ms
from .barrel import PAUSED, STATES, Kind, holding_instance, kind_of, rank, valve_inputs
from .channels import by_name, reference_ms
from .output_mode import output_words
from .texts import NO_OPEN_WINDOW
from .watermark import window

MAX_ROWS = 300
"""Channels listed, at most."""


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
    instead: str = ""
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


def stages_of_run(snapshot: Snapshot, zone: tzinfo | None, cause: str) -> list[Stage]:
    """The operators in the order in which records pass them, if the channels are known; `cause` is the holder's."""
    source, settings, channels = snapshot.source, snapshot.settings, snapshot.channels
    newest, fastest = max_event_ms(snapshot), fastest_view(snapshot)
    read = gap(snapshot.now_ms, newest)
    age = "age of the newest record" if (read or 0) >= 0 else "newest record ahead of the clock"
    never = sum(view.state == "never_seen" for view in channels)
    read_from = "" if source is None else f.cut(f.clean(source.description), 40) + ", "
    what = f"{read_from}{f.counted(len(channels), 'channel')}" + (f", {never:,} never seen" if never else "")
    first = "" if fastest is None else f"; the fastest is {name(fastest.channel)}"
    by = f"lateness {f.setting(settings.lateness_ms)}" if settings.tunable else f"strategy {settings.strategy}"
    generated = None if fastest is None else fastest.watermark_ms
    strategy = f"{settings.strategy}, one a channel{first}"
    return [
        clock_stage(snapshot),
        Stage("source", newest, what, read, age, instead=f.NO_DATA),
        Stage("generators", generated, strategy, gap(newest, generated), by, instead=f.NO_DATA),
        *_combined(snapshot, generated, cause),
        windows_stage(snapshot, zone),
    ]


def clock_stage(snapshot: Snapshot) -> Stage:
    """The clock, at the head of the chain."""
    source = snapshot.source
    speed = "" if source is None or source.speed is None else f", ×{source.speed:g}"
    return Stage("clock", snapshot.now_ms, "processing time" + speed, instead=f.NO_DATA)


def rows(snapshot: Snapshot, opened: frozenset[str], most: int = MAX_ROWS) -> list[Row]:
    """The inputs of the valve, the most behind first, at most `most` channels; below an `opened` instance its own."""
    held, held_here = holding_channel(snapshot), holding_instance(snapshot)
    fastest = fastest_view(snapshot)
    fastest_ms = None if fastest is None else fastest.watermark_ms
    gain_ms = _gain_ms(snapshot, held if snapshot.instances is None else held_here)
    kinds: dict[str, Kind] = {row.view.channel: row.kind for row in by_name(snapshot, None)}

    def kind(view: ChannelView | InstanceView) -> Kind:
        return kinds[view.channel] if isinstance(view, ChannelView) else kind_of(view.channel, view.state, held_here)

    def listed(views: Sequence[ChannelView | InstanceView], *, inside: bool = False) -> list[Row]:
        return [
            Row(
                view.channel, f.label(view.channel), view.watermark_ms, gap(fastest_ms, view.watermark_ms), kind(view),
                _state_words(view, kind(view), None if inside else gain_ms),
                channels=view.channels if isinstance(view, InstanceView) else None, inside=inside,
            )
            for view in sorted(views, key=lambda view: rank(kind(view), view.watermark_ms))[:most]
        ]  # fmt: skip

    if snapshot.instances is None:
        return listed(snapshot.channels)
    numbers = {view.channel: view.instance for view in snapshot.instances}
    out: list[Row] = []
    for row in listed(snapshot.instances):
        inside = [one for one in snapshot.channels if row.key in opened and one.instance == numbers[row.key]]
        out += [row, *listed(inside, inside=True)]
    return out


def _gain_ms(snapshot: Snapshot, held: str | None) -> int | None:
    """How far the holder is behind the next input; None: not known."""
    rest = [view.watermark_ms for view in valve_inputs(snapshot) if view.state == "active" and view.channel != held]
    known, level = [watermark for watermark in rest if watermark is not None], snapshot.level.watermark_ms
    return None if level is None or not known else max(min(known) - level, 0)


def _state_words(view: ChannelView | InstanceView, kind: Kind, gain_ms: int | None) -> str:
    if kind == "holder":
        return "HOLDS" + (f", {f.duration(gain_ms)} behind the next" if gain_ms else "")
    if isinstance(view, ChannelView) and kind == "active" and view.held_back:
        return PAUSED
    if isinstance(view, ChannelView) and kind == "idle" and view.quiet_ms is not None:
        return f"idle {f.duration(view.quiet_ms)}, left out"
    return f"{STATES[kind]}, left out" if kind in ("idle", "catching_up") else STATES[kind]


def _combined(snapshot: Snapshot, fastest: int | None, cause: str) -> list[Stage]:
    """What combines the channels: source instances where there are some, then the valve, or Spark's one clock."""
    level, holder, out = snapshot.level, snapshot.level.holder, list[Stage]()
    before = fastest
    if snapshot.instances is not None:
        before = max((view.watermark_ms for view in snapshot.instances if view.watermark_ms is not None), default=None)
        why = "each waits for its slowest channel"
        what = f"{len(snapshot.instances):,}, each the minimum of its channels"
        out.append(Stage("instances", before, what, gap(fastest, before), why, instead=f.NO_DATA))
    instead = "ended" if snapshot.ended else f.NO_DATA
    time = None if snapshot.ended else level.watermark_ms
    held_ms = gap(before, time)
    if snapshot.one_clock:
        what, why = "the maximum of all channels: no valve, no idleness", "it follows the fastest channel"
        if (frozen := snapshot.spark.frozen_ms) is not None:
            what = "above all channels: a restart with a longer delay"
            why = f"advances again after {f.duration(frozen)} of event time"
        return [*out, Stage("one clock", time, what, held_ms, why, instead=instead)]
    views = valve_inputs(snapshot)
    left_out: tuple[ChannelState, ...] = ("idle", "catching_up")
    counts = [(sum(view.state == state for view in views), CHANNEL_STATES[state].short) for state in left_out]
    reported = ", ".join(f"{count:,} {word}" for count, word in counts if count)
    what = f"minimum of {f.counted(len(views), 'input')}" + (f"; {reported} left out" if reported else "")
    holder = None if snapshot.blockers == [] else holder  # the fastest channel itself holds back nothing
    why = f"held back by {name(holder.channel)}: {cause}" if holder else "no channel holds it back"
    return [*out, Stage("valve", time, what, held_ms, why, holder is not None, instead)]


def windows_stage(snapshot: Snapshot, zone: tzinfo | None) -> Stage:
    """The windows, at the end of the chain."""
    windows, settings = snapshot.windows, snapshot.settings
    counts = [
        (windows.open_count, "open"), (windows.fired, "fired"), (windows.late_firings, "late firings"),
        (snapshot.totals.late, "late drops"), (windows.kept or None, "ended and kept"),
    ]  # fmt: skip
    extra = f", {f.setting(settings.allowed_lateness_ms)} allowed" if settings.allowed_lateness_ms else ""
    spec = f"size {f.ELSEWHERE}" if settings.window is None else window(settings) + extra
    what = ", ".join([spec, *(f"{f.count(number)} {word}" for number, word in counts if number is not None)])
    instead = ""
    if windows.open_count is None:
        why, instead = unknown_text(windows.unknown, windows.unknown_args) or "", f.ELSEWHERE
    elif not windows.open:
        why, instead = NO_OPEN_WINDOW, "all closed" if snapshot.ended else ""
    elif (mode := output_words(snapshot)) is not None and snapshot.spark.output_mode != "append":
        why = mode
    elif any(node.pinned for node in snapshot.spark.nodes or ()) or snapshot.spark.never_moved:
        why = "no window can fire: the watermark is stuck at 1970"
    else:
        first = windows.open[0]
        ends = f.interval(first.start_ms, first.end_ms, zone, snapshot.now_ms)
        short = first.short_ms
        why = ends + (" is next" if short is None else f" is {f.duration(max(short, 0))} of event time short")
    return Stage("windows", None, what, why=why, instead=instead)


def gap(before: int | None, after: int | None) -> int | None:
    """How far `after` is behind `before` (ms)."""
    return None if before is None or after is None else before - after


def stages_of_query(snapshot: Snapshot, zone: tzinfo | None) -> list[Stage]:
    """Sources, watermark nodes, the query's watermark, its state, its windows; most may be unknown."""
    spark = snapshot.spark
    out = [clock_stage(snapshot)]
    for source in snapshot.sources or ():
        backlog = f.ELSEWHERE if source.backlog is None else f.counted(source.backlog, "record")
        out.append(Stage("source", None, f"{f.cut(f.clean(source.description), 60)}, backlog {backlog}"))
    if not snapshot.sources:
        what = "" if snapshot.source is None else f.clean(snapshot.source.description)
        out.append(Stage("source", None, what, instead=f.ELSEWHERE))
    out += [_node(node) for node in spark.nodes or ()]
    if spark.has_watermark is False:
        out.append(Stage("watermark", None, "this query has no watermark", instead="none"))
        return [*out, *_operators(snapshot), windows_stage(snapshot, zone)]
    if spark.nodes is None:
        delay = snapshot.settings.lateness_ms
        why = f"delay {f.ELSEWHERE if delay is None else f.setting(delay)}"
        out.append(Stage("watermark node", None, "withWatermark", why=why, instead=f.ELSEWHERE))
    level = snapshot.level.watermark_ms if spark.watermark_ms is None else spark.watermark_ms
    held = gap(snapshot.now_ms, level)
    side = "ahead of the clock" if (snapshot.level.behind_clock_ms or 0) < 0 else "behind the clock"
    if (nodes := len(spark.nodes or ())) > 1:
        word = {"min": "minimum", "max": "maximum", None: f"policy {f.ELSEWHERE}: the minimum by default"}
        side = f"{side}; the {word[spark.policy]} of {nodes} nodes"
    out.append(Stage("watermark", level, _in_force(snapshot, zone), held, side, instead=f.NO_DATA))
    return [*out, *_operators(snapshot), windows_stage(snapshot, zone)]


def _node(node: WatermarkNode) -> Stage:
    delay = f.ELSEWHERE if node.delay_ms is None else f.setting(node.delay_ms)
    column = "an unknown column" if node.column is None else f"column {name(node.column)}"
    stuck = {"no_input": "its input has no records", "own_output": "it waits for the query's own output"}
    if node.pinned is not None:
        why = f"{stuck[node.pinned]}, delay {delay}"
        return Stage("watermark node", None, column, why=why, holds=True, instead="1970")
    words = f"delay {delay}" + (", sets the watermark of the query" if node.holds else "")
    return Stage("watermark node", node.watermark_ms, column, why=words, holds=node.holds, instead=f.ELSEWHERE)


def _operators(snapshot: Snapshot) -> list[Stage]:
    """The stateful operators, those next to the sources first; one entry for all if they are not known."""
    known = snapshot.spark.operators or []
    one_entry = len(known) < 2
    counted = one_entry and any(one.rows is not None for one in known)
    state = [
        part for part in [*(map(_operator, known) if one_entry else ()), _state(snapshot, counted=counted)] if part
    ]
    stages = [] if one_entry else [Stage("state", None, _operator(one)) for one in reversed(known)]
    return [*stages, Stage("state", None, ", ".join(state), instead="" if state else f.ELSEWHERE)]


def _operator(one: StatefulOperator) -> str:
    mode = "" if one.output_mode is None else f" in {one.output_mode} mode"
    rows = "" if one.rows is None else f", {f.counted(one.rows, 'row')}"
    keeps = ", never removes state" if one.evicts is False and one.output_mode != "complete" else ""
    return f"{OPERATORS[one.kind]}{mode}{keeps}{rows}"


def _in_force(snapshot: Snapshot, zone: tzinfo | None) -> str:
    spark, batch = snapshot.spark, snapshot.batch
    what = "of the query, for the next batch"
    if spark.frozen_ms is not None:
        what = f"frozen after a restart: {f.duration(spark.frozen_ms)} of event time to go"
    number = "the last batch" if batch is None else f"batch {batch:,}"
    if spark.watermark_ms is None and snapshot.level.watermark_ms is not None:
        used_in = "an earlier batch" if spark.batch_watermark_ms is None else number
        return f"of the query, in {used_in}; the next {f.ELSEWHERE}"
    if spark.batch_watermark_ms is None or spark.batch_watermark_ms == spark.watermark_ms:
        return what
    return f"{what}; {number} used {f.near(spark.batch_watermark_ms, zone, reference_ms(snapshot))}"


def _state(snapshot: Snapshot, *, counted: bool = False) -> str:
    """The total state as reported; `counted`: its rows are shown already."""
    spark = snapshot.spark
    rows, size, lost = None if counted else spark.state_rows, spark.state_bytes, spark.dropped_at_least
    number = f.count if spark.dropped_exact else f.at_least
    reported = [
        None if rows is None else f.counted(rows, "row"),
        None if size is None else f"{size / 1_048_576:,.1f} MiB of memory",
        None if lost is None else f"dropped {number(lost)} row{'s' * (lost != 1)}",
    ]
    return ", ".join(words for words in reported if words is not None)
