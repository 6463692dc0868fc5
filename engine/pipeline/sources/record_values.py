"""The columns of a source in the form in which a late record keeps them.

Parquet keeps its types as far as Spark supports them; CSV and JSON have text, exactly as written.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from ...errors import UsageError, first_line
from .columns import spark_type
from .data_file import near
from .record_columns import RecordColumns
from .table_files import TableFile


def check_record_columns(file: TableFile, more: RecordColumns) -> None:
    """UsageError if a column of `--explain` is missing in `file`, or `--late-output` cannot keep all columns."""
    for name in more.explain:
        if name not in file.columns:
            hint = near(name, file.columns) or f"; it has {', '.join(file.columns)}"
            raise UsageError(f"--explain: no column {name!r} in {file}{hint}")
    if more.whole:
        check_distinct(file.columns)


def check_distinct(names: Sequence[str]) -> None:
    """UsageError if two columns differ only by case, which Spark ignores."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            raise UsageError(f"--late-output: the columns {other!r} and {name!r} differ only in case; rename one")


def record_values(name: str, values: Any) -> Any:
    """The values of a column in a type that Spark writes; UsageError for a type that has none."""
    if isinstance(values, list):
        return pa.array(map(_text_of_json, values), pa.large_string())
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
    """The same type without 64-bit offsets, which Spark does not accept."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(plain_type(kind.value_type))
    return pa.string() if pa.types.is_large_string(kind) else pa.binary() if pa.types.is_large_binary(kind) else kind


def _text_of_json(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
