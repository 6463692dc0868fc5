"""The values of the `--explain` columns among records given as Arrow columns, with numpy.

It runs in Spark's tasks and does not depend on Spark. A task reports the values with most late records, then with most
records; the driver combines the reports.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ..core.explain import MOST_CHANNEL_VALUES, MOST_OF_BATCH, MOST_TRACKED, Focus, SeenChannel, SeenValue, SeenValues
from ..core.explain_clocks import DelayPoint, weighted_median
from ..core.late_records import LateRecords
from ..core.settings import Session, Settings
from ..core.times import MAX
from .column_groups import longs, short_name
from .sources.base import ARRIVAL, CHANNEL, NO_CHANNEL, TIME
from .sources.record_columns import EXPLAIN, STAMPED
from .time_cells import Flags, Longs, buckets_of, starts_every

LONGEST = 200
"""Longest value (characters); longer ones are cut."""
_TRACKED_OF_TASK = 20
_DELAYS_OF_TASK = 200
"""Values whose distances a task reports, at most."""
_MOST_SLICES, _LEAST_IN_SLICE = 64, 256
_FAR_STAMP = 4
"""Timestamps this many times as far from the median as half of them are no evidence of when a record arrived."""
_MOST_POINTS, _LEAST_IN_POINT, _PER_POINT = 8, 64, 256
"""Points at which the distances of a value are read, at most; and the least and the usual number of records per
point.
"""


class Explaining(Struct, frozen=True):
    """The input of every task."""

    settings: Settings
    edges: list[int]
    """The edges of the what-if (ms); empty without one."""
    w0: int
    late: LateRecords
    focus: Focus


class _Records(Struct):
    """The usable records of a table."""

    late: Flags
    delays: Longs
    """Arrival minus event time (ms), minus `usual`; without `usual`, minus the usual distance in the record's slice."""
    usual: int | None
    rows_of_slice: int
    """Consecutive records that arrived together: a slice."""
    usual_ms: Longs
    """The usual event time (ms) of each slice."""
    buckets: Longs | None
    """Bucket of `W0 - ts`, plus 1; None without a what-if."""
    channels: Longs
    """The number of each record's channel in `names`; -1: another channel."""
    names: list[str]


def seen_in(rows: "pa.Table", work: Explaining) -> SeenValues:
    """The report on the records of a table: columns as for `column_groups`, and `explain0`, … (text, null: no
    value).
    """
    usable = rows[TIME].is_valid()
    if rows[TIME].null_count:
        rows = rows.filter(usable)
    times, _ = longs(rows[TIME])
    records = _Records(
        is_late(times, work.settings, work.late),
        *_delays(rows, times),
        buckets_of(work.w0 - times, np.ones(len(times), np.bool_), np.array(work.edges, np.int64))
        if work.edges
        else None,
        *_channels(rows[CHANNEL], work.focus.channels),
    )
    columns = [_distinct(*_encoded(rows[f"{EXPLAIN}{number}"])) for number in range(len(work.focus.values))]
    values: list[SeenValue] = []
    unreported: list[int] = []
    for number, (names, codes) in enumerate(columns):
        found, left = _column(number, names, codes, records, work.focus.values[number])
        values += found
        unreported.append(left)
    usual = None if records.usual is None else (records.usual, len(times))
    return SeenValues(values, unreported, _in_channels(columns, records), usual)


def is_late(times: Longs, settings: Settings, late: LateRecords) -> Flags:
    """Which records with these event times (ms) are dropped."""
    if not late.records:
        return np.zeros(len(times), np.bool_)
    window = settings.spec
    every, offset = starts_every(settings)
    starts = (times - offset) // every * every + offset
    if isinstance(window, Session):
        return np.isin(starts, np.array(list(late.sessions or ()), np.int64))
    limit = late.level if late.level == MAX else late.level - settings.allowed_lateness_ms
    last = starts + window.size_ms - 1
    if window.slide_ms > window.size_ms:
        last = np.where(times <= last, last, times)
    return last <= limit


def together(reports: Sequence[SeenValues], columns: int, most: int = MOST_OF_BATCH) -> SeenValues:
    """The reports of all tasks combined into the batch's; at most `most` values per column."""
    levels = [report.usual for report in reports if report.usual is not None]
    if levels:
        usual = weighted_median([(float(level), records) for level, records in levels])
        reports = [_against(report, usual) for report in reports]
    counted: dict[tuple[int, str], SeenValue] = {}
    known = dict[tuple[int, str], int]()
    inside: dict[str, list[SeenChannel]] = {}
    unreported = [0] * columns
    for report in reports:
        for value in report.values:
            key = (value.column, value.value)
            counted[key] = _sum(counted[key], value) if key in counted else value
            known[key] = known.get(key, 0) + report.unreported[value.column]
        for name, channel in report.channels.items():
            inside.setdefault(name, []).append(channel)
        unreported = [before + more for before, more in zip(unreported, report.unreported, strict=True)]
    values: list[SeenValue] = []
    for column in range(columns):
        missed = unreported[column]
        found = [
            replace(value, missed=value.missed + missed - known[key]) if missed else value
            for key, value in counted.items()
            if key[0] == column
        ]
        found.sort(key=lambda value: (-value.late, -value.records, value.value))
        values += found[:most]
        unreported[column] = max([missed, *(value.records + value.missed for value in found[most:])])
    channels = {
        name: SeenChannel(
            sum(channel.records for channel in parts),
            sum(channel.late for channel in parts),
            together([channel.seen for channel in parts], columns, MOST_CHANNEL_VALUES),
        )
        for name, parts in inside.items()
    }
    return SeenValues(values, unreported, channels)


def _against(report: SeenValues, usual: float) -> SeenValues:
    """The report with distances relative to the usual one (ms) of the batch instead of the task."""
    if report.usual is None:
        return report
    more = report.usual[0] - usual
    values = [
        replace(
            value,
            delays=tuple(
                DelayPoint(it.time_ms, it.records, it.low + more, it.middle + more, it.high + more)
                for it in value.delays
            ),
        )
        for value in report.values
    ]
    return replace(report, values=values, usual=None)


def _sum(one: SeenValue, other: SeenValue) -> SeenValue:
    behind = None
    if one.behind is not None and other.behind is not None:
        behind = dict(one.behind)
        for bucket, records in other.behind.items():
            behind[bucket] = behind.get(bucket, 0) + records
    delays = tuple(sorted((*one.delays, *other.delays), key=lambda point: point.time_ms))
    late, records, missed = one.late + other.late, one.records + other.records, one.missed + other.missed
    return SeenValue(one.column, one.value, records, late, delays, behind, missed)


def _delays(rows: "pa.Table", times: Longs) -> tuple[Longs, int | None, int, Longs]:
    """The distances, what they are relative to, and the slices: rows of a slice arrived together.

    Kafka's timestamps show when, as far as they agree: a wrong clock has stamped only a part of them. So partitions can
    be compared with each other, even if each has its own producers.
    """
    count = len(times)
    size = max(_LEAST_IN_SLICE, -(-count // _MOST_SLICES))
    own = -times
    stamps: Longs | None = None
    if STAMPED in rows.column_names:
        given, known = longs(rows[STAMPED])
        stamps = np.where(known, given, times)
    if ARRIVAL in rows.column_names:
        arrivals, known = longs(rows[ARRIVAL])
        own = np.where(known, arrivals, times) - times
    usual: list[int] = []
    for first in range(0, count, size):
        step = max(1, min(size, count - first) // 4_096)
        together = slice(first, first + size)
        if stamps is None:
            own[together] -= int(np.median(own[first : first + size : step]))
        else:
            own[together] += _credible(stamps[together], step)
        usual.append(int(np.median(times[first : first + size : step])))
    if stamps is None or not count:
        return own, None, size, np.array(usual, np.int64)
    most = int(np.median(own[:: max(1, count // 65_536)]))
    return own - most, most, size, np.array(usual, np.int64)


def _credible(stamps: Longs, step: int) -> Longs:
    """The timestamps of a slice, with the median in place of outliers."""
    middle = int(np.median(stamps[::step]))
    apart = _FAR_STAMP * int(np.median(np.abs(stamps[::step] - middle))) + 1
    return np.where(np.abs(stamps - middle) > apart, middle, stamps)


def _channels(channels: Any, focus: list[str] | None) -> tuple[Longs, list[str]]:
    encoded: Any = channels.unify_dictionaries().combine_chunks() if pa.types.is_dictionary(channels.type) else None
    encoded = channels.combine_chunks().dictionary_encode() if encoded is None else encoded
    encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
    if not len(encoded):
        return np.zeros(0, np.int64), []
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    there = [short_name(name) for name in encoded.dictionary.to_pylist()]
    names = focus
    if names is None:
        names = sorted(set(there))
        names = names if len(names) <= MOST_TRACKED else []
    number = {name: place for place, name in enumerate(names)}
    return np.array([number.get(name, -1) for name in there], np.int64)[codes], names


def _encoded(values: Any) -> tuple[list[str], Longs]:
    """The distinct values and each record's number; a value may have several numbers."""
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(values, pa.ChunkedArray):
        values = values.unify_dictionaries().combine_chunks()
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks else pa.array([], pa.string()).dictionary_encode()
    names = [NO_CHANNEL if name is None else name[:LONGEST] for name in values.dictionary.to_pylist()]
    codes = pc.fill_null(values.indices, len(names)).to_numpy(zero_copy_only=False).astype(np.int64)
    return [*names, NO_CHANNEL], codes


def _column(
    number: int, names: list[str], codes: Longs, records: _Records, focus: list[str]
) -> tuple[list[SeenValue], int]:
    """The values of one column that a task reports, and how many records any other value can have."""
    ranked, counts, late = _ranked(codes, records.late, len(names))
    reported, rest = ranked[:MOST_OF_BATCH], ranked[MOST_OF_BATCH:]
    behind = _behind(codes, records, ranked[:_TRACKED_OF_TASK], {names.index(name) for name in focus if name in names})
    delays = _points(codes, counts, records, reported)
    values = [
        SeenValue(number, names[code], int(counts[code]), int(late[code]), delays.get(code, ()), behind.get(code))
        for code in reported.tolist()
    ]
    return values, int(counts[rest].max()) if len(rest) else 0


def _distinct(names: list[str], codes: Longs) -> tuple[list[str], Longs]:
    """Each value under one number: cut values, and null and its name, may coincide."""
    first: dict[str, int] = {}
    numbers = np.array([first.setdefault(name, len(first)) for name in names], np.int64)
    return (names, codes) if len(first) == len(names) else (list(first), numbers[codes])


def _behind(codes: Longs, records: _Records, first: NDArray[np.intp], focus: set[int]) -> dict[int, dict[int, int]]:
    """The records of some values, by bucket of `W0 - ts`."""
    if records.buckets is None:
        return {}
    chosen = sorted({*first.tolist(), *focus})
    place = np.full(int(codes.max(initial=0)) + 1, -1, np.int64)
    chosen = [code for code in chosen if code < len(place)]
    place[chosen] = np.arange(len(chosen))
    at = np.flatnonzero(records.buckets)
    places = place[codes[at]]
    at, places = at[places >= 0], places[places >= 0]
    size = int(records.buckets.max(initial=0)) + 1
    table = np.bincount(places * size + records.buckets[at], minlength=len(chosen) * size).reshape(len(chosen), size)
    return {
        code: {int(bucket) - 1: int(row[bucket]) for bucket in np.flatnonzero(row)}
        for code, row in zip(chosen, table, strict=True)
    }


def _points(
    codes: Longs, counts: Longs, records: _Records, reported: NDArray[np.intp]
) -> dict[int, tuple[DelayPoint, ...]]:
    """Quantiles of the distances of the more frequent values: a few points each, in order of arrival."""
    frequent = reported[np.argsort(-counts[reported], kind="stable")][:_DELAYS_OF_TASK]
    place = np.full(len(counts), len(frequent), np.uint16)
    place[frequent] = np.arange(len(frequent))
    of = place[codes]
    order = np.argsort(of, kind="stable")
    ends = np.cumsum(np.bincount(of, minlength=len(frequent) + 1)[:-1])
    rows: list[NDArray[np.intp]] = []
    points: list[tuple[int, int]] = []
    sizes: list[int] = []
    for code, end in zip(frequent.tolist(), ends.tolist(), strict=True):
        size = int(counts[code])
        parts = max(1, min(_MOST_POINTS, size // _LEAST_IN_POINT))
        edges = [end - size + size * part // parts for part in range(parts + 1)]
        for first, last in pairwise(edges):
            rows.append(order[first : last : max(1, (last - first) // _PER_POINT)])
            points.append((code, last - first))
            sizes.append(len(rows[-1]))
    if not rows:
        return {}
    chosen, numbers = np.concatenate(rows), np.repeat(np.arange(len(rows)), sizes)
    delays = records.delays[chosen]
    delays = delays[np.lexsort((delays, numbers))]
    lengths = np.array(sizes, np.int64)
    firsts, size_of = np.cumsum(lengths) - lengths, lengths - 1
    low, middle, high = (delays[firsts + (size_of * share).round().astype(np.int64)] for share in (0.05, 0.5, 0.95))
    times = records.usual_ms[chosen[firsts + size_of // 2] // records.rows_of_slice]
    found: dict[int, list[DelayPoint]] = {}
    for (code, number), time_ms, *of_point in zip(
        points, times.tolist(), low.tolist(), middle.tolist(), high.tolist(), strict=True
    ):
        found.setdefault(code, []).append(DelayPoint(time_ms, number, *of_point))
    return {code: tuple(each) for code, each in found.items()}


def _in_channels(columns: list[tuple[list[str], Longs]], records: _Records) -> dict[str, SeenChannel]:
    """The values of each channel that is explained separately."""
    found: dict[str, SeenChannel] = {}
    for place, name in enumerate(records.names):
        at = np.flatnonzero(records.channels == place)
        if not len(at):
            continue
        late = records.late[at]
        values: list[SeenValue] = []
        unreported: list[int] = []
        for number, (names, codes) in enumerate(columns):
            ranked, counts, counts_late = _ranked(codes[at], late, len(names))
            reported, rest = ranked[:MOST_CHANNEL_VALUES], ranked[MOST_CHANNEL_VALUES:]
            values += [
                SeenValue(number, names[code], int(counts[code]), int(counts_late[code])) for code in reported.tolist()
            ]
            unreported.append(int(counts[rest].max()) if len(rest) else 0)
        found[name] = SeenChannel(len(at), int(late.sum()), SeenValues(values, unreported))
    return found


def _ranked(codes: Longs, late: Flags, size: int) -> tuple[NDArray[np.intp], Longs, Longs]:
    """The values that occur, those with most late, then with most records first, with both counts of each."""
    counts = np.bincount(codes, minlength=size)
    counts_late = np.bincount(codes[late], minlength=size) if late.any() else np.zeros_like(counts)
    there = np.flatnonzero(counts)
    return there[np.lexsort((-counts[there], -counts_late[there]))], counts, counts_late
