"""The watermark, the channel that holds it back and why, and the verdict on whether event time moves."""

from typing import Literal

from msgspec import Struct

Cause = Literal[
    "quiet", "backlog", "never_seen", "behind", "future_elsewhere", "slow_clock", "held_back", "paused", "in_flight",
    "back_pressured", "slow_reader", "stuck", "kept_back", "no_watermark", "no_split",
]  # fmt: skip
"""`in_flight`: the inputs are past the watermark, records wait before a busy operator; no channel is to blame.
`back_pressured`: a busy operator keeps its source from reading. `slow_reader`: its source reads as fast as it can.
`stuck`: its watermark does not move, and whether records come is not known. `kept_back`: a task of a Flink job sends a
watermark behind the one that it receives. `no_watermark`: records come, but its source sends no watermark. `no_split`:
its source has more subtasks than splits, and it has no split.
"""


VerdictName = Literal["moving", "slow", "stalled", "waiting", "unknown", "ended"]


ReasonCode = Literal[
    "advancing", "losing_ground", "event_time_ahead", "unread_records", "no_records", "all_idle", "ended", "too_short",
    "starting", "source_silent", "failed", "engine_lost", "not_known", "not_judged",
]  # fmt: skip


class Reason(Struct, frozen=True):
    """The reason of the verdict: a code and its arguments.

    `ms` is how far the watermark advanced (`advancing`), how much event time was lost (`losing_ground`), how long no
    record has come (`no_records`, `all_idle`) or how long the query was observed (`too_short`); `records` are unread;
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
