"""Which values of chosen columns are over-represented among late records, and whose clocks are wrong (semantics 11.6).

Counts are exact while a column has at most `MOST_VALUES` values. Beyond that, the values with the fewest late records,
then the fewest records, share `other`; how many records of a value may be missing stays known.
"""

from collections.abc import Sequence
from math import log
from statistics import NormalDist

from msgspec import Struct

from .explain_clocks import MOST_FOLLOWED, ClockOf, DelayPoint, clock_offsets, weighted_median
from .recent_lateness import wilson_interval
from .snapshot.explain import ExplainedChannel, ExplainedColumn, ExplainedValue

MOST_COLUMNS = 10
MOST_VALUES = 1_000
"""Values of a column that are counted separately, at most."""
MOST_OF_BATCH = 2_000
"""Values of a column that a batch reports, at most: those with most late records, then those with most records."""
MOST_TRACKED = 8
"""Values of a column whose distances behind W0 are counted, at most; also the number of channels explained
separately.
"""
MOST_CHANNEL_VALUES = 100
"""Values of a column that are counted for such a channel, at most."""
SHOWN, SHOWN_OF_CHANNEL = 20, 5
_CHANCE = 0.001
"""Greatest probability that any value of a column is called over-represented by chance."""
_HARDLY, _FEW_SELDOM = 3, 0.2
"""Values that are late at least this many times less often than usual are left out of the comparison if together they
have at most this share of the records.
"""
_MORE_LATE = 1.5
"""A channel replaces another one once it has this many times as many late records."""


class SeenValue(Struct, frozen=True):
    """One value of the column with number `column` in one batch.

    `delays` is empty if arrival times are not known. `behind`: its records at or behind W0, by bucket; None: not
    counted.
    """

    column: int
    value: str
    records: int
    late: int
    delays: tuple[DelayPoint, ...] = ()
    behind: dict[int, int] | None = None
    missed: int = 0
    """Records of the value that may be missing from the report, at most."""


class SeenValues(Struct, frozen=True):
    """What a batch, or one channel's records in it, reports for the columns of `--explain`."""

    values: Sequence[SeenValue] = ()
    unreported: Sequence[int] = ()
    """For each column, how many records a value that is not among `values` can have; empty: none."""
    channels: "dict[str, SeenChannel]" = {}
    usual: tuple[int, int] | None = None
    """The distance (ms) that all distances are relative to, and its number of records; None: each is relative to its
    neighbours.
    """


class SeenChannel(Struct, frozen=True):
    """The records of one channel in one batch, and their values."""

    records: int
    late: int
    seen: SeenValues


class Focus(Struct, frozen=True):
    """What the next batch counts in detail: values by column, and channels (None: any channel)."""

    values: list[list[str]]
    channels: list[str] | None


class _Behind(Struct, array_like=True):
    """The records at or behind W0 among `records` records of a value, by bucket of the what-if."""

    records: int = 0
    counts: dict[int, int] = {}


class _Counted(Struct, array_like=True):
    """Counts of a value since the start; up to `missed` more records may have come before it was counted."""

    late: int = 0
    records: int = 0
    missed: int = 0
    clock: ClockOf | None = None
    behind: _Behind | None = None

    def add(self, seen: SeenValue) -> None:
        self.late += seen.late
        self.records += seen.records
        self.missed += seen.missed
        for point in seen.delays:
            self.clock = self.clock or ClockOf()
            self.clock.add(point)


class CountedColumn(Struct):
    """One column's values since the start."""

    name: str
    values: dict[str, _Counted] = {}
    other_late: int = 0
    other_records: int = 0
    unreported: int = 0
    """How many records a value that is not among `values` can have had."""
    most: int = MOST_VALUES

    def add(self, seen: Sequence[SeenValue], records: int, late: int, unreported: int = 0) -> None:
        """Count what a batch reports; records of values that it left out go to the rest."""
        for value in seen:
            counted = self.values.get(value.value)
            if counted is None:
                counted = self.values[value.value] = _Counted(missed=self.unreported)
            counted.add(value)
        if unreported:
            reported = {value.value for value in seen}
            for name, counted in self.values.items():
                counted.missed += 0 if name in reported else unreported
            self.unreported += unreported
        self.other_records += records - sum(value.records for value in seen)
        self.other_late += late - sum(value.late for value in seen)
        if len(self.values) > self.most:
            self._fold()
        self._count_behind(seen)
        followed = [counted for counted in self.values.values() if counted.clock is not None and counted.clock.points]
        for counted in sorted(followed, key=lambda counted: -counted.records)[MOST_FOLLOWED:]:
            if counted.clock is not None:
                counted.clock.points = []

    def _fold(self) -> None:
        ranked = sorted(self.values.items(), key=lambda pair: (-pair[1].late, -pair[1].records, pair[0]))
        for _, counted in ranked[self.most :]:
            self.other_late += counted.late
            self.other_records += counted.records
            self.unreported = max(self.unreported, counted.records + counted.missed)
        self.values = dict(ranked[: self.most])

    def _count_behind(self, seen: Sequence[SeenValue]) -> None:
        for value in seen:
            counted = self.values.get(value.value)
            if counted is None or value.behind is None:
                continue
            if counted.behind is None:
                counted.behind = _Behind()
            counted.behind.records += value.records
            counts = counted.behind.counts
            for bucket, records in value.behind.items():
                counts[bucket] = counts.get(bucket, 0) + records

    def track(self, records: int, late: int) -> list[str]:
        """Keep histograms for the values most strongly linked to lateness; returns the values to track next."""
        ranked = self._ranked(records, late)[:MOST_TRACKED]
        kept = {name for name, _ in ranked}
        for name, counted in self.values.items():
            if counted.behind is not None and name not in kept:
                counted.behind = None
        return [name for name, _ in ranked]

    def view(self, records: int, late: int, channels: list[ExplainedChannel]) -> ExplainedColumn:
        """The column as a snapshot shows it, given all records and all late ones."""
        ranked = self._ranked(records, late)
        values = self._shown(ranked[:SHOWN], records, late)
        offsets = clock_offsets(
            {name: (counted.records, counted.clock) for name, counted in self.values.items() if counted.clock}
        )
        return ExplainedColumn(
            column=self.name,
            values=values,
            approximate=self.other_records > 0,
            other_late=self.other_late,
            other_records=self.other_records,
            offsets=offsets,
            late=late,
            records=records,
            channels=channels,
        )

    def view_of_channel(self, channel: str, records: int, late: int) -> ExplainedChannel:
        """The same for the records of one channel."""
        values = self._shown(self._ranked(records, late)[:SHOWN_OF_CHANNEL], records, late)
        return ExplainedChannel(channel, records, late, values, self.other_records > 0)

    def _shown(self, ranked: list[tuple[str, _Counted]], records: int, late: int) -> list[ExplainedValue]:
        usual = self._usual(records, late)
        least = _least(len(self.values) + self.other_records)
        return [_explained(name, counted, records, late, usual, least) for name, counted in ranked]

    def _usual(self, records: int, late: int) -> tuple[int, int]:
        """Late and all records, less those of a few values that are almost never late: beside such values all others
        would seem to be late often.
        """
        rates = [(counted.late / counted.records, counted.records) for counted in self.values.values()]
        least = weighted_median(rates) / _HARDLY
        seldom = [counted for counted in self.values.values() if counted.late < least * counted.records]
        left_out = sum(counted.records for counted in seldom)
        if left_out > _FEW_SELDOM * records:
            return late, records
        return late - sum(counted.late for counted in seldom), records - left_out

    def _ranked(self, records: int, late: int) -> list[tuple[str, _Counted]]:
        """The values, the strongest evidence first."""

        def rank(pair: tuple[str, _Counted]) -> tuple[float, str]:
            name, counted = pair
            return -_evidence(counted.late, counted.records + counted.missed, late, records), name

        return sorted(self.values.items(), key=rank)


class Explain(Struct):
    """The columns of `--explain` with their counts, in total and for some channels."""

    columns: list[CountedColumn]
    records: int = 0
    late: int = 0
    channels: "dict[str, Explain]" = {}

    @classmethod
    def of(cls, names: Sequence[str]) -> "Explain":
        """New, empty counts for columns with these names."""
        return cls([CountedColumn(name) for name in names])

    def focus(self) -> Focus:
        """What the next batch is to count in detail."""
        values = [column.track(self.records, self.late) for column in self.columns]
        return Focus(values, list(self.channels) if self.channels else None)

    def add(self, seen: SeenValues, records: int, late: int) -> None:
        """Count a batch: `records` with a usable time, of which `late` were dropped."""
        self.records += records
        self.late += late
        for number, column in enumerate(self.columns):
            unreported = seen.unreported[number] if seen.unreported else 0
            column.add([value for value in seen.values if value.column == number], records, late, unreported)
        for name, channel in seen.channels.items():
            counted = self.channels.get(name)
            if counted is None:
                counted = self.channels[name] = self._of_channel()
            counted.add(channel.seen, channel.records, channel.late)

    def choose_channels(self, late: dict[str, int]) -> None:
        """Explain the channels with most late records; `late` are the counts per channel since the start."""
        if len(late) > MOST_TRACKED:
            late = {name: records for name, records in late.items() if records}
        chosen = [name for name in self.channels if name in late]
        for name in sorted(late, key=lambda name: (-late[name], name))[:MOST_TRACKED]:
            if name in chosen:
                continue
            if len(chosen) < MOST_TRACKED:
                chosen.append(name)
                continue
            least = min(chosen, key=lambda other: (late[other], other))
            if late[name] > _MORE_LATE * late[least]:
                chosen[chosen.index(least)] = name
        self.channels = {name: self.channels.get(name) or self._of_channel() for name in chosen}

    def _of_channel(self) -> "Explain":
        return Explain([CountedColumn(column.name, most=MOST_CHANNEL_VALUES) for column in self.columns])

    def view(self) -> list[ExplainedColumn]:
        """The columns as a snapshot shows them."""
        late = [(name, channel) for name, channel in self.channels.items() if channel.late]
        late.sort(key=lambda pair: (-pair[1].late, pair[0]))
        views = [
            column.view(
                self.records,
                self.late,
                [of.columns[number].view_of_channel(name, of.records, of.late) for name, of in late],
            )
            for number, column in enumerate(self.columns)
        ]
        return surest_first(views)


def surest_first(columns: Sequence[ExplainedColumn]) -> list[ExplainedColumn]:
    """Columns that have a sure value or a wrong clock first; otherwise the order is kept."""

    def rank(column: ExplainedColumn) -> tuple[bool, float]:
        sure = [
            _evidence(value.late, value.records, column.late, column.records) for value in column.values if value.sure
        ]
        clock = any(offset.stable for offset in column.offsets)
        return not (sure or clock), -max(sure, default=0.0)

    return sorted(columns, key=rank)


def _explained(
    name: str, counted: _Counted, records: int, late: int, usual: tuple[int, int], least: float
) -> ExplainedValue:
    """The column's values as a snapshot shows them; `usual`: the late and all records to compare with; `least`: the
    evidence that makes a value sure.
    """
    behind = None if counted.behind is None else _filled(counted.behind.counts)
    of = None if counted.behind is None else counted.behind.records
    overall = late / records if records else 0
    if not overall or not counted.records:
        return ExplainedValue(name, counted.late, counted.records, None, behind=behind, behind_of=of)
    low, _ = wilson_interval(min(counted.late, counted.records), counted.records + counted.missed)
    _, high = wilson_interval(min(counted.late, counted.records), counted.records)
    assert low is not None
    assert high is not None
    lift = counted.late / counted.records / overall
    sure = _evidence(counted.late, counted.records + counted.missed, *usual) > least
    return ExplainedValue(name, counted.late, counted.records, lift, low / overall, high / overall, sure, behind, of)


def _filled(counts: dict[int, int]) -> list[int]:
    return [counts.get(bucket, 0) for bucket in range(max(counts, default=-1) + 1)]


def _least(compared: int) -> float:
    """The evidence that a value needs so that none of `compared` values has it by chance."""
    return NormalDist().inv_cdf(1 - _CHANCE / max(compared, 1) / 2) ** 2


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
