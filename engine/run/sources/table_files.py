"""Parquet, CSV and JSON-lines files (the latter two also gzipped) as chunks of a few columns."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import codecs
import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import msgspec
import pyarrow as pa
import pyarrow.csv as pa_csv
from msgspec import Struct, structs

from ...system.errors import UsageError, one_line
from ...system.json_values import JsonPath, parse_json_path
from ...system.remote_files import is_of_store
from .data_files import AHEAD, SUFFIXES, DataFile, Format, damaged, local_file, missing, unreadable

Chunk = dict[str, Any]
"""Values by column (of JSON also by path): Arrow arrays of the file's types (Parquet), of text (CSV), or lists of
Python values (JSON).
"""

_ROWS, _PARQUET_ROWS = 100_000, 1 << 20
_CSV_BLOCK, _GLANCE = 8 << 20, 1 << 20
_LOOKED_AT = 1_000
_NO_ROW = object()
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
            content = _parquet(file)
            schema, rows = content.schema_arrow, content.metadata.num_rows
            types = dict(zip(schema.names, schema.types, strict=True))
            return TableFile(file, file_format, False, tuple(schema.names), types, rows=rows)
        if file_format == "csv":
            header = head.splitlines()[0].decode(errors="replace")
            delimiter = "\t" if suffix == ".tsv" else max(",;\t|", key=header.count)
            with open_text(file, gzipped, AHEAD) as text:
                names = next(csv.reader(text, delimiter=delimiter), [])
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
    """The rows of `columns` in file order, `rows` at a time; `UsageError` if the file is damaged.

    The text of the columns `encoded` comes dictionary-encoded from Parquet, as it is stored. Of Parquet, `row_groups`
    (None: all) are read, and a column that the file does not have is null.
    """
    try:
        if file.format == "parquet":
            yield from _parquet_chunks(file, columns, rows or _PARQUET_ROWS, encoded, row_groups)
        elif file.format == "csv":
            yield from _csv_chunks(file, columns, rows or _ROWS)
        else:
            yield from _json_chunks(file, columns, rows or _ROWS)
    except UsageError:
        raise
    except file.file.errors as error:
        raise damaged(file.file, error) from None


def sample(file: TableFile, columns: Sequence[str]) -> Chunk | None:
    """The first rows of `columns`; None if the file has no rows."""
    return next((chunk for chunk in chunks(file, columns, _LOOKED_AT) if rows_of(chunk)), None)


def rows_of(chunk: Chunk) -> int:
    """The number of rows in a chunk."""
    return len(next(iter(chunk.values())))


def open_text(file: DataFile, gzipped: bool, ahead: int) -> IO[str]:
    """A file as text; bytes that are not text are replaced."""
    return io.TextIOWrapper(_open(file, gzipped, ahead), encoding="utf-8-sig", errors="replace", newline="")


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


def _open(file: DataFile, gzipped: bool, ahead: int) -> IO[bytes]:
    content = file.open(ahead)
    if not gzipped:
        return content
    unpacked = gzip.GzipFile(fileobj=content)
    unpacked.myfileobj = content  # pyright: ignore[reportAttributeAccessIssue] # it closes what it opened itself only
    return unpacked  # pyright: ignore[reportReturnType]


def _parquet(file: DataFile, encoded: Sequence[str] = ()) -> Any:
    try:
        return file.open_parquet(read_dictionary=list(encoded), coerce_int96_timestamp_unit="us")
    except file.errors as error:
        if is_of_store(error):
            raise unreadable(file, error) from None
        raise UsageError(f"{file} is not a readable Parquet file: {file.reason(error)}", code="no_parquet") from None


def _parquet_chunks(
    file: TableFile, columns: Sequence[str], rows: int, encoded: Sequence[str], row_groups: Sequence[int] | None
) -> Iterator[Chunk]:
    try:
        content = _parquet(file.file, encoded)
    except KeyError:  # it has no such column
        content = _parquet(file.file)
    names = set(content.schema_arrow.names)
    for groups in _row_groups(content.metadata, rows, row_groups):
        for batch in content.iter_batches(rows, row_groups=groups, columns=list(columns)):
            yield {name: batch.column(name) if name in names else pa.nulls(len(batch)) for name in columns}


def _row_groups(metadata: Any, rows: int, numbers: Sequence[int] | None) -> Iterator[list[int]]:
    """The row groups in parts of at least `rows` rows, which are requested from a store at once."""
    part, count = list[int](), 0
    for number in range(metadata.num_row_groups) if numbers is None else numbers:
        part.append(number)
        count += metadata.row_group(number).num_rows
        if count >= rows:
            yield part
            part, count = [], 0
    if part:
        yield part


def _block(rows: int) -> int:
    """Bytes that are read at once of a text file."""
    return _CSV_BLOCK if rows > _LOOKED_AT else _GLANCE


def _csv_chunks(file: TableFile, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
    """Chunks of a CSV file: Arrow reads well-formed files fast; from the first row that it refuses (ragged, not UTF-8),
    `csv` continues.
    """
    done = 0
    try:
        with _open(file.file, file.gzipped, _block(rows)) as source:
            reader = pa_csv.open_csv(
                source,
                read_options=pa_csv.ReadOptions(block_size=_block(rows)),
                parse_options=pa_csv.ParseOptions(delimiter=file.delimiter),
                convert_options=pa_csv.ConvertOptions(
                    include_columns=list(columns),
                    column_types=dict.fromkeys(columns, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
            for batch in reader:
                yield {name: batch.column(name) for name in columns}
                done += batch.num_rows
    except pa.ArrowInvalid:
        yield from _slow_csv_chunks(file, columns, rows, done)


def _slow_csv_chunks(file: TableFile, columns: Sequence[str], rows: int, skip: int) -> Iterator[Chunk]:
    with open_text(file.file, file.gzipped, _block(rows)) as text:
        records = (record for record in csv.reader(text, delimiter=file.delimiter) if record)
        header = next(records, [])
        at = [header.index(name) for name in columns]
        body = islice(records, skip, None)
        while part := list(islice(body, rows)):
            values = [[(record[i] or None) if i < len(record) else None for record in part] for i in at]
            yield {name: pa.array(column, pa.string()) for name, column in zip(columns, values, strict=True)}


def _json_columns(file: DataFile, gzipped: bool, head: bytes) -> tuple[str, ...]:
    if head.lstrip().startswith(b"["):
        raise UsageError(
            f"{file} is one JSON array; write one object a line, as in: jq -c '.[]' {file.name} > lines.jsonl",
            code="json_array",
        )
    names: dict[str, None] = {}
    with _open(file, gzipped, _GLANCE) as lines:
        for line in islice(lines, _LOOKED_AT):
            try:
                names |= dict.fromkeys(msgspec.json.decode(line.removeprefix(codecs.BOM_UTF8), type=dict[str, Any]))
            except msgspec.DecodeError:
                continue
    if not names:
        found = one_line(head.decode(errors="replace"), 40)
        raise UsageError(
            f"{file} has no JSON lines; expected one object a line, but it begins with {found}", code="no_json_lines"
        )
    return tuple(names)


def _json_chunks(file: TableFile, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
    paths = {name: (file.path_of(name) or JsonPath((name,))).steps for name in columns}
    at = {str(path[0]): f"c{i}" for i, path in enumerate(paths.values())}
    fields = [(field, Any, None) for field in at.values()]
    renamed = {field: name for name, field in at.items()}
    record = msgspec.defstruct("Record", fields, rename=renamed, gc=False)
    decoder, nothing = msgspec.json.Decoder(record), record()
    with _open(file.file, file.gzipped, _block(rows)) as lines:
        while part := list(islice(lines, rows)):
            try:
                records = decoder.decode_lines(b"".join(part))
            except msgspec.DecodeError:
                records = [row for line in part if (row := _decoded(decoder.decode, line, nothing)) is not _NO_ROW]
            tops = {name: [getattr(row, field) for row in records] for name, field in at.items()}
            yield {
                name: tops[str(top)] if not inner else list(map(JsonPath(tuple(inner)).of, tops[str(top)]))
                for name, (top, *inner) in paths.items()
            }


def _decoded(decode: Any, line: bytes, nothing: Any) -> Any:
    """A line's values; a broken line is a record without values, a blank line none."""
    try:
        return decode(line)
    except msgspec.DecodeError:
        if line.startswith(codecs.BOM_UTF8):
            return _decoded(decode, line.removeprefix(codecs.BOM_UTF8), nothing)
        return nothing if line.strip() else _NO_ROW
