"""The chain from the clock to the windows, and the tasks of a Flink job: the time of each, and what lags. Pure."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec import Struct

from ...engine.snapshot import ChannelState, ChannelView, InstanceView, Snapshot, StatefulOperator, WatermarkNode
from ...engine.snapshot.kinds.flink_job import FlinkVertex
from ...engine.text import formatting as f
from ...engine.text.codes import CHANNEL_STATES, OPERATORS, is_back_pressured, is_busy, unknown_text
from ...engine.text.formatting import name
from ...engine.verdict.blame import fastest_view, holding_channel
from ...engine.verdict.history import max_event_ms
from .barrel import PAUSED, STATES, Kind, holding_instance, kind_of, rank, valve_inputs
from .channels import by_name, reference_ms
from .texts import NO_OPEN_WINDOW
from .watermark import cause, output_words, window

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


def stages_of_run(snapshot: Snapshot, zone: tzinfo | None) -> list[Stage]:
    """The operators in the order in which records pass them, if the channels are known."""
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
        *_combined(snapshot, generated),
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


def _combined(snapshot: Snapshot, fastest: int | None) -> list[Stage]:
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
    why = f"held back by {name(holder.channel)}: {cause(snapshot)}" if holder else "no channel holds it back"
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


_NAME_CELLS = 28


def stages_of_job(snapshot: Snapshot) -> list[Stage]:
    """The tasks in the order of the plan; only the chosen operator's link names a channel."""
    tasks = {task.id: task for task in snapshot.job.vertices}
    stages = (
        _stage(snapshot, task, [tasks[id] for id in task.inputs if id in tasks]) for task in snapshot.job.vertices
    )
    return [clock_stage(snapshot), *stages]


def key_of(id: str) -> str:
    """The key of a task on a screen; it never equals a channel's."""
    return f"task {id}"


def _stage(snapshot: Snapshot, task: FlinkVertex, inputs: Sequence[FlinkVertex]) -> Stage:
    """A task; `upstream` is what holds it back: a task, or for the chosen operator and its sources the channel."""
    job, holder = snapshot.job, snapshot.level.holder
    # In flight: the holder is the operator itself, no channel is to blame.
    blamed = holder is not None and any(view.channel == holder.channel for view in snapshot.channels)
    holds, why, upstream = False, _lowest(inputs) if inputs else "behind the clock", None
    if inputs:
        # No watermark yet is the lowest; the end of the stream holds nothing back.
        open_ones = [one for one in inputs if one.status != "FINISHED"] or inputs
        upstream = key_of(min(open_ones, key=lambda one: (one.output_ms is not None, one.output_ms or 0)).id)
        fastest = [_fastest(one) for one in inputs]
        known = [time for time in fastest if time is not None]
        before = max(known) if len(known) == len(fastest) else None
    else:
        before = snapshot.now_ms
    if holder is not None and blamed and task.id in (job.operator, job.held_in):
        upstream = holder.channel
    if holder is not None and inputs and task.id == job.operator:
        holds, why = blamed, cause(snapshot)
        if blamed:
            subtask = ""
            if holder.instance is not None and snapshot.instances is not None:
                subtask = f" in {name(snapshot.instances[holder.instance].channel)}"
            why = f"held back by {name(holder.channel)}{subtask}: {why}"
    time_ms = task.input_ms if inputs else task.output_ms
    loads = ((is_back_pressured(task), "BACK-PRESSURED", task.back_pressured), (is_busy(task), "BUSY", task.busy))
    return Stage(
        f.label(task.name, _NAME_CELLS),
        time_ms,
        _what(task),
        gap(before, time_ms if inputs else _fastest(task)),
        why,
        holds,
        instead="ended" if task.status == "FINISHED" else f.NO_DATA,
        alarm=", ".join(f"{word} {f.share(load)}" for explains, word, load in loads if explains),
        key=key_of(task.id),
        upstream=upstream,
    )


def _lowest(inputs: Sequence[FlinkVertex]) -> str:
    """The input with the lowest watermark, as far as known."""
    known = [one for one in inputs if one.output_ms is not None]
    if len(known) < len(inputs):
        none = next(one for one in inputs if one.output_ms is None)
        return "" if none.status == "FINISHED" else f"no watermark from {f.label(none.name, _NAME_CELLS)}"
    low = min(known, key=lambda one: one.output_ms or 0)
    if len(inputs) == 1 and not low.spread_ms:
        return ""
    which = "" if low.slowest is None or low.parallelism == 1 else f" #{low.slowest}"
    return f"lowest input: {f.label(low.name, _NAME_CELLS)}{which}"


def _what(task: FlinkVertex) -> str:
    """Parallelism, state, spread of the outputs, drops, load."""
    parts = [f"×{task.parallelism}"]
    if task.status != "RUNNING":
        parts.append(task.status)
    if task.drift_ms is not None:
        side = "past" if task.drift_ms > 0 else "below"  # that it is past it does not prove that it is paused
        parts.append(f"{f.duration(abs(task.drift_ms))} {side} its alignment limit")
    rates = ((task.taken_per_second, "in"), (task.sent_per_second, "out"))
    parts += [f"{f.rate(rate)}/s {way}" for rate, way in rates if rate is not None and task.status == "RUNNING"]
    if task.late is None and task.late_at_least:
        parts.append(f"late drops {f.ELSEWHERE}")
    elif task.late or task.late_at_least:
        parts.append(f"{'≥ ' if task.late_at_least else ''}{f.count(task.late)} dropped as late")
    if task.spread_ms:
        slowest = "" if task.slowest is None else f", slowest #{task.slowest}"
        parts.append(f"outputs {f.duration(task.spread_ms)} apart{slowest}")
    if task.delay_ms:
        side = "behind" if task.delay_ms > 0 else "ahead of"
        parts.append(f"sends its watermark {f.duration(abs(task.delay_ms))} {side} its input")
    if task.output_ms is None and task.status == "RUNNING":
        parts.append("sends no watermark yet")
    return ", ".join(parts)


def _fastest(task: FlinkVertex) -> int | None:
    """The highest watermark that its subtasks send; None: not known."""
    return None if task.output_ms is None or task.spread_ms is None else task.output_ms + task.spread_ms


def delay_words(snapshot: Snapshot) -> str | None:
    """Note that channels' watermarks are shown as they arrive, after tasks that send them later; None: no task does."""
    delays = snapshot.job.delays
    if not delays:
        return None
    longest = max(delays.values(), key=abs)
    is_one = len(set(delays.values())) == 1 and len(delays) == len(snapshot.channels)
    amount = f.duration(abs(longest)) if is_one else f"up to {f.duration(abs(longest))}"
    side = "later" if longest > 0 else "earlier"
    return f"watermarks as they arrive: a task on the way sends them {amount} {side}"
