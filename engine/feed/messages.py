"""The messages of the stream: newline-delimited JSON, a header first, then snapshots; commands go the other way."""

from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ..snapshot import Snapshot, SourceView, TimePoint
from ..snapshot.wire import SnapshotLine, line_of, snapshot_of_line
from ..system.errors import one_line
from ..verdict.history import HistoryPoint
from ..watermarks.settings import Settings

STREAM_VERSION = 3
"""The only version of streams and recordings that can be read."""
LINE_LIMIT = 64 * 1024 * 1024
"""Longest line (bytes) of the stream that is written or read; a snapshot of 10,000 channels has 2.3 MB."""
COMMAND_LIMIT = 16 * 1024
"""Longest line (bytes) of a command."""
MAX_MS = 36_500 * 86_400_000
"""Longest duration (ms) that a command may set: 100 years, as on the command line."""
WHO_LIMIT = 64
"""Longest name of a command's sender (characters)."""

Duration = Annotated[int, Meta(ge=0, le=MAX_MS)]

_T = TypeVar("_T")
_encoder = msgspec.json.Encoder()


class Header(Struct, frozen=True, kw_only=True, tag_field="kind", tag="header"):
    """The first line: identifies the engine, and has the history for a viewer that connects later."""

    format: str = "wmtop"
    version: int = STREAM_VERSION
    name: str
    pid: int
    started_ms: int
    id: str = ""
    """An engine's: unique to this run, so that a viewer finds the engine it started or chose."""
    source: SourceView | None = None
    settings: Settings
    history: list[HistoryPoint] = []
    points: list[TimePoint] = []


class Greeting(Struct):
    """The fields of a header that every version has."""

    kind: str = ""
    format: str = ""
    version: int = 0
    id: str = ""


class Reply(Struct, frozen=True, kw_only=True, tag_field="kind", tag="reply"):
    """The answer to the command with the same `id`: done, or one line why not."""

    id: int
    ok: bool
    text: str = ""


class End(Struct, frozen=True, kw_only=True, tag_field="kind", tag="end"):
    """The last line of an engine that closes its stream: without it, it was killed or the connection was lost."""

    reason: Literal["ended", "stopped", "failed"]


class Change(Struct, frozen=True, kw_only=True, tag_field="kind", tag="set"):
    """Change settings at the next emit; `UNSET` fields stay as they are (`idle_after_ms=None` ends idleness)."""

    id: int
    lateness_ms: Duration | UnsetType = UNSET
    idle_after_ms: Duration | UnsetType | None = UNSET
    who: Annotated[str, Meta(max_length=WHO_LIMIT)] = ""


class Stop(Struct, frozen=True, kw_only=True, tag_field="kind", tag="stop"):
    """Stop the engine cleanly."""

    id: int


FromEngine = Header | Snapshot | Reply
EngineLine = FromEngine | End
"""Any line of the stream."""
ToEngine = Change | Stop

WrittenLine = Header | SnapshotLine | Reply | End
_from_engine: msgspec.json.Decoder[WrittenLine] = msgspec.json.Decoder(WrittenLine)
_to_engine: msgspec.json.Decoder[ToEngine] = msgspec.json.Decoder(ToEngine)


def encode_line(message: EngineLine | ToEngine) -> bytes:
    """One message as a line of JSON, newline included."""
    return _encoder.encode(line_of(message) if isinstance(message, Snapshot) else message) + b"\n"


def decode_from_engine(line: bytes) -> EngineLine:
    """The message of a line from an engine; `msgspec.DecodeError` in one line for anything else."""
    message = _decode(_from_engine, line)
    return snapshot_of_line(message) if isinstance(message, SnapshotLine) else message


def decode_to_engine(line: bytes) -> ToEngine:
    """The message of a line from a viewer; `msgspec.DecodeError` in one line for anything else."""
    return _decode(_to_engine, line)


def decode_as(kind: type[_T], data: bytes) -> _T:
    """JSON decoded as a `kind`; `msgspec.DecodeError` in one line for anything else."""
    return _decode(msgspec.json.Decoder(kind), data)


def _decode(decoder: msgspec.json.Decoder[_T], data: bytes) -> _T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # the last two on malicious input
        raise msgspec.DecodeError(one_line(str(error))) from error
