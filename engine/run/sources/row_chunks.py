"""Rows of a file by column, what is broken among them, and a file whose content ends where it cannot be read."""

import codecs
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import pyarrow as pa
from msgspec import Struct

from ...system.errors import one_line
from ...watermarks.observation import MAX_VALUE, WhyNoTime
from .data_files import DataFile

MAX_ROW_BYTES = 16 << 20
"""Longest line of a text file (bytes); a longer one is malformed, and is not held in memory."""

_REASON = 120


class Broken(Struct, frozen=True):
    """Why a row has no values, and how it begins, or what the library says of it."""

    why: WhyNoTime
    text: str | None = None


class Chunk(dict[str, Any]):
    """Values by column (of JSON also by path): Arrow arrays of the file's types (Parquet), of text (CSV), or lists of
    Python values (JSON). A broken row is null in all columns.
    """

    def __init__(self, values: Mapping[str, Any], broken: tuple[int, Broken] | None = None) -> None:
        """`broken`: the number of the first broken row in the chunk (from 0), and why; None: no row is broken."""
        super().__init__(values)
        self.broken = broken


def rows_of(chunk: Chunk) -> int:
    """The number of rows in a chunk."""
    return len(next(iter(chunk.values())))


def broken_text(text: bytes) -> str:
    """The beginning of a broken row as text."""
    return text[: 4 * MAX_VALUE].decode(errors="replace").strip()[:MAX_VALUE]


def first_broken(rows: Sequence[object]) -> tuple[int, Broken] | None:
    """The first broken one of some rows, with its number."""
    return next(((number, row) for number, row in enumerate(rows) if isinstance(row, Broken)), None)


def broken_rows(columns: Sequence[str], rows: int, broken: Broken) -> Chunk:
    """A chunk of `rows` rows that are all broken in the same way."""
    return Chunk({name: pa.nulls(rows) for name in columns}, (0, broken))


def damage(file: DataFile, error: Exception) -> Broken:
    """What stands for the rows that an error about the content of `file` hides."""
    return Broken("damaged", one_line(file.reason(error), _REASON))


class ReadableContent(io.RawIOBase):
    """The content of a file up to where it cannot be read; `error` is what reading raised there."""

    def __init__(self, content: IO[bytes], errors: tuple[type[Exception], ...]) -> None:
        self._content: Any = content
        self._errors = errors
        self.error: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        """As much as one read gives: a longer read would lose what precedes the error."""
        if self.error is not None:
            return 0
        try:
            data = self._content.read1(len(into))
        except self._errors as error:
            self.error = error
            return 0
        into[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._content.close()
        super().close()


def lines_of(source: IO[bytes], size: int, content: ReadableContent) -> Iterator[bytes]:
    """Whole lines in blocks of about `size` bytes (at most `MAX_ROW_BYTES`); a line that is too long is a `CutLine`.

    A line that ends where the content cannot be read is left out: a part of a number is another number.
    """
    while block := source.read(size):
        start = block.rfind(b"\n") + 1
        if start < len(block):
            most = MAX_ROW_BYTES - (len(block) - start)
            rest = source.readline(most + 1)
            if len(rest) > most and not rest.endswith(b"\n"):
                if start:
                    yield block[:start]
                yield CutLine(block[start : start + 4 * MAX_VALUE])
                while (more := source.readline(MAX_ROW_BYTES)) and not more.endswith(b"\n"):
                    pass
                continue
            block += rest
        if content.error is not None:
            block = block[: block.rfind(b"\n") + 1]
        yield block


class CutLine(bytes):
    """The beginning of a line that is too long."""


def utf_16_chunks(source: IO[bytes], columns: Sequence[str], size: int, content: ReadableContent) -> Iterator[Chunk]:
    """The lines of a text in UTF-16, all of them broken."""
    for lines in lines_of(source, size, content):
        filled = [line for line in lines.split(b"\n") if line.strip(b" \t\r\0")]
        if filled:
            yield broken_rows(columns, len(filled), Broken("not_utf8", broken_text(filled[0])))


def is_utf_16(head: bytes) -> bool:
    """Whether a text begins with the mark of UTF-16."""
    return head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
