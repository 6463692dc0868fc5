"""The rows in a state store: their types (`_metadata/schema`), and their bytes."""

import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct

from ...system.errors import one_line
from .files import UnreadableError
from .offset_log import Int64, decode_json

DELAY = "spark.watermarkDelayMs"
TIME_WINDOW = "spark.timeWindow"
SESSION_WINDOW = "spark.sessionWindow"

_SCHEMA_VERSION = "v2"
_OPERATOR_VERSION = b"v1"
_CHUNKS = 1000
_U16, _I32 = struct.Struct(">H"), struct.Struct(">i")


class Field(Struct, frozen=True):
    """A column: its type is a name, or an object for a nested one."""

    name: str
    type: Any
    metadata: dict[str, Any] = {}


class RowType(Struct, frozen=True):
    """The columns of a row, in order."""

    fields: tuple[Field, ...]


class StateSchema(Struct, frozen=True):
    """The types of a store's keys and values."""

    key: RowType
    value: RowType


class Store(Struct, frozen=True, rename="camel"):
    """One of an operator's stores, and its number of partitions."""

    store_name: str
    num_partitions: Int64


class OperatorInfo(Struct, frozen=True, rename="camel"):
    """The kind of operator that keeps the state."""

    operator_name: str


class Operator(Struct, frozen=True, rename="camel"):
    """A stateful operator and its stores."""

    operator_info: OperatorInfo
    state_store_info: tuple[Store, ...]


def decode_operator(content: bytes) -> Operator:
    """`state/<operator>/_metadata/metadata`; UnreadableError for any format but v1."""
    version, _, line = content.partition(b"\n")
    if version != _OPERATOR_VERSION:
        raise UnreadableError(f"unknown format {one_line(version.decode(errors='replace'), 20)!r}: v1 is known")
    return decode_json(line, Operator)


def decode_schema(content: bytes) -> StateSchema:
    """`_metadata/schema`; UnreadableError for any format but v2, which Spark writes except for transformWithState."""
    try:
        version, at = _text(content, 0)
        if version != _SCHEMA_VERSION:
            raise UnreadableError(f"unknown format {one_line(version, 20)!r}: v2 is known")
        key, at = _long_text(content, at)
        value, _ = _long_text(content, at)
    except (struct.error, ValueError):
        raise UnreadableError("it is cut short or damaged") from None
    return StateSchema(decode_json(key.encode(), RowType), decode_json(value.encode(), RowType))


def nested(field: Field) -> RowType | None:
    """The columns of a struct; None for every other type."""
    try:
        return msgspec.convert(field.type, RowType)
    except (msgspec.ValidationError, RecursionError):
        return None


def delay_of(field: Field) -> int | None:
    """The delay (ms) of the watermark on this column, if it has one."""
    delay = field.metadata.get(DELAY)
    return delay if isinstance(delay, int) and not isinstance(delay, bool) and 0 <= delay < 2**63 else None


def _long_text(content: bytes, at: int) -> tuple[str, int]:
    """A text in chunks, and its end."""
    (count,) = _I32.unpack_from(content, at)
    if not 0 < count <= _CHUNKS:
        raise ValueError
    at += _I32.size
    chunks: list[str] = []
    for _ in range(count):
        chunk, at = _text(content, at)
        chunks.append(chunk)
    return "".join(chunks).encode("utf-16", "surrogatepass").decode("utf-16"), at


def _text(content: bytes, at: int) -> tuple[str, int]:
    """A text written by Java's `writeUTF`, in which characters beyond 16 bits are two, and its end."""
    (size,) = _U16.unpack_from(content, at)
    at += _U16.size
    chunk = content[at : at + size]
    if len(chunk) < size:
        raise ValueError
    return chunk.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass"), at + size


_WORD = 8
_TEXT_LIMIT = 120
_U64 = struct.Struct("<Q")
_I64 = struct.Struct("<q")
_WINDOW = struct.Struct("<Qqq")  # null bits, start, end
_EPOCH = datetime.fromtimestamp(0, UTC)
_DECIMAL = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")
_DECIMAL_IN_WORD = 18  # digits
_OUTSIDE = "it is cut short or damaged: a value lies outside its row"


def word_at(fields: int, index: int) -> int:
    """The place of the word of field `index` in a row of `fields` fields (bytes from the row's start)."""
    return ((fields + 63) // 64 + index) * _WORD


def long_at(row: bytes, at: int) -> int:
    """The long in the word at `at`; UnreadableError if the row has none."""
    try:
        return _I64.unpack_from(row, at)[0]
    except struct.error:
        raise UnreadableError(_OUTSIDE) from None


def window_at(row: bytes, at: int) -> tuple[int, int]:
    """Start and end (us) of the window whose word is at `at`; UnreadableError if it is null or outside the row."""
    try:
        (word,) = _U64.unpack_from(row, at)
        nulls, start, end = _WINDOW.unpack_from(row, word >> 32)
    except struct.error:
        raise UnreadableError(_OUTSIDE) from None
    if nulls or word & 0xFFFFFFFF != _WINDOW.size:
        raise UnreadableError("a key has no window")
    return start, end


class TextReader(Struct, frozen=True):
    """Shows one column of a row like Spark's cast to string; nested types only by name."""

    index: int
    at: int
    show: Callable[[bytes, int], str]

    def read(self, row: bytes) -> str | None:
        """The value, truncated if it is long; None for SQL's null."""
        try:
            nulls = _U64.unpack_from(row, self.index // 64 * _WORD)[0]
            if nulls >> self.index % 64 & 1:
                return None
            text = self.show(row, self.at)
        except struct.error:
            raise UnreadableError(_OUTSIDE) from None
        return text if len(text) <= _TEXT_LIMIT else text[: _TEXT_LIMIT - 1] + "…"


def text_reader(row_type: RowType, index: int) -> TextReader:
    """The reader for column `index` of rows of that type."""
    kind = row_type.fields[index].type
    return TextReader(index, word_at(len(row_type.fields), index), _shower(kind))


def _shower(kind: Any) -> Callable[[bytes, int], str]:
    if not isinstance(kind, str):
        name = kind.get("type") if isinstance(kind, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return _by_name(str(name or "?"))  # pyright: ignore[reportUnknownArgumentType]
    if decimal := _DECIMAL.fullmatch(kind):
        return _decimal(*map(int, decimal.groups()))
    return _SHOWERS.get(kind) or _by_name(kind)


def _by_name(kind: str) -> Callable[[bytes, int], str]:
    return lambda row, at: f"<{kind}>"


def _number(form: str) -> Callable[[bytes, int], str]:
    layout = struct.Struct(form)
    return lambda row, at: str(layout.unpack_from(row, at)[0])


def _boolean(row: bytes, at: int) -> str:
    return "true" if struct.unpack_from("<?", row, at)[0] else "false"


def _float(row: bytes, at: int) -> str:
    import numpy as np  # slow to load

    return str(np.float32(struct.unpack_from("<f", row, at)[0]))


def _date(row: bytes, at: int) -> str:
    days: int = struct.unpack_from("<i", row, at)[0]
    try:
        return (_EPOCH + timedelta(days=days)).date().isoformat()
    except OverflowError:
        return f"day {days}"


def _timestamp(row: bytes, at: int) -> str:
    micros: int = _I64.unpack_from(row, at)[0]
    try:
        shown = (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat(" ")
    except OverflowError:
        return f"{micros} us"
    return shown.rstrip("0") if "." in shown else shown


def _string(row: bytes, at: int) -> str:
    return _outside(row, at).decode(errors="replace")


def _binary(row: bytes, at: int) -> str:
    return _outside(row, at).hex()


def _outside(row: bytes, at: int) -> bytes:
    (word,) = _U64.unpack_from(row, at)
    offset, size = word >> 32, word & 0xFFFFFFFF
    if offset + size > len(row):
        raise UnreadableError(_OUTSIDE)
    return row[offset : offset + min(size, 4 * _TEXT_LIMIT)]


def _decimal(precision: int, scale: int) -> Callable[[bytes, int], str]:
    def show(row: bytes, at: int) -> str:
        if precision <= _DECIMAL_IN_WORD:
            unscaled = _I64.unpack_from(row, at)[0]
        else:
            unscaled = int.from_bytes(_outside(row, at), "big", signed=True)
        return format(Decimal(f"{unscaled}E{-scale}"), "f")

    return show


_SHOWERS: dict[str, Callable[[bytes, int], str]] = {
    "boolean": _boolean,
    "byte": _number("<b"),
    "short": _number("<h"),
    "integer": _number("<i"),
    "long": _number("<q"),
    "float": _float,
    "double": _number("<d"),
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp,
    "string": _string,
    "binary": _binary,
}
