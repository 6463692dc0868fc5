"""Groups records given as Arrow columns, with numpy: the same table as `aggregate` makes from rows.

It runs in Spark's tasks and does not depend on Spark. See `groups` for the table.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

from hashlib import sha256
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray

from ..core.settings import Session, Settings
from ..core.times import MIN
from .groups import FLAGS, LONGEST_NAME, NO_BUCKET, Keys, Levels, Limits, keys_of, limits_of
from .sources.base import ARRIVAL, CHANNEL, OFFSET, TIME, WATERMARK

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

_FEW_PANES = 1 << 10
"""Consecutive starts that are numbered by distance, at most, including starts that do not occur."""
_DENSE = 1 << 16
"""Up to this many possible keys, or four per record, each key has a place of its own; beyond that only keys
that occur.
"""


class _Rows(Struct):
    """The records of a batch, by column: times are 0 where `usable` is false."""

    codes: Longs
    """Channel numbers."""
    times: Longs
    usable: Flags
    panes: Longs
    """Pane numbers; records without a usable time have that of one with a usable time, if there is any."""
    every: int
    """The distance between two panes' starts (ms)."""
    offset: int
    """The start of pane 0 (ms)."""
    future: Flags | None

    def heads(self, head_ms: int) -> Flags:
        """Which usable records are less than `head_ms` after their pane's start."""
        return self.usable & (self.times - (self.panes * self.every + self.offset) < head_ms)


class _Slots(Struct):
    """The group of each record, and the slot of each group."""

    of_record: Longs
    count: int
    kept: Longs
    """The slots with records."""
    records: Longs
    """The number of records in each of `kept`."""

    def counted(self, where: Flags) -> Longs:
        """How many records of each group meet the condition `where`."""
        if not where.any():
            return np.zeros_like(self.kept)
        return np.bincount(self.of_record[where], minlength=self.count)[self.kept]

    def greatest(self, values: Longs, where: Flags | None = None) -> Longs:
        """The greatest value of each group, `MIN`: none."""
        slots = self.of_record
        if where is not None and not where.all():
            slots, values = slots[where], values[where]
        greatest = np.full(self.count, MIN, np.int64)
        np.maximum.at(greatest, slots, values)
        return greatest[self.kept]


def column_groups(rows: "pa.Table", settings: Settings, edges: list[int], levels: Levels) -> "pa.Table":
    """The groups of `rows`: columns as in `sources.base`, `channel` dictionary-encoded, no marker, no part.

    `edges` (ms) are the what-if's, empty without one. Channels whose names occur more than once in the dictionary have
    several rows per key.
    """
    limits, keys = limits_of(settings, levels), keys_of(settings, edges)
    channels: Any = rows[CHANNEL].unify_dictionaries().combine_chunks()
    channels = channels.chunk(0) if isinstance(channels, pa.ChunkedArray) else channels
    codes = channels.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    times, usable = longs(rows[TIME])
    arrivals = longs(rows[ARRIVAL]) if ARRIVAL in rows.column_names else None
    future = _future(times, usable, settings, arrivals, levels)
    every, offset = starts_every(settings)
    read = _Rows(codes, times, usable, _panes(times, usable, every, offset), every, offset, future)
    names = [short_name(name) for name in channels.dictionary.to_pylist()]
    columns, slots = _keyed(read, keys, np.array(edges, np.int64), limits, names)
    columns["records"] = slots.records
    columns |= _aggregates(rows, read, slots, keys, settings, limits)
    if arrivals is not None:
        greatest = int(arrivals[0][arrivals[1]].max(initial=MIN))
        columns["arrival"] = _known(np.full(len(slots.kept), greatest, np.int64))
    return pa.table(columns)


def short_name(name: str) -> str:
    """A channel's name, shortened if it is longer than `LONGEST_NAME` characters."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}~{sha256(name.encode()).hexdigest()[:8]}"


def starts_every(settings: Settings) -> tuple[int, int]:
    """The distance between two panes' starts, and one of the starts (ms)."""
    window = settings.spec
    return (window.gap_ms, 0) if isinstance(window, Session) else (window.slide_ms, window.offset_ms)


def _panes(times: Longs, usable: Flags, every: int, offset: int) -> Longs:
    if not usable.all() and usable.any():
        times = np.where(usable, times, times[usable.argmax()])
    return (times - offset if offset else times) // every


def _future(
    times: Longs, usable: Flags, settings: Settings, arrivals: tuple[Longs, Flags] | None, levels: Levels
) -> Flags | None:
    guard = settings.future_guard_ms
    if guard is None:
        return None
    if arrivals is None and len(times) and int(times.max()) - (levels.now_ms or 0) <= guard:
        return np.zeros(len(times), np.bool_)  # none of them, without testing each
    if arrivals is None:
        return usable & (times - (levels.now_ms or 0) > guard)
    return usable & arrivals[1] & (times - arrivals[0] > guard)


def _keyed(read: _Rows, keys: Keys, edges: Longs, limits: Limits, names: list[str]) -> "tuple[dict[str, Any], _Slots]":
    """The key columns of the groups, and each record's group."""
    starts_of, panes = _numbered_panes(read)
    head = read.heads(keys.head_ms) if keys.head_ms else None
    numbers: dict[str, Any] = {"is_behind": read.usable & (read.times <= limits.level), "is_future": read.future}
    if head is not None:
        numbers["head"] = head
    if "behind_bucket" in keys.sizes:
        numbers["behind_bucket"] = buckets_of(limits.w0 - read.times, read.usable, edges)
    if "late_bucket" in keys.sizes:
        counts = read.usable if head is None or not keys.gaps else read.usable & ~head
        numbers["late_bucket"] = buckets_of(limits.late_from - read.times, counts, edges)
    packed = read.codes * len(starts_of)
    packed += panes
    for name, size in keys.sizes.items():
        packed *= size
        packed += numbers[name]
    found, slots = _slots(packed, len(names) * len(starts_of) * prod(keys.sizes.values()))
    found, others = unpacked(found, keys.sizes)
    codes, panes = np.divmod(found, len(starts_of))
    columns = {
        CHANNEL: pa.DictionaryArray.from_arrays(codes.astype(np.int32), pa.array(names, pa.string())),
        "start": _known(starts_of[panes]),
    }
    return columns | others, slots


def unpacked(packed: Longs, sizes: dict[str, int]) -> tuple[Longs, dict[str, Any]]:
    """The part of packed numbers above the keys of `sizes`, and these keys."""
    columns: dict[str, Any] = {}
    for name, size in reversed(sizes.items()):
        packed, numbers = np.divmod(packed, size)
        columns[name] = numbers == 1 if name in FLAGS else numbers + NO_BUCKET
    return packed, dict(reversed(columns.items()))


def _slots(packed: Longs, possible: int) -> tuple[Longs, _Slots]:
    """The keys that occur, and each record's key."""
    if possible <= max(_DENSE, 4 * len(packed)):
        counts = np.bincount(packed, minlength=possible)
        kept = np.flatnonzero(counts)
        return kept, _Slots(packed, possible, kept, counts[kept])
    encoded = pa.array(packed).dictionary_encode()
    found, slots = encoded.dictionary.to_numpy(), encoded.indices.to_numpy().astype(np.int64)
    counts = np.bincount(slots, minlength=len(found))
    return found, _Slots(slots, len(found), np.arange(len(found)), counts)


def _numbered_panes(read: _Rows) -> tuple[Longs, Longs]:
    """The panes' starts, with `MIN` (malformed) last, and the index of each record's."""
    if len(read.panes):
        first = int(read.panes.min())
        count = int(read.panes.max()) - first + 1
        if count <= _FEW_PANES:
            numbers = read.panes - first
            numbers[~read.usable] = count
            return np.append((first + np.arange(count)) * read.every + read.offset, MIN), numbers
    encoded = pa.array(read.panes).dictionary_encode()
    starts = np.append(encoded.dictionary.to_numpy() * read.every + read.offset, MIN)
    return starts, np.where(read.usable, encoded.indices.to_numpy(), len(starts) - 1).astype(np.int64)


def buckets_of(distances: Longs, where: Flags, edges: Longs) -> Longs:
    """The left-closed bucket of each distance plus 1; 0 below the first edge, which is 0, and outside `where`."""
    buckets = np.zeros(len(distances), np.int64)
    behind = np.flatnonzero(where & (distances >= 0))  # mostly few: the search is the expensive part
    buckets[behind] = np.searchsorted(edges, distances[behind], "right")
    return buckets


def _aggregates(
    rows: "pa.Table", read: _Rows, slots: _Slots, keys: Keys, settings: Settings, limits: Limits
) -> dict[str, Any]:
    usable, times = read.usable, read.times
    columns: dict[str, Any] = {"max_event_ms": _known(slots.greatest(times, usable))}
    offsets = longs(rows[OFFSET]) if OFFSET in rows.column_names else (times, np.zeros(len(times), np.bool_))
    odd = ~usable if read.future is None else ~usable | read.future
    columns["last_offset"] = _known(slots.greatest(offsets[0], offsets[1] & odd))
    if keys.gaps:
        in_gap = usable & ~read.heads(keys.head_ms)
        columns["late_in_gap"] = slots.counted(in_gap & (times <= limits.gap))
    if read.future is not None:
        columns["future_ms"] = _known(_last_future(slots, times, offsets, read.future))
    if isinstance(settings.spec, Session):
        columns["min_ms"] = _known(-slots.greatest(-times, usable))
        columns["max_ms"] = _known(slots.greatest(times, usable))
    if settings.strategy == "source":
        watermarks, known = longs(rows[WATERMARK])
        columns["emitted_ms"] = _known(slots.greatest(watermarks, known & ~odd))
    return columns


def _last_future(slots: _Slots, times: Longs, offsets: tuple[Longs, Flags], future: Flags) -> Longs:
    """The event time of each group's future record with the greatest offset (without offsets: any)."""
    last = np.full(slots.count, MIN, np.int64)
    at = np.flatnonzero(future)
    if not len(at):
        return last[slots.kept]
    at = at[np.argsort(np.where(offsets[1], offsets[0], 0)[at], kind="stable")]
    last[slots.of_record[at]] = times[at]  # the last assignment wins
    return last[slots.kept]


def _known(values: Longs) -> Any:
    """The values as Arrow, with null for `MIN`."""
    return pa.array(values, pa.int64(), mask=values == MIN)


def longs(values: Any) -> tuple[Longs, Flags]:
    """A column's values (0 for null), and which are not null."""
    if not values.null_count:
        return values.to_numpy().astype(np.int64, copy=False), np.ones(len(values), np.bool_)
    return values.fill_null(0).to_numpy().astype(np.int64, copy=False), values.is_valid().to_numpy()
