"""Stages a replay: its records, sorted by arrival, in memory-mapped files, of which tasks read any range of rows."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import hashlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray

from ...system.errors import RunError, UsageError, first_line
from ...system.files import replace_file
from ...watermarks.observation import MalformedRecord
from ...watermarks.times import MIN
from ..tasks import map_in_arrow
from .base import ARRIVAL, CHANNEL, NOTHING_MORE, OFFSET, TIME, RecordColumns
from .columns import PREFIX, WHOLE, Columns, canonical, malformed_in, plain_type, typed_text, unprefixed
from .data_files import in_advance
from .row_chunks import Chunk, rows_of
from .table_files import TableFile, chunks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SURE_S = 1.0
"""Time (s) after which the time left is reported: the first chunks take longer."""

BATCH_ROWS = 65_536
"""Most rows of an IPC batch."""
LAYOUT = 3
"""Version of the files: rows staged with another one are staged again."""
_ORIGIN, _ROWS, _ENDS, _ARRIVALS, _MALFORMED = "origin", "rows.arrow", "ends.npy", "arrivals", "malformed.json"
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
        self._size = self.in_file = 0
        self._rows_of_file: int | None = None
        self.rows = 0

    def begin(self, number: int, file: TableFile) -> None:
        """The file `number` (from 0) is read next."""
        self._done, self._size, self.in_file = sum(self._sizes[:number]), self._sizes[number], 0
        self._rows_of_file = file.rows

    def add(self, rows: int) -> None:
        """Count rows of the file that have been read, and report."""
        self.rows += rows
        self.in_file += rows
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
        inside = 0.0 if not self._rows_of_file else self._size * self.in_file / self._rows_of_file
        return (self._done + inside) / max(sum(self._sizes), 1)


class StagedWriter(AbstractContextManager["StagedWriter"]):
    """Writes tables of rows one after the other: none of them is held."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._arrivals: IO[bytes] = (directory / _ARRIVALS).open("wb")
        self._writer: Any = None
        self._names: dict[str, int] = {}
        self._sizes: list[int] = []

    def add(self, table: Any, arrivals: "NDArray[np.int64]") -> None:
        """Add rows in order of arrival; only one table may have dictionaries besides that of the channels."""
        self._arrivals.write(np.ascontiguousarray(arrivals).data)
        table = self._numbered(table).combine_chunks()
        if self._writer is None:
            options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
            self._writer = pa.ipc.new_file(str(self._directory / _ROWS), table.schema, options=options)
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            self._writer.write_batch(batch)
            self._sizes.append(len(batch))

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
        self._arrivals.close()
        np.save(self._directory / _ENDS, np.cumsum(self._sizes, dtype=np.int64))

    def _numbered(self, table: Any) -> Any:
        """The table with a dictionary of channels that has those of all tables before it: a file has only one."""
        at = table.schema.get_field_index(PREFIX + CHANNEL)
        if at < 0:
            return table
        channels: Any = table.column(at).unify_dictionaries().combine_chunks()
        channels = channels.chunk(0) if isinstance(channels, pa.ChunkedArray) else channels
        numbers = [self._names.setdefault(name, len(self._names)) for name in channels.dictionary.to_pylist()]
        codes = np.array(numbers, np.int32)[channels.indices.to_numpy()]
        channels = pa.DictionaryArray.from_arrays(codes, pa.array(list(self._names), pa.string()))
        return table.set_column(at, PREFIX + CHANNEL, channels)


def stage(
    files: Sequence[TableFile],
    columns: Columns,
    origin: str,
    directory: Path,
    report: Callable[[str], None],
    more: RecordColumns = NOTHING_MORE,
) -> None:
    """Stage `files` into `directory`, unless that is done already; `report` gets the progress as text.

    `origin` is a digest of what the rows are made of.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # the rows may be of a private file
    done = directory / _ORIGIN
    if done.exists() and done.read_text() == origin:
        return
    for old in (done, directory / _MALFORMED):
        old.unlink(missing_ok=True)
    try:
        with _kept_memory():
            in_order = more == NOTHING_MORE and _stage_in_order(files, columns, directory, report)
        if not in_order:
            _stage_whole(files, columns, directory, report, more)
    except OSError as error:
        raise RunError(
            f"cannot stage the rows in {directory}: {error.strerror or error}; free some space there, or give another "
            "directory with --state-dir or TMPDIR"
        ) from None
    replace_file(done, origin.encode())


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
) -> bool:
    """Stage the rows as they are read; False if they must be read as a whole: the types of more columns are only known
    at the end, and rows that are not in order must be sorted.
    """
    if columns.marker is not None or columns.since_ms is not None:
        return False
    greatest, has_arrival = MIN, columns.arrival is not None
    with StagedWriter(directory) as writer:
        for part in _parts(files, columns, NOTHING_MORE, report, directory):
            arrivals = _arrivals(part, has_arrival)
            if has_arrival and (np.any(arrivals[1:] < arrivals[:-1]) or np.any(arrivals[:1] < greatest)):
                return False
            if not has_arrival:
                arrivals = np.maximum(np.maximum.accumulate(arrivals), greatest)
            writer.add(part.drop_columns(PREFIX + ARRIVAL) if has_arrival else part, arrivals)
            greatest = int(arrivals[-1]) if len(arrivals) else greatest
    return True


def _stage_whole(
    files: Sequence[TableFile], columns: Columns, directory: Path, report: Callable[[str], None], more: RecordColumns
) -> None:
    """Stage the rows after all of them have been read."""
    parts = list(_parts(files, columns, more, report, directory))
    try:
        table: Any = pa.concat_tables(parts, promote_options="permissive").unify_dictionaries().combine_chunks()
    except pa.ArrowException as error:
        option = "--late-output" if more.whole else "--marker"
        raise UsageError(f"{option}: a column is of different types in the input: {first_line(error)}") from None
    for name in {name for file in files if file.format == "csv" for name in columns.marked_in(file)}:
        table = table.set_column(table.schema.get_field_index(name), name, typed_text(table[name]))
    table, arrivals = _in_order(table, columns.arrival is not None)
    if columns.since_ms is not None:
        first = int(arrivals.searchsorted(columns.since_ms))
        table, arrivals = table.slice(first), arrivals[first:]
    with StagedWriter(directory) as writer:
        writer.add(table, arrivals)


def fingerprint(file: TableFile) -> dict[str, Any]:
    """Identifies a file without reading all of it."""
    size = file.file.size
    with file.file.open() as content:
        digest = hashlib.sha256(content.read(65_536))
        content.seek(max(0, size - 65_536))
        digest.update(content.read(65_536))
    return {"name": file.file.name, "size": size, "digest": digest.hexdigest()[:16]}


def _parts(
    files: Sequence[TableFile], columns: Columns, more: RecordColumns, report: Callable[[str], None], directory: Path
) -> Iterator[Any]:
    """The rows in canonical columns, in the order of files and rows; UsageError if there are none.

    The first one without a usable time is written down.
    """
    malformed = directory / _MALFORMED
    progress = StagingProgress(files, report)
    reading = in_advance(partial(_chunks_of, columns=columns, more=more), files, _FILES_AHEAD)
    for number, (file, in_file) in enumerate(zip(files, reading, strict=True)):
        progress.begin(number, file)
        for chunk in in_file:
            rows = canonical(file, chunk, columns, more)
            if rows[PREFIX + TIME].null_count and not malformed.exists():
                replace_file(malformed, msgspec.json.encode(malformed_in(file, chunk, columns, progress.in_file + 1)))
            yield rows
            progress.add(rows_of(chunk))
    if not progress.rows:
        raise UsageError(f"{', '.join(map(str, files))}: no rows; name a file with records")


def _chunks_of(file: TableFile, columns: Columns, more: RecordColumns) -> Iterable[Chunk]:
    """The columns that are needed; a small file in a store is read here, others as the chunks are asked for."""
    encoded = [*([] if columns.channel is None else [columns.channel]), *more.explain]
    read = chunks(file, columns.needed_of(file, more), encoded=encoded)
    is_small = file.file.size <= _SMALL_BYTES and (file.rows or 0) <= _SMALL_ROWS
    return list(read) if file.file.is_remote and is_small else read


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


def arrivals_of(directory: Path) -> "NDArray[np.int64]":
    """The arrivals (ms) of the staged rows in order, `MIN` for null."""
    path = directory / _ARRIVALS
    return np.memmap(path, np.int64, "r") if path.stat().st_size else np.zeros(0, np.int64)


def malformed_of(directory: Path) -> MalformedRecord | None:
    """The first row that was staged without a usable time."""
    file = directory / _MALFORMED
    return msgspec.json.decode(file.read_bytes(), type=MalformedRecord) if file.exists() else None


class StagedRows(Struct, frozen=True):
    """Reads ranges of staged rows in the canonical columns (a `BatchReader`'s `read`); pickled to the tasks."""

    directory: str

    def __call__(self, rows: tuple[int, int]) -> Iterator[Any]:
        """The rows `start <= row < stop` as tables, a few IPC batches each."""
        for table in self.tables(*rows):
            yield unprefixed(table)

    def schema(self) -> Any:
        """The columns of `in_rows`: the canonical ones, with `PREFIX`, and those of the marker."""
        with pa.memory_map(str(Path(self.directory, _ROWS))) as source:
            fields = [(f.name, plain_type(f.type)) for f in pa.ipc.open_file(source).schema if _is_row(f.name)]
        return pa.schema([*fields, (PREFIX + ARRIVAL, pa.int64()), (PREFIX + OFFSET, pa.int64())])

    def in_rows(self, parts: list[tuple[int, int]], batches: Iterator[Any]) -> Iterator[Any]:
        """Runs in tasks over the numbers of `parts`: the rows of those ranges in the columns of `schema`."""
        schema = self.schema()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for table in self.tables(*parts[number]):
                    yield from table.cast(schema).to_batches()

    def tables(self, start: int, stop: int) -> Iterator[Any]:
        """The rows `start <= row < stop` with their arrivals and offsets, an IPC batch each."""
        directory = Path(self.directory)
        ends, arrivals = np.load(directory / _ENDS), arrivals_of(directory)
        with pa.memory_map(str(directory / _ROWS)) as source:
            reader = pa.ipc.open_file(source)
            for number in range(int(ends.searchsorted(start, "right")), len(ends)):
                first = int(ends[number - 1]) if number else 0
                low, high = max(start, first), min(stop, int(ends[number]))
                if low >= high:
                    return
                table = pa.Table.from_batches([reader.get_batch(number).slice(low - first, high - low)])
                table = table.select([name for name in table.column_names if _is_row(name)])
                table = table.append_column(PREFIX + ARRIVAL, pa.chunked_array([_known(arrivals[low:high])]))
                offsets = pa.array(np.arange(low, high, dtype=np.int64))
                yield table.append_column(PREFIX + OFFSET, pa.chunked_array([offsets]))

    def with_records(self, rows: "DataFrame", added: list[str]) -> "DataFrame":
        """Some rows with all columns of their records, and the columns `added` to the canonical ones."""
        from pyspark.sql.pandas.types import from_arrow_schema
        from pyspark.sql.types import StructType

        with pa.memory_map(str(Path(self.directory, _ROWS))) as source:
            whole = [field for field in pa.ipc.open_file(source).schema if not _is_row(field.name)]
        named = [(field.name.removeprefix(WHOLE), plain_type(field.type)) for field in whole]
        kept = pa.schema([(name, kind) for name, kind in named if name.lower() not in added])
        result = StructType([*from_arrow_schema(kept).fields, *rows.select(*added).schema.fields])
        return map_in_arrow(rows.select(OFFSET, *added), partial(self._look_up, kept, added), result)

    def _look_up(self, kept: Any, added: list[str], batches: Iterator[Any]) -> Iterator[Any]:
        ends = np.load(Path(self.directory, _ENDS))
        with pa.memory_map(str(Path(self.directory, _ROWS))) as source:
            reader = pa.ipc.open_file(source)
            for batch in batches:
                offsets = batch.column(OFFSET).to_numpy()
                numbers = ends.searchsorted(offsets, "right")
                for number in np.unique(numbers):
                    here = np.flatnonzero(numbers == number)
                    records = reader.get_batch(int(number)).select([WHOLE + name for name in kept.names])
                    records = records.take(pa.array(offsets[here] - (ends[number - 1] if number else 0)))
                    records = pa.Table.from_batches([records]).rename_columns(kept.names).cast(kept).to_batches()[0]
                    columns = [*records.columns, *(batch.column(name).take(pa.array(here)) for name in added)]
                    yield pa.RecordBatch.from_arrays(columns, names=[*kept.names, *added])


def _is_row(name: str) -> bool:
    return not name.startswith(WHOLE)


def _known(arrivals: "NDArray[np.int64]") -> Any:
    """Some arrivals as Arrow; `MIN`, which is null, is at the beginning only."""
    unknown = int(arrivals.searchsorted(MIN, side="right"))
    return pa.array(arrivals, mask=np.arange(len(arrivals)) < unknown if unknown else None)
