"""Parquet, CSV and JSON-lines files (the latter two also gzipped) as chunks of a few columns."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import codecs
import csv
import difflib
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from glob import glob, has_magic
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from msgspec import Struct

from ...errors import UsageError

Format = Literal["parquet", "csv", "json"]
SUFFIXES: dict[str, Format] = {
    **dict.fromkeys((".parquet", ".parq", ".pq"), "parquet"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
}

Chunk = dict[str, Any]
"""Values by column: Arrow arrays of the file's types (Parquet), of text (CSV), or lists of Python values (JSON)."""

_ROWS, _PARQUET_ROWS = 100_000, 1 << 20
_CSV_BLOCK = 8 << 20
_LOOKED_AT = 1_000
_NO_ROW = object()


class TableFile(Struct, frozen=True):
    """A file, its format, and its columns; `types` are Parquet's, None if a file has no types."""

    path: Path
    format: Format
    gzipped: bool
    columns: tuple[str, ...]
    types: dict[str, Any] | None = None
    delimiter: str = ","

    def __str__(self) -> str:
        return str(self.path)


def look_at(path: Path, as_format: Format | None = None) -> TableFile:
    """Recognise a file by its content, then by its name; `UsageError` for one that cannot be read."""
    head, gzipped = _head(path)
    suffix = (path.with_suffix("") if gzipped and path.suffix.lower() == ".gz" else path).suffix.lower()
    found = as_format or _recognise(head, suffix)
    if found == "parquet":
        schema = _parquet(path).schema_arrow
        return TableFile(path, found, False, tuple(schema.names), dict(zip(schema.names, schema.types, strict=True)))
    if found == "csv":
        delimiter = _delimiter(head, suffix)
        with open_text(path, gzipped) as file:
            names = next(csv.reader(file, delimiter=delimiter), [])
        return TableFile(path, found, gzipped, tuple(names), delimiter=delimiter)
    return TableFile(path, found, gzipped, _json_columns(path, gzipped, head))


def data_files(paths: Sequence[Path]) -> list[Path]:
    """The paths, with directories and patterns (`day=*/*.parquet`) replaced by the data files in them; numbers in names
    sort by value (`batch=9` before `batch=10`).

    UsageError for a directory or a pattern without data files.
    """
    files: list[Path] = []
    for path in paths:
        if has_magic(str(path)) and not path.exists():
            files += _matching(path)
            continue
        found = [path]
        if path.is_dir():
            inside = [each for each in path.rglob("*") if each.is_file() and not is_hidden(each.relative_to(path))]
            found = sorted(filter(format_of, inside), key=lambda each: _natural(str(each.relative_to(path))))
        if not found and (path / "_wmtop.json").exists():
            raise UsageError(f"{path} is a late output without records: its run has dropped none so far")
        if not found:
            raise UsageError(f"{path} has no Parquet, CSV or JSON file; name files or a directory with records")
        files += found
    return list(dict.fromkeys(files))


def _matching(pattern: Path) -> list[Path]:
    """The data files that a pattern names, and those in the directories that it names."""
    found: list[Path] = []
    for path in map(Path, glob(str(pattern), recursive=True)):
        if path.is_dir():
            inside = (each for each in path.rglob("*") if not is_hidden(each.relative_to(path)))
            found += [each for each in inside if each.is_file() and format_of(each)]
        elif format_of(path) and not path.name.startswith(("_", ".")):
            found.append(path)
    if not found:
        raise UsageError(f"no Parquet, CSV or JSON file matches {pattern}; check the pattern")
    return sorted(found, key=lambda each: _natural(str(each)))


def is_hidden(path: Path) -> bool:
    """Whether Spark ignores it."""
    return any(part.startswith(("_", ".")) for part in path.parts)


def format_of(path: Path) -> Format | None:
    """The format that a file's name indicates."""
    name = path.with_suffix("") if path.suffix == ".gz" else path  # Spark decompresses no .GZ
    return SUFFIXES.get(name.suffix.lower())


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d{1,18})", text)]


def chunks(
    file: TableFile, columns: Sequence[str], rows: int | None = None, encoded: Sequence[str] = ()
) -> Iterator[Chunk]:
    """The rows of `columns` in file order, `rows` at a time; `UsageError` if the file is damaged.

    The text of the columns `encoded` comes dictionary-encoded from Parquet, as it is stored.
    """
    try:
        if file.format == "parquet":
            yield from _parquet_chunks(file, columns, rows or _PARQUET_ROWS, encoded)
        elif file.format == "csv":
            yield from _csv_chunks(file, columns, rows or _ROWS)
        else:
            yield from _json_chunks(file, columns, rows or _ROWS)
    except (pa.ArrowException, OSError, EOFError, gzip.BadGzipFile) as error:
        raise UsageError(f"cannot read {file}: {_one_line(error)}; is it damaged?", code="damaged") from None


def sample(file: TableFile, columns: Sequence[str]) -> Chunk | None:
    """The first rows of `columns`; None if the file has no rows."""
    return next((chunk for chunk in chunks(file, columns, _LOOKED_AT) if rows_of(chunk)), None)


def rows_of(chunk: Chunk) -> int:
    """The number of rows in a chunk."""
    return len(next(iter(chunk.values())))


def open_text(path: Path, gzipped: bool) -> IO[str]:
    """A file as text; bytes that are not text are replaced."""
    return io.TextIOWrapper(_open(path, gzipped), encoding="utf-8-sig", errors="replace", newline="")


def near(name: str, names: Sequence[str]) -> str:
    """`; did you mean 'X'?` if one of `names` is similar to `name`."""
    like = difflib.get_close_matches(name.lower(), [other.lower() for other in names], n=2, cutoff=0.6)
    found = [other for other in names if other.lower() in like]
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


def _head(path: Path) -> tuple[bytes, bool]:
    """The first bytes of the content, and whether the file is gzipped."""
    try:
        with path.open("rb") as file:
            gzipped = file.read(2) == b"\x1f\x8b"
        with _open(path, gzipped) as content:
            head = content.read(65_536)
    except FileNotFoundError:
        siblings = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        raise UsageError(f"no file {path}{near(path.name, siblings)}", code="missing") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a directory; name its files, or watch it with wmtop run files {path}") from None
    except (OSError, EOFError) as error:
        raise UsageError(f"cannot read {path}: {_one_line(error)}", code="unreadable") from None
    if not head.strip():
        raise UsageError(f"{path} is empty; name a file with records")
    return head, gzipped


def _recognise(head: bytes, suffix: str) -> Format:
    if head.startswith(b"PAR1"):
        return "parquet"
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    return "json" if head.removeprefix(codecs.BOM_UTF8).lstrip().startswith((b"{", b"[")) else "csv"


def _open(path: Path, gzipped: bool) -> IO[bytes]:
    return gzip.open(path) if gzipped else path.open("rb")  # pyright: ignore[reportReturnType]


def _parquet(path: Path, encoded: Sequence[str] = ()) -> Any:
    try:
        return pq.ParquetFile(path, read_dictionary=list(encoded), coerce_int96_timestamp_unit="us", memory_map=True)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} is not a readable Parquet file: {_one_line(error)}", code="no_parquet") from None


def _parquet_chunks(file: TableFile, columns: Sequence[str], rows: int, encoded: Sequence[str]) -> Iterator[Chunk]:
    for batch in _parquet(file.path, encoded).iter_batches(rows, columns=list(columns)):
        yield {name: batch.column(name) for name in columns}


def _delimiter(head: bytes, suffix: str) -> str:
    header = head.splitlines()[0].decode(errors="replace")
    return "\t" if suffix == ".tsv" else max(",;\t|", key=header.count)


def _csv_chunks(file: TableFile, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
    """Chunks of a CSV file: Arrow reads well-formed files fast; from the first row that it refuses (ragged, not UTF-8),
    `csv` continues.
    """
    done = 0
    try:
        with _open(file.path, file.gzipped) as source:
            reader = pa_csv.open_csv(
                source,
                read_options=pa_csv.ReadOptions(block_size=_CSV_BLOCK),
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
    at = [file.columns.index(name) for name in columns]
    with open_text(file.path, file.gzipped) as text:
        records = (record for record in csv.reader(text, delimiter=file.delimiter) if record)
        body = islice(records, skip + 1, None)
        while part := list(islice(body, rows)):
            values = [[(record[i] or None) if i < len(record) else None for record in part] for i in at]
            yield {name: pa.array(column, pa.string()) for name, column in zip(columns, values, strict=True)}


def _json_columns(path: Path, gzipped: bool, head: bytes) -> tuple[str, ...]:
    if head.lstrip().startswith(b"["):
        raise UsageError(
            f"{path} is one JSON array; write one object a line, as in: jq -c '.[]' {path.name} > lines.jsonl",
            code="json_array",
        )
    names: dict[str, None] = {}
    with _open(path, gzipped) as file:
        for line in islice(file, _LOOKED_AT):
            try:
                names |= dict.fromkeys(msgspec.json.decode(line.removeprefix(codecs.BOM_UTF8), type=dict[str, Any]))
            except msgspec.DecodeError:
                continue
    if not names:
        raise UsageError(
            f"{path} has no JSON lines; expected one object a line, but it begins with {head[:40]!r}",
            code="no_json_lines",
        )
    return tuple(names)


def _json_chunks(file: TableFile, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
    fields = [(f"c{i}", Any, None) for i in range(len(columns))]
    renamed = {f"c{i}": name for i, name in enumerate(columns)}
    record = msgspec.defstruct("Record", fields, rename=renamed, gc=False)
    decode, nothing = msgspec.json.Decoder(record).decode, record()
    with _open(file.path, file.gzipped) as lines:
        while True:
            part = [_decoded(decode, line, nothing) for line in islice(lines, rows)]
            if not part:
                return
            kept = [row for row in part if row is not _NO_ROW]
            yield {name: [getattr(row, f"c{i}") for row in kept] for i, name in enumerate(columns)}


def _decoded(decode: Any, line: bytes, nothing: Any) -> Any:
    """A line's values; a broken line is a record without values, a blank line none."""
    try:
        return decode(line)
    except msgspec.DecodeError:
        if line.startswith(codecs.BOM_UTF8):
            return _decoded(decode, line.removeprefix(codecs.BOM_UTF8), nothing)
        return nothing if line.strip() else _NO_ROW


def _one_line(error: BaseException) -> str:
    """An error's first line without its final dot; for system errors the system's message."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return said.strip().partition("\n")[0].rstrip(".")
