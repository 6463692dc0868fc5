"""A state store's metadata: its operator (`_metadata/metadata`), its rows' types (`_metadata/schema`)."""

import struct
from typing import Any

import msgspec
from msgspec import Struct

from ....system.errors import one_line
from ..files import UnreadableError
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
