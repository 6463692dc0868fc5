"""Channels, source instances, and a sample of their records."""

from typing import Literal

from msgspec import Struct

ChannelState = Literal["active", "catching_up", "idle", "never_seen", "finished"]


class ChannelView(Struct, frozen=True, gc=False):
    """One channel: a Kafka partition, a source split, a key of the data."""

    channel: str
    watermark_ms: int | None
    max_event_ms: int | None
    """Greatest event time that the channel's generator has received."""
    state: ChannelState
    records: int | None = 0
    behind_watermark: int | None = 0
    late: int | None = 0
    malformed: int | None = 0
    future: int | None = 0
    backlog: int | None = None
    """Its unread records."""
    behind_end_ms: int | None = None
    """How far its greatest event time is behind that of its unread records."""
    held_back: bool = False
    """Balanced reading, or Flink's watermark alignment, pauses it until slower channels catch up."""
    quiet_ms: int | None = None
    longest_quiet_ms: int | None = None
    """The longest completed pause between two of its records (processing time)."""
    flaps: int | None = 0
    """How often its status changed between active and idle; None: not known."""
    round_ms: int | None = None
    """Its usual time from one idle status to the next (processing time); None before the second one."""
    rate: float | None = None
    """Records per second of wall-clock time."""
    since_ms: int | None = None
    """When (processing time, epoch ms) its watermark last changed."""
    instance: int | None = None
    """The source instance it belongs to (`--subtasks`)."""
    timer_ms: int | None = None
    """Time on its inactivity clock (processing time); None: the clock is stopped."""
    aligned: bool | None = None
    """It takes part in the minimum (in an instance: the instance takes part and the channel is not idle); None: without
    a valve.
    """
    idle: bool = False
    """Its status is IDLE, also for a channel that never had a record."""
    at_zero_lateness_ms: int | None = None
    """The watermark that its generator would emit now at lateness 0; None before a record, or for a strategy without
    lateness.
    """


class InstanceView(Struct, frozen=True):
    """One source instance (`--subtasks`): its channels combined, an input of the valve."""

    instance: int
    channel: str
    """The label under its stave in the barrel: `#0`."""
    watermark_ms: int | None
    state: ChannelState
    channels: int
    aligned: bool | None = None
    since_ms: int | None = None
    """When (processing time, epoch ms) its watermark last changed."""
