"""The lines of the stream: newline-delimited JSON, a header first, then snapshots; commands go the other way."""

from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ..core.history import HistoryPoint
from ..core.settings import Settings
from ..core.snapshot import Snapshot, SourceView, TimePoint

STREAM_VERSION = 1
LINE_LIMIT = 64 * 1024 * 1024
"""Longest line (bytes) that is read; a snapshot of 10,000 channels has 2.3 MB."""


class Header(Struct, frozen=True, kw_only=True, tag_field="kind", tag="header"):
    """The first line: who speaks, and what a viewer that comes late has missed."""

    format: str = "wmtop"
    version: int = STREAM_VERSION
    name: str
    pid: int
    started_ms: int
    source: SourceView | None = None
    settings: Settings
    history: list[HistoryPoint] = []
    points: list[TimePoint] = []


class Reply(Struct, frozen=True, kw_only=True, tag_field="kind", tag="reply"):
    """The answer to the command with the same `id`: done, or why not in one line."""

    id: int
    ok: bool
    text: str = ""


class Change(Struct, frozen=True, kw_only=True, tag_field="kind", tag="set"):
    """Change settings at the next emit; what is `UNSET` stays (`idle_after_ms=None` switches idleness off)."""

    id: int
    lateness_ms: int | UnsetType = UNSET
    idle_after_ms: int | UnsetType | None = UNSET
    who: str = ""


class Stop(Struct, frozen=True, kw_only=True, tag_field="kind", tag="stop"):
    """Stop the engine cleanly."""

    id: int


FromEngine = Header | Snapshot | Reply
ToEngine = Change | Stop

_T = TypeVar("_T")

_encoder = msgspec.json.Encoder()
_from_engine: msgspec.json.Decoder[FromEngine] = msgspec.json.Decoder(FromEngine)
_to_engine: msgspec.json.Decoder[ToEngine] = msgspec.json.Decoder(ToEngine)


def encode_line(message: FromEngine | ToEngine) -> bytes:
    """One message as a line of JSON, newline included."""
    return _encoder.encode(message) + b"\n"


def decode_from_engine(line: bytes) -> FromEngine:
    """A line that an engine sent; raises `msgspec.DecodeError` for anything else."""
    return _decode(_from_engine, line)


def decode_to_engine(line: bytes) -> ToEngine:
    """A line that a viewer sent; raises `msgspec.DecodeError` for anything else."""
    return _decode(_to_engine, line)


def decode_as(kind: type[_T], data: bytes) -> _T:
    """Any JSON as a `kind`; raises `msgspec.DecodeError` for anything else."""
    return _decode(msgspec.json.Decoder(kind), data)


def _decode(decoder: msgspec.json.Decoder[_T], data: bytes) -> _T:
    try:
        return decoder.decode(data)
    except (UnicodeDecodeError, RecursionError) as error:  # what msgspec lets through on hostile input
        raise msgspec.DecodeError(str(error)) from error
