"""What other idle timeouts would cost, the lateness of channels, and a sample of the late records."""

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


class LateRecord(Struct, frozen=True):
    """A dropped record as in the late output: its batch, and the columns `wmtop_*` (ms).

    `watermark_ms` and `late_by_ms` are None after the end of the stream, `window_end_ms` between windows. `topic`,
    `partition` and `offset` are known only for a record from Kafka.
    """

    batch: int
    channel: str
    time_ms: int
    watermark_ms: int | None = None
    window_end_ms: int | None = None
    late_by_ms: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
