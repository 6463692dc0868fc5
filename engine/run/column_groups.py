"""Groups records given as Arrow columns, with numpy, in Spark's tasks: the table that `row_groups` makes of rows."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import gc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from numpy.typing import NDArray

from ..watermarks.settings import Session, Settings
from ..watermarks.times import MIN
from .groups import (
    FLAGS,
    MAX_NAME,
    NO_BUCKET,
    Cells,
    Flags,
    Levels,
    Longs,
    cells_between,
    keys_of,
    limits_of,
    starts_every,
)
from .sources.base import ARRIVAL, CHANNEL, OFFSET, TIME, WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BLOCK = 1 << 17
"""Records processed at once: few enough for the processor's cache."""
_MIN_BLOCK = 1 << 14
"""Chunks that are smaller on average are combined first."""
_FEW_PANES = 1 << 10
"""Consecutive panes, at most, that are numbered without looking which of them occur; or one per 64 records."""
_DENSE = 1 << 16
"""Up to this many possible keys, or four per record, each key has its own place; beyond, only keys that occur."""

_ROWS = 1 << 20
"""Records grouped at once; small files are combined until they have as many."""
Read = Callable[[Any], "Iterator[pa.Table]"]
"""Reads a part of a share."""


class _Block(Struct):
    """Some records: a slice of the table, their times (0 for malformed ones), and their groups."""

    rows: Any
    times: Longs
    usable: Flags | None
    """None: all."""
    slots: Longs


class _Slots(Struct):
    """The slots of all groups, which have records."""

    blocks: list[_Block]
    count: int
    """Possible slots."""
    kept: Longs
    """The slots with records."""
    records: Longs
    """The number of records in each of `kept`."""

    def greatest(self, values: Callable[[_Block], tuple[Longs, Flags | None]]) -> Longs:
        """The greatest value of each group where the flags are set (None: everywhere); `MIN`: none."""
        greatest = np.full(self.count, MIN, np.int64)
        for block in self.blocks:
            numbers, where = values(block)
            if where is None:
                np.maximum.at(greatest, block.slots, numbers)
            else:
                np.maximum.at(greatest, block.slots[where], numbers[where])
        return greatest[self.kept]

    def counted(self, where: Callable[[_Block], Flags]) -> Longs:
        """How many records of each group meet a condition."""
        counts = np.zeros(self.count, np.int64)
        for block in self.blocks:
            np.add.at(counts, block.slots[where(block)], 1)
        return counts[self.kept]

    def odd(self, groups: Flags) -> "tuple[Longs, Longs, Longs]":
        """The records of some groups (few), in order of offset: their slots, times and offsets (`MIN`: none)."""
        flags = np.zeros(self.count, np.bool_)
        flags[self.kept[groups]] = True
        parts: list[NDArray[np.int64]] = [np.zeros((3, 0), np.int64)]
        for block in self.blocks:
            at = np.flatnonzero(flags[block.slots])
            offsets = _none(at)
            if len(at) and OFFSET in block.rows.schema.names:
                offsets = block.rows.column(OFFSET).take(pa.array(at)).fill_null(MIN).to_numpy()
            parts.append(np.stack([block.slots[at], block.times[at], offsets]))
        slots, times, offsets = np.concatenate(parts, axis=1)
        order = np.argsort(offsets, kind="stable")
        return slots[order], times[order], offsets[order]

    def last(self, slots: Longs, values: Longs) -> Longs:
        """The last of the values of each group; `MIN`: none."""
        last = np.full(self.count, MIN, np.int64)
        last[slots] = values  # the last assignment wins
        return last[self.kept]


def column_groups(rows: "pa.Table", settings: Settings, edges: list[int], levels: Levels) -> "pa.Table":
    """The groups of `rows`: columns as in `sources.base`, `channel` dictionary-encoded, no marker, no part.

    `edges` (ms) are the what-if's, empty without one. Channels whose names occur more than once in the dictionary have
    several rows per key.
    """
    channels: Any = rows[CHANNEL].unify_dictionaries()
    names = short_names(channels.chunk(0).dictionary) if channels.num_chunks else pa.array([], pa.string())
    unified = rows.set_column(rows.schema.get_field_index(CHANNEL), CHANNEL, channels)
    if channels.num_chunks * _MIN_BLOCK > rows.num_rows + _MIN_BLOCK:  # what is done per block would cost most
        unified = unified.combine_chunks()
    batches = unified.to_batches(max_chunksize=_BLOCK)
    blocks = [_Block(part, *_values(part.column(TIME)), np.empty(0, np.int64)) for part in batches]
    by_arrival = ARRIVAL in rows.column_names
    cells = _cells(rows[TIME], blocks, settings, edges, levels, None if by_arrival else levels.latest_ms or 0)
    guarded = by_arrival and settings.future_guard_ms is not None  # then a record's cell does not say it
    width = (cells.malformed + 1) << guarded
    packed = np.empty(rows.num_rows, np.int64)
    first = 0
    for block in blocks:
        block.slots = packed[first : first + len(block.times)]
        first += len(block.times)
        cells.find(block.times, block.slots)
        if block.usable is not None:
            block.slots[~block.usable] = cells.malformed
        if guarded:
            block.slots <<= 1
            block.slots += _in_future(block, settings.future_guard_ms or 0)
        codes = block.rows.column(CHANNEL).indices.to_numpy()
        block.slots += np.multiply(codes, width, dtype=np.int64)
    keys, slots = _slots(blocks, packed, len(names) * width)
    codes, cell = np.divmod(keys, width)
    cell, future = (cell >> 1, cell & 1) if guarded else (cell, None)
    columns: dict[str, Any] = {
        CHANNEL: pa.DictionaryArray.from_arrays(codes.astype(np.int32), names),
        "start": _known(cells.starts[cell]),
    }
    for name, of_cell in cells.numbers.items():
        numbers = future if name == "is_future" and future is not None else of_cell[cell]
        columns[name] = numbers == 1 if name in FLAGS else numbers + NO_BUCKET
    columns["records"] = slots.records
    columns |= _aggregates(slots, columns, cell == cells.malformed, settings, levels)
    if by_arrival:
        greatest = pc.max(rows[ARRIVAL]).as_py()
        columns["arrival"] = pa.array([greatest] * len(cell), pa.int64())
    return pa.table(columns)


def short_name(name: str) -> str:
    """A channel's name, shortened if it is longer than `MAX_NAME` characters."""
    if len(name) <= MAX_NAME:
        return name
    return f"{name[:MAX_NAME]}~{sha256(name.encode()).hexdigest()[:8]}"


def short_names(names: Any) -> Any:
    """Channels' names, an Arrow array, with the long ones shortened."""
    if (pc.max(pc.binary_length(names)).as_py() or 0) <= MAX_NAME:
        return names.cast(pa.string())
    return pa.array([short_name(name) for name in names.to_pylist()], pa.string())


def _cells(
    times: Any, blocks: list[_Block], settings: Settings, edges: list[int], levels: Levels, now_ms: int | None
) -> Cells:
    """The cells of the batch's event times; `now_ms` is None if the future guard depends on arrivals."""
    bounds: Any = pc.min_max(times).as_py()
    first, last = (bounds["min"] or 0, bounds["max"] or 0)
    every, offset = starts_every(settings)
    low, high = (first - offset) // every, (last - offset) // every
    if high - low < max(_FEW_PANES, len(times) // 64):
        panes = np.arange(low, high + 1, dtype=np.int64)
    else:
        usable = [block.times if block.usable is None else block.times[block.usable] for block in blocks]
        panes = np.unique((np.concatenate(usable) - offset) // every)
    return cells_between((first, last), panes, settings, edges, levels, now_ms=now_ms, rows=len(times))


def _in_future(block: _Block, guard: int) -> Flags:
    """Which records are later than their own arrival by more than `guard` (ms)."""
    arrivals, known = _values(block.rows.column(ARRIVAL))
    future = block.times - arrivals > guard
    for flags in (known, block.usable):
        if flags is not None:
            future &= flags
    return future


def _slots(blocks: list[_Block], packed: Longs, possible: int) -> tuple[Longs, _Slots]:
    """The keys that occur; the blocks' slots, which are parts of `packed`, become those of these keys."""
    if possible <= max(_DENSE, 4 * len(packed)):
        counts = np.bincount(packed, minlength=possible)
        kept = np.flatnonzero(counts)
        return kept, _Slots(blocks, possible, kept, counts[kept])
    encoded = pa.array(packed).dictionary_encode()
    keys = encoded.dictionary.to_numpy()
    packed[:] = encoded.indices.to_numpy()
    return keys, _Slots(blocks, len(keys), np.arange(len(keys)), np.bincount(packed, minlength=len(keys)))


def _aggregates(
    slots: _Slots, columns: dict[str, Any], malformed: Flags, settings: Settings, levels: Levels
) -> dict[str, Any]:
    """The other columns of the groups, of which `columns` has the keys."""
    future = columns.get("is_future", np.zeros_like(malformed))
    odd = malformed | future
    of_odd, odd_times, odd_offsets = slots.odd(odd) if odd.any() else (_none(odd[:0]),) * 3
    greatest = slots.greatest(lambda block: (block.times, None))
    aggregates: dict[str, Any] = {
        "max_event_ms": _known(greatest, malformed),
        "last_offset": _known(slots.last(of_odd, odd_offsets)),
    }
    if keys_of(settings, []).gaps:
        in_gap = ~(malformed | columns["head"])
        limit = limits_of(settings, levels).gap
        aggregates["late_in_gap"] = np.where(in_gap, slots.counted(lambda block: block.times <= limit), 0)
    if "is_future" in columns:
        aggregates["future_ms"] = _known(slots.last(of_odd, odd_times), ~future)
    if isinstance(settings.spec, Session):
        aggregates["min_ms"] = _known(-slots.greatest(lambda block: (-block.times, None)), malformed)
        aggregates["max_ms"] = aggregates["max_event_ms"]
    if settings.strategy == "source":
        aggregates["emitted_ms"] = _known(slots.greatest(lambda block: _values(block.rows.column(WATERMARK))), odd)
    return aggregates


def _none(groups: NDArray[Any]) -> Longs:
    return np.full(len(groups), MIN, np.int64)


def _known(values: Longs, unknown: Flags | None = None) -> Any:
    """The values as Arrow, with null for `MIN` and where they are not known."""
    mask = values == MIN
    return pa.array(values, pa.int64(), mask=mask if unknown is None else mask | unknown)


def longs(values: Any) -> Longs:
    """A column's values, 0 for null."""
    return _values(values)[0]


def _values(values: Any) -> tuple[Longs, Flags | None]:
    """A column's values (0 for null), and which are not null; None: all."""
    known = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
    values = values if known is None else values.fill_null(0)
    return values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False), known


class Work(Struct, frozen=True):
    """The input of every task of a batch."""

    read: Read
    settings: Settings
    edges: list[int]
    levels: Levels


def groups_of_shares(spark: "SparkSession", shares: list[list[Any]], work: Work) -> "pa.Table":
    """The groups of a batch, one task per share; several rows may have the same key."""
    answers = spark.sparkContext.parallelize(shares, len(shares)).mapPartitions(partial(_groups_in_task, work))
    tables = [pa.ipc.open_stream(answer).read_all() for answer in answers.collect()]
    return pa.concat_tables([table for table in tables if table.num_rows] or tables[:1])


def _groups_in_task(work: Work, shares: Iterable[list[Any]]) -> Iterator[bytes]:
    """The groups of each share as an Arrow stream."""
    if not gc.get_freeze_count():  # Spark collects garbage after each task: 15 ms of CPU with what a worker imports
        gc.freeze()
    for share in shares:
        groups = [column_groups(rows, work.settings, work.edges, work.levels) for rows in tables_of(share, work.read)]
        table = pa.concat_tables(groups).unify_dictionaries()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        yield sink.getvalue().to_pybytes()


def tables_of(share: list[Any], read: Read) -> "Iterator[pa.Table]":
    """The rows of all parts of a share, in tables of about `_ROWS`."""
    waiting: list[pa.Table] = []
    rows = 0
    for part in share:
        for table in read(part):
            waiting.append(table)
            rows += table.num_rows
            if rows >= _ROWS:
                yield pa.concat_tables(waiting)
                waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting)
