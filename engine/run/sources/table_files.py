"""Parquet, CSV and JSON-lines files (the latter two also gzipped) as chunks of a few columns."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import codecs
import gzip
import io
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from ...system.errors import UsageError, one_line
from ...system.json_values import JsonPath, parse_json_path
from .csv_rows import CsvRows, columns_at
from .data_files import AHEAD, SUFFIXES, DataFile, Format, damaged, local_file, missing, unreadable
from .json_rows import JsonRows, names_in
from .parquet_rows import open_parquet, parquet_chunks
from .row_chunks import (
    MAX_ROW_BYTES,
    Chunk,
    ReadableContent,
    broken_rows,
    damage,
    is_utf_16,
    lines_of,
    rows_of,
    utf_16_chunks,
)

_PARQUET_ROWS = 1 << 20
_BLOCK, _GLANCE = 8 << 20, 1 << 20
_LOOKED_AT = 1_000
_GZIP = b"\x1f\x8b"


class TableFile(Struct, frozen=True):
    """A file, its format, and its columns; `types` and `rows` are Parquet's, None if a file has none."""

    file: DataFile
    format: Format
    gzipped: bool
    columns: tuple[str, ...]
    types: dict[str, Any] | None = None
    delimiter: str = ","
    rows: int | None = None

    def __str__(self) -> str:
        return str(self.file)

    def path_of(self, name: str) -> JsonPath | None:
        """Where a column of JSON is: under its name, else at the path that the name is; None: nowhere, or no JSON."""
        if self.format != "json" or name in self.columns:
            return JsonPath((name,)) if self.format == "json" else None
        try:
            path = parse_json_path(name, "--time")
        except UsageError:
            return None
        return path if path.steps[0] in self.columns else None


def look_at(file: DataFile | Path, as_format: Format | None = None) -> TableFile:
    """Recognise a file by its content, then by its name; `UsageError` for one that cannot be read."""
    file = local_file(file) if isinstance(file, Path) else file
    head, gzipped = _head(file)
    name = Path(file.name.lower())
    suffix = (name.with_suffix("") if gzipped and name.suffix == ".gz" else name).suffix
    file_format = as_format or _recognise(head, suffix)
    try:
        if file_format == "parquet":
            content = open_parquet(file)
            schema, rows = content.schema_arrow, content.metadata.num_rows
            types = dict(zip(schema.names, schema.types, strict=True))
            return TableFile(file, file_format, False, tuple(schema.names), types, rows=rows)
        if is_utf_16(head):
            raise UsageError(
                f"{file} is text in UTF-16; convert it, as in: iconv -f UTF-16 -t UTF-8 {file.name} > utf8-{file.name}",
                code="utf_16",
            )
        if file_format == "csv":
            header = head.splitlines()[0].decode(errors="replace")
            delimiter = "\t" if suffix == ".tsv" else max(",;\t|", key=header.count)
            with _readable(file, gzipped, AHEAD) as (source, content):
                names = CsvRows(source, delimiter, AHEAD, content).header()
            return TableFile(file, file_format, gzipped, tuple(names), delimiter=delimiter)
        return TableFile(file, file_format, gzipped, _json_columns(file, gzipped, head))
    except UsageError:
        raise
    except file.errors as error:
        raise damaged(file, error) from None


def like(file: TableFile, path: Path) -> TableFile:
    """Another file of the same format, delimiter and columns."""
    other = local_file(path)
    with other.open() as content:
        gzipped = content.read(2) == _GZIP
    return structs.replace(file, file=other, gzipped=gzipped, rows=None)


def chunks(
    file: TableFile,
    columns: Sequence[str],
    rows: int | None = None,
    encoded: Sequence[str] = (),
    row_groups: Sequence[int] | None = None,
) -> Iterator[Chunk]:
    """The rows of `columns` in file order, of Parquet `rows` at a time, of text a block, or a small one with `rows`.

    What cannot be read is a broken row; `UsageError` only if the file cannot be read for another reason than its
    content.
    The text of the columns `encoded` comes dictionary-encoded from Parquet, as it is stored. Of Parquet, `row_groups`
    (None: all) are read. A column that the file does not have is null.
    """
    try:
        if file.format == "parquet":
            yield from parquet_chunks(file.file, columns, rows or _PARQUET_ROWS, encoded, row_groups)
        else:
            yield from _text_chunks(file, columns, _BLOCK if rows is None else _GLANCE)
    except file.file.errors as error:
        if not file.file.is_damaged(error):
            raise unreadable(file.file, error) from None
        yield broken_rows(columns, 1, damage(file.file, error))


def sample(file: TableFile, columns: Sequence[str]) -> Chunk | None:
    """The first rows of `columns`; None if the file has no rows. `UsageError` if the file is damaged there."""
    first = next((chunk for chunk in chunks(file, columns, _LOOKED_AT) if rows_of(chunk)), None)
    if first is not None and first.broken is not None and first.broken[1].why == "damaged":
        raise UsageError(f"cannot read {file}: {first.broken[1].text}; is it damaged?", code="damaged")
    return first and Chunk({name: values[:_LOOKED_AT] for name, values in first.items()}, first.broken)


def _head(file: DataFile) -> tuple[bytes, bool]:
    """The first bytes of the content, and whether the file is gzipped."""
    try:
        with file.open() as content:
            gzipped = content.read(2) == _GZIP
            content.seek(0)
            with gzip.open(content) if gzipped else content as unpacked:
                head = unpacked.read(AHEAD)
    except FileNotFoundError:
        raise missing(file) from None
    except IsADirectoryError:
        raise UsageError(f"{file} is a directory; name its files, or watch it with wmtop run files {file}") from None
    except file.errors as error:
        raise unreadable(file, error) from None
    if not head.strip():
        raise UsageError(f"{file} is empty; name a file with records")
    return head, gzipped


def _recognise(head: bytes, suffix: str) -> Format:
    if head.startswith(b"PAR1"):
        return "parquet"
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    return "json" if head.removeprefix(codecs.BOM_UTF8).lstrip().startswith((b"{", b"[")) else "csv"


@contextmanager
def _readable(
    file: DataFile, gzipped: bool, ahead: int
) -> "Generator[tuple[io.BufferedReader[ReadableContent], ReadableContent]]":
    """The content of a text file, and whether it can be read to its end."""
    with file.open(ahead) as packed, gzip.GzipFile(fileobj=packed) if gzipped else packed as unpacked:
        content = ReadableContent(unpacked, file.errors)  # pyright: ignore[reportArgumentType]
        with io.BufferedReader(content, ahead) as source:
            yield source, content


def _json_columns(file: DataFile, gzipped: bool, head: bytes) -> tuple[str, ...]:
    if head.lstrip().startswith(b"["):
        raise UsageError(
            f"{file} is one JSON array; write one object a line, as in: jq -c '.[]' {file.name} > lines.jsonl",
            code="json_array",
        )
    with _readable(file, gzipped, _GLANCE) as (source, content):
        names = names_in(next(lines_of(source, _GLANCE, content), b""), _LOOKED_AT)
    if not names:
        found = one_line(head.decode(errors="replace"), 40)
        raise UsageError(
            f"{file} has no JSON lines; expected one object a line, but it begins with {found}", code="no_json_lines"
        )
    return tuple(names)


def _text_chunks(file: TableFile, columns: Sequence[str], block: int) -> Iterator[Chunk]:
    """Chunks of a CSV or JSON file, read `block` bytes at a time; raises one of the file's errors where its content
    cannot be read.
    """
    with _readable(file.file, file.gzipped, block) as (source, content):
        if is_utf_16(source.peek(2)):
            if file.format == "csv":
                source.readline(MAX_ROW_BYTES)
            yield from utf_16_chunks(source, columns, block, content)
        elif file.format == "csv":
            text = CsvRows(source, file.delimiter, block, content)
            yield from text.chunks(columns_at(text.header(), columns))
        else:
            paths = {name: file.path_of(name) or JsonPath((name,)) for name in columns}
            yield from JsonRows(paths).chunks(source, block, content)
        if content.error is not None:
            raise content.error
