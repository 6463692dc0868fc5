"""The watermark, the channel that holds it back and why, and the verdict on whether event time moves."""

from typing import Literal

from msgspec import Struct

Cause = Literal[
    "quiet", "backlog", "never_seen", "behind", "future_elsewhere", "slow_clock", "held_back", "paused", "in_flight",
    "back_pressured", "slow_reader", "stuck", "kept_back", "no_watermark", "no_split",
]  # fmt: skip
"""`in_flight`: the inputs are past the watermark, records wait before a busy operator; no channel is to blame.
`back_pressured`: a busy operator keeps its source from reading; `slow_reader`: its source reads as fast as it can.
`stuck`: its watermark does not move, and whether records come is not known. `kept_back`: a task of a Flink job sends a
watermark behind the one that it takes in. `no_watermark`: records come, and its source sends no watermark. `no_split`:
its source has more subtasks than splits, and it has none."""


VerdictName = Literal["moving", "slow", "stalled", "waiting", "unknown", "ended"]


ReasonCode = Literal[
    "advancing", "losing_ground", "event_time_ahead", "unread_records", "no_records", "all_idle", "ended", "too_short",
    "starting", "source_silent", "failed", "engine_lost", "not_known", "not_judged",
]  # fmt: skip


class Reason(Struct, frozen=True):
    """Why the verdict is what it is: a code and its arguments.

    `ms` is how far the watermark advanced (`advancing`), how much event time was lost (`losing_ground`), how long no
    record has come (`no_records`, `all_idle`) or how long was observed (`too_short`); `records` are unread;
    `channels` hold the watermark back.
    """

    code: ReasonCode
    ms: int | None = None
    records: int | None = None
    channels: list[str] = []


class Verdict(Struct, frozen=True):
    """Whether event time moves, over the last `horizon_ms` of processing time (semantics 11.1).

    `since_ms` (processing time, epoch ms) is when its condition began; `speed` is event time per processing time.
    """

    verdict: VerdictName = "unknown"
    since_ms: int | None = None
    horizon_ms: int | None = None
    speed: float | None = None
    reason: Reason = Reason("not_judged")


class Holder(Struct, frozen=True):
    """The valve input with the smallest watermark, since when (epoch ms) it holds back the watermark, and why."""

    channel: str
    since_ms: int
    cause: Cause
    instance: int | None = None
    """Its source instance (`--subtasks`), which is what the valve sees."""


class Level(Struct, frozen=True):
    """The valve's output and its distances (ms)."""

    watermark_ms: int | None = None
    behind_fastest_ms: int | None = None
    behind_clock_ms: int | None = None
    holder: Holder | None = None
    idle: bool = False
    """Every input is idle: the valve itself is."""
    moved_ms: int | None = None
    """When (processing time, epoch ms) it last advanced, as far as that was seen."""
    at_zero_lateness_ms: int | None = None
    """Where the watermark would be with lateness 0 from the start; at lateness L it would be this minus L."""


class Blocker(Struct, frozen=True):
    """A step of the staircase below the fastest channel (semantics 11.2): channels with the same watermark.

    Were they and those of all steps before idle, the watermark would gain `gain_ms` at the next emit; None: there is
    no watermark to gain on. `channels` are at most 100 of `channel_count`; `cause` is the first one's.
    """

    channels: list[str]
    gain_ms: int | None
    watermark_ms: int | None
    cause: Cause
    channel_count: int = 0
