"""Values of chosen columns among the late records and among all."""

from msgspec import Struct


class ExplainedValue(Struct, frozen=True):
    """A value and its records; `lift` is its share among the late records over its share among all.

    `low` and `high` are the 95 % interval of the lift; None without late records. `sure`: the value is more often late
    than the others, beyond what one of so many values is by chance.
    """

    value: str
    late: int
    records: int
    lift: float | None
    low: float | None = None
    high: float | None = None
    sure: bool = False


class ExplainedColumn(Struct, frozen=True):
    """The values of one column, the strongest evidence first, at most 20.

    `approximate`: values beyond the limit share `other_late` and `other_records`; `records` of a value may lack some
    that came while it was among them, and `late` too where `other_late` is not 0. `low` and `sure` allow for that.
    """

    column: str
    values: list[ExplainedValue] = []
    approximate: bool = False
    other_late: int = 0
    other_records: int = 0
    late: int = 0
    records: int = 0
    """All counted records, and the late ones among them: the base of the shares."""
