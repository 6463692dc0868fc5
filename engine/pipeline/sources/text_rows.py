"""CSV and JSON lines read by tasks as Arrow columns: only files for which Spark's own reader gives the same values.

Spark reads everything that the two might read differently (quotes, control characters, other line ends, ragged rows,
values of another type). It runs in Spark's workers, and imports little.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import gzip
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
from msgspec import Struct

from ...event_time import TimeUnit
from .base import CHANNEL, ONE_CHANNEL, TIME, WATERMARK
from .columns import Columns, channels, times
from .parquet_rows import NotReadableError, Piece
from .table_files import TableFile

_BLOCK_BYTES = 8 << 20
_MAX_NUMBER, _DEEPEST, _MAX_LINE = 1_000, 500, 50_000
"""Limits like those of Spark's parser, which Arrow does not have: characters of a number, nesting, characters of a
line.
"""
_LONG_NUMBER = re.compile(rb"[0-9.eE+-]{%d}" % _MAX_NUMBER)
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
        columns = {TIME: self._times(rows[self.time].combine_chunks())}
        if self.channel is None:
            columns[CHANNEL] = pa.DictionaryArray.from_arrays(
                np.zeros(rows.num_rows, np.int32), pa.array([ONE_CHANNEL])
            )
        else:
            columns[CHANNEL] = channels(rows[self.channel].combine_chunks())
        if self.watermark is not None:
            columns[WATERMARK] = self._times(rows[self.watermark].combine_chunks())
        return pa.table(columns)

    def _times(self, values: Any) -> Any:
        # Arrow has parsed the JSON into integers or text, whose meaning is that of a typed file.
        return times("csv" if self.format == "csv" else "parquet", values, self.unit)


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
        rest = b""
        while block := file.read(_BLOCK_BYTES):
            cut = block.rfind(b"\n") + 1
            if cut:
                yield header, rest + block[:cut]
                rest = block[cut:]
            else:
                rest += block
        yield header, rest


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
