"""`run files`: a growing directory. Files that have come to rest are planned here, and tasks read them as columns."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import time
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from ...snapshot import LostDirectory, SourceView
from ...system.errors import UsageError
from ...watermarks.observation import MalformedRecord, Offender
from ..tasks import TaskNeeds, map_in_arrow, start_workers
from .base import (
    NOTHING_MORE,
    OFFSET,
    TIME,
    Batch,
    BatchPlanner,
    BatchReader,
    RecordColumns,
    Source,
    canonical_rows,
    divided,
    numbered_batches,
    parts_of,
    quoted,
)
from .columns import (
    PREFIX,
    Columns,
    canonical,
    canonical_sql,
    check_files,
    fitting,
    malformed_in,
    marked_values,
    plain_type,
    typed_text,
    unprefixed,
)
from .data_files import Format, format_of, local_file
from .directory_watch import REST_S, UNFINISHED, DirectoryWatch, FileState, file_size, modified_ns
from .file_plan import FilePlan, PlannedBatch
from .row_chunks import Chunk, rows_of
from .table_files import TableFile, chunks, like, look_at, sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOK_EVERY_S = 0.2
_LOOK_SHARE = 0.1
"""The share of the time that looks at a large directory may take."""
_RETRY_S = 0.2
_BYTES_PER_BATCH = 64 << 20
"""Existing files are read in batches of this size: in a single batch no record could be late."""
_LOOKED_AT = 3
_MAX_UNREADABLE = 100
"""The first file with the columns is looked for behind so many that cannot be read, at most."""
_ALONE_BYTES = 8 << 20
"""Only files from this size (bytes) on are divided: opening every small file would take longer than reading it."""


class Piece(Struct, frozen=True):
    """Some row groups of a file; None: all."""

    path: str
    size: int
    """Size in bytes; for a part, its share."""
    row_groups: tuple[int, ...] | None = None


class FileRows(Struct, frozen=True):
    """Reads files like the first one; pickled to the tasks."""

    first: TableFile
    columns: Columns
    more: RecordColumns

    def __call__(self, piece: Piece) -> "Iterator[pa.Table]":
        """The piece's rows in the canonical columns, at least one table; `UsageError` for a damaged file."""
        for table in chain([self._nothing()], self._tables(piece)):
            yield unprefixed(table)

    def schema(self) -> Any:
        """The columns of `in_rows`: the canonical ones, with `PREFIX`, and those of the marker and of `more`."""
        return pa.schema([(field.name, plain_type(field.type)) for field in self._nothing().schema])

    def in_rows(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Runs in tasks over the column `path`: the files' rows in the columns of `schema`."""
        schema = self.schema()
        for batch in batches:
            for path in batch.column("path").to_pylist():
                for table in self._tables(Piece(path, 0)):
                    yield from fitting(table, schema).to_batches()

    def _tables(self, piece: Piece) -> Iterator[Any]:
        file = like(self.first, Path(piece.path))
        encoded = [*([] if self.columns.channel is None else [self.columns.channel]), *self.more.explain]
        needed = self.columns.needed_of(self.first, self.more)
        for chunk in chunks(file, needed, encoded=encoded, row_groups=piece.row_groups):
            if rows_of(chunk):
                yield canonical(file, chunk, self.columns, self.more, in_task=True)

    def malformed(self, path: str) -> Iterator[MalformedRecord]:
        """Runs in a task: the first record of a file without a usable time, if there is one."""
        file = like(self.first, Path(path))
        rows = 0
        for chunk in chunks(file, self.columns.needed_of(self.first)):
            found = malformed_in(file, chunk, self.columns, rows + 1)
            if found is not None:
                yield found
                return
            rows += rows_of(chunk)

    def _nothing(self) -> Any:
        """No rows."""
        file = self.first
        types = file.types or {}
        names = self.columns.needed_of(file, self.more)
        values = {name: [] if file.format == "json" else pa.array([], types.get(name, pa.string())) for name in names}
        return canonical(file, Chunk(values), self.columns, self.more, in_task=True)


class Files(Source, BatchPlanner):
    """A `Source` of the files in `directory`, oldest first; with `once` it ends with those that exist at the start.

    `plan`: the file that has the files of each batch, for a run that can be resumed; None: it cannot.
    """

    counted_by_spark = False  # it counts batches
    bytes_per_batch = _BYTES_PER_BATCH

    def __init__(
        self,
        directory: Path,
        columns: Columns,
        *,
        as_format: Format | None = None,
        once: bool = False,
        plan: Path | None = None,
    ) -> None:
        super().__init__()
        self.planner = self
        self.retry_after_s = self._retry_after_s
        self._plan = FilePlan(plan)
        self._look_at_s = 0.0
        """When the next look at the directory is due (monotonic)."""
        self._ready: list[tuple[str, FileState]] = []
        """Files that have come to rest and are not planned yet, the oldest first."""
        self._directory = directory
        self._columns = columns
        self._as_format: Format | None = as_format
        self._once = once
        self.bounded = once  # the number of rows is not known in advance
        self.ticks = not once
        self._gone: set[str] = set()
        """Planned files that were deleted before they were read, as they were named."""
        self._read_as: str | None = None
        """As what event times of the first files are read."""

    def check(self) -> None:
        """Look at the first files; `UsageError` if none of them has the columns, or if there is none: files define the
        columns.
        """
        files, errors = self._readable_files
        for file in files:
            if file.format != files[0].format:
                raise UsageError(
                    f"{file} is {file.format}, but {files[0]} is {files[0].format}; choose one with --format"
                )
        if not self._suitable:
            raise errors[0]
        read_as = [known for _, known in self._suitable if known is not None]
        self._read_as = ", ".join(dict.fromkeys(read_as)) or None

    def identity(self) -> dict[str, Any]:
        columns = msgspec.to_builtins(self._columns)
        return {"kind": "files", "directory": str(self._directory.absolute()), **columns}

    def describe(self) -> SourceView:
        return SourceView(
            kind="files", description=str(self._directory), time_column=self._columns.time, time_unit=self._read_as
        )

    def has_columns(self, spark: "SparkSession") -> bool:
        """Not with a `--marker`, which Spark evaluates."""
        return self._columns.marker is None

    def load(self, spark: "SparkSession", *, as_columns: bool) -> BatchReader:
        """The rows of the files of each batch."""
        start_workers(spark, self.in_tasks(spark))
        frame = numbered_batches(spark)
        self._rows(spark, [])  # checks the marker
        if not as_columns:
            return BatchReader(frame, self._batch_rows)
        first = self._first
        cores = spark.sparkContext.defaultParallelism

        def shares(batch: Batch) -> list[list[Piece]]:
            return pieces_of(self._files_in(batch), cores, by_row_group=first.format == "parquet")

        read = FileRows(first, self._columns, RecordColumns(explain=self.more.explain))
        return BatchReader(frame, self._batch_rows, shares, read)

    def resume(self, batch: int | None) -> None:
        self._plan.resume(batch)
        self._watch.begin(self._plan.files())

    def plan(self, batch: int, first_row: int) -> int | None:
        """The batch's own number, once there are files for it; one that has to be read again has the same files."""
        self._look()
        if batch in self._plan.batches:
            return None if self._watch.is_lost else batch
        if not self._ready:
            self.ended = self._watch.ended
            return None
        files = self._next_files()
        self._plan.add(PlannedBatch(batch, files))
        self._watch.take(files)
        return batch

    @property
    def all_read(self) -> bool:
        return self._watch.all_read

    @property
    def is_lost(self) -> bool:
        return self._watch.is_lost

    @property
    def lost_directory(self) -> LostDirectory | None:
        return self._watch.lost

    def _retry_after_s(self, failures: int, why: str) -> float | None:
        """At once if a file of the batch was deleted before it was read: the batch is read without it."""
        last = max(self._plan.batches, default=None)
        files = [] if last is None else self._plan.batches[last].files
        is_gone = any(path not in self._gone and not (self._directory / path).exists() for path, _ in files)
        return _RETRY_S if is_gone else None

    def malformed_of(self, batch: Batch, last: Offender) -> MalformedRecord | None:
        read = FileRows(self._first, self._columns, NOTHING_MORE)
        paths = [path for path, _ in self._files_in(batch)]
        found = batch.frame.sparkSession.sparkContext.parallelize(paths, max(1, len(paths))).flatMap(read.malformed)
        return next(iter(found.take(1)), None)

    def in_tasks(self, spark: "SparkSession") -> TaskNeeds:
        """Its directory, and what reads it."""
        return TaskNeeds((__name__, "wmtop.engine.run.column_groups"), (self._directory,))

    def trigger(self) -> dict[str, Any]:
        return {"processingTime": "0 seconds"}

    def _look(self) -> None:
        """Look at the directory if that is due."""
        if self._ready or time.monotonic() < self._look_at_s:
            return
        began_s = time.monotonic()
        self._ready = self._watch.look()
        took_s = time.monotonic() - began_s
        self._look_at_s = time.monotonic() + max(_LOOK_EVERY_S, took_s / _LOOK_SHARE)

    def _next_files(self) -> list[tuple[str, FileState]]:
        """The oldest files, of about `bytes_per_batch` bytes; they are no longer waiting."""
        count = 0
        size = 0
        for _, state in self._ready:
            size += state.size
            if count and size > self.bytes_per_batch:
                break
            count += 1
        files = self._ready[:count]
        del self._ready[:count]
        return files

    def _files_in(self, batch: Batch) -> list[tuple[str, int]]:
        """The files (path, bytes) of a batch that are still there; the others are named.

        FileNotFoundError if the directory is gone: the batch is read when it is back.
        """
        planned = self._plan.batches[int(batch.ends[0])].files
        sizes = [(path, file_size(self._directory / path)) for path, _ in planned]
        gone = [path for path, size in sizes if not size and path not in self._gone]
        if gone and not self._watch.is_there():
            raise FileNotFoundError(f"{self._directory} is gone")
        self._gone.update(gone)
        self._watch.name_gone(gone)
        return [(str(self._directory.absolute() / path), size) for path, size in sizes if size]

    def _batch_rows(self, batch: Batch) -> "DataFrame":
        return self._rows(batch.frame.sparkSession, [path for path, _ in self._files_in(batch)])

    def _rows(self, spark: "SparkSession", files: list[str]) -> "DataFrame":
        """The rows of files, in the canonical columns."""
        from pyspark.sql.pandas.types import from_arrow_schema

        paths = spark.createDataFrame([(path,) for path in files], "path string")
        read = FileRows(self._first, self._columns, self.more)
        rows = map_in_arrow(paths, read.in_rows, from_arrow_schema(read.schema()))
        rows = rows.selectExpr("*", f"cast(null as bigint) as {PREFIX}{OFFSET}")
        rows = rows.withColumns(self._typed_marks(read.first))
        fields = read.first.columns if self.more.whole else ()
        canonical = canonical_sql(self._columns, (TIME, OFFSET), self.more.explain, fields)
        return canonical_rows(rows, canonical, self._columns.marker)

    def _typed_marks(self, file: TableFile) -> "dict[str, Any]":
        """The columns that the marker uses of a file without types, in the types of its first rows."""
        from pyspark.sql import functions as F
        from pyspark.sql.pandas.types import from_arrow_type

        names = [] if file.types is not None else self._columns.marked_in(file)
        first = sample(file, names) if names else None
        if first is None:
            return {}
        typed = {
            name: (typed_text(values) if file.format == "csv" else marked_values(name, values)).type
            for name, values in first.items()
        }
        return {
            name: F.col(quoted(name)).try_cast(from_arrow_type(kind))
            for name, kind in typed.items()
            if not pa.types.is_null(kind)
        }

    @property
    def _first(self) -> TableFile:
        """The first file that has the columns; UsageError if there is none."""
        if not self._suitable:
            raise self._readable_files[1][0]
        return self._suitable[0][0]

    @cached_property
    def _watch(self) -> DirectoryWatch:
        return DirectoryWatch(
            self._directory, self._first.format, self.notes, any_name=self._as_format is not None, once=self._once
        )

    @cached_property
    def _suitable(self) -> list[tuple[TableFile, str | None]]:
        """Those of the first files that have the columns, each with as what its event times are read; rows of other
        files are malformed.
        """
        files, errors = self._readable_files
        suitable: list[tuple[TableFile, str | None]] = []
        for file in files:
            try:
                suitable.append((file, check_files([file], self._columns, self.more)))
            except UsageError as error:
                errors.append(error)
        return suitable

    @cached_property
    def _readable_files(self) -> tuple[list[TableFile], list[UsageError]]:
        """The first files that can be recognised, and why those before them cannot."""
        files: list[TableFile] = []
        errors: list[UsageError] = []
        for path in self._data_files():
            try:
                files.append(look_at(path, self._as_format))
            except UsageError as error:
                errors.append(error)
            if len(files) == _LOOKED_AT or len(errors) == _MAX_UNREADABLE:
                break
        return files, errors

    def _data_files(self) -> list[Path]:
        """The files with records, oldest first; those that have come to rest, if there are any."""
        directory = self._directory
        if directory.is_file():
            raise UsageError(
                f"{directory} is a file; replay it with wmtop run replay {directory}, or name its directory"
            )
        if not directory.is_dir():
            raise UsageError(f"no directory {directory}; create it with a first file in it", code="missing")
        paths = [directory.joinpath(*names) for names, _ in local_file(directory).below()]
        if self._as_format is None:
            paths = [path for path in paths if format_of(path.name) is not None]
        paths = [path for path in paths if file_size(path) and not path.name.lower().endswith(UNFINISHED)]
        if not paths:
            formats = self._as_format or "Parquet, CSV or JSON"
            raise UsageError(
                f"{directory} has no {formats} file with records; add a first one, which defines the columns",
                code="no_files",
            )
        modified = {path: modified_ns(path) for path in paths}
        at_rest = [path for path in paths if time.time_ns() - modified[path] > REST_S * 1e9]
        return sorted(at_rest or paths, key=lambda path: (modified[path], path))


def pieces_of(paths: list[tuple[str, int]], tasks: int, *, by_row_group: bool = True) -> list[list[Piece]]:
    """Files (path, bytes) as one list of pieces for each of at most `tasks` tasks, of about the same size."""
    pieces = [piece for path, size in paths for piece in _divided(path, size, tasks if by_row_group else 1)]
    return divided(pieces, tasks, lambda piece: piece.size)


def _divided(path: str, size: int, tasks: int) -> list[Piece]:
    """A large file in as many pieces as there are tasks, if it has enough row groups."""
    if tasks == 1 or size < _ALONE_BYTES:
        return [Piece(path, size)]
    try:
        groups = pq.ParquetFile(path, memory_map=True).num_row_groups
    except (pa.ArrowException, OSError):  # the task that reads it reports the error
        return [Piece(path, size)]
    parts = min(tasks, groups)
    return [Piece(path, size // parts, tuple(range(low, high))) for low, high in parts_of(0, groups, parts)]
