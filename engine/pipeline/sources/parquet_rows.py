"""Parquet files read by tasks as Arrow columns: only files for which Spark's own reader gives the same values.

It runs in Spark's workers, and imports little.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from ...event_time import TimeUnit, to_ms
from .base import CHANNEL, ONE_CHANNEL, TIME, WATERMARK
from .capabilities import Batch
from .columns import channels, texts
from .file_log import files_of
from .record_columns import EXPLAIN
from .shares import divided

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 1 << 20
"""Rows read at once."""
_ALONE_BYTES = 8 << 20
"""Only files from this size (bytes) on are divided: opening every small file would take longer than reading it."""
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""Metadata keys of files whose times Spark converts from another calendar."""


class NotReadableError(Exception):
    """A file that Spark must read itself: it may convert its values, or report better what is wrong with it."""


class Piece(Struct, frozen=True):
    """Some row groups of a file; None: all."""

    path: str
    size: int
    """Size in bytes; for a part, its share."""
    row_groups: tuple[int, ...] | None = None


class ParquetRows(Struct, frozen=True):
    """The columns to read, and the types that they must have (as text: types are not pickled alike)."""

    time: str
    channel: str | None
    watermark: str | None
    unit: TimeUnit
    types: dict[str, str]
    explain: tuple[str, ...] = ()
    """The columns of `--explain` that are read as well."""

    def __call__(self, piece: Piece) -> "Iterator[pa.Table]":
        """The piece's rows in the canonical columns, at least one table; NotReadableError if Spark must read it."""
        wanted = (self.time, self.channel, self.watermark, *self.explain)
        names = list(dict.fromkeys(name for name in wanted if name is not None))
        try:
            file = _open(piece.path, [name for name in (self.channel, *self.explain) if name is not None])
            self._check(file)
            if not file.metadata.num_rows:
                yield self._canonical(pa.RecordBatch.from_pylist([], schema=file.schema_arrow))
            for batch in file.iter_batches(ROWS, columns=names, row_groups=piece.row_groups):
                yield self._canonical(batch)
        except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
            raise NotReadableError(f"{piece.path}: {error}") from None

    def _check(self, file: Any) -> None:
        schema, kinds = file.schema_arrow, {}
        for name in self.types:
            if schema.names.count(name) != 1:
                raise NotReadableError(f"no column {name} of its own")
            kinds[name] = readable_type(schema.field(name).type)
        if kinds != self.types or is_legacy(file):
            raise NotReadableError("other types than the first file's")

    def _canonical(self, batch: Any) -> "pa.Table":
        columns = {TIME: to_ms(batch.column(self.time), self.unit)}
        if self.channel is None:
            columns[CHANNEL] = pa.DictionaryArray.from_arrays(np.zeros(len(batch), np.int32), pa.array([ONE_CHANNEL]))
        else:
            columns[CHANNEL] = channels(batch.column(self.channel))
        if self.watermark is not None:
            columns[WATERMARK] = to_ms(batch.column(self.watermark), self.unit)
        for number, name in enumerate(self.explain):
            columns[f"{EXPLAIN}{number}"] = texts(batch.column(name))
        return pa.table(columns)


class FileColumns(Struct, frozen=True):
    """A `ColumnReader` of files: the frame has their paths and sizes."""

    frame: Any
    read: Callable[[Piece], "Iterator[pa.Table]"]
    rows_of: Callable[[list[str]], "DataFrame"]
    """The rows of files through Spark's reader."""
    explained: ParquetRows | None = None
    divided: bool = True
    """Whether large files have row groups, which several tasks can read."""

    def shares(self, batch: Batch) -> list[list[Piece]]:
        """The batch's files, divided among as many tasks as there are cores."""
        files = files_of(batch)
        if files is None:
            files = [(row["path"].removeprefix("file:"), row["length"]) for row in batch.frame.collect()]
        return pieces_of(files, batch.frame.sparkSession.sparkContext.defaultParallelism, by_row_group=self.divided)

    def rows(self, batch: Batch) -> "DataFrame":
        """The batch's files through Spark's reader."""
        return self.rows_of([row["path"] for row in batch.frame.collect()])


def reads_as_written(spark: "SparkSession") -> bool:
    """Whether Spark is not set to convert old times between calendars."""
    modes = [spark.conf.get(f"spark.sql.parquet.{kind}RebaseModeInRead") for kind in ("datetime", "int96")]
    return modes == ["CORRECTED", "CORRECTED"]


def readable_type(kind: Any) -> str | None:
    """A name of the values' type, the same for types that are read alike; None if Spark must read it."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    alike = (pa.types.is_signed_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_date32)
    if any(test(kind) for test in alike) and not pa.types.is_float16(kind):
        return str(kind)
    return str(kind) if pa.types.is_timestamp(kind) and kind.unit != "s" else None


def is_channel_type(kind: str | None) -> bool:
    """Whether Arrow and Spark write values of that type alike."""
    return kind is not None and (kind in ("string", "bool") or kind.startswith("int"))


def is_legacy(file: Any) -> bool:
    """Whether Spark would convert the file's times from the Julian calendar."""
    metadata = file.metadata.metadata or {}
    version = metadata.get(b"org.apache.spark.version", b"4.0").decode(errors="replace").split(".")
    return any(key in metadata for key in _LEGACY) or [number.zfill(3) for number in version[:2]] < ["003", "001"]


def pieces_of(paths: list[tuple[str, int]], tasks: int, *, by_row_group: bool = True) -> list[list[Piece]]:
    """Files (path, bytes) as one list of pieces for each of at most `tasks` tasks, of about the same size."""
    pieces = [piece for path, size in paths for piece in _divided(path, size, tasks if by_row_group else 1)]
    return divided(pieces, tasks, lambda piece: piece.size)


def _divided(path: str, size: int, tasks: int) -> list[Piece]:
    """A large file in as many pieces as there are tasks, if it has enough row groups."""
    if tasks == 1 or size < _ALONE_BYTES:
        return [Piece(path, size)]
    try:
        groups = _open(path, []).num_row_groups
    except (pa.ArrowException, OSError):  # the task that reads it reports the error
        return [Piece(path, size)]
    parts = min(tasks, groups)
    edges = [groups * part // parts for part in range(parts + 1)]
    return [Piece(path, size // parts, tuple(range(low, high))) for low, high in pairwise(edges)]


def _open(path: str, texts: list[str]) -> Any:
    """The file; the text of the columns `texts` comes dictionary-encoded, as it is stored."""
    return pq.ParquetFile(path, read_dictionary=texts, coerce_int96_timestamp_unit="us", memory_map=True)
