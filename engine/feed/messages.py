"""The lines of the stream: newline-delimited JSON, a header first, then snapshots; commands go the other way."""

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ..core.settings import Settings
from ..core.snapshot import Snapshot, SourceView

STREAM_VERSION = 1


class HistoryPoint(Struct, frozen=True, array_like=True):
    """The level at one snapshot: processing time and watermark (epoch ms), distance behind the fastest (ms), holder."""

    now_ms: int
    watermark_ms: int | None
    behind_fastest_ms: int | None
    holder: str | None
    records: int
    late: int
    wall_ms: int


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


class Reply(Struct, frozen=True, kw_only=True, tag_field="kind", tag="reply"):
    """The answer to the command with the same `id`: done, or why not in one line."""

    id: int
    ok: bool
    text: str = ""


class Change(Struct, frozen=True, kw_only=True, tag_field="kind", tag="set"):
    """Change settings at the next emit; what is `UNSET` stays (`idle_after_ms=None` switches idleness off)."""

    id: int
    lateness_ms: int | UnsetType = UNSET
    idle_after_ms: int | None | UnsetType = UNSET
    who: str = ""


class Stop(Struct, frozen=True, kw_only=True, tag_field="kind", tag="stop"):
    """Stop the engine cleanly."""

    id: int


FromEngine = Header | Snapshot | Reply
ToEngine = Change | Stop

_encoder = msgspec.json.Encoder()
_from_engine: msgspec.json.Decoder[FromEngine] = msgspec.json.Decoder(FromEngine)
_to_engine: msgspec.json.Decoder[ToEngine] = msgspec.json.Decoder(ToEngine)


def encode_line(message: FromEngine | ToEngine) -> bytes:
    """One message as a line of JSON, newline included."""
    return _encoder.encode(message) + b"\n"


def decode_from_engine(line: bytes | str) -> FromEngine:
    """A line that an engine sent; raises `msgspec.DecodeError` for anything else."""
    return _from_engine.decode(line)


def decode_to_engine(line: bytes | str) -> ToEngine:
    """A line that a viewer sent; raises `msgspec.DecodeError` for anything else."""
    return _to_engine.decode(line)
