"""Arrow columns in Spark's tasks without pandas, and one table over event times instead of steps over every record."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ..watermarks.settings import Session, Settings
from ..watermarks.times import MIN
from .groups import Keys, Levels, Limits, keys_of, limits_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def map_in_arrow(
    rows: "DataFrame",
    task: "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]",
    schema: "StructType | str",
) -> "DataFrame":
    """What a task makes of the rows of each partition, in columns of that schema."""
    from pyspark.sql import DataFrame
    from pyspark.util import PythonEvalType

    column = _call(rows, task, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    plan: Any = rows
    return DataFrame(plan._jdf.mapInArrow(column._jc, False, None), rows.sparkSession)


def apply_in_arrow(
    rows: "DataFrame", key: str, task: "Callable[[pa.Table], pa.Table]", schema: "StructType | str"
) -> "DataFrame":
    """What a task makes of the rows of each group with the same `key`, in columns of that schema."""
    from pyspark.sql import DataFrame
    from pyspark.util import PythonEvalType

    column = _call(rows, task, schema, PythonEvalType.SQL_GROUPED_MAP_ARROW_UDF)
    groups: Any = rows.groupBy(key)
    return DataFrame(groups._jgd.flatMapGroupsInArrow(column._jc), rows.sparkSession)


def _call(rows: "DataFrame", task: Callable[[Any], Any], schema: "StructType | str", kind: Any) -> Any:
    """The call of the task, with all columns of the rows."""
    from pyspark.sql.udf import UserDefinedFunction

    function = UserDefinedFunction(task, returnType=schema, evalType=kind)
    return function(*[rows[name] for name in rows.columns])


Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

_MIN_ROWS = 1 << 14
"""Fewer records are searched one by one: a table costs more."""
_SLOTS_PER_CELL, _MIN_SLOTS, _MAX_SLOTS = 64, 1 << 12, 1 << 17
"""Slots of the table: enough that few have a step inside, few enough for the processor's cache."""
_MIXED = -1
"""A slot that has a step inside."""


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

    def find(self, times: Longs, found: Longs) -> None:
        """Write the number of the cell of each time to `found`."""
        if self.table is None:
            found[:] = self.lows.searchsorted(times, "right")
            found -= 1
            return
        slots = times - self.lows[0]
        slots >>= self.shift
        self.table.take(slots, out=found, mode="clip")
        mixed = np.flatnonzero(found < 0)
        if len(mixed):
            found[mixed] = self.lows.searchsorted(times[mixed], "right") - 1


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
    numbers = _numbers(lows, starts, keys, steps, limits, newest)
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
    times: Longs, starts: Longs, keys: Keys, edges: Longs, limits: Limits, newest: int | None
) -> dict[str, Longs]:
    """The keys of these times (ms), in the order of `keys.sizes`."""
    everywhere, head = np.ones(len(times), np.bool_), times - starts < keys.head_ms
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
    found = lows.searchsorted(begins, "right") - 1
    return np.where(found[1:] == found[:-1], found[:-1], _MIXED), shift
