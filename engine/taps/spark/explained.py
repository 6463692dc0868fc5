"""The columns that a tap explains: which values were how far behind the watermark, summed over batches."""

import zlib
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ...errors import one_line
from .files import UnreadableError
from .query_events import Count
from .query_runs import ExplainedInput, ExplainedRows
from .sketch import Sketch, decode_sketch

MOST_COLUMNS = 4
MOST_VALUES = 500
"""Values of a column that are counted, at most."""
MOST_CELLS = 1 << 20
"""Pairs of value and bucket whose rows are looked up, at most."""
_LONGEST = 200


class _Item(Struct, frozen=True):
    """A value in `approx_top_k`, and its approximate number of rows; rows without an event time have no value."""

    count: Count
    item: str | None = None


class Column(Struct, frozen=True):
    """A batch's report on one column; `cells`: rows by value and bucket."""

    values: dict[str, int]
    cells: Sketch


def explained_of(columns: dict[str, Any]) -> dict[str, Column]:
    """A batch's report, by column; ValueError or UnreadableError if it cannot be read."""
    named = columns.get("explained")
    if named is None:
        return {}
    found: dict[str, Column] = {}
    for number, name in enumerate(msgspec.json.decode(named, type=list[str])[:MOST_COLUMNS]):
        values, cells = columns.get(f"explained_values_{number}"), columns.get(f"explained_cells_{number}")
        if values is None or cells is None:
            raise UnreadableError(f"nothing of the explained column {name}")
        content = msgspec.convert(cells, bytes)
        items = {it.item: it.count for it in msgspec.json.decode(values, type=list[_Item]) if it.item is not None}
        found[name] = Column(items, decode_sketch(content))
    return found


class _Value(Struct):
    rows: int = 0
    behind: dict[int, int] = {}
    """Rows by the number of the greatest delay at which they were late."""


class ExplainedSums:
    """The sums of one input."""

    def __init__(self) -> None:
        self._columns: dict[str, dict[str, _Value]] = {}
        self._approximate: set[str] = set()
        self._rows = 0

    def add(self, batch: dict[str, Column], rows: int, behind: dict[int, int], width: int) -> None:
        """Add a batch of `rows` with an event time; `behind`: the number of the delay by the start (ms) of a bucket."""
        self._rows += rows if batch else 0
        for name, column in batch.items():
            values = self._columns.setdefault(name, {})
            if sum(column.values.values()) != rows or not column.cells.exact:
                self._approximate.add(name)
            late = _late_rows(column, list(behind), width)
            if late is None:
                self._approximate.add(name)
                late = {}
            for text, rows_of in column.values.items():
                value = values.setdefault(one_line(text, _LONGEST), _Value())
                value.rows += rows_of
                for start, count in late.get(text, {}).items():
                    value.behind[behind[start]] = value.behind.get(behind[start], 0) + count
            if len(values) > MOST_VALUES:
                self._approximate.add(name)
                kept = sorted(values.items(), key=lambda pair: (-sum(pair[1].behind.values()), -pair[1].rows))
                self._columns[name] = dict(kept[:MOST_VALUES])

    def facts(self, delays: int) -> tuple[ExplainedInput, ...]:
        """The sums so far, of so many delays."""
        return tuple(
            ExplainedInput(
                column=name,
                rows=self._rows,
                values={
                    text: ExplainedRows(value.rows, _at_least(value.behind, delays)) for text, value in values.items()
                },
                approximate=name in self._approximate,
            )
            for name, values in self._columns.items()
        )


def delay_number(delays_ms: Sequence[int], distance_ms: int) -> int:
    """The number of the greatest delay at which rows at this distance are late."""
    return bisect_right(delays_ms, distance_ms) - 1


def _at_least(behind: dict[int, int], delays: int) -> tuple[int, ...]:
    counts = [behind.get(number, 0) for number in range(delays)]
    for number in range(delays - 2, -1, -1):
        counts[number] += counts[number + 1]
    while counts and not counts[-1]:
        counts.pop()
    return tuple(counts)


def _late_rows(column: Column, starts: list[int], width: int) -> dict[str, dict[int, int]] | None:
    """Rows of each value in the buckets that begin at `starts` (ms); None: too many to look up."""
    if not starts or not column.values:
        return {}
    if len(starts) * len(column.values) > MOST_CELLS:
        return None
    import numpy as np  # loaded where there is a sketch to read

    from .sketch import keys_of_longs

    texts = list(column.values)
    sums = np.array([zlib.crc32(text.encode()) for text in texts], np.uint64)
    buckets = (np.array(starts, np.int64) // width & 0xFFFFFFFF).astype(np.uint64)
    longs = (sums[:, None] << np.uint64(32) | buckets[None, :]).astype(np.int64)
    keys = keys_of_longs(longs.ravel())
    known = np.array(list(column.cells.values), np.uint64)
    found: dict[str, dict[int, int]] = {}
    for place in np.flatnonzero(np.isin(keys, known)).tolist():
        value, bucket = divmod(place, len(starts))
        count = column.cells.values[int(keys[place])] / column.cells.share
        found.setdefault(texts[value], {})[starts[bucket]] = round(count)
    return found
