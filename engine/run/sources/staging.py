"""Stages a replay: sorts its records by arrival into memory-mapped files, and reports how far it is."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import hashlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray

from ...system.errors import RunError, UsageError, first_line
from ...system.files import replace_file
from ...watermarks.times import MIN
from .base import ARRIVAL, CHANNEL, NOTHING_MORE, TIME, RecordColumns
from .columns import PREFIX, WHOLE, Columns, canonical, typed_text
from .data_files import in_advance
from .staged import ARRIVALS, BATCH_ROWS, NAMES, ROWS, write_records
from .table_files import Chunk, TableFile, chunks, rows_of

_SURE_S = 1.0
"""Time (s) after which the time left is reported: the first chunks take longer."""

_MANIFEST = "staged.json"
_FILES_AHEAD, _SMALL_BYTES, _SMALL_ROWS = 8, 2 << 20, 200_000
"""The number of files of a store that are read while those before them are staged, if they are not larger."""


class StagingProgress:
    """Reports after each chunk: by bytes of the files that are done, and by rows within a Parquet file."""

    def __init__(
        self, files: Sequence[TableFile], report: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._report = report
        self._clock = clock
        self._sizes = [file.file.size for file in files]
        self._began_s = clock()
        self._done = 0
        """Bytes of the files before the current one."""
        self._size = self._in_file = 0
        self._rows_of_file: int | None = None
        self.rows = 0

    def begin(self, number: int, file: TableFile) -> None:
        """The file `number` (from 0) is read next."""
        self._done, self._size, self._in_file = sum(self._sizes[:number]), self._sizes[number], 0
        self._rows_of_file = file.rows

    def add(self, rows: int) -> None:
        """Count rows of the file that have been read, and report."""
        self.rows += rows
        self._in_file += rows
        self._report(self._line())

    def _line(self) -> str:
        took_s = self._clock() - self._began_s
        share = self._share()
        line = f"{self.rows:,} rows read"
        if took_s < _SURE_S:
            return line
        line += f", {self.rows / took_s:,.0f}/s"
        return line if not share else f"{line}, {share:.0%}, {took_s * (1 - share) / share:.0f} s left"

    def _share(self) -> float:
        inside = 0.0 if not self._rows_of_file else self._size * self._in_file / self._rows_of_file
        return (self._done + inside) / max(sum(self._sizes), 1)


class StagedWriter:
    """Writes tables of rows one after the other; only the rows of an unfinished IPC batch are held."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._arrivals: IO[bytes] = (directory / ARRIVALS).open("wb")
        self._head(0)
        self._sink: Any = None
        self._writer: Any = None
        self._waiting: list[Any] = []
        self._numbers: dict[str, int] = {}
        self._known: Any = None
        self._codes: NDArray[np.int32] | None = None
        self.rows = 0

    def __enter__(self) -> "StagedWriter":
        return self

    def add(self, table: Any, arrivals: "NDArray[np.int64]") -> None:
        """Add rows in order of arrival; only one table may have dictionaries besides that of the channels."""
        self._arrivals.write(np.ascontiguousarray(arrivals).data)
        self.rows += table.num_rows
        for batch in self._numbered(table).to_batches():
            self._add(batch)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._write(self._waiting)
            self._head(self.rows)
            if self._numbers:
                with (
                    pa.OSFile(str(self._directory / NAMES), "wb") as sink,
                    pa.ipc.new_file(sink, pa.schema([(CHANNEL, pa.string())])) as writer,
                ):
                    writer.write_table(pa.table({CHANNEL: pa.array(list(self._numbers), pa.string())}))
        if self._writer is not None:
            self._writer.close()
            self._sink.close()
        self._arrivals.close()

    def _head(self, rows: int) -> None:
        """Write the head of the array of arrivals, which has the same length for any number of rows."""
        self._arrivals.seek(0)
        np.lib.format.write_array_header_1_0(
            self._arrivals, {"descr": np.dtype(np.int64).str, "fortran_order": False, "shape": (rows,)}
        )

    def _numbered(self, table: Any) -> Any:
        """The table with numbers of names instead of channels: dictionaries differ from part to part."""
        at = table.schema.get_field_index(PREFIX + CHANNEL)
        if at < 0:
            return table.combine_chunks()
        channels: Any = table.column(at).unify_dictionaries().combine_chunks()
        channels = channels.chunk(0) if isinstance(channels, pa.ChunkedArray) else channels
        if self._known is None or not self._known.equals(channels.dictionary):
            self._known = channels.dictionary
            numbers = self._numbers
            codes = [numbers.setdefault(name, len(numbers)) for name in channels.dictionary.to_pylist()]
            self._codes = None if codes == list(range(len(codes))) else np.array(codes, np.int32)
        codes = channels.indices
        if self._codes is not None:
            codes = pa.array(self._codes[codes.to_numpy()])
        return table.set_column(at, PREFIX + CHANNEL, codes).combine_chunks()

    def _add(self, batch: Any) -> None:
        """Write as many full IPC batches as there are."""
        at, held = 0, sum(map(len, self._waiting))
        while held + len(batch) - at >= BATCH_ROWS:
            part = batch.slice(at, BATCH_ROWS - held)
            at += len(part)
            self._write([*self._waiting, part])
            self._waiting, held = [], 0
        if at < len(batch):
            self._waiting.append(batch.slice(at))

    def _write(self, batches: list[Any]) -> None:
        if not batches:
            return
        if self._writer is None:
            self._sink = pa.OSFile(str(self._directory / ROWS), "wb")
            self._writer = pa.ipc.new_file(self._sink, batches[0].schema)
        rows = pa.Table.from_batches(batches).combine_chunks()
        self._writer.write_table(rows)


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
            yield canonical(file, chunk, columns, more)
            progress.add(rows_of(chunk))
    if not progress.rows:
        raise UsageError(f"{', '.join(map(str, files))}: no rows; name a file with records")


def _chunks_of(file: TableFile, columns: Columns, more: RecordColumns) -> Iterable[Chunk]:
    """The columns that are needed; a small file in a store is read here, others as the chunks are asked for."""
    encoded = [*([] if columns.channel is None else [columns.channel]), *more.explain]
    read = chunks(file, columns.needed_of(file, more), encoded=encoded)
    is_small = file.file.size <= _SMALL_BYTES and (file.rows or 0) <= _SMALL_ROWS
    return list(read) if file.file.is_remote and is_small else read


def _table(files: Sequence[TableFile], columns: Columns, more: RecordColumns, report: Callable[[str], None]) -> Any:
    parts = list(_parts(files, columns, more, report))
    try:
        table = pa.concat_tables(parts, promote_options="permissive").unify_dictionaries().combine_chunks()
    except pa.ArrowException as error:
        option = "--late-output" if more.whole else "--marker"
        raise UsageError(f"{option}: a column is of different types in the input: {first_line(error)}") from None
    untyped = {name for file in files if file.types is None for name in columns.marked_in(file)}
    for name in untyped:
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, typed_text(table[name]))
    return table


def _write_records(directory: Path, table: Any) -> Any:
    """Write the columns of the whole records to a file of their own; the table without them."""
    whole = [name for name in table.column_names if name.startswith(WHOLE)]
    write_records(directory, table.select(whole).rename_columns([name.removeprefix(WHOLE) for name in whole]))
    return table.drop_columns(whole)


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
