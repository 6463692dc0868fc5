"""The states and causes of an operator's inputs, who holds back its watermark, and the steps to free it. Pure."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ...snapshot import Blocker, Cause, ChannelState, InstanceView
from ...verdict.blockers import steps_below
from ...watermarks.times import MAX, MIN
from .evidence import Evidence, InputEvidence, OperatorEvidence
from .rules import HOLDER_RULES, Minimum, first_match, is_paused, judged
from .samples import Unread, or_min

MAX_NAMED = 100
"""How many channels of a step are named."""


class Channel(Struct, frozen=True):
    """A split, or an upstream subtask without splits; watermark in epoch ms, None: none yet."""

    name: str
    subtask: int
    """The place of its subtask among the operator's inputs."""
    watermark_ms: int | None
    state: ChannelState
    quiet_ms: int | None
    """How long, at least, nothing was read from it; None: not known."""
    cause: Cause | None
    """Why its watermark is not greater; None if it takes no part in the minimum."""
    paused: bool
    """Watermark alignment pauses it until slower ones catch up."""
    delay_ms: int
    """How much later (ms) tasks on the way to the operator send its watermark; its own is greater by this."""
    unread: Unread | None


class HeldBackBy(Struct, frozen=True):
    """The channel that holds back the operator's watermark, and the cause; with `in_flight` no channel is to blame."""

    channel: str
    cause: Cause
    subtask: int | None = None
    vertex: str | None = None
    """The id of the channel's vertex."""


class Attribution(Struct, frozen=True):
    """An operator's watermark (epoch ms, None: none yet), its inputs, and who holds it back (None: not known, or no
    channel does).
    """

    operator: str
    """The vertex id."""
    watermark_ms: int | None
    ended: bool
    subtasks: tuple[InstanceView, ...]
    channels: tuple[Channel, ...]
    held_back_by: HeldBackBy | None
    blockers: list[Blocker] | None
    """The steps below the fastest input, the first holds back the watermark; None: not known. Empty: no input holds it
    back (the end of the stream, records in flight).
    """

    @property
    def has_subtasks(self) -> bool:
        """Whether any subtask has more than one channel."""
        return len(self.subtasks) != len(self.channels)


def time_of(watermark: int | None) -> int | None:
    """A watermark as a time (epoch ms); None for none yet, end of stream, and not in the dump."""
    return None if watermark in (None, MIN, MAX) else watermark


def attribution_of(evidence: Evidence) -> Attribution:
    """The states of all inputs and channels, and who holds back the operator's watermark."""
    states: list[ChannelState] = []
    channels: list[Channel] = []
    for place, input in enumerate(evidence.inputs):
        state, answers = judged(input)
        states.append(state)
        channels += _channels(input, place, answers)
    taking_part = _taking_part(evidence, states)
    watermark_ms = time_of(_shown_watermark(evidence.operator, taking_part))
    held_back_by = _held_back_by(evidence, states, channels, taking_part)
    ended = evidence.operator.watermark == MAX
    return Attribution(
        operator=evidence.operator.id,
        watermark_ms=watermark_ms,
        ended=ended,
        subtasks=tuple(
            InstanceView(place, input.subtask.name, time_of(input.subtask.sent), state, len(input.channels))
            for place, (input, state) in enumerate(zip(evidence.inputs, states, strict=True))
        ),
        channels=tuple(channels),
        held_back_by=held_back_by,
        blockers=[] if ended else _blockers(evidence, states, channels, held_back_by, watermark_ms),
    )


def _channels(
    input: InputEvidence, place: int, answers: Sequence[tuple[ChannelState, Cause | None]]
) -> Iterator[Channel]:
    for channel, (state, cause) in zip(input.channels, answers, strict=True):
        paused = state == "active" and is_paused(channel)
        yield Channel(
            name=channel.name,
            subtask=place,
            watermark_ms=time_of(channel.now.watermark),
            state=state,
            quiet_ms=None if paused else channel.quiet_ms,
            cause=cause,
            paused=paused,
            delay_ms=input.subtask.delay_ms,
            unread=channel.unread,
        )


def _taking_part(evidence: Evidence, states: Sequence[ChannelState]) -> list[tuple[int, int]]:
    """What the inputs in the minimum send, each with its place among all inputs."""
    pairs = enumerate(zip(evidence.inputs, states, strict=True))
    return [
        (sent, place)
        for place, (input, state) in pairs
        if state == "active" and (sent := input.subtask.sent) is not None
    ]


def _shown_watermark(operator: OperatorEvidence, taking_part: Sequence[tuple[int, int]]) -> int | None:
    """The operator's watermark, but not above its inputs: its dump may be newer than theirs, and a minimum is never
    above what it is taken of.
    """
    watermark, before = operator.watermark, operator.watermark_before
    if watermark is None or watermark == MAX:
        return watermark
    shown = min([watermark, *(sent for sent, _ in taking_part)])
    return before if before is not None and shown < before <= watermark else shown


def _held_back_by(
    evidence: Evidence, states: Sequence[ChannelState], channels: Sequence[Channel],
    taking_part: Sequence[tuple[int, int]],
) -> HeldBackBy | None:  # fmt: skip
    place = min(taking_part)[1] if taking_part else None
    suspects = [channel for channel in channels if channel.subtask == place and channel.cause is not None]
    pairs = zip(evidence.inputs, states, strict=True)
    minimum = Minimum(
        operator=evidence.operator,
        part=[evidence.inputs[place] for _, place in taking_part],
        lowest=None if place is None else evidence.inputs[place],
        is_input_missing=any(state == "active" and input.subtask.sent is None for input, state in pairs),
        has_suspect=bool(suspects),
    )
    suspect = first_match(HOLDER_RULES, minimum)
    if suspect == "no channel" or minimum.lowest is None:
        return None
    if suspect == "operator":
        return HeldBackBy(evidence.operator.waits_in or evidence.operator.name, "in_flight")
    if suspect == "task on the way":
        return HeldBackBy(minimum.lowest.subtask.vertex, "in_flight")
    channel = min(suspects, key=lambda channel: or_min(channel.watermark_ms))
    return HeldBackBy(channel.name, channel.cause or "behind", place, minimum.lowest.subtask.source_id)


def _blockers(
    evidence: Evidence, states: Sequence[ChannelState], channels: Sequence[Channel], holder: HeldBackBy | None,
    watermark_ms: int | None,
) -> list[Blocker] | None:  # fmt: skip
    """The steps. A split counts with its subtask's watermark if that is greater: a watermark never goes back."""
    if holder is None:
        return None
    if holder.subtask is None:
        return []
    # The lowest channel in the minimum first; of equal ones the holder first.
    part: list[tuple[int, bool, int, str, int]] = []
    for number, channel in enumerate(channels):
        if states[channel.subtask] == "active" and channel.state in ("active", "never_seen"):
            own, sent = or_min(channel.watermark_ms), or_min(time_of(evidence.inputs[channel.subtask].subtask.sent))
            part.append((max(own, sent), channel.name != holder.channel, own, channel.name, number))
    # The watermark after all inputs in the minimum have turned idle; not known while an active one has not caught up.
    known = [or_min(channel.watermark_ms) for channel in channels if channel.state != "finished"]
    flushed = max(known, default=None) if "catching_up" not in states else None
    return [
        Blocker(
            channels=[channels[number].name for number in step.channels[:MAX_NAMED]],
            gain_ms=step.gain_ms,
            watermark_ms=None if step.watermark == MIN else step.watermark,
            cause=channels[step.channels[0]].cause or "behind",
            channel_count=len(step.channels),
        )
        for step in steps_below(((place[0], place[-1]) for place in sorted(part)), or_min(watermark_ms), flushed)
    ]
