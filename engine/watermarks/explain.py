"""Which values of chosen columns are over-represented among late records (semantics 11.6).

Counts are exact while a column has at most `MAX_VALUES` values. Beyond that, the values with the fewest late records,
then the fewest records, are dropped; how many records of a value may be missing stays known.
"""

from collections.abc import Iterable, Sequence
from math import log
from statistics import NormalDist

from msgspec import Struct

from .lateness import wilson_interval

MAX_COLUMNS = 10
MAX_VALUES = 1_000
"""Values of a column that are counted, at most."""
LONGEST = 200
"""Longest value (characters); longer ones are cut."""
_SHOWN = 20
_CHANCE = 0.001
"""Greatest probability that any value of a column is called over-represented by chance."""
_TIMES_LESS, _FEW_SELDOM = 3, 0.2
"""Values that are late at least this many times less often than usual are left out of the comparison if together they
have at most this share of the records.
"""


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


class Count(Struct, array_like=True):
    """Late and all records of a value; up to `missed` more may have come while it was not counted."""

    late: int = 0
    records: int = 0
    missed: int = 0


class Values(Struct, array_like=True):
    """Counts of one column's values; a value without a count has at most `uncounted` records."""

    counts: dict[str, Count] = {}
    uncounted: int = 0

    def add(self, other: "Values") -> None:
        """Add the counts of other records, and drop the least values beyond the limit."""
        for name, count in self.counts.items():
            count.missed += 0 if name in other.counts else other.uncounted
        for name, more in other.counts.items():
            count = self.counts.get(name)
            if count is None:
                count = self.counts[name] = Count(missed=self.uncounted)
            count.late += more.late
            count.records += more.records
            count.missed += more.missed
        self.uncounted += other.uncounted
        if len(self.counts) > MAX_VALUES:
            ranked = sorted(self.counts.items(), key=lambda pair: (-pair[1].late, -pair[1].records, pair[0]))
            dropped = [count.records + count.missed for _, count in ranked[MAX_VALUES:]]
            self.uncounted = max(self.uncounted, *dropped)
            self.counts = dict(ranked[:MAX_VALUES])


def merged(reports: Iterable[list[Values]], columns: int) -> list[Values]:
    """The counts of each column from reports about different records."""
    total = [Values() for _ in range(columns)]
    for report in reports:
        for counted, more in zip(total, report, strict=True):
            counted.add(more)
    return total


class Explain(Struct):
    """The columns of `--explain` with their counts since the start, by name."""

    columns: dict[str, Values]
    records: int = 0
    late: int = 0

    @classmethod
    def of(cls, names: Sequence[str]) -> "Explain":
        """New, empty counts for columns with these names."""
        return cls({name: Values() for name in names})

    def add(self, values: Sequence[Values], records: int, late: int) -> None:
        """Count a batch: `records` with a usable time, of which `late` were dropped."""
        self.records += records
        self.late += late
        for counted, more in zip(self.columns.values(), values, strict=True):
            counted.add(more)

    def view(self) -> list[ExplainedColumn]:
        """The columns as a snapshot shows them: those with the surest value first, otherwise in the order given."""
        views = [_column(name, values.counts, self.late, self.records) for name, values in self.columns.items()]

        def rank(column: ExplainedColumn) -> float:
            sure = (value for value in column.values if value.sure)
            return -max((_evidence(it.late, it.records, self.late, self.records) for it in sure), default=0.0)

        return sorted(views, key=rank)


def _column(name: str, counts: dict[str, Count], late: int, records: int) -> ExplainedColumn:
    def rank(pair: tuple[str, Count]) -> tuple[float, str]:
        return -_evidence(pair[1].late, pair[1].records + pair[1].missed, late, records), pair[0]

    other_records = records - sum(count.records for count in counts.values())
    usual = _usual(counts.values(), late, records)
    # The evidence that a value needs so that none of so many has it by chance.
    least = NormalDist().inv_cdf(1 - _CHANCE / max(len(counts) + other_records, 1) / 2) ** 2
    return ExplainedColumn(
        column=name,
        values=[
            _value(text, count, late / records if records else 0.0, usual, least)
            for text, count in sorted(counts.items(), key=rank)[:_SHOWN]
        ],
        approximate=other_records > 0,
        other_late=late - sum(count.late for count in counts.values()),
        other_records=other_records,
        late=late,
        records=records,
    )


def _value(name: str, count: Count, overall: float, usual: tuple[int, int], least: float) -> ExplainedValue:
    """A value beside the share `overall` of late records; `usual`: the late and all records to compare with; `least`:
    the evidence that makes it sure.
    """
    late, records, possible = count.late, count.records, count.records + count.missed
    if not overall or not records:
        return ExplainedValue(name, late, records, None)
    low, _ = wilson_interval(min(late, records), possible)
    _, high = wilson_interval(min(late, records), records)
    assert low is not None
    assert high is not None
    sure = _evidence(late, possible, *usual) > least
    return ExplainedValue(name, late, records, late / records / overall, low / overall, high / overall, sure)


def _usual(counts: Iterable[Count], late: int, records: int) -> tuple[int, int]:
    """Late and all records, less those of a few values that are almost never late: beside such values all others
    would seem to be late often.
    """
    by_rate = sorted((count for count in counts if count.records), key=lambda count: count.late / count.records)
    half, reached, median = sum(count.records for count in by_rate) / 2, 0, 0.0
    for count in by_rate:
        reached += count.records
        if reached >= half:
            median = count.late / count.records
            break
    seldom = [count for count in by_rate if count.late < median / _TIMES_LESS * count.records]
    left_out = sum(count.records for count in seldom)
    if left_out > _FEW_SELDOM * records:
        return late, records
    return late - sum(count.late for count in seldom), records - left_out


def _evidence(late: int, records: int, all_late: int, all_records: int) -> float:
    """Evidence that a value has more (negative: fewer) late records than the rest: the likelihood ratio (G) of the
    table.

    A rare value that is late by chance has little evidence, whatever its lift; so has a frequent value with a small
    lift.
    """
    records = min(max(late, records), all_records)
    table = (
        (late, records, all_late),
        (records - late, records, all_records - all_late),
        (all_late - late, all_records - records, all_late),
        (all_records - all_late - records + late, all_records - records, all_records - all_late),
    )
    ratio = 0.0
    for count, row, column in table:
        expected = row * column / all_records if all_records else 0
        if count > 0 and expected > 0:
            ratio += 2 * count * log(count / expected)
    return ratio if late * all_records >= records * all_late else -ratio
