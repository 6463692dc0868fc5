"""Who is late: values of chosen columns among the late records and among all."""

from msgspec import Struct


class ExplainedValue(Struct, frozen=True):
    """A value and its records; `lift` is its share among the late records over its share among all.

    `low` and `high` are the 95 % interval of the lift; None without late records. Of several values the first is the
    one that lateness depends on most surely.
    """

    value: str
    late: int
    records: int
    lift: float | None
    low: float | None = None
    high: float | None = None


class ClockOffset(Struct, frozen=True):
    """The records of a value arrive `offset_ms` later (negative: earlier) after their event time than most records.

    `low_ms` and `high_ms`: nine in ten of them lie between; `usual_ms` is how far the middle nine in ten of all records
    lie apart. `stable`: the offset is far beyond both, as of a clock that is wrong, not of slow delivery.
    """

    value: str
    records: int
    offset_ms: int
    low_ms: int
    high_ms: int
    usual_ms: int
    stable: bool


class ExplainedColumn(Struct, frozen=True):
    """The values of one column, the surest first, at most 20.

    `approximate`: values that were too many share `other_late` and `other_records`; `records` of a value may lack some
    that came while it was among them, and `late` too where `other_late` is not 0.
    """

    column: str
    values: list[ExplainedValue] = []
    approximate: bool = False
    other_late: int = 0
    other_records: int = 0
    offsets: list[ClockOffset] = []
    """The values whose records arrive at another distance than most, the farthest first, at most 10."""
