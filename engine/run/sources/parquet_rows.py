"""The rows of a Parquet file; those that cannot be read are broken, and those behind them are read."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from ...system.errors import UsageError
from ...system.remote_files import is_of_store
from .data_files import DataFile, unreadable
from .row_chunks import Chunk, damage, rows_of


def open_parquet(file: DataFile) -> Any:
    """A `pyarrow.parquet.ParquetFile`; UsageError if it is not one."""
    try:
        return _opened(file)
    except file.errors as error:
        if is_of_store(error):
            raise unreadable(file, error) from None
        raise UsageError(f"{file} is not a readable Parquet file: {file.reason(error)}", code="no_parquet") from None


def parquet_chunks(
    file: DataFile, columns: Sequence[str], rows: int, encoded: Sequence[str], row_groups: Sequence[int] | None
) -> Iterator[Chunk]:
    """The rows of `columns`, about `rows` at a time, of `row_groups` (None: all); raises one of the file's errors if it
    cannot be opened.

    The columns `encoded` come dictionary-encoded, as they are stored. A column that the file does not have is null.
    """
    try:
        content = _opened(file, encoded)
    except KeyError:  # it has no such column
        content = _opened(file)
    numbers = range(content.metadata.num_row_groups) if row_groups is None else row_groups
    for part in _parts(content.metadata, rows, numbers):
        done = 0
        try:
            for chunk in _chunks_of(content, columns, rows, part):
                yield chunk
                done += rows_of(chunk)
        except file.errors as error:
            if not file.is_damaged(error):
                raise
            yield from _group_by_group(file, content, columns, rows, part, done)


def _opened(file: DataFile, encoded: Sequence[str] = ()) -> Any:
    return file.open_parquet(read_dictionary=list(encoded), coerce_int96_timestamp_unit="us")


def _parts(metadata: Any, rows: int, numbers: Sequence[int]) -> Iterator[list[int]]:
    """The row groups in parts of at least `rows` rows, which are requested from a store at once."""
    part: list[int] = []
    count = 0
    for number in numbers:
        part.append(number)
        count += metadata.row_group(number).num_rows
        if count >= rows:
            yield part
            part = []
            count = 0
    if part:
        yield part


def _chunks_of(content: Any, columns: Sequence[str], rows: int, groups: list[int]) -> Iterator[Chunk]:
    for batch in content.iter_batches(rows, row_groups=groups, columns=list(columns)):
        yield Chunk({name: _column(batch, name) for name in columns})


def _group_by_group(
    file: DataFile, content: Any, columns: Sequence[str], rows: int, groups: list[int], done: int
) -> Iterator[Chunk]:
    """The rows after the first `done` of these row groups, of which one cannot be read."""
    for group in groups:
        count = content.metadata.row_group(group).num_rows
        skipped = min(done, count)
        done -= skipped
        read = 0
        try:
            for chunk in _chunks_of(content, columns, rows, [group]) if skipped < count else ():
                before = read
                read += rows_of(chunk)
                if read > skipped:
                    first = max(0, skipped - before)
                    yield Chunk({name: values[first:] for name, values in chunk.items()})
        except file.errors as error:
            if not file.is_damaged(error):
                raise
            first = max(read, skipped)
            values = {name: _column_alone(file, content, name, group)[first:] for name in columns}
            yield Chunk(values, (0, damage(file, error)))


def _column_alone(file: DataFile, content: Any, name: str, group: int) -> Any:
    """A column of a row group of which some cannot be read, null if it is one of them: whichever are read, a row is
    malformed only for its time.
    """
    count = content.metadata.row_group(group).num_rows
    try:
        table = content.read_row_group(group, columns=[name])
        if name not in table.column_names:
            return pa.nulls(count)
        values = table.combine_chunks().unify_dictionaries().to_batches()
        return _column(values[0], name) if values else pa.nulls(count)
    except file.errors as error:
        if not file.is_damaged(error):
            raise
        return pa.nulls(count)


def _column(batch: Any, name: str) -> Any:
    """A column, with text that is not UTF-8 replaced; null if there is none."""
    number = batch.schema.names.index(name) if name in batch.schema.names else None
    if number is None:
        return pa.nulls(len(batch))
    values = batch.column(number)
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return _replaced(values)
    return values


def _replaced(values: Any) -> Any:
    """Values that Arrow calls invalid: text with U+FFFD for what is not UTF-8, anything else as null."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        listed = plain.cast(pa.large_binary()).to_pylist()
        return pa.array([None if value is None else value.decode(errors="replace") for value in listed], pa.string())
    return pa.nulls(len(values))
