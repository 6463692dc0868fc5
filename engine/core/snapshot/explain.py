"""Values of chosen columns among the late records and among all."""

from msgspec import Struct


class ExplainedValue(Struct, frozen=True):
    """A value and its records; `lift` is its share among the late records over its share among all.

    `low` and `high` are the 95 % interval of the lift; None without late records. Values come with the strongest
    evidence first. `sure`: the value is more often late than the others, beyond what one of so many values is by
    chance.
    """

    value: str
    late: int
    records: int
    lift: float | None
    low: float | None = None
    high: float | None = None
    sure: bool = False
    behind: list[int] | None = None
    """How far behind W0: as `lateness_by_channel[].behind`, over `behind_of` records; None: not counted for
    this value.
    """
    behind_of: int | None = None


class ClockOffset(Struct, frozen=True):
    """The event times of a value's records are `offset_ms` behind (negative: ahead of) those of records that arrive
    with them.

    `low_ms` and `high_ms`: nine in ten of them lie between; `usual_ms` is how far the middle nine in ten of all records
    lie apart. `stable`: the offset is far beyond both, or changes steadily, as of a clock that is wrong, not of slow
    delivery. `drift_ms_per_hour`: by how much it grows each hour; None: it does not change steadily.
    """

    value: str
    records: int
    offset_ms: int
    low_ms: int
    high_ms: int
    usual_ms: int
    stable: bool
    drift_ms_per_hour: int | None = None


class ExplainedChannel(Struct, frozen=True):
    """The values of one column among a channel's records, counted since the channel had many late ones."""

    channel: str
    records: int
    late: int
    values: list[ExplainedValue] = []
    approximate: bool = False


class ExplainedColumn(Struct, frozen=True):
    """The values of one column, the surest first, at most 20.

    `approximate`: values beyond the limit share `other_late` and `other_records`; `records` of a value may lack some
    that came while it was among them, and `late` too where `other_late` is not 0. `low` and `sure` allow for that.
    """

    column: str
    values: list[ExplainedValue] = []
    approximate: bool = False
    other_late: int = 0
    other_records: int = 0
    offsets: list[ClockOffset] = []
    """The values whose records arrive at an unusual distance, the farthest first, at most 10."""
    late: int = 0
    records: int = 0
    """All counted records, and the late ones among them: the base of the shares."""
    channels: list[ExplainedChannel] = []
    """The same for the channels with most late records, at most 8."""
