"""The cost of other latenesses and idle timeouts, and changes of settings."""

from msgspec import Struct


class ChannelLateness(Struct, frozen=True):
    """The lateness of a channel's records: `behind[i]` of them were at least as far behind W0 as the i-th what-if's
    lateness (ms) and less than the next one's; trailing zeros are left out.
    """

    channel: str
    records: int
    behind: list[int]


class WhatIfIdle(Struct, frozen=True):
    """The result of another idle timeout (`None`: off).

    `late` is exact unless `late_error` is above 0; for sessions with another timeout than the run's own it is an upper
    bound.
    """

    idle_after_ms: int | None
    watermark_ms: int | None
    holder: str | None
    flaps: int
    late: int
    late_error: int = 0
