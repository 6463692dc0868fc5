"""A staged replay: memory-mapped, sorted records, a batch is a range of rows."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray

from ...watermarks.times import MIN
from ..tasks import map_in_arrow
from .base import ARRIVAL, CHANNEL, OFFSET, ONE_CHANNEL
from .columns import PREFIX, plain_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_ROWS = 65_536
"""Rows per IPC batch."""
LAYOUT = 3
"""Version of the files: rows staged with another one are staged again."""
ROWS, NAMES, ARRIVALS = "rows.arrow", "channels.arrow", "arrivals.npy"

_RECORDS = "records.arrow"
_ROWS = 16_384


def arrivals_of(directory: Path) -> NDArray[np.int64]:
    """The arrivals (ms) of the staged rows in order, `MIN` for null."""
    return np.load(directory / ARRIVALS, mmap_mode="r")


def schema_of(directory: Path) -> Any:
    """The Arrow schema of `read_rows`: plain text for text, arrival and offset last."""
    with pa.memory_map(str(directory / ROWS)) as source:
        return _plain_schema(pa.ipc.open_file(source).schema)


def read_rows(directory: Path, start: int, stop: int) -> Iterator[Any]:
    """The rows `start <= row < stop` as record batches of `schema_of`."""
    arrivals = arrivals_of(directory)
    with pa.memory_map(str(directory / ROWS)) as source:
        reader = pa.ipc.open_file(source)
        schema = _plain_schema(reader.schema)
        names = _names(directory) if PREFIX + CHANNEL in schema.names else None
        for low, high, batch in _batches(reader, start, stop):
            plain = [
                names.take(values) if names is not None and name == PREFIX + CHANNEL else _plain(values)
                for name, values in zip(batch.schema.names, batch.columns, strict=True)
            ]
            numbers = pa.array(np.arange(low, high, dtype=np.int64))
            yield pa.RecordBatch.from_arrays([*plain, _known(arrivals[low:high]), numbers], schema=schema)


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
        names = _names(Path(self.directory)) if self.channel else pa.array([ONE_CHANNEL])
        arrivals = arrivals_of(Path(self.directory))
        with pa.memory_map(str(Path(self.directory, ROWS))) as source:
            for low, high, batch in _batches(pa.ipc.open_file(source), start, stop):
                columns = {name.removeprefix(PREFIX): batch.column(name) for name in batch.schema.names}
                codes = columns[CHANNEL] if self.channel else np.zeros(high - low, np.int32)
                columns[CHANNEL] = pa.DictionaryArray.from_arrays(codes, names)
                columns[ARRIVAL] = _known(arrivals[low:high])
                columns[OFFSET] = pa.array(np.arange(low, high, dtype=np.int64))
                yield pa.table(columns)


def _batches(reader: Any, start: int, stop: int) -> Iterator[tuple[int, int, Any]]:
    """The rows `start <= row < stop` by IPC batch, each with its first row and the row before which it ends."""
    for number in range(start // BATCH_ROWS, -(-stop // BATCH_ROWS)):
        first = number * BATCH_ROWS
        low, high = max(start, first), min(stop, first + BATCH_ROWS)
        yield low, high, reader.get_batch(number).slice(low - first, high - low)


def _names(directory: Path) -> Any:
    """The names of the numbers in the column of channels."""
    with pa.OSFile(str(directory / NAMES), "rb") as source:
        return pa.ipc.open_file(source).read_all()[CHANNEL].combine_chunks()


def _known(arrivals: NDArray[np.int64]) -> Any:
    """Some arrivals as Arrow; `MIN`, which is null, is at the beginning only."""
    unknown = int(arrivals.searchsorted(MIN, side="right"))
    if not unknown:
        return pa.array(arrivals)
    return pa.array(arrivals, mask=np.arange(len(arrivals)) < unknown)


def _plain(values: Any) -> Any:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _plain_schema(schema: Any) -> Any:
    types = [
        pa.string()
        if field.name == PREFIX + CHANNEL
        else field.type.value_type
        if pa.types.is_dictionary(field.type)
        else field.type
        for field in schema
    ]
    return pa.schema(
        [*zip(schema.names, types, strict=True), (PREFIX + ARRIVAL, pa.int64()), (PREFIX + OFFSET, pa.int64())]
    )


def write_records(directory: Path, table: Any) -> None:
    """Write the records of a replay, in its order."""
    with pa.OSFile(str(directory / _RECORDS), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=_ROWS)


def with_records(rows: "DataFrame", directory: Path, added: list[str]) -> "DataFrame":
    """Some rows of the replay with all columns of their records, and the columns `added` to the canonical ones."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    with pa.memory_map(str(directory / _RECORDS)) as source:
        schema = pa.ipc.open_file(source).schema
    kept = pa.schema([(field.name, plain_type(field.type)) for field in schema if field.name.lower() not in added])
    result = StructType([*from_arrow_schema(kept).fields, *rows.select(*added).schema.fields])
    return map_in_arrow(rows.select(OFFSET, *added), _lookup(str(directory), kept, added), result)


def _lookup(directory: str, kept: Any, added: list[str]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        with pa.memory_map(str(Path(directory) / _RECORDS)) as source:
            reader = pa.ipc.open_file(source)
            for batch in batches:
                if batch.num_rows:
                    records = _records(reader, batch.column(OFFSET).to_numpy()).select(kept.names).cast(kept)
                    records = records.combine_chunks().to_batches()[0]
                    columns = [*records.columns, *(batch.column(name) for name in added)]
                    yield pa.RecordBatch.from_arrays(columns, names=[*kept.names, *added])

    return run


def _records(reader: Any, rows: Any) -> Any:
    """The records with these row numbers, in that order."""
    ends = np.cumsum([reader.get_batch(number).num_rows for number in range(reader.num_record_batches)])
    order = np.argsort(rows, kind="stable")
    numbers = np.searchsorted(ends, rows[order], side="right")
    parts: list[Any] = []
    for number in np.unique(numbers):
        batch = reader.get_batch(int(number))
        first = ends[number] - batch.num_rows
        in_batch: Any = rows[order][numbers == number] - first
        parts.append(batch.take(pa.array(in_batch, pa.int64())))
    back: Any = np.empty(len(rows), dtype=np.int64)
    back[order] = np.arange(len(rows))
    return pa.Table.from_batches(parts).take(pa.array(back, pa.int64()))
