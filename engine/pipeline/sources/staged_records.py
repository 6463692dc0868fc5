"""The whole records of a replay: staged besides the rows (`staged`), and looked up by row number for late ones.

Every worker imports this, so it imports little.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..arrow_map import map_in_arrow
from .base import OFFSET
from .record_values import plain_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RECORDS = "records.arrow"
_ROWS = 16_384


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
        wanted: Any = rows[order][numbers == number] - first
        parts.append(batch.take(pa.array(wanted, pa.int64())))
    back: Any = np.empty(len(rows), dtype=np.int64)
    back[order] = np.arange(len(rows))
    return pa.Table.from_batches(parts).take(pa.array(back, pa.int64()))
