"""Rows of Parquet, CSV and JSON files as Arrow columns inside Spark's tasks."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
from msgspec import Struct

from ...system.event_time import TimeUnit, to_ms
from .base import CHANNEL, EXPLAIN, ONE_CHANNEL, TIME, WATERMARK, Batch, divided, parts_of
from .columns import Columns, channels, texts, times
from .data_files import Format
from .table_files import TableFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 1 << 20
"""Rows read at once."""
_ALONE_BYTES = 8 << 20
"""Only files from this size (bytes) on are divided: opening every small file would take longer than reading it."""
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""Metadata keys of files whose times Spark converts from another calendar."""
_BLOCK_BYTES = 8 << 20
_MAX_NUMBER, _DEEPEST, _MAX_LINE = 1_000, 500, 50_000
"""Limits like those of Spark's parser, which Arrow does not have: characters of a number, nesting, characters of a
line.
"""
_LONG_NUMBER = re.compile(rb"[0-9.eE+-]{%d}" % _MAX_NUMBER)


def files_of(batch: Batch) -> list[tuple[str, int]] | None:
    """The files (path, bytes) of a batch of local files; None if the log does not say.

    Empty files are left out, as Spark leaves them out; None also if one is gone, which Spark reports. Spark's
    `FileStreamSourceLog` writes the log.
    """
    if batch.begins is None or batch.log is None:
        return None
    try:
        numbers = range(max(map(_number, batch.begins), default=-1) + 1, max(map(_number, batch.ends)) + 1)
        paths = [path for number in numbers for path in _entries(batch.log, number)]
        return [(path, size) for path in paths if (size := os.stat(path).st_size)]
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None


def _number(offset: str) -> int:
    return json.loads(offset)["logOffset"]


def _entries(log: Path, number: int) -> Iterator[str]:
    """The paths of one entry; every tenth has those of all before it, too."""
    file = log / str(number)
    lines = (file if file.exists() else log / f"{number}.compact").read_text().splitlines()
    if lines[0] != "v1":
        raise ValueError(lines[0])
    for line in lines[1:]:
        entry = json.loads(line)
        address = urlsplit(str(entry["path"]))
        if address.scheme != "file":
            raise ValueError(address.scheme)
        if entry["batchId"] == number:
            yield unquote(address.path)


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
        columns = (self.time, self.channel, self.watermark, *self.explain)
        names = list(dict.fromkeys(name for name in columns if name is not None))
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
        rows = canonical_table(self, batch.column, lambda values: to_ms(values, self.unit))
        for number, name in enumerate(self.explain):
            rows = rows.append_column(f"{EXPLAIN}{number}", texts(batch.column(name)))
        return rows


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
    return [Piece(path, size // parts, tuple(range(low, high))) for low, high in parts_of(0, groups, parts)]


def _open(path: str, texts: list[str]) -> Any:
    """The file; the text of the columns `texts` comes dictionary-encoded, as it is stored."""
    return pq.ParquetFile(path, read_dictionary=texts, coerce_int96_timestamp_unit="us", memory_map=True)


_CONTROL = bytes(byte for byte in range(0x20) if byte != ord("\n"))


class TextRows(Struct, frozen=True):
    """The columns to read from files like the first one."""

    format: Literal["csv", "json"]
    header: tuple[str, ...]
    """CSV: the names that every file must begin with."""
    delimiter: str
    time: str
    channel: str | None
    watermark: str | None
    unit: TimeUnit
    numbers: tuple[str, ...] = ()
    """JSON: the columns with integers; all others have text."""

    def __call__(self, piece: Piece) -> "Iterator[pa.Table]":
        """The piece's rows in the canonical columns, at least one table; NotReadableError if Spark must read it."""
        try:
            for block in _blocks(piece.path, with_header=self.format == "csv"):
                rows = self._csv(*block) if self.format == "csv" else self._json(block[1])
                yield self._canonical(rows)
        except (pa.ArrowException, OSError, EOFError, KeyError, UnicodeDecodeError) as error:
            raise NotReadableError(f"{piece.path}: {error}") from None

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for name in (self.time, self.channel, self.watermark) if name is not None))

    def _csv(self, header: bytes, body: bytes) -> Any:
        """Without quotes every line is a row, and every delimiter ends a field."""
        if header.decode().split(self.delimiter) != list(self.header):
            raise NotReadableError("another header than the first file's")
        if any(byte in body for byte in (b'"', b"\r", b"\0")) or any(byte in header for byte in (b'"', b"\r", b"\0")):
            raise NotReadableError("quotes, or another line end than a line feed")
        if not body.strip(b"\n"):
            return pa.table({name: pa.array([], pa.string()) for name in self._names})
        source: Any = pa.BufferReader(body)
        return pa_csv.read_csv(
            source,
            read_options=pa_csv.ReadOptions(
                column_names=list(self.header), use_threads=False, block_size=len(body) + 1
            ),
            parse_options=pa_csv.ParseOptions(delimiter=self.delimiter, quote_char=False),
            convert_options=pa_csv.ConvertOptions(
                include_columns=self._names,
                column_types=dict.fromkeys(self._names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )

    def _json(self, body: bytes) -> Any:
        """With a brace at both ends of every line, and as many objects as lines, every line is one object."""
        body = body.strip(b"\n")
        if not body:
            return pa.table({name: pa.array([], pa.string()) for name in self._names})
        lines = body.count(b"\n") + 1
        if len(body.translate(None, _CONTROL)) < len(body):
            raise NotReadableError("control characters")
        if not body.isascii():
            body.decode()  # Spark replaces invalid UTF-8
        if _is_beyond_limits(body):
            raise NotReadableError("beyond the limits of Spark's parser")
        whole = body.startswith(b"{") and body.endswith(b"}") and body.count(b"}\n{") == lines - 1
        schema = pa.schema([(name, pa.int64() if name in self.numbers else pa.string()) for name in self._names])
        source: Any = pa.BufferReader(body)
        rows = pa_json.read_json(
            source,
            read_options=pa_json.ReadOptions(use_threads=False, block_size=len(body) + 1),
            parse_options=pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        if not whole or rows.num_rows != lines:
            raise NotReadableError("a line that is not one object")
        return rows

    def _canonical(self, rows: Any) -> "pa.Table":
        # Arrow has parsed the JSON into integers or text, whose meaning is that of a typed file.
        kind: Format = "csv" if self.format == "csv" else "parquet"
        return canonical_table(
            self, lambda name: rows[name].combine_chunks(), lambda values: times(kind, values, self.unit)
        )


def canonical_table(
    names: ParquetRows | TextRows, column: Callable[[str], Any], to_times: Callable[[Any], Any]
) -> "pa.Table":
    """Rows in the canonical columns, given a column's values by name, and times (ms) by values."""
    ts = to_times(column(names.time))
    if names.channel is None:
        channel = pa.DictionaryArray.from_arrays(np.zeros(len(ts), np.int32), pa.array([ONE_CHANNEL]))
    else:
        channel = channels(column(names.channel))
    columns = {TIME: ts, CHANNEL: channel}
    if names.watermark is not None:
        columns[WATERMARK] = to_times(column(names.watermark))
    return pa.table(columns)


def text_rows_of(file: TableFile, columns: Columns) -> TextRows | None:
    """The reader for files like this one; None if Spark must read this one already."""
    if file.format == "parquet":
        return None
    for numbers in ((), tuple(columns.times.values())):
        read = TextRows(
            file.format, file.columns, file.delimiter, columns.time, columns.channel, columns.watermark, columns.unit,
            numbers,
        )  # fmt: skip
        with suppress(NotReadableError):
            next(read(Piece(str(file), 0)), None)
            return read
    return None


def _blocks(path: str, *, with_header: bool) -> Iterator[tuple[bytes, bytes]]:
    """The header line, and whole lines of the rest in blocks; a .gz is unpacked, as in Spark."""
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        header = file.readline().removesuffix(b"\n") if with_header else b""
        unfinished = b""
        while block := file.read(_BLOCK_BYTES):
            cut = block.rfind(b"\n") + 1
            if cut:
                yield header, unfinished + block[:cut]
                unfinished = block[cut:]
            else:
                unfinished += block
        yield header, unfinished


def _is_beyond_limits(body: bytes) -> bool:
    ends = np.flatnonzero(np.frombuffer(body, np.uint8) == ord("\n"))
    begins, ends = np.concatenate([[0], ends + 1]), np.append(ends, len(body))
    long = np.flatnonzero(ends - begins >= _DEEPEST)
    for begin, end in zip(begins[long].tolist(), ends[long].tolist(), strict=True):
        line = body[begin:end]
        deep = line.count(b"{") + line.count(b"[") >= _DEEPEST
        if deep or len(line) >= _MAX_LINE or _LONG_NUMBER.search(line):
            return True
    return False
