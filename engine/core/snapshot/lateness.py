"""What another lateness or idle timeout would have cost, and the settings that were changed."""

from msgspec import UNSET, Struct, UnsetType


class WhatIf(Struct, frozen=True):
    """What lateness `lateness_ms` from the start would have cost; `delay_ms` is a mean over its closed windows."""

    lateness_ms: int
    late: int
    late_share: float | None
    delay_ms: float | None
    behind_watermark: int


class RecentRow(Struct, frozen=True):
    """What lateness `lateness_ms` from the start would have cost the records of a horizon.

    `low` and `high` are the Wilson 95 % interval of `late_share`; None without records.
    """

    lateness_ms: int
    late: int
    late_share: float | None
    low: float | None
    high: float | None
    behind_watermark: int | None = None
    """None: not known."""


class Recommended(Struct, frozen=True):
    """The smallest edge (ms) that would have kept the share `target` on time; None: there are no records, or none is.

    `few`: it rests on too few late records to recommend from.
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
    """How late the records of a channel were: `behind[i]` of them at least as long as the i-th what-if's lateness (ms)
    behind W0 and less than the next one's; trailing zeros are left out.
    """

    channel: str
    records: int
    behind: list[int]


class WhatIfIdle(Struct, frozen=True):
    """What another idle timeout (`None`: off) would have given.

    `late` is exact unless `late_error` is above 0; for another timeout than the run's own an upper bound in sessions.
    """

    idle_after_ms: int | None
    watermark_ms: int | None
    holder: str | None
    flaps: int
    late: int
    late_error: int = 0


class AutoView(Struct, frozen=True):
    """The autopilot, switched on; its next due time and until when it is suspended are processing time (epoch ms)."""

    target: float
    horizon_ms: int
    next_ms: int | None
    suspended_until_ms: int | None


class SettingsChange(Struct, frozen=True):
    """A change of settings while running: its version, the last batch before it, when (epoch ms) and by whom.

    `who` is "auto" where the autopilot did it; `share` is then the share of the horizon's records that would have been
    late with the new lateness.
    """

    version: int
    batch: int | None
    wall_ms: int | None
    """None: the autopilot's follow processing time alone."""
    who: str
    lateness_ms: int | UnsetType | None = UNSET
    idle_after_ms: int | UnsetType | None = UNSET
    auto_lateness: float | UnsetType | None = UNSET
    share: float | None = None
    now_ms: int | None = None
    """Processing time."""
    emitted_ms: int | None = None
    """Processing time of the first emit with it; None: not yet."""
    moved_ms: int | None = None
    """How far the watermark advanced at that emit; None: there was none before."""
