"""Which values of chosen columns are over-represented among late records, and whose clocks are off (semantics 11.6).

Counts are exact while a column has at most `MOST_VALUES` values. Beyond that the values with the fewest late records,
then the fewest records, share `other`.
"""

from collections.abc import Sequence
from math import log

from msgspec import Struct

from .judgement.recent import wilson_interval
from .snapshot.explain import ClockOffset, ExplainedColumn, ExplainedValue

MOST_COLUMNS = 10
MOST_VALUES = 1_000
"""How many values of a column are counted on their own."""
MOST_OF_BATCH = 2_000
"""How many values of a column a batch reports: those with most late records, then most records."""
SHOWN, SHOWN_OFFSETS = 20, 10
_REMEMBERED = 20_000
"""Delays follow the latest so many records: a clock may be put right."""
_LEAST_RECORDS = 100
_LEAST_OFFSET_MS = 60_000
_FARTHER = 3
"""An offset is a clock's only if it is so many times as large as the spread of the delays."""


class Delays(Struct, frozen=True, array_like=True):
    """Where 5 %, half and 95 % of the distances from event time to arrival lie (ms)."""

    low: float
    middle: float
    high: float


class SeenValue(Struct, frozen=True):
    """A value of the column with that number in one batch; `delays` None: no arrival is known."""

    column: int
    value: str
    records: int
    late: int
    delays: Delays | None = None


class _Counted(Struct, array_like=True):
    """A value since the start; `offsets` are its delays beyond the batch's median, over the latest records."""

    late: int = 0
    records: int = 0
    weight: int = 0
    offsets: Delays | None = None

    def add(self, seen: SeenValue, usual_ms: float) -> None:
        self.late += seen.late
        self.records += seen.records
        if seen.delays is None:
            return
        self.weight = min(self.weight + seen.records, _REMEMBERED)
        new = [value - usual_ms for value in (seen.delays.low, seen.delays.middle, seen.delays.high)]
        old = self.offsets
        part = min(1.0, seen.records / self.weight)
        if old is not None:
            new = [o + part * (n - o) for o, n in zip((old.low, old.middle, old.high), new, strict=True)]
        self.offsets = Delays(*new)


class CountedColumn(Struct):
    """One column's values since the start."""

    name: str
    values: dict[str, _Counted] = {}
    other_late: int = 0
    other_records: int = 0

    def add(self, seen: Sequence[SeenValue], records: int, late: int) -> None:
        """Count what a batch reports; the values that it left out are the rest of its records."""
        usual = _weighted([(value.delays.middle, value.records) for value in seen if value.delays is not None])
        for value in seen:
            self.values.setdefault(value.value, _Counted()).add(value, usual)
        self.other_records += records - sum(value.records for value in seen)
        self.other_late += late - sum(value.late for value in seen)
        if len(self.values) > MOST_VALUES:
            self._fold()

    def _fold(self) -> None:
        ranked = sorted(self.values.items(), key=lambda pair: (-pair[1].late, -pair[1].records, pair[0]))
        for _, counted in ranked[MOST_VALUES:]:
            self.other_late += counted.late
            self.other_records += counted.records
        self.values = dict(ranked[:MOST_VALUES])

    def view(self, records: int, late: int) -> ExplainedColumn:
        """What a snapshot shows of it, given all records and all late ones."""
        ranked = sorted(
            self.values.items(), key=lambda pair: (-_evidence(pair[1].late, pair[1].records, late, records), pair[0])
        )
        values = [_explained(name, counted, records, late) for name, counted in ranked[:SHOWN]]
        return ExplainedColumn(
            self.name, values, self.other_records > 0, self.other_late, self.other_records, self._clock_offsets()
        )

    def _clock_offsets(self) -> list[ClockOffset]:
        known = [(name, counted, counted.offsets) for name, counted in self.values.items() if counted.offsets]
        usual = _weighted([(offsets.high - offsets.low, counted.weight) for _, counted, offsets in known])
        middle = _weighted([(offsets.middle, counted.weight) for _, counted, offsets in known])
        found = [
            ClockOffset(
                name,
                counted.records,
                round(offsets.middle - middle),
                round(offsets.low - middle),
                round(offsets.high - middle),
                round(usual),
                _is_stable(offsets, middle, usual, counted, sum(counted.weight for _, counted, _ in known)),
            )
            for name, counted, offsets in known
            if counted.records >= _LEAST_RECORDS and abs(offsets.middle - middle) >= _LEAST_OFFSET_MS
        ]
        return sorted(found, key=lambda offset: (not offset.stable, -abs(offset.offset_ms), offset.value))[
            :SHOWN_OFFSETS
        ]


class Explain(Struct):
    """The columns of `--explain`, and the records counted for them."""

    columns: list[CountedColumn]
    records: int = 0
    late: int = 0

    @classmethod
    def of(cls, names: Sequence[str]) -> "Explain":
        """Nothing counted yet."""
        return cls([CountedColumn(name) for name in names])

    def add(self, seen: Sequence[SeenValue], records: int, late: int) -> None:
        """Count a batch: `records` with a usable time, `late` of them dropped."""
        self.records += records
        self.late += late
        for number, column in enumerate(self.columns):
            column.add([value for value in seen if value.column == number], records, late)

    def view(self) -> list[ExplainedColumn]:
        """What a snapshot shows."""
        return [column.view(self.records, self.late) for column in self.columns]


def _explained(name: str, counted: _Counted, records: int, late: int) -> ExplainedValue:
    overall = late / records if records else 0
    if not overall or not counted.records:
        return ExplainedValue(name, counted.late, counted.records, None)
    low, high = wilson_interval(min(counted.late, counted.records), counted.records)
    assert low is not None
    assert high is not None
    lift = counted.late / counted.records / overall
    return ExplainedValue(name, counted.late, counted.records, lift, low / overall, high / overall)


def _evidence(late: int, records: int, all_late: int, all_records: int) -> float:
    """How surely a value has more (negative: fewer) late records than the rest: the likelihood ratio (G) of the table.

    A rare value that is late by chance has little of it, whatever its lift; so has a frequent one with a small lift.
    """
    records = max(late, records)
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


def _is_stable(offsets: Delays, middle: float, usual: float, counted: _Counted, weight: int) -> bool:
    """Whether an offset is a clock's: far beyond the spread, of its own records as well, and not that of most."""
    offset, spread = abs(offsets.middle - middle), offsets.high - offsets.low
    return offset >= _FARTHER * max(spread, usual, 1) and 2 * counted.weight < weight


def _weighted(pairs: list[tuple[float, int]]) -> float:
    """The weighted median; 0 for nothing."""
    half, reached = sum(weight for _, weight in pairs) / 2, 0
    for value, weight in sorted(pairs):
        reached += weight
        if reached >= half:
            return value
    return 0.0
