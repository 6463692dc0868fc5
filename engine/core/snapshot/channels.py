"""Channels, source instances, and a sample of their records."""

from typing import Literal

from msgspec import Struct

ChannelState = Literal["active", "catching_up", "idle", "never_seen", "finished"]


class ChannelView(Struct, frozen=True, gc=False):
    """One channel: a Kafka partition, a source split, a key of the data."""

    channel: str
    watermark_ms: int | None
    max_event_ms: int | None
    """Greatest event time that its generator has seen."""
    state: ChannelState
    records: int | None = 0
    behind_watermark: int | None = 0
    late: int | None = 0
    malformed: int | None = 0
    future: int | None = 0
    backlog: int | None = None
    """Records of it that are not read yet."""
    behind_end_ms: int | None = None
    """How far its greatest event time is behind that of what is not read yet."""
    held_back: bool = False
    """Balanced reading, or Flink's watermark alignment, keeps it waiting for slower ones."""
    quiet_ms: int | None = None
    longest_quiet_ms: int | None = None
    """The longest time between two of its records (processing time), the present one not counted."""
    flaps: int = 0
    round_ms: int | None = None
    """How long it has lately taken from one idleness to the next (processing time), while there was more than one."""
    rate: float | None = None
    """Records per second of wall-clock time."""
    since_ms: int | None = None
    """When (processing time, epoch ms) its watermark last changed."""
    instance: int | None = None
    """The source instance it belongs to (`--subtasks`)."""
    timer_ms: int | None = None
    """Time on its inactivity clock (processing time); None: the clock does not run."""
    aligned: bool | None = None
    """It takes part in the minimum (of an instance: the instance does, and it is not idle); None: without a valve."""
    idle: bool = False
    """Its status is IDLE, also where it was never seen."""
    at_zero_lateness_ms: int | None = None
    """What its generator would emit now at lateness 0; None before a record, or for a strategy without lateness."""


class Folded(Struct, frozen=True):
    """The channels beyond `--max-channels`, which share the channel `into`, and how many records they had."""

    into: str
    channels: int
    at_least: bool
    """There are more: only so many are counted."""
    records: int


class InstanceView(Struct, frozen=True):
    """One source instance (`--subtasks`): its channels combined, an input of the valve."""

    instance: int
    channel: str
    """What the barrel writes under its stave: `#0`."""
    watermark_ms: int | None
    state: ChannelState
    channels: int
    aligned: bool | None = None
    since_ms: int | None = None
    """When (processing time, epoch ms) its watermark last changed."""


class TimePoint(Struct, frozen=True, array_like=True, gc=False):
    """A real record: processing time of its batch, its event time (epoch ms), and whether its window had closed."""

    now_ms: int
    event_ms: int
    channel: str
    late: bool = False


class Totals(Struct, frozen=True):
    """Counts of records since the start; of an attached query, most are not known."""

    records: int | None = 0
    behind_watermark: int | None = 0
    late: int | None = 0
    malformed: int | None = 0
    future: int | None = 0
    no_window: int | None = 0


class Offender(Struct, frozen=True):
    """The last record set aside: its channel, its position in the source, and the timestamp it claimed."""

    channel: str
    offset: int | None
    timestamp_ms: int | None
    part: str | None = None
    """The part of the source (`topic-partition`) that the offset belongs to, where the channel does not say it."""
