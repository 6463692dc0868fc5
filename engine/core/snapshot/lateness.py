"""The cost of other latenesses and idle timeouts, and changes of settings."""

from msgspec import UNSET, Struct, UnsetType


class WhatIf(Struct, frozen=True):
    """The cost of lateness `lateness_ms` from the start; `delay_ms` is a mean over the windows it closed."""

    lateness_ms: int
    late: int
    late_share: float | None
    delay_ms: float | None
    behind_watermark: int


class RecentRow(Struct, frozen=True):
    """The cost of lateness `lateness_ms` from the start for the records of a horizon.

    `low` and `high` are the Wilson 95 % interval of `late_share`; None without records.
    """

    lateness_ms: int
    late: int
    late_share: float | None
    low: float | None
    high: float | None
    behind_watermark: int
    """Records behind the watermark."""


class Recommended(Struct, frozen=True):
    """The smallest edge (ms) that would have kept the share `target` on time; None: no records, or no such edge.

    `few`: based on too few late records to rely on.
    """

    target: float
    lateness_ms: int | None
    few: bool


class RecentLateness(Struct, frozen=True):
    """The what-if of the records that came in the last `horizon_ms` (processing time; None: since the start)."""

    horizon_ms: int | None
    records: int
    rows: list[RecentRow]
    recommended: list[Recommended]


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


class SettingsChange(Struct, frozen=True):
    """A change of settings while running: its version, the last batch before it, when (epoch ms) and by whom."""

    version: int
    batch: int | None
    wall_ms: int
    who: str
    lateness_ms: int | UnsetType | None = UNSET
    idle_after_ms: int | UnsetType | None = UNSET
    now_ms: int | None = None
    """Processing time."""
    emitted_ms: int | None = None
    """Processing time of the first emit with the change; None: not yet."""
    moved_ms: int | None = None
    """How far the watermark advanced at that emit; None: there was no watermark before."""
