"""Reads a replay's staged rows, in any process: rows in order of arrival, memory-mapped.

The directory holds `rows.arrow` (Arrow IPC in batches of one size, so that a row's batch is known) and `arrivals.npy`
(a sorted array to search). Every worker imports this, so it imports little.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray

from .base import CHANNEL, OFFSET, ONE_CHANNEL

BATCH_ROWS = 65_536
"""Rows per IPC batch."""
PREFIX = "_wmtop_"
"""Prefix of a canonical column's name, since the columns for `--marker` keep their own names."""
ROWS, ARRIVALS = "rows.arrow", "arrivals.npy"


def arrivals_of(directory: Path) -> NDArray[np.int64]:
    """The arrivals (ms) of the staged rows in order, `MIN` for null."""
    return np.load(directory / ARRIVALS, mmap_mode="r")


def schema_of(directory: Path) -> Any:
    """The Arrow schema of `read_rows`: plain text for text, the offset last."""
    with pa.memory_map(str(directory / ROWS)) as source:
        return _plain_schema(pa.ipc.open_file(source).schema)


def read_rows(directory: Path, start: int, stop: int) -> Iterator[Any]:
    """The rows `start <= row < stop` as record batches of `schema_of`."""
    with pa.memory_map(str(directory / ROWS)) as source:
        reader = pa.ipc.open_file(source)
        schema = _plain_schema(reader.schema)
        for number in range(start // BATCH_ROWS, -(-stop // BATCH_ROWS)):
            first = number * BATCH_ROWS
            low, high = max(start, first), min(stop, first + BATCH_ROWS)
            batch = reader.get_batch(number).slice(low - first, high - low)
            plain = [_plain(values) for values in batch.columns]
            yield pa.RecordBatch.from_arrays([*plain, pa.array(np.arange(low, high, dtype=np.int64))], schema=schema)


def staged_rows(directory: Path, parts: list[tuple[int, int]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Runs in tasks over the numbers of `parts`: the staged rows of those ranges."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_rows(directory, *parts[number])

    return run


class StagedRows(Struct, frozen=True):
    """Reads ranges of staged rows in the canonical columns (a `ColumnReader`'s `read`); pickled to the tasks."""

    directory: str
    channel: bool
    """Whether there is a column of channels."""

    def __call__(self, rows: tuple[int, int]) -> Iterator[Any]:
        """The rows `start <= row < stop` as tables, a few IPC batches each."""
        start, stop = rows
        with pa.memory_map(str(Path(self.directory, ROWS))) as source:
            reader = pa.ipc.open_file(source)
            for number in range(start // BATCH_ROWS, -(-stop // BATCH_ROWS)):
                first = number * BATCH_ROWS
                low, high = max(start, first), min(stop, first + BATCH_ROWS)
                batch = reader.get_batch(number).slice(low - first, high - low)
                columns = {name.removeprefix(PREFIX): batch.column(name) for name in batch.schema.names}
                if not self.channel:
                    numbers = np.zeros(high - low, np.int32)
                    columns[CHANNEL] = pa.DictionaryArray.from_arrays(numbers, pa.array([ONE_CHANNEL]))
                columns[OFFSET] = pa.array(np.arange(low, high, dtype=np.int64))
                yield pa.table(columns)


def _plain(values: Any) -> Any:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _plain_schema(schema: Any) -> Any:
    types = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in schema]
    return pa.schema([*zip(schema.names, types, strict=True), (PREFIX + OFFSET, pa.int64())])
