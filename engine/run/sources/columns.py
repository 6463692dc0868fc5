"""The columns of the input by their role, checked against the files; their values in canonical form or as they are."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from ...system.errors import UsageError, first_line
from ...system.json_values import JsonPath, TimeUnit, Unit, formats_of, near_paths, why_no_time
from ...watermarks.observation import MAX_VALUE, MalformedRecord, WhyNoTime
from .arrow_times import holds_times, is_number, is_text, json_to_ms, to_ms
from .base import (
    ARRIVAL,
    CHANNEL,
    EXPLAIN,
    NO_CHANNEL,
    NOTHING_MORE,
    ONE_CHANNEL,
    TIME,
    WATERMARK,
    RecordColumns,
    quoted,
    record_sql,
    text_literal,
)
from .data_files import in_parallel, near
from .row_chunks import Chunk
from .table_files import TableFile, sample

PREFIX = "_wmtop_"
"""Prefix of a canonical column's name, since the columns for `--marker` keep their own names."""
WHOLE = PREFIX + "record."
"""Prefix of the columns of whole records."""

_PER_MS: dict[Unit, float] = {"s": 0.001, "ms": 1, "us": 1_000, "ns": 1_000_000}
_PLAUSIBLE_MS = (631_152_000_000, 4_102_444_800_000)
"""1990 to 2100: the plausible range for numbers of unknown unit."""
_SHOWN = 60


class Columns(Struct, frozen=True, kw_only=True):
    """The columns that the user named, and the unit of numeric times."""

    time: str
    channel: str | None = None
    arrival: str | None = None
    watermark: str | None = None
    marker: str | None = None
    """An SQL condition over any of the columns."""
    unit: TimeUnit = "auto"
    since_ms: int | None = None
    """Replay: rows that arrived before this time (epoch ms) are left out."""

    @property
    def times(self) -> dict[str, str]:
        """The columns that hold times, by their option."""
        named = {"--time": self.time, "--arrival": self.arrival, "--watermark": self.watermark}
        return {option: name for option, name in named.items() if name is not None}

    def marked_in(self, file: TableFile) -> list[str]:
        """The columns of `file` that the marker may use: a name that it does not contain is not among them."""
        text = (self.marker or "").lower().replace("``", "`")
        return [name for name in file.columns if name.lower() in text]

    def needed_of(self, file: TableFile, more: RecordColumns = NOTHING_MORE) -> list[str]:
        """All columns that have to be read, each once."""
        channel = () if self.channel is None else (self.channel,)
        whole = file.columns if more.whole else ()
        return list(dict.fromkeys([*self.times.values(), *channel, *self.marked_in(file), *more.explain, *whole]))


def check_files(files: Sequence[TableFile], columns: Columns, more: RecordColumns) -> str | None:
    """Check that the columns exist in every file, with suitable types that mean the same in all; `UsageError` with what
    to do. Returns as what event times are read, None if no record of the first ones has any.
    """
    found = in_parallel(partial(_check_file, columns=columns, more=more), files)
    typed = [(file, file.types) for file in files if file.types is not None]
    for option, name in columns.times.items():
        for file, types in typed[1:]:
            first, first_types = typed[0]
            if _family(types[name]) != _family(first_types[name]):
                raise UsageError(
                    f"{option}: {name} is {types[name]} in {file}, but {first_types[name]} in {first}; convert one"
                )
    return ", ".join(dict.fromkeys(known for known in found if known is not None)) or None


def _check_file(file: TableFile, columns: Columns, more: RecordColumns) -> str | None:
    """The same of one file."""
    _check_record_columns(file, more)
    for option, name in {**columns.times, "--channel": columns.channel}.items():
        if name is None:
            continue
        if name not in file.columns and file.path_of(name) is None:
            hint = near(name, file.columns) or f"; it has {', '.join(file.columns)}"
            raise UsageError(f"{option}: no column {name!r} in {file}{hint}", code="no_column")
        if file.columns.count(name) > 1:
            raise UsageError(f"{option}: {file} has {file.columns.count(name)} columns {name}; rename one")
    if file.types is not None:
        for option, name in columns.times.items():
            if not holds_times(file.types[name]):
                raise UsageError(
                    f"{option}: {name} of {file} is {file.types[name]}, not a time{_times_of(file)}", code="no_time"
                )
        if columns.channel is not None and pa.types.is_nested(file.types[columns.channel]):
            raise UsageError(
                f"--channel: {columns.channel} of {file} is {file.types[columns.channel]}, not one value",
                code="not_one_value",
            )
        for name in columns.marked_in(file):
            if spark_type(file.types[name]) is None:
                raise UsageError(
                    f"--marker: {name} of {file} is {file.types[name]}, which a condition cannot use",
                    code="no_condition",
                )
    # Where the type is a time, all values are times, also those out of range.
    types = file.types or {}
    unsure = {
        option: name for option, name in columns.times.items() if name not in types or _family(types[name]) != "time"
    }
    first = sample(file, list(dict.fromkeys(unsure.values()))) if unsure else None
    formats: dict[str, str | None] = dict.fromkeys(unsure)
    if first is not None:
        formats = {
            option: _check_sample(file, option, name, first[name], columns.unit) for option, name in unsure.items()
        }
    return formats.get("--time", "timestamp")


def canonical(file: TableFile, chunk: Chunk, columns: Columns, more: RecordColumns, *, in_task: bool = False) -> Any:
    """A chunk's rows, canonical columns with `PREFIX`: times in ms, the channel as text; and the marker's columns: of
    CSV as text, of JSON in the types of their values.

    `in_task`: the marker's columns of JSON are text, and a column of a type that Spark does not accept is null;
    otherwise that is a UsageError.
    """
    ts = times(chunk[columns.time], columns.unit)
    made = {}
    if columns.arrival is not None:
        arrival = times(chunk[columns.arrival], columns.unit)
        ts = pc.if_else(arrival.is_valid(), ts, pa.scalar(None, pa.int64()))
        made[PREFIX + ARRIVAL] = arrival
    made[PREFIX + TIME] = ts
    if columns.channel is not None:
        made[PREFIX + CHANNEL] = channels(chunk[columns.channel])
    if columns.watermark is not None:
        made[PREFIX + WATERMARK] = times(chunk[columns.watermark], columns.unit)
    for name in columns.marked_in(file):
        made[name] = _or_null(_mark_in_task, name, chunk[name]) if in_task else marked_values(name, chunk[name])
    for number, name in enumerate(more.explain):
        made[f"{PREFIX}{EXPLAIN}{number}"] = texts(chunk[name])
    for name in file.columns if more.whole else ():
        values = chunk[name]
        made[WHOLE + name] = _or_null(record_values, name, values) if in_task else record_values(name, values)
    return pa.table(made)


def _mark_in_task(name: str, values: Any) -> Any:
    return texts(values).dictionary_decode() if isinstance(values, list) else marked_values(name, values)


def _or_null(convert: Callable[[str, Any], Any], name: str, values: Any) -> Any:
    try:
        return convert(name, values)
    except UsageError:  # in a file of another schema than the first one
        return pa.nulls(len(values))


def fitting(table: Any, schema: Any) -> Any:
    """The rows of `canonical` in the types of the first file, null where a value of another type does not fit."""
    return pa.table([_fitting(table[field.name], field.type) for field in schema], schema=schema)


def _fitting(values: Any, kind: Any) -> Any:
    try:
        return values.cast(kind)
    except pa.ArrowException:
        return pa.nulls(len(values), kind)


def marked_values(name: str, values: Any) -> Any:
    """The values of a column that the marker uses, in a type that Spark accepts; UsageError if they have none."""
    try:
        values = pa.array(values) if isinstance(values, list) else values
        return values.cast(spark_type(values.type), safe=False)
    except (pa.ArrowException, OverflowError, TypeError):
        raise UsageError(
            f"--marker: {name} holds values that a condition cannot use, or of different types", code="no_condition"
        ) from None


def unprefixed(table: Any) -> Any:
    """The rows of `canonical` with the canonical columns under their own names, and with channels."""
    table = table.rename_columns([name.removeprefix(PREFIX) for name in table.column_names])
    if CHANNEL in table.column_names:
        return table
    names = pa.DictionaryArray.from_arrays(np.zeros(len(table), np.int32), pa.array([ONE_CHANNEL]))
    return table.append_column(CHANNEL, pa.chunked_array([names]))


def canonical_sql(
    columns: Columns, names: Sequence[str], explain: Sequence[str] = (), fields: Sequence[str] = ()
) -> list[str]:
    """The canonical columns (SQL) over rows that have them with `PREFIX`: channel, `names`, watermark, the values of
    `explain`, and the whole records with these `fields`.
    """
    channel = text_literal(ONE_CHANNEL) if columns.channel is None else PREFIX + CHANNEL
    names = [*names, *([] if columns.watermark is None else [WATERMARK])]
    explained = [f"{PREFIX}{EXPLAIN}{number}" for number in range(len(explain))]
    record = [f"{quoted(WHOLE + name)} as {quoted(name)}" for name in fields]
    return [f"{channel} as {CHANNEL}", *(f"{PREFIX}{name} as {name}" for name in names), *record_sql(explained, record)]


def malformed_in(file: TableFile, chunk: Chunk, columns: Columns, first_row: int) -> MalformedRecord | None:
    """The first record of a chunk without a usable time; `first_row` is the number of the chunk's first one."""
    named = [columns.time, *([] if columns.arrival is None else [columns.arrival])]
    missing = {name: times(chunk[name], columns.unit).is_null() for name in named}
    rows = {name: row for name, is_null in missing.items() if (row := is_null.index(True).as_py()) >= 0}
    if not rows:
        return None
    name = min(rows, key=lambda name: rows[name])
    row = rows[name]
    names = [ONE_CHANNEL] if columns.channel is None else channels(chunk[columns.channel][row : row + 1]).to_pylist()
    where = f"row {first_row + row:,} of {file.file.name}"
    if chunk.broken is not None and chunk.broken[0] == row:
        broken = chunk.broken[1]
        return MalformedRecord(names[0], where, name, broken.text, broken.why)
    text, why = _why_no_time_in(chunk[name][row : row + 1])
    return MalformedRecord(names[0], where, name, text and text[:MAX_VALUE], why)


def _why_no_time_in(values: Any) -> tuple[str | None, WhyNoTime]:
    """The first of these values, which is not a usable time, as text, and why it is not."""
    is_json = isinstance(values, list)
    value = (values if is_json else _listed(values))[0]
    is_time = not is_json and pa.types.is_temporal(values.type)
    why = "out_of_range" if is_time and value is not None else why_no_time(value)
    return _text_of_json(value), why


def times(values: Any, unit: TimeUnit) -> Any:
    """The values of a column as int64 ms, null where they are not a time."""
    if isinstance(values, list):
        return json_to_ms(values, unit)
    try:
        return to_ms(values, unit)
    except TypeError:  # a file of another schema than the first one
        return pa.nulls(len(values), pa.int64())


def channels(values: Any) -> Any:
    """The values of a column as text, never null, dictionary-encoded."""
    encoded = texts(values)
    names, indices = encoded.dictionary.fill_null(NO_CHANNEL), encoded.indices
    indices = indices.fill_null(len(names)) if indices.null_count else indices
    return pa.DictionaryArray.from_arrays(indices, pa.concat_arrays([names, pa.array([NO_CHANNEL], pa.string())]))


def texts(values: Any) -> Any:
    """The values of a column as text, null if missing, dictionary-encoded."""
    if isinstance(values, list):
        values = pa.array(map(_text_of_json, values), pa.string())
    if pa.types.is_nested(values.type):
        values = pa.array([_text_of_json(value) for value in _listed(values)], pa.string())
    try:
        encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    except pa.ArrowNotImplementedError:  # a type of which Arrow makes no dictionary
        encoded = pa.array([_text_of_json(value) for value in _listed(values)], pa.string()).dictionary_encode()
    names = encoded.dictionary
    if not pa.types.is_string(names.type):
        texts = [None if value is None else channel_text(value) for value in _listed(names)]
        names = pa.array(texts, pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(pa.int32()), names)


def _listed(values: Any) -> list[Any]:
    try:
        return values.to_pylist()
    except (OverflowError, ValueError):  # a time that Python cannot hold
        return _each_listed(values)


def _each_listed(values: Any) -> list[Any]:
    """The values one by one as text; null where a value, or one inside it, has none."""
    try:
        return values.cast(pa.string()).to_pylist()
    except (pa.ArrowException, ValueError):
        return [None] * len(values)


def channel_text(value: Any) -> str:
    """One value as a channel's name: a whole number has no `.0`, a boolean is `true` or `false`."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def spark_type(kind: Any) -> Any:
    """The Arrow type in which Spark accepts a column of this type; None if it accepts none."""
    if pa.types.is_dictionary(kind):
        return spark_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if is_text(kind):
        return pa.string()
    if pa.types.is_unsigned_integer(kind):
        wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
        return wider[kind.bit_width]
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_date(kind):
        return pa.date32()
    as_it_is = (pa.types.is_signed_integer, pa.types.is_floating, pa.types.is_decimal128, pa.types.is_boolean)
    return kind if any(test(kind) for test in (*as_it_is, pa.types.is_null)) else None


def typed_text(text: Any) -> Any:
    """A text column of an untyped file as integers, floats or booleans, if all its values allow it."""
    for kind, pattern in (
        (pa.int64(), r"^-?\d{1,18}$"),
        (pa.float64(), r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$"),
        (pa.bool_(), r"^(true|false)$"),
    ):
        if pc.all(pc.match_substring_regex(text, pattern)).as_py():
            return text.cast(kind)
    return text


def _check_record_columns(file: TableFile, more: RecordColumns) -> None:
    """UsageError if a column of `--explain` is missing in `file`, or `--late-output` cannot keep all columns: of two
    that differ only by case, which Spark ignores.
    """
    for name in more.explain:
        if name not in file.columns:
            hint = near(name, file.columns) or f"; it has {', '.join(file.columns)}"
            raise UsageError(f"--explain: no column {name!r} in {file}{hint}")
    by_lower_case: dict[str, str] = {}
    for name in file.columns if more.whole else ():
        first = by_lower_case.setdefault(name.lower(), name)
        if first is not name:
            raise UsageError(f"--late-output: the columns {first!r} and {name!r} differ only in case; rename one")


def record_values(name: str, values: Any) -> Any:
    """The values of a column in a type that Spark writes; UsageError for a type that has none."""
    if isinstance(values, list):
        return pa.array(map(_json_text, values), pa.large_string())
    kind = record_type(values.type)
    try:
        return values.cast(kind, safe=False)
    except pa.ArrowException as error:
        raise UsageError(f"--late-output: column {name!r} is {values.type}: {first_line(error)}") from None


def record_type(kind: Any) -> Any:
    """The Arrow type in which a late record keeps a column; lists, maps and structs keep their shape."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, record_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(record_type(kind.key_type), record_type(kind.item_type))
    if any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)):
        return pa.list_(record_type(kind.value_type))
    if pa.types.is_dictionary(kind):
        return record_type(kind.value_type)
    binary = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    if any(test(kind) for test in binary):
        return pa.large_binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    plain = spark_type(kind)
    return pa.large_string() if plain is None or pa.types.is_string(plain) or pa.types.is_null(plain) else plain


def plain_type(kind: Any) -> Any:
    """The same type without dictionary, which Spark does not accept."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _check_sample(file: TableFile, option: str, name: str, values: Any, unit: TimeUnit) -> str | None:
    """As what the values are read; UsageError if a path leads to none, or none is a time."""
    listed: list[Any] = values if isinstance(values, list) else values.to_pylist()
    value = next((value for value in listed if value not in (None, "")), None)
    known = times(values, unit)
    if value is None and name not in file.columns:
        raise _nowhere(file, option, name)
    if value is None or known.null_count < len(known):
        return formats_of(listed, known.to_pylist(), unit)
    guess = None if unit == "auto" else _likely_unit(value)
    if guess is not None and guess != unit:
        raise UsageError(
            f"{option}: {name} of {file} holds {_cut(str(value))}, not a usable time in {unit}; try --time-unit {guess}"
        )
    if isinstance(value, str):
        raise UsageError(
            f"{option}: {name} of {file} holds text that is not a time ({_cut(repr(value))}); expected ISO 8601, as in "
            f"2013-02-08T14:32:10Z, or numbers (--time-unit){_times_of(file)}",
            code="no_time",
        )
    return None


def _nowhere(file: TableFile, option: str, name: str) -> UsageError:
    """No record of the first ones has the path `name`."""
    path = file.path_of(name) or JsonPath((name,))
    top = str(path.steps[0])
    values = [{top: value} for value in (sample(file, [top]) or {top: []})[top]]
    others = ", ".join(near_paths(path, values))
    hint = f"; near ones: {others}" if others else ""
    return UsageError(f"{option}: none of the first {len(values)} records of {file} has {name}{hint}", code="no_column")


def _likely_unit(value: Any) -> TimeUnit | None:
    if isinstance(value, bool) or not re.fullmatch(r"-?\d{1,40}(\.\d*)?", str(value)):
        return None
    number = float(value)
    return next((unit for unit, per in _PER_MS.items() if _PLAUSIBLE_MS[0] <= number / per <= _PLAUSIBLE_MS[1]), None)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _times_of(file: TableFile) -> str:
    types = file.types or {}
    times = [name for name, kind in types.items() if pa.types.is_timestamp(kind) or pa.types.is_date(kind)]
    return f"; times are in {', '.join(times)}" if times else ""


def _family(kind: Any) -> str:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return "number" if is_number(kind) else "text" if is_text(kind) else "time"


def _text_of_json(value: Any) -> str | None:
    return _json_text(value) if isinstance(value, dict | list) else None if value is None else channel_text(value)


def _json_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (RecursionError, TypeError, ValueError):  # as deep as the decoder allows, or of a type that JSON lacks
        return None
