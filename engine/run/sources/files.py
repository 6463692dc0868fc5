"""`run files`: a growing directory, read by Spark's own file source."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pyarrow as pa

from ...snapshot import SourceView
from ...system.errors import UsageError
from ...system.event_time import TimeUnit
from ..tasks import TaskNeeds, local_uri, runs_wmtop, start_workers
from .base import (
    CHANNEL,
    NO_CHANNEL,
    OFFSET,
    ONE_CHANNEL,
    TIME,
    WATERMARK,
    RecordColumns,
    Source,
    canonical_rows,
    quoted,
    record_sql,
)
from .columns import Columns, check_alike, check_columns, check_record_columns, spark_type, typed_text
from .data_files import SUFFIXES, Format, LocalFile, format_of
from .event_time_sql import text_literal, to_ms_sql, untyped_to_ms_sql, variant_to_ms_sql
from .file_rows import FileColumns, ParquetRows, is_channel_type, readable_type, reads_as_written, text_rows_of
from .table_files import TableFile, look_at, sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_POLL_MS = 200
_BYTES_PER_BATCH = 64 << 20
"""Existing files are read in batches of this size: in a single batch no record could be late."""
_LOOKED_AT = 3
_NO_PATTERNS = ("__globPaths__", "false")
"""Spark's option, also for streams: a name with an asterisk is taken literally."""
_BINARY_FILE = "path string, modificationTime timestamp, length bigint, content binary"
"""The schema of Spark's source of whole files, which must be given; columns that are not selected are not read."""
_SPARK_DIGITS = 38


class Files(Source):
    """A `Source` of the files in `directory`, oldest first; with `once` it ends with the files that exist at
    the start.
    """

    def __init__(
        self, directory: Path, columns: Columns, *, as_format: Format | None = None, once: bool = False
    ) -> None:
        self._directory = directory
        self._columns = columns
        self._as_format: Format | None = as_format
        self._once = once
        self.bounded = once  # the number of rows is not known in advance
        self.ticks = not once
        self._files: list[TableFile] | None = None

    def check(self) -> None:
        """Look at the first files; `UsageError` also if no file exists yet, since files define the columns."""
        files = self._looked_at()
        for file in files:
            if file.format != files[0].format:
                raise UsageError(
                    f"{file} is {file.format}, but {files[0]} is {files[0].format}; choose one with --format"
                )
            check_columns(file, self._columns)
            check_record_columns(file, self.more)
            _check_decimals(file, self._columns.needed_of(file, self.more))
        check_alike(files, self._columns)

    def identity(self) -> dict[str, Any]:
        columns = msgspec.to_builtins(self._columns)
        return {"kind": "files", "directory": str(self._directory.absolute()), **columns}

    def describe(self) -> SourceView:
        return SourceView(kind="files", description=str(self._directory), time_column=self._columns.time)

    def load(self, spark: "SparkSession") -> "DataFrame":
        file = self._looked_at()[0]
        schema = _schema(spark, file, self._columns, self.more)
        reader = spark.readStream.format(file.format).schema(schema).options(**self._options(file))
        return self._canonical(reader.load(local_uri(self._directory)), file, schema)

    def _canonical(self, rows: "DataFrame", file: TableFile, schema: "StructType") -> "DataFrame":
        types = {field.name: field.dataType for field in schema.fields}
        canonical = [
            f"{_channel_sql(file, self._columns.channel, types)} as {CHANNEL}",
            f"{_time_sql(file, self._columns.time, types, self._columns.unit)} as {TIME}",
            f"cast(null as bigint) as {OFFSET}",
        ]
        if self._columns.watermark is not None:
            watermark = _time_sql(file, self._columns.watermark, types, self._columns.unit)
            canonical.append(f"{watermark} as {WATERMARK}")
        canonical += _record_sql(file, self.more, types)
        return canonical_rows(rows, canonical, self._columns.marker)

    def columns_of(self, spark: "SparkSession") -> "FileColumns | None":
        """The columnar way, for files whose values Arrow reads as Spark does, if tasks can run wmtop's Python.

        The query then reads the names and sizes of new files only. A `--marker` is evaluated by Spark.
        """
        file, columns = self._looked_at()[0], self._columns
        if columns.marker is not None or not runs_wmtop(spark):
            return None
        read = self._parquet_rows(spark, file) if file.format == "parquet" else text_rows_of(file, columns)
        if read is None:
            return None
        files = spark.readStream.format("binaryFile").schema(_BINARY_FILE).options(**self._options(file))
        frame = files.load(local_uri(self._directory)).select("path", "length")
        schema = _schema(spark, file, columns, self.more)
        self.counted_by_spark = False  # it counts files
        start_workers(spark, self.in_tasks(spark))
        options = self._options(file) if file.format == "csv" else {}

        def rows(paths: list[str]) -> "DataFrame":
            reader = spark.read.format(file.format).schema(schema).options(**options).option(*_NO_PATTERNS)
            return self._canonical(reader.load(paths), file, schema)

        explained = self._explained_of(read, file) if isinstance(read, ParquetRows) else None
        return FileColumns(frame, read, rows, explained, divided=file.format == "parquet")

    def _parquet_rows(self, spark: "SparkSession", file: TableFile) -> ParquetRows | None:
        columns, types = self._columns, _readable_types(file)
        known = {name: kind for name in columns.needed_of(file) if (kind := types.get(name)) is not None}
        if len(known) < len(columns.needed_of(file)) or not reads_as_written(spark):
            return None
        if columns.channel is not None and not is_channel_type(known[columns.channel]):
            return None
        return ParquetRows(columns.time, columns.channel, columns.watermark, columns.unit, known)

    def _explained_of(self, read: ParquetRows, file: TableFile) -> ParquetRows | None:
        """Reads the columns of `--explain`, too; None if Arrow writes their values differently from Spark."""
        types = _readable_types(file)
        kinds = {name: kind for name in self.more.explain if is_channel_type(kind := types.get(name)) and kind}
        if not kinds or len(kinds) < len(self.more.explain):
            return None
        return msgspec.structs.replace(read, watermark=None, types=read.types | kinds, explain=self.more.explain)

    def in_tasks(self, spark: "SparkSession") -> TaskNeeds:
        """Its directory; without wmtop's Python, Spark reads all files itself."""
        modules = (f"{__package__}.file_rows", "wmtop.engine.run.column_groups")
        return TaskNeeds(modules, (self._directory,))

    def trigger(self) -> dict[str, Any]:
        return {"availableNow": True} if self._once else {"processingTime": f"{_POLL_MS} milliseconds"}

    def _looked_at(self) -> list[TableFile]:
        if self._files is None:
            self._files = [look_at(path, self._as_format) for path in self._data_files()[:_LOOKED_AT]]
        return self._files

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
        paths = [directory.joinpath(*names) for names, _ in LocalFile(directory).below()]
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
        options = {"maxBytesPerTrigger": str(_BYTES_PER_BATCH), "recursiveFileLookup": "true", "mode": "PERMISSIVE"}
        if self._as_format is None:
            suffixes = [_any_case(suffix) for suffix, kind in SUFFIXES.items() if kind == file.format]
            options["pathGlobFilter"] = "*{" + ",".join(f"{suffix},{suffix}.gz" for suffix in suffixes) + "}"
        if file.format == "csv":
            # Arrow's and Python's dialect: quotes are doubled, fields may contain line breaks. Headers must agree.
            options |= {"header": "true", "sep": file.delimiter, "escape": '"', "multiLine": "true"}
            options["enforceSchema"] = "false"
        return options


def _readable_types(file: TableFile) -> dict[str, str | None]:
    return {name: readable_type(kind) for name, kind in (file.types or {}).items()}


def _check_decimals(file: TableFile, needed: list[str]) -> None:
    types: dict[str, Any] = file.types or {}
    for name in needed:
        kind = types.get(name)
        if kind is not None and pa.types.is_decimal(kind) and kind.precision > _SPARK_DIGITS:
            raise UsageError(
                f"column {name!r} in {file} is {kind}, but Spark reads decimals of at most {_SPARK_DIGITS} digits: "
                "store it with fewer digits"
            )


def _any_case(suffix: str) -> str:
    """The suffix as a glob that matches upper and lower case."""
    return "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in suffix)


def _schema(spark: "SparkSession", file: TableFile, columns: Columns, more: RecordColumns) -> "StructType":
    """The schema that Spark reads with: Parquet's own types; CSV all as text; JSON's times unchanged."""
    from pyspark.sql.types import StringType, StructField, StructType, VariantType

    needed = columns.needed_of(file, more)
    if file.format == "parquet":
        # Arrow's and pandas's nanoseconds, which Spark otherwise refuses, are read as integers.
        spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
        return spark.read.option(*_NO_PATTERNS).parquet(local_uri(Path(str(file)))).select(*map(quoted, needed)).schema
    kinds: dict[str, DataType] = _marker_types(file, columns)
    if columns.channel is not None:
        kinds[columns.channel] = StringType()
    kinds |= {name: StringType() if file.format == "csv" else VariantType() for name in columns.times.values()}
    names = file.columns if file.format == "csv" else needed
    return StructType([StructField(name, kinds.get(name, StringType())) for name in names])


def _marker_types(file: TableFile, columns: Columns) -> "dict[str, DataType]":
    """The types of the columns that the marker uses, from the file's first rows."""
    from pyspark.sql.pandas.types import from_arrow_type

    names = columns.marked_in(file)
    first = sample(file, names) if names else None
    if first is None:
        return {}
    arrays = {
        name: pa.array(cast(list[Any], values)) if isinstance(values, list) else typed_text(values)
        for name, values in first.items()
    }
    return {name: from_arrow_type(spark_type(values.type)) for name, values in arrays.items()}


def _time_sql(file: TableFile, name: str, types: "dict[str, DataType]", unit: TimeUnit) -> str:
    column = quoted(name)
    if file.format == "csv":
        return untyped_to_ms_sql(column, unit)
    if file.format == "json":
        return variant_to_ms_sql(column, unit)
    in_file = (file.types or {})[name]
    is_nanos = pa.types.is_timestamp(in_file) and in_file.unit == "ns" and types[name].typeName() == "long"
    return to_ms_sql(column, types[name], "ns" if is_nanos else unit)


def _channel_sql(file: TableFile, name: str | None, types: "dict[str, DataType]") -> str:
    if name is None:
        return text_literal(ONE_CHANNEL)
    text = _text_sql(name, types)
    if file.format == "csv":
        text = f"nullif({text}, '')"
    return f"coalesce({text}, {text_literal(NO_CHANNEL)})"


def _text_sql(name: str, types: "dict[str, DataType]") -> str:
    """A column's value as text; a whole number has no `.0`."""
    column, kind = quoted(name), types[name].typeName()
    text = f"cast({column} as string)"
    if kind in ("float", "double"):
        whole = f"cast(cast({column} as bigint) as string)"
        text = f"if({column} = floor({column}) and abs({column}) < 1e15D, {whole}, {text})"
    return text


def _record_sql(file: TableFile, more: RecordColumns, types: "dict[str, DataType]") -> list[str]:
    """The values of the columns of `--explain`, and the whole record: text for files without types."""
    values = [_text_sql(name, types) for name in more.explain]
    if file.format == "csv":
        values = [f"nullif({value}, '')" for value in values]
    fields = [quoted(name) for name in file.columns] if more.whole else []
    if file.format != "parquet":
        fields = [f"cast({name} as string) as {name}" for name in fields]
    return record_sql(values, fields)
