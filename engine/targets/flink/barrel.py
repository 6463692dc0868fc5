"""The barrel of one operator of a Flink job, derived from two dumps of metrics. Pure.

A dump is not taken at one moment, so nothing is concluded from one alone: an input whose watermark is now below what
the operator had reached before takes no part in its minimum (Flink's `StatusWatermarkValve`), and inside a subtask a
split below what the subtask had sent before is idle (Flink's `WatermarkOutputMultiplexer`).
"""

from collections.abc import Iterator, Sequence
from types import MappingProxyType

from msgspec import Struct

from ...snapshot import Cause, ChannelState
from ...watermarks.times import MAX, MIN
from .branches import on_the_way
from .delays import Delays
from .inputs import Input, Upstream, level_of, upstream_of, vertex_in
from .samples import Sample, Split, VertexSample, time_of

NEW_MS = 60_000
"""Time (ms) after a job's start in which its first records may still be on their way."""
IDLE_STEP_MS = 5_000
"""Step (ms) in which Flink counts idle time: two samples must be this far apart."""
BACK_PRESSURED = 0.5
"""Share of time from which a subtask counts as back-pressured."""
BUSY = 0.8
"""Share of time from which a source subtask counts as reading as fast as it can."""
DUMP_MS = 1_000
"""Longest time (ms) between the values of one dump."""
PAUSED = 0.5
"""Share of the time between two samples from which a split counts as paused."""


class BarrelChannel(Struct, frozen=True):
    """A split, or an upstream subtask without splits; watermark in epoch ms, None: none yet."""

    name: str
    instance: int
    watermark_ms: int | None
    state: ChannelState
    quiet_ms: int | None = None
    cause: Cause | None = None
    """Why its watermark is not greater; None if it takes no part in the minimum."""
    paused: bool = False
    """Watermark alignment pauses it until slower ones catch up."""
    delay_ms: int = 0
    """How much later (ms) tasks on the way to the operator send its watermark; its own is greater by this."""
    split: tuple[str, str] | None = None
    """The ids of its source's vertex and of the split; None: a subtask without splits."""


class BarrelInstance(Struct, frozen=True):
    """An upstream subtask: an input of the operator's valve."""

    name: str
    watermark_ms: int | None
    state: ChannelState
    channels: int


class Held(Struct, frozen=True):
    """The channel that holds back the operator's watermark, and the cause; with `in_flight` no channel is to blame."""

    channel: str
    cause: Cause
    instance: int | None = None
    vertex: str | None = None
    """The id of the channel's vertex."""


class Barrel(Struct, frozen=True):
    """An operator's watermark (epoch ms, None: none yet) and the inputs that it is the minimum of."""

    operator: str
    """The vertex id."""
    watermark_ms: int | None
    ended: bool
    instances: tuple[BarrelInstance, ...]
    channels: tuple[BarrelChannel, ...]
    held: Held | None


def barrel_of(
    operator: VertexSample, now: Sample, before: Sample | None, delays: Delays = MappingProxyType({}),
    age_ms: int | None = None,
) -> Barrel:  # fmt: skip
    """The barrel of `operator` (of sample `now`); `before` is an older sample, IDLE_STEP_MS back if possible, and
    `delays` has how much later tasks send their watermark than they receive it. `age_ms` is how long the job has run.
    """
    now, before = on_the_way(operator, now, before)
    earlier = vertex_in(before, operator.vertex.id)
    level, level_before = level_of(operator), None if earlier is None else level_of(earlier)
    upstream = upstream_of(operator, now, before, delays)
    inputs = upstream.inputs
    channels: list[BarrelChannel] = []
    for number, one in enumerate(inputs):
        one.is_new = age_ms is None or age_ms < NEW_MS
        idle = _idle_splits(one)
        all_idle = all(idle.values()) if idle else _has_no_data(one)
        one.state = _state(one, level, level_before, all_idle=all_idle)
        channels += _channels(one, number, idle)
    part = [one for one in inputs if one.state == "active" and one.now.output is not None]
    outputs = [one.now.output for one in part if one.now.output is not None]
    # The operator's dump may be newer than its inputs': a minimum is never above its inputs.
    shown = min([level, *outputs]) if level is not None and level != MAX else level
    if shown is not None and level_before is not None and shown < level_before <= (level or MIN):
        shown = level_before
    ended = level == MAX
    return Barrel(
        operator=operator.vertex.id,
        watermark_ms=time_of(shown),
        ended=ended,
        instances=tuple(
            BarrelInstance(one.name, time_of(one.now.output), one.state, max(1, len(one.splits))) for one in inputs
        ),
        channels=tuple(channels),
        held=None if ended or level is None else _held(operator, level, upstream, part, channels),
    )


def _held(
    operator: VertexSample, level: int, upstream: Upstream, part: Sequence[Input], channels: list[BarrelChannel]
) -> Held | None:
    if not part:
        return None
    inputs = upstream.inputs
    before = [one.before.output for one in part if one.before is not None and one.before.output is not None]
    if len(before) == len(part) and level < min(before) and level != MIN:
        return Held(upstream.waits_in or operator.vertex.name, "in_flight")
    lowest = min(part, key=lambda one: MIN if one.now.output is None else one.now.output)
    if _waits_on_the_way(lowest):
        return Held(lowest.vertex, "in_flight")
    number = inputs.index(lowest)
    inside = [one for one in channels if one.instance == number and one.cause is not None]
    not_reported = any(one.state == "active" and one.now.output is None for one in inputs)
    if not inside or (not_reported and lowest.now.output is not None and lowest.now.output > level):
        return None  # an input that is missing from the dump may be the lowest
    channel = min(inside, key=lambda one: MIN if one.watermark_ms is None else one.watermark_ms)
    return Held(channel.name, channel.cause or "behind", number, lowest.source_id)


def _waits_on_the_way(one: Input) -> bool:
    """Whether all its splits were past its output in the earlier sample: then a vertex behind the source has records to
    process, and no split is to blame.
    """
    if one.source is one.now or one.now.output is None:
        return False
    splits = [split for split in one.splits if not _is_idle(split, one)]
    earlier = [one.splits_before.get(split.id) for split in splits]
    marks = [split.watermark for split in earlier if split is not None and split.watermark is not None]
    return bool(splits) and len(marks) == len(splits) and min(marks) > one.now.output


def _cause(one: Input, split: Split | None, state: ChannelState) -> Cause | None:
    """The most certain cause; REST does not report unread records, so `backlog` is never a cause."""
    if state not in ("active", "never_seen") or (one.not_assigned and one.is_new):
        return None
    before = one.splits_before.get(split.id) if split is not None else None
    if one.unmarked:
        return "no_watermark"
    if state == "never_seen":
        return "no_split" if one.no_split else "never_seen"
    if one.keeps_back:
        return "kept_back"
    if _is_paused(split, one):
        return "paused"
    if (one.source.back_pressured or 0) >= BACK_PRESSURED:
        return "back_pressured"
    if (one.source.source_idle_ms or 0) >= IDLE_STEP_MS:
        return "quiet"
    if one.not_assigned:
        return "stuck"
    if split is not None and before is not None:
        same = (split.watermark, split.offset) == (before.watermark, before.offset)
        if same:
            return "stuck" if split.offset is None else "quiet"
    if _stays_busy(one):
        return "slow_reader"
    return "stuck" if split is None and _stands(one) else "behind"


def _stands(one: Input) -> bool:
    """Whether its watermark has not moved between the samples, and they are far enough apart to say so."""
    return one.before is not None and one.apart_ms >= IDLE_STEP_MS and one.now.output == one.before.output


def _stays_busy(one: Input) -> bool:
    """Whether the source reads as fast as it can, in both samples: any source is busy for a moment."""
    return all(task is not None and (task.busy or 0) >= BUSY for task in (one.source, one.source_before))


def _is_paused(split: Split | None, one: Input) -> bool:
    """Whether watermark alignment pauses the split, or the whole subtask."""
    if (one.source.drift_ms or 0) > 0:
        return True
    if split is None:
        return False
    before = one.splits_before.get(split.id)
    if split.paused_share == 1.0:
        return True
    if before is None or split.paused_ms is None or before.paused_ms is None or one.apart_ms < IDLE_STEP_MS:
        return False
    return split.paused_ms - before.paused_ms >= PAUSED * one.apart_ms


def _state(one: Input, level: int | None, level_before: int | None, *, all_idle: bool) -> ChannelState:
    output = one.now.output
    if output == MAX or (one.vertex_ended and output is None):
        return "finished"
    if output is not None and _is_left_out(one, output, level, level_before, all_idle=all_idle):
        return "idle" if all_idle else "catching_up"
    return "active"


def _is_left_out(one: Input, output: int, level: int | None, level_before: int | None, *, all_idle: bool) -> bool:
    """Whether the operator's watermark has passed this input's, by more than what can pass within a dump."""
    if level_before is not None and output < level_before:
        return True
    if level is None or level == MAX or output >= level:
        return False
    if output == MIN:
        return True
    then = one.before.output if one.before is not None else None
    if then in (None, output) and (all_idle or one.apart_ms >= IDLE_STEP_MS):
        return True
    was_below = level_before is not None and then is not None and then < level_before
    return was_below and level - output > _passes_in_a_dump(one, level, level_before)


def _passes_in_a_dump(one: Input, now: int, before: int | None) -> int:
    """How far (ms) a watermark may advance while a dump is taken, at its speed between the samples."""
    if before is None or MIN in (now, before) or one.apart_ms <= 0:
        return DUMP_MS
    return max(DUMP_MS, (now - before) * DUMP_MS // one.apart_ms)


def _has_no_data(one: Input) -> bool:
    """Whether a subtask whose splits have no watermarks of their own reads nothing."""
    return (one.source.source_idle_ms or 0) >= IDLE_STEP_MS and not _is_paused(None, one)


def _idle_splits(one: Input) -> dict[str, bool]:
    """The splits left out of their subtask's minimum.

    One that was idle between the samples may be back: if all others are past what the subtask sends, it is a split that
    is not that holds the subtask back. One below what the subtask sends is idle where the subtask follows the others.
    """
    idle = {split.id: _is_idle(split, one) for split in one.splits}
    sent = one.now.output
    if sent is None or sent == MIN:
        return idle
    active = [s.watermark for s in one.splits if not idle[s.id] and s.watermark is not None and s.watermark >= sent]
    below = [s for s in one.splits if s.watermark is not None and s.watermark < sent]
    held_back = not active or min(active) > sent
    if active and held_back and not any(not idle[s.id] for s in below):
        idle |= {split.id: False for split in one.splits if split.watermark == sent}
        sent_before = one.before.output if one.before is not None else None
        if min(active) - sent > _passes_in_a_dump(one, sent, sent_before) and not any(
            split.watermark == sent for split in one.splits
        ):
            idle |= {split.id: False for split in below if split.idle_share != 1.0 or _has_moved(split, one)}
    if active and not held_back:
        idle |= {split.id: True for split in below if _may_be_idle(split, one)}
    return idle


def _has_moved(split: Split, one: Input) -> bool:
    """Whether its watermark has advanced between the samples, as that of an idle one never does."""
    before = one.splits_before.get(split.id)
    return before is not None and before.watermark != split.watermark


def _may_be_idle(split: Split, one: Input) -> bool:
    """Whether too little was seen of the split to say that it is active."""
    if split.idle_share is None or _is_paused(split, one):
        return False
    if split.watermark == MIN:
        return True
    seen = one.apart_ms >= IDLE_STEP_MS and split.id in one.splits_before
    return split.idle_share != 0.0 and not seen


def _is_idle(split: Split, one: Input) -> bool:
    """Whether the split is left out of its subtask's minimum."""
    is_below, went_on = _is_below(split, one), _went_on(split, one)
    if went_on:
        return True
    if is_below and went_on is False and _has_moved(split, one):
        return False  # it sends, and the subtask waits for it
    if _is_paused(split, one):
        return False  # Flink stops a paused split's idle timer
    if split.idle_share in (0.0, 1.0):
        return split.idle_share == 1.0
    before = one.splits_before.get(split.id)
    if one.apart_ms < IDLE_STEP_MS or before is None or split.idle_ms is None or before.idle_ms is None:
        return is_below
    return split.idle_ms > before.idle_ms


def _went_on(split: Split, one: Input) -> bool | None:
    """Whether its subtask has moved on without it, which it does only past an idle one; None: that was not seen."""
    sent, sent_before = one.now.output, one.before.output if one.before is not None else None
    if sent is None or sent_before is None or split.watermark is None:
        return None
    if sent == sent_before:
        return False
    stood = split.id in one.splits_before and not _has_moved(split, one)
    return split.watermark < (sent if stood else sent_before) <= sent != MIN


def _is_below(split: Split, one: Input) -> bool:
    """Whether it is below what its subtask had sent in the older sample: an active one keeps the subtask from moving
    on.
    """
    sent, sent_before = one.now.output, one.before.output if one.before is not None else None
    if split.watermark is None or sent is None or sent_before is None:
        return False
    return split.watermark < sent_before <= sent != MIN


def _channels(one: Input, number: int, idle: dict[str, bool]) -> Iterator[BarrelChannel]:
    if not one.splits:
        silent = one.state == "active" and one.now.output == MIN and not one.not_assigned
        unseen = silent and (one.no_split or not one.unmarked)
        state = "never_seen" if unseen else one.state
        paused = state == "active" and _is_paused(None, one)
        # It grows while alignment pauses the source, and while an operator chained to it waits.
        quiet_ms = None if paused or one.keeps_back else one.source.source_idle_ms
        cause = _cause(one, None, state)
        watermark_ms = time_of(one.now.output)
        yield BarrelChannel(one.name, number, watermark_ms, state, quiet_ms, cause, paused, one.delay_ms)
    for split in one.splits:
        state = _state_of_split(split, one, idle[split.id])
        paused = state == "active" and _is_paused(split, one)
        cause = _cause(one, split, state)
        blocked = paused or (one.source.back_pressured or 0) >= BACK_PRESSURED  # there may be unread data
        quiet_ms = None if blocked else _quiet_ms(split, one)
        watermark_ms = time_of(split.watermark)
        name, place = one.shown.get(split.id, split.id), (one.source_id, split.id)
        yield BarrelChannel(name, number, watermark_ms, state, quiet_ms, cause, paused, one.delay_ms, place)


def _quiet_ms(split: Split, one: Input) -> int | None:
    """How long, at least, nothing was read from the split; None: not known, since another split of its subtask
    is read.
    """
    whole = one.source.source_idle_ms or 0
    return max(whole, split.quiet_ms or 0) if whole >= IDLE_STEP_MS or split.quiet_ms is not None else None


def _state_of_split(split: Split, one: Input, is_idle: bool) -> ChannelState:
    if is_idle or one.state == "idle":
        return "idle"
    if split.watermark in (None, MIN) and split.offset is None and not one.unmarked:
        return "never_seen"
    return one.state
