"""A replay's rows are staged once: read, converted, sorted by arrival and written for `staged` to read.

Rows that are in order already are written as they are read. Otherwise, and with columns besides times and channel, they
are held in memory once: 20 bytes per row, and the other columns.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import hashlib
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from numpy.typing import NDArray

from ...core.times import MIN
from ...durable_file import replace_file
from ...errors import RunError, UsageError, first_line
from .base import ARRIVAL, CHANNEL, TIME, WATERMARK
from .columns import Columns, channels, spark_type, texts, times, typed_text
from .data_files import in_advance
from .record_columns import EXPLAIN, NOTHING_MORE, RecordColumns
from .record_values import record_values
from .staged import PREFIX
from .staged_records import write_records
from .staged_writer import StagedWriter
from .staging_progress import StagingProgress
from .table_files import Chunk, TableFile, chunks, rows_of

_MANIFEST = "staged.json"
_RECORD = PREFIX + "record."
_FILES_AHEAD, _SMALL_BYTES, _SMALL_ROWS = 8, 2 << 20, 200_000
"""The number of files of a store that are read while those before them are staged, if they are not larger."""


class Staged(Struct, frozen=True):
    """The content of a staging directory: the number of rows, and a digest of their inputs."""

    rows: int
    origin: str


def stage(
    files: Sequence[TableFile],
    columns: Columns,
    origin: str,
    directory: Path,
    report: Callable[[str], None],
    more: RecordColumns = NOTHING_MORE,
) -> Staged:
    """Stage `files` into `directory`, unless that is done already; `report` gets the progress as text."""
    directory.mkdir(parents=True, exist_ok=True)
    manifest = directory / _MANIFEST
    done = _read(manifest)
    if done is not None and done.origin == origin:
        return done
    manifest.unlink(missing_ok=True)
    try:
        with _kept_memory():
            rows = _stage_in_order(files, columns, directory, report) if more == NOTHING_MORE else None
        rows = _stage_whole(files, columns, directory, report, more) if rows is None else rows
    except OSError as error:
        raise RunError(
            f"cannot stage the rows in {directory}: {error.strerror or error}; free some space there, or give another "
            "directory with --state-dir or TMPDIR"
        ) from None
    staged = Staged(rows, origin)
    replace_file(manifest, msgspec.json.encode(staged))
    return staged


@contextmanager
def _kept_memory() -> Generator[None]:
    """Arrow's memory comes from the C library, which keeps what is freed for the next chunk; Arrow's own pool gives it
    back to the system, and getting it again costs more than the work on it.
    """
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def _stage_in_order(
    files: Sequence[TableFile], columns: Columns, directory: Path, report: Callable[[str], None]
) -> int | None:
    """Stage the rows as they are read, and return their number; None if they must be read as a whole: the types of
    more columns are only known at the end, and rows that are not in order must be sorted.
    """
    if columns.marker is not None or columns.since_ms is not None:
        return None
    greatest, has_arrival = MIN, columns.arrival is not None
    with StagedWriter(directory) as writer:
        for part in _parts(files, columns, NOTHING_MORE, report):
            arrivals = _arrivals(part, has_arrival)
            if has_arrival and (np.any(arrivals[1:] < arrivals[:-1]) or np.any(arrivals[:1] < greatest)):
                return None
            if not has_arrival:
                arrivals = np.maximum(np.maximum.accumulate(arrivals), greatest)
            writer.add(part.drop_columns(PREFIX + ARRIVAL) if has_arrival else part, arrivals)
            greatest = int(arrivals[-1]) if len(arrivals) else greatest
        return writer.rows


def _stage_whole(
    files: Sequence[TableFile], columns: Columns, directory: Path, report: Callable[[str], None], more: RecordColumns
) -> int:
    """Stage the rows after all of them have been read; returns their number."""
    table, arrivals = _in_order(_table(files, columns, more, report), columns.arrival is not None)
    if columns.since_ms is not None:
        first = int(arrivals.searchsorted(columns.since_ms))
        table, arrivals = table.slice(first), arrivals[first:]
    if more.whole:
        table = _write_records(directory, table)
    with StagedWriter(directory) as writer:
        writer.add(table, arrivals)
        return writer.rows


def fingerprint(file: TableFile) -> dict[str, Any]:
    """Identifies a file without reading all of it."""
    size = file.file.size
    with file.file.open() as content:
        digest = hashlib.sha256(content.read(65_536))
        content.seek(max(0, size - 65_536))
        digest.update(content.read(65_536))
    return {"name": file.file.name, "size": size, "digest": digest.hexdigest()[:16]}


def remove(directory: Path) -> None:
    """Delete the staged files."""
    shutil.rmtree(directory, ignore_errors=True)


def _read(manifest: Path) -> Staged | None:
    try:
        return msgspec.json.decode(manifest.read_bytes(), type=Staged)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _parts(
    files: Sequence[TableFile], columns: Columns, more: RecordColumns, report: Callable[[str], None]
) -> Iterator[Any]:
    """The rows in canonical columns, in the order of files and rows; UsageError if there are none."""
    progress = StagingProgress(files, report)
    reading = in_advance(partial(_chunks_of, columns=columns, more=more), files, _FILES_AHEAD)
    for number, (file, in_file) in enumerate(zip(files, reading, strict=True)):
        progress.begin(number, file)
        for chunk in in_file:
            yield _canonical(file, chunk, columns, more)
            progress.add(rows_of(chunk))
    if not progress.rows:
        raise UsageError(f"{', '.join(map(str, files))}: no rows; name a file with records")


def _chunks_of(file: TableFile, columns: Columns, more: RecordColumns) -> Iterable[Chunk]:
    """The columns that are needed; a small file in a store is read here, others as the chunks are asked for."""
    whole = file.columns if more.whole else ()
    needed = list(dict.fromkeys([*columns.needed_of(file), *more.explain, *whole]))
    encoded = [*([] if columns.channel is None else [columns.channel]), *more.explain]
    read = chunks(file, needed, encoded=encoded)
    is_small = file.file.size <= _SMALL_BYTES and (file.rows or 0) <= _SMALL_ROWS
    return list(read) if file.file.is_remote and is_small else read


def _table(files: Sequence[TableFile], columns: Columns, more: RecordColumns, report: Callable[[str], None]) -> Any:
    parts = list(_parts(files, columns, more, report))
    try:
        table = pa.concat_tables(parts, promote_options="permissive").unify_dictionaries().combine_chunks()
    except pa.ArrowException as error:
        option = "--late-output" if more.whole else "--marker"
        raise UsageError(f"{option}: a column is of different types in the input: {first_line(error)}") from None
    untyped = {name for file in files if file.format == "csv" for name in columns.marked_in(file)}
    for name in untyped:
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, typed_text(table[name]))
    return table


def _canonical(file: TableFile, chunk: Chunk, columns: Columns, more: RecordColumns) -> Any:
    """A chunk's rows: times in ms, the channel as text, and the marker's columns unchanged."""
    ts = times(file.format, chunk[columns.time], columns.unit)
    made = {}
    if columns.arrival is not None:
        arrival = times(file.format, chunk[columns.arrival], columns.unit)
        ts = pc.if_else(arrival.is_valid(), ts, pa.scalar(None, pa.int64()))
        made[PREFIX + ARRIVAL] = arrival
    made[PREFIX + TIME] = ts
    if columns.channel is not None:
        made[PREFIX + CHANNEL] = channels(chunk[columns.channel])
    if columns.watermark is not None:
        made[PREFIX + WATERMARK] = times(file.format, chunk[columns.watermark], columns.unit)
    for name in columns.marked_in(file):
        made[name] = _for_spark(name, chunk[name])
    for number, name in enumerate(more.explain):
        made[f"{PREFIX}{EXPLAIN}{number}"] = texts(chunk[name])
    if more.whole:
        made |= {_RECORD + name: record_values(name, chunk[name]) for name in file.columns}
    return pa.table(made)


def _write_records(directory: Path, table: Any) -> Any:
    """Write the columns of the whole records to a file of their own; the table without them."""
    whole = [name for name in table.column_names if name.startswith(_RECORD)]
    write_records(directory, table.select(whole).rename_columns([name.removeprefix(_RECORD) for name in whole]))
    return table.drop_columns(whole)


def _for_spark(name: str, values: Any) -> Any:
    try:
        values = pa.array(values) if isinstance(values, list) else values
    except (pa.ArrowException, OverflowError):
        raise UsageError(
            f"--marker: {name} holds values of different types, which a condition cannot use", code="no_condition"
        ) from None
    kind = spark_type(values.type)
    if kind is None:
        raise UsageError(f"--marker: {name} is {values.type}, which a condition cannot use", code="no_condition")
    return values.cast(kind, safe=False)


def _in_order(table: Any, has_arrival: bool) -> "tuple[Any, NDArray[np.int64]]":
    """The rows, and their arrivals, in a stable order of arrival, null (`MIN`) first; without arrivals, each row
    arrives at the greatest time so far.
    """
    arrivals = _arrivals(table, has_arrival)
    if not has_arrival:
        return table, np.maximum.accumulate(arrivals)
    table = table.drop_columns(PREFIX + ARRIVAL)
    if np.all(arrivals[1:] >= arrivals[:-1]):
        return table, arrivals
    order = np.argsort(arrivals, kind="stable")
    return table.take(pa.array(order)), arrivals[order]


def _arrivals(table: Any, has_arrival: bool) -> "NDArray[np.int64]":
    """The arrivals, or without them the event times (ms); null is `MIN`."""
    values = table[PREFIX + (ARRIVAL if has_arrival else TIME)]
    return (values.fill_null(MIN) if values.null_count else values).to_numpy()
