"""The watermark, the channel that holds it back and why, the verdict, and the channels themselves."""

from typing import Literal

from msgspec import Struct

Cause = Literal[
    "quiet", "backlog", "never_seen", "behind", "future_elsewhere", "slow_clock", "held_back", "paused", "in_flight",
    "back_pressured", "slow_reader", "stuck", "kept_back", "no_watermark", "no_split", "lateness_raised",
    "lateness", "trigger", "no_member",
]  # fmt: skip
"""`in_flight`: the inputs are past the watermark, records wait before a busy operator; no channel is to blame.
`back_pressured`: a busy operator keeps its source from reading. `slow_reader`: its source reads as fast as it can.
`stuck`: its watermark does not move, and whether records come is not known. `kept_back`: a task of a Flink job sends a
watermark behind the one that it receives. `no_watermark`: records come, but its source sends no watermark. `no_split`:
its source has more subtasks than splits, and it has no split. `lateness_raised`: only a changed lateness holds the
watermark back; no channel is to blame. Of hops of a chain only: `lateness`: most of the loss is its lateness.
`trigger`: a Spark query waits for its trigger. `no_member`: a consumer group has no member, and nothing is read.
"""


VerdictName = Literal["moving", "slow", "stalled", "waiting", "unknown", "ended"]
WORST_FIRST: tuple[VerdictName, ...] = ("stalled", "slow", "unknown", "waiting", "moving", "ended")


ReasonCode = Literal[
    "advancing", "losing_ground", "records_come", "unread_records", "no_records", "all_idle", "paused",
    "lateness_raised", "ended", "too_short", "starting", "source_silent", "failed", "engine_lost", "not_known",
    "not_judged",
]  # fmt: skip


class Reason(Struct, frozen=True):
    """The reason of the verdict: a code and its arguments.

    `ms` is how far the watermark advanced (`advancing`), how much further it fell behind over `over_ms`
    (`losing_ground`), how long no record has come (`no_records`, `all_idle`), how much event time a raised lateness
    takes (`lateness_raised`) or how long the query was observed (`too_short`); `records` are unread; `channels` hold
    the watermark back.
    """

    code: ReasonCode
    ms: int | None = None
    records: int | None = None
    channels: list[str] = []
    over_ms: int | None = None


class Verdict(Struct, frozen=True):
    """Whether the watermark moves (semantics 11.1); times are processing time (epoch ms), durations ms."""

    verdict: VerdictName = "unknown"
    since_ms: int | None = None
    """When its condition began."""
    age_ms: int | None = None
    """How long the watermark has not advanced."""
    age_at_least: bool = False
    """It was already frozen when it was first seen."""
    pace_ms: int | None = None
    """How often it usually advances; None: not known yet."""
    patience_ms: int | None = None
    """How long it may be frozen before that is a stall."""
    speed: float | None = None
    """Event time per processing time, over the last `patience_ms`."""
    reason: Reason = Reason("not_judged")


class Holder(Struct, frozen=True):
    """The valve input with the smallest watermark, since when (epoch ms) it holds back the watermark, and the cause."""

    channel: str
    since_ms: int
    cause: Cause
    instance: int | None = None
    """Its source instance (`--subtasks`), the actual input of the valve."""
    at_least: bool = False
    """It already held the watermark back when it was first seen."""


class Level(Struct, frozen=True):
    """The valve's output and its distances (ms)."""

    watermark_ms: int | None = None
    behind_fastest_ms: int | None = None
    behind_clock_ms: int | None = None
    holder: Holder | None = None
    idle: bool = False
    """Every input is idle, and so is the valve."""
    moved_ms: int | None = None
    """When (processing time, epoch ms) it last advanced, as far as observed."""
    at_zero_lateness_ms: int | None = None
    """The watermark with lateness 0 from the start; with lateness L it would be this minus L."""

    @property
    def fastest_ms(self) -> int | None:
        """The watermark of the fastest channel."""
        is_known = self.watermark_ms is not None and self.behind_fastest_ms is not None
        return (self.watermark_ms or 0) + (self.behind_fastest_ms or 0) if is_known else None


class Blocker(Struct, frozen=True):
    """A step of the staircase below the fastest channel (semantics 11.2): channels with the same watermark.

    If they and those of all steps before were idle, the watermark would gain `gain_ms` at the next emit; None: there is
    no watermark to gain on. `channels` are at most 100 of `channel_count`; `cause` is the first channel's.
    """

    channels: list[str]
    gain_ms: int | None
    watermark_ms: int | None
    cause: Cause
    channel_count: int = 0


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
    """It takes part in the minimum (in an instance: so does that, and it is not idle); None: without a valve."""
    idle: bool = False
    """Its status is IDLE, also for a channel that never had a record."""
    at_zero_lateness_ms: int | None = None
    """What its generator would emit now at lateness 0; None before a record, or for a strategy without lateness."""


UNCOUNTED = ChannelView("", None, None, "active", None, None, None, None, None, flaps=None)
"""A channel of which nothing is counted."""


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
