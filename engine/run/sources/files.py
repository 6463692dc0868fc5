"""`run files`: a growing directory. Spark plans which files are new, and tasks read them as columns."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import json
import os
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from ...snapshot import SourceView
from ...system.errors import UsageError
from ...watermarks.observation import MalformedRecord, Offender
from ..tasks import TaskNeeds, local_uri, map_in_arrow, start_workers
from .base import (
    NOTHING_MORE,
    OFFSET,
    TIME,
    Batch,
    BatchReader,
    RecordColumns,
    Source,
    canonical_rows,
    divided,
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
from .data_files import SUFFIXES, Format, format_of, local_file
from .row_chunks import Chunk, rows_of
from .table_files import TableFile, chunks, like, look_at, sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_POLL_MS = 200
_BYTES_PER_BATCH = 64 << 20
"""Existing files are read in batches of this size: in a single batch no record could be late."""
_LOOKED_AT = 3
_MAX_UNREADABLE = 100
"""The first file with the columns is looked for behind so many that cannot be read, at most."""
_BINARY_FILE = "path string, modificationTime timestamp, length bigint, content binary"
"""The schema of Spark's source of whole files, which must be given; columns that are not selected are not read."""
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
                for table in self._tables(Piece(path.removeprefix("file:"), 0)):
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
        file, rows = like(self.first, Path(path)), 0
        for chunk in chunks(file, self.columns.needed_of(self.first)):
            found = malformed_in(file, chunk, self.columns, rows + 1)
            if found is not None:
                yield found
                return
            rows += rows_of(chunk)

    def _nothing(self) -> Any:
        """No rows."""
        file, types = self.first, self.first.types or {}
        names = self.columns.needed_of(file, self.more)
        values = {name: [] if file.format == "json" else pa.array([], types.get(name, pa.string())) for name in names}
        return canonical(file, Chunk(values), self.columns, self.more, in_task=True)


class Files(Source):
    """A `Source` of the files in `directory`, oldest first; with `once` it ends with those that exist at the start."""

    counted_by_spark = False  # it counts files

    def __init__(
        self, directory: Path, columns: Columns, *, as_format: Format | None = None, once: bool = False
    ) -> None:
        super().__init__()
        self._directory = directory
        self._columns = columns
        self._as_format: Format | None = as_format
        self._once = once
        self.bounded = once  # the number of rows is not known in advance
        self.ticks = not once
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
        """The rows of new files; as columns, the query has only their paths and sizes."""
        start_workers(spark, self.in_tasks(spark))
        files = spark.readStream.format("binaryFile").schema(_BINARY_FILE)
        files = files.options(**self._options(self._first))
        paths = files.load(local_uri(self._directory)).select("path", "length")
        if not as_columns:
            return BatchReader(self._rows(paths))
        first, cores = self._first, spark.sparkContext.defaultParallelism

        def shares(batch: Batch) -> list[list[Piece]]:
            return pieces_of(_files_in(batch), cores, by_row_group=first.format == "parquet")

        read = FileRows(first, self._columns, RecordColumns(explain=self.more.explain))
        return BatchReader(paths, lambda batch: self._rows(batch.frame), shares, read)

    def malformed_of(self, batch: Batch, last: Offender) -> MalformedRecord | None:
        read = FileRows(self._first, self._columns, NOTHING_MORE)
        paths = [path for path, _ in _files_in(batch)]
        found = batch.frame.sparkSession.sparkContext.parallelize(paths, max(1, len(paths))).flatMap(read.malformed)
        return next(iter(found.take(1)), None)

    def in_tasks(self, spark: "SparkSession") -> TaskNeeds:
        """Its directory, and what reads it."""
        return TaskNeeds((__name__, "wmtop.engine.run.column_groups"), (self._directory,))

    def trigger(self) -> dict[str, Any]:
        return {"availableNow": True} if self._once else {"processingTime": f"{_POLL_MS} milliseconds"}

    def _rows(self, paths: "DataFrame") -> "DataFrame":
        """The rows of files, in the canonical columns."""
        from pyspark.sql.pandas.types import from_arrow_schema

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
        """The files that Spark would read, oldest first."""
        directory = self._directory
        if directory.is_file():
            raise UsageError(
                f"{directory} is a file; replay it with wmtop run replay {directory}, or name its directory"
            )
        if not directory.is_dir():
            scheme = directory.parts[0] if directory.parts else ""
            if scheme.endswith(":"):
                raise UsageError(f"new files are read from a directory here; replay {scheme}// with wmtop run replay")
            raise UsageError(f"no directory {directory}; create it with a first file in it", code="missing")
        paths = [directory.joinpath(*names) for names, _ in local_file(directory).below()]
        if self._as_format is None:
            paths = [path for path in paths if format_of(path.name) is not None]
        paths = [path for path in paths if path.stat().st_size]
        if not paths:
            formats = self._as_format or "Parquet, CSV or JSON"
            raise UsageError(
                f"{directory} has no {formats} file with records; add a first one, which defines the columns",
                code="no_files",
            )
        return sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path))

    def _options(self, file: TableFile) -> dict[str, str]:
        options = {"maxBytesPerTrigger": str(_BYTES_PER_BATCH), "recursiveFileLookup": "true"}
        if self._as_format is None:
            suffixes = [_any_case(suffix) for suffix, kind in SUFFIXES.items() if kind == file.format]
            options["pathGlobFilter"] = "*{" + ",".join(f"{suffix},{suffix}.gz" for suffix in suffixes) + "}"
        return options


def _any_case(suffix: str) -> str:
    """The suffix as a glob that matches upper and lower case."""
    return "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in suffix)


def _files_in(batch: Batch) -> list[tuple[str, int]]:
    """The files (path, bytes) of a batch; none if only Spark knows them."""
    files = files_of(batch)
    if files is None and "path" in batch.frame.columns:
        files = [(row["path"].removeprefix("file:"), row["length"]) for row in batch.frame.collect()]
    return files or []


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
