"""The groups of a batch's records: their keys and limits, cells of event times, and the observation of their table."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from numpy.typing import NDArray

from ..snapshot import Offender
from ..watermarks.counts import MAX_GROUPS
from ..watermarks.observation import BatchObservation, Group, Sequence
from ..watermarks.settings import Session, Settings
from ..watermarks.times import FIRST_USABLE_MS, MAX, MIN
from .sources.base import CHANNEL

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

BEFORE_ALL_MS = FIRST_USABLE_MS - 1
""""No watermark": before every usable event time, and safe from overflow in Spark's arithmetic."""
AFTER_ALL_MS = 2**62
"""After every usable event time by more than any bucket's edge, and as safe from overflow."""

MAX_NAME = 256
"""Longest channel name (characters); longer ones are cut and get `~` and 8 digits of their SHA-256."""
NO_BUCKET = -1
"""The bucket of a record that is ahead."""
FLAGS = frozenset({"head", "is_behind", "is_future"})
"""The keys that are booleans."""

_MIN_ROWS = 1 << 14
"""Fewer records are searched one by one: a table costs more."""
_SLOTS_PER_CELL, _MIN_SLOTS, _MAX_SLOTS = 64, 1 << 12, 1 << 17
"""Slots of the table: enough that few have a step inside, few enough for the processor's cache."""
_MIXED = -1
"""A slot that has a step inside."""
_MERGED = {"records": "sum", "future": "sum", "behind": "sum", "late_in_gap": "sum", "min_ms": "min", "max_ms": "max",
           "max_event_ms": "max", "emitted_ms": "max"}  # fmt: skip
"""How the columns of groups with the same key are combined."""


class Levels(Struct, frozen=True):
    """The state at the start of a batch: the watermark and W0 (ms), and its processing time if the source is live."""

    level: int
    w0: int
    now_ms: int | None
    ahead_ms: int = 0
    """How far another clock, that of the machine since it was set, is ahead of it: no record before both is future."""

    @property
    def latest_ms(self) -> int | None:
        """The processing time for the future guard: the later one of both clocks."""
        return None if self.now_ms is None else self.now_ms + self.ahead_ms


class Limits(Struct, frozen=True):
    """The limits for a batch's event times (ms), from `BEFORE_ALL_MS` to `AFTER_ALL_MS`."""

    level: int
    w0: int
    late_from: int
    """For a record in a session or gap: this minus its timestamp is `W0 - (own end - 1) - allowed_lateness`."""
    gap: int
    """Records in a gap, and by their own sessions, are late up to this event time."""


def late_until(settings: Settings, level: int) -> int:
    """The last time (ms) that is late at a watermark: of an event in a gap or its own session, or of a window's end."""
    own = settings.spec.gap_ms - 1 if isinstance(settings.spec, Session) else 0
    # At MAX everything is late: `ts + allowed_lateness` saturates there.
    return MAX if level == MAX else level - own - settings.allowed_lateness_ms


def limits_of(settings: Settings, levels: Levels) -> Limits:
    """The limits of a batch."""
    limits = (levels.level, levels.w0, late_until(settings, levels.w0), late_until(settings, levels.level))
    return Limits(*(min(max(value, BEFORE_ALL_MS), AFTER_ALL_MS) for value in limits))


class Keys(Struct, frozen=True):
    """The keys that groups have besides channel and start."""

    head_ms: int
    """Records less than this after their start are the pane's `head`; 0: none, or those late by their own session."""
    gaps: bool
    """Whether records may lie between windows."""
    sizes: dict[str, int]
    """The keys' columns, in order, with their number of values."""


def keys_of(settings: Settings, edges: list[int]) -> Keys:
    """The keys for these settings; `edges` (ms) is empty without a what-if."""
    window = settings.spec
    sessions = isinstance(window, Session)
    gaps = not isinstance(window, Session) and window.slide_ms > window.size_ms
    head_ms = 0 if isinstance(window, Session) else window.size_ms % window.slide_ms
    late = bool(edges) and (sessions or gaps)
    sizes = {
        "head": 2 if head_ms or settings.late_alone else 0,
        "behind_bucket": len(edges) + 1 if edges else 0,
        "late_bucket": len(edges) + 1 if late else 0,
        "is_behind": 2,
        "is_future": 0 if settings.future_guard_ms is None else 2,
    }
    return Keys(head_ms, gaps, {name: size for name, size in sizes.items() if size})


class Cells(Struct):
    """The cells between the least and the greatest time of some records; a cell beyond them is for malformed ones."""

    lows: Longs
    """The first time (ms) of each cell, ascending."""
    starts: Longs
    """The start (ms) of each cell's pane; `MIN` for the malformed."""
    numbers: dict[str, Longs]
    """The keys of the groups, by name: the number of each cell (buckets plus 1)."""
    table: Longs | None
    """The cell of each slot of `1 << shift` ms from the first time on, or `_MIXED`; None: no table."""
    shift: int

    @property
    def malformed(self) -> int:
        """The number of the malformed records' cell."""
        return len(self.lows)

    def find(self, times: Longs, numbers: Longs) -> None:
        """Write the number of the cell of each time to `numbers`."""
        if self.table is None:
            numbers[:] = self.lows.searchsorted(times, "right")
            numbers -= 1
            return
        slots = times - self.lows[0]
        slots >>= self.shift
        self.table.take(slots, out=numbers, mode="clip")
        mixed = np.flatnonzero(numbers < 0)
        if len(mixed):
            numbers[mixed] = self.lows.searchsorted(times[mixed], "right") - 1


def cells_between(
    times: tuple[int, int],
    panes: Longs,
    settings: Settings,
    edges: list[int],
    levels: Levels,
    *,
    now_ms: int | None,
    rows: int,
) -> Cells:
    """The cells of `rows` records between the first and the last of `times` (ms), in these panes (numbers, ascending).

    `now_ms`: the processing time for the future guard, in ms; None: no record is known to be in the future.
    """
    (first, last), (every, offset) = times, starts_every(settings)
    limits, keys, steps = limits_of(settings, levels), keys_of(settings, edges), np.array(edges, np.int64)
    starts = panes * every + offset
    lasts = [starts - 1, starts + (every - 1), np.array([limits.level], np.int64)]
    if keys.head_ms:
        lasts.append(starts + (keys.head_ms - 1))
    if settings.late_alone:
        lasts.append(np.array([limits.gap], np.int64))
    if "behind_bucket" in keys.sizes:
        lasts.append(limits.w0 - steps)
    if "late_bucket" in keys.sizes:
        lasts.append(limits.late_from - steps)
    newest = None if now_ms is None or settings.future_guard_ms is None else now_ms + settings.future_guard_ms
    if newest is not None:
        lasts.append(np.array([newest], np.int64))
    ends = np.concatenate(lasts)
    lows = np.unique(np.append(ends[(ends >= first) & (ends < last)] + 1, first))
    starts = (lows - offset) // every * every + offset
    numbers = _numbers(lows, starts, settings, steps, limits, newest)
    distinct = np.ones(len(lows), np.bool_)
    distinct[1:] = np.any([values[1:] != values[:-1] for values in (starts, *numbers.values())], axis=0)
    lows, starts = lows[distinct], np.append(starts[distinct], MIN)
    numbers = {name: np.append(values[distinct], 0) for name, values in numbers.items()}
    return Cells(lows, starts, numbers, *_table(lows, last, rows))


def starts_every(settings: Settings) -> tuple[int, int]:
    """The distance between two panes' starts, and one of the starts (ms)."""
    window = settings.spec
    return (window.gap_ms, 0) if isinstance(window, Session) else (window.slide_ms, window.offset_ms)


def buckets_of(distances: Longs, where: Flags, edges: Longs) -> Longs:
    """The left-closed bucket of each distance plus 1; 0 below the first edge, which is 0, and outside `where`."""
    buckets = np.zeros(len(distances), np.int64)
    behind = np.flatnonzero(where & (distances >= 0))  # mostly few: the search is the expensive part
    buckets[behind] = np.searchsorted(edges, distances[behind], "right")
    return buckets


def _numbers(
    times: Longs, starts: Longs, settings: Settings, edges: Longs, limits: Limits, newest: int | None
) -> dict[str, Longs]:
    """The keys of these times (ms), in the order of `Keys.sizes`."""
    keys = keys_of(settings, edges.tolist())
    everywhere = np.ones(len(times), np.bool_)
    head = times <= limits.gap if settings.late_alone else times - starts < keys.head_ms
    numbers: dict[str, NDArray[Any]] = {"head": head}
    if "behind_bucket" in keys.sizes:
        numbers["behind_bucket"] = buckets_of(limits.w0 - times, everywhere, edges)
    if "late_bucket" in keys.sizes:
        numbers["late_bucket"] = buckets_of(limits.late_from - times, ~head if keys.gaps else everywhere, edges)
    numbers["is_behind"] = times <= limits.level
    numbers["is_future"] = times > newest if newest is not None else ~everywhere
    return {name: numbers[name].astype(np.int64) for name in keys.sizes}


def _table(lows: Longs, last: int, rows: int) -> tuple[Longs | None, int]:
    """The table for `Cells.find`, and the shift from times to its slots."""
    if rows < _MIN_ROWS:
        return None, 0
    first = int(lows[0])
    slots = min(max(_SLOTS_PER_CELL * len(lows), _MIN_SLOTS), _MAX_SLOTS)
    shift = max(0, ((last - first) // slots).bit_length())
    begins = first + (np.arange(((last - first) >> shift) + 2, dtype=np.int64) << shift)
    cells = lows.searchsorted(begins, "right") - 1
    return np.where(cells[1:] == cells[:-1], cells[:-1], _MIXED), shift


def observation_of(
    table: Any, number: int, levels: Levels, sequences: list[Sequence], part_name: Callable[[int], str] = str
) -> BatchObservation:
    """A batch's observation; the table may have several rows with the same key. `part_name`: of an offender's part."""
    table = _with_counts(_with_codes(table))
    names: list[str] = table[CHANNEL].chunk(0).dictionary.to_pylist() if table.num_rows else []
    greatest = pc.max(table["arrival"]).as_py() if "arrival" in table.column_names else None
    return BatchObservation(
        batch=number,
        now_ms=greatest if levels.now_ms is None else levels.now_ms,
        groups=_groups(_merged(table), names),
        behind=_behind(table, names),
        sample=_sample(table, names, number),
        sequences=sequences,
        last_future=_last(table.filter(table["is_future"]), part_name) if "is_future" in table.column_names else None,
        last_malformed=_last(table.filter(pc.is_null(table["start"])), part_name),
    )


def _with_codes(table: Any) -> Any:
    """The table in one chunk, with channels encoded and their numbers as the column `code`."""
    channels: Any = table[CHANNEL]
    if not pa.types.is_dictionary(channels.type):
        channels = channels.dictionary_encode()
    channels = channels.unify_dictionaries().combine_chunks()
    channels = pa.chunked_array([channels]) if not isinstance(channels, pa.ChunkedArray) else channels
    codes = pa.chunked_array([chunk.indices for chunk in channels.chunks], pa.int32())
    table = table.set_column(table.schema.get_field_index(CHANNEL), CHANNEL, channels)
    return table.append_column("code", codes).combine_chunks()


def _with_counts(table: Any) -> Any:
    """The table with the counts of records that are behind and in the future; the latter do not reach the generator."""
    future = table["is_future"] if "is_future" in table.column_names else pa.scalar(False)
    for name, where in {"behind": table["is_behind"], "future": future}.items():
        table = table.append_column(name, pc.if_else(where, table["records"], pa.scalar(0, pa.int64())))
    reaching = pc.if_else(future, pa.scalar(None, pa.int64()), table["max_event_ms"])
    return table.set_column(table.schema.get_field_index("max_event_ms"), "max_event_ms", reaching)


def _merged(table: Any) -> Any:
    """One row for each channel, pane and late bucket."""
    keys = [key for key in ("code", "start", "head", "late_bucket") if key in table.column_names]
    columns = {name: how for name, how in _MERGED.items() if name in table.column_names}
    merged = table.group_by(keys, use_threads=False).aggregate(list(columns.items()))
    return merged.rename_columns([*keys, *columns])


def _groups(table: Any, names: list[str]) -> list[Group]:
    lists: dict[str, list[Any]] = {name: table[name].to_pylist() for name in table.column_names}

    def column(name: str, default: Any = None) -> list[Any]:
        return lists.get(name) or [default] * table.num_rows

    return list(
        map(
            Group,
            [names[code] for code in column("code")],
            column("start"),
            column("head", False),
            column("records"),
            column("future", 0),
            column("behind", 0),
            column("late_in_gap", 0),
            column("min_ms", 0),
            column("max_ms", 0),
            column("max_event_ms"),
            column("emitted_ms"),
            [None if bucket == NO_BUCKET else bucket for bucket in column("late_bucket")],
        )
    )


def _behind(table: Any, names: list[str]) -> dict[str, dict[int, int]]:
    """The records at or behind W0, by channel and bucket."""
    if "behind_bucket" not in table.column_names:
        return {}
    late = table.filter(pc.greater(table["behind_bucket"], pa.scalar(NO_BUCKET)))
    sums = late.group_by(["code", "behind_bucket"], use_threads=False).aggregate([("records", "sum")])
    behind: dict[str, dict[int, int]] = {}
    columns = (sums[name].to_pylist() for name in ("code", "behind_bucket", "records_sum"))
    for code, bucket, records in zip(*columns, strict=True):
        behind.setdefault(names[code], {})[bucket] = records
    return behind


def _sample(table: Any, names: list[str], number: int) -> list[Group]:
    """A sample of the table's own rows, the same for the same batch."""
    rows = range(table.num_rows)
    chosen = list(rows) if len(rows) <= MAX_GROUPS else sorted(Random(number).sample(rows, MAX_GROUPS))
    return _groups(table.take(pa.array(chosen, pa.int64())), names)


def _last(table: Any, part_name: Callable[[int], str]) -> Offender | None:
    """The offender with the greatest offset, of equal ones (other topics, no offsets) the last channel by name: rows
    come in any order.
    """
    rows: list[dict[str, Any]] = table.to_pylist()
    if not rows:
        return None
    row = max(rows, key=lambda row: (-1 if row["last_offset"] is None else row["last_offset"], row[CHANNEL]))
    part = row.get("last_part")
    return Offender(row[CHANNEL], row["last_offset"], row.get("future_ms"), None if part is None else part_name(part))
