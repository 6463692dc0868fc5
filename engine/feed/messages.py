"""The messages of the stream: newline-delimited JSON, a header first, then snapshots; commands go the other way.

A snapshot's JSON is the contract of the command line, too: the parts of all kinds of target are side by side in it. The
converters share all values, so that a snapshot of 10,000 channels costs no more than one of none.
"""

import re
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import asdict

from ..snapshot import (
    NOTHING_KNOWN,
    PARTS,
    CommonPart,
    Condition,
    LateRecord,
    Note,
    Other,
    Snapshot,
    SourceView,
    Step,
    TargetKind,
    TargetPart,
)
from ..snapshot.kinds.chain import Chain
from ..snapshot.kinds.flink_job import FlinkJob
from ..snapshot.kinds.kafka_streams import Clock, StreamsApplication
from ..snapshot.kinds.spark_query import BarrelRule, SiblingQuery
from ..snapshot.recommendation import Recommendation, recommendation
from ..snapshot.source import SourcePosition
from ..snapshot.spark_progress import SparkProgress
from ..system.errors import one_line
from ..verdict.history import HistoryPoint
from ..watermarks.counts import TimePoint
from ..watermarks.explain import ExplainedColumn
from ..watermarks.settings import Settings, SettingsChange
from .old_lines import condition_of_notes, untagged_kind

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


class SnapshotLine(CommonPart, frozen=True, kw_only=True, tag_field="kind", tag="snapshot"):
    """A snapshot as in streams, recordings and `--json`."""

    changes: list[SettingsChange] = field(default_factory=list[SettingsChange])
    explain: list[ExplainedColumn] | None = None
    late_output: str | None = None
    late_sample: list[LateRecord] | None = None
    spark: SparkProgress = SparkProgress()
    flink: FlinkJob | None = None
    """The Flink job, if that is the target."""
    sources: list[SourcePosition] | None = None
    barrel: BarrelRule | None = None
    siblings: list[SiblingQuery] | None = None
    origin: dict[str, str] | None = None
    points: list[TimePoint] = field(default_factory=list[TimePoint])
    notes: list[Note] = field(default_factory=list[Note])
    steps: list[Step] = field(default_factory=list[Step])
    error: str | None = None
    log: str | None = None
    other: Other | UnsetType = UNSET
    """The facts of a plug-in's target."""
    clocks: list[Clock] | UnsetType = UNSET
    """The clocks of a Kafka Streams application: it has no watermark."""
    streams: StreamsApplication | UnsetType = UNSET
    chain: Chain | UnsetType = UNSET
    """The hops of a pipeline, if that is the target."""
    target_kind: str | UnsetType = UNSET
    """The kind of target: own, spark, flink, kafka_streams, group, topic, chain, or a plug-in's name for its own."""
    condition: Condition | UnsetType = UNSET
    """What the target reports of its own state; only where something of the kind is known."""
    recommendation: Recommendation | None = None
    """The recommended lateness for 99.9 % on time; it follows from the rest of the snapshot."""


_C1 = re.compile(b"\xc2([\x80-\x9f])")
_COMMON = tuple(name for name in Snapshot.__struct_fields__ if name not in ("target", "condition"))
_common = attrgetter(*_COMMON)
_FIELD_OF: dict[type[TargetPart], str] = {Other: "other", Chain: "chain", FlinkJob: "flink"}
"""The kinds of target whose part is one field of a line; that of the other kinds is spread over several."""


def line_of(snapshot: Snapshot) -> SnapshotLine:
    """The snapshot as it is written."""
    target = snapshot.target
    field_name = _FIELD_OF.get(type(target))
    parts: dict[str, Any] = asdict(target) if field_name is None else {field_name: target}
    return SnapshotLine(
        **_common_parts(snapshot),
        **parts,
        target_kind=target.target_kind,
        condition=UNSET if snapshot.condition == NOTHING_KNOWN else snapshot.condition,
        recommendation=recommendation(snapshot),
    )


def snapshot_of_line(line: SnapshotLine) -> Snapshot:
    """The snapshot that was written; `msgspec.ValidationError` for one of a kind that this version does not know."""
    return Snapshot(**_common_parts(line), target=_target(line), condition=_condition(line))


def encode(snapshot: Snapshot) -> bytes:
    """The snapshot as JSON."""
    return json_of(line_of(snapshot))


def json_of(value: object) -> bytes:
    """The value as JSON that can be printed: also the C1 control characters, which terminals obey, are escaped."""
    return _C1.sub(lambda found: b"\\u00%x" % found[1][0], msgspec.json.encode(value))


def _common_parts(either: Snapshot | SnapshotLine) -> dict[str, Any]:
    return dict(zip(_COMMON, _common(either), strict=True))


def _target(line: SnapshotLine) -> TargetPart:
    """The part of its kind of target, which the line names; a line from before it did is known by its parts."""
    if not isinstance(line.other, UnsetType):
        return line.other
    name = _kind_of_parts(line) if isinstance(line.target_kind, UnsetType) else line.target_kind
    part = PARTS.get(cast(TargetKind, name))
    if part is None:
        raise msgspec.ValidationError(f"a target of the kind {name!r}, which this version of wmtop does not know")
    field_name = _FIELD_OF.get(part)
    if field_name is None:
        given = {each: getattr(line, each) for each in part.__struct_fields__}
        missing = next((each for each, value in given.items() if value is UNSET), None)
        if missing is None:
            return part(**given)
    else:
        found = getattr(line, field_name)
        if isinstance(found, part):
            return found
        missing = field_name
    raise msgspec.ValidationError(f"a target of the kind {name!r} without its part {missing!r}")


def _kind_of_parts(line: SnapshotLine) -> TargetKind:
    """The kind of target of a line that does not name it."""
    in_one_field = next((name for part, name in _FIELD_OF.items() if isinstance(getattr(line, name), part)), None)
    return untagged_kind(line) if in_one_field is None else cast(TargetKind, in_one_field)


def _condition(line: SnapshotLine) -> Condition:
    """What the target reports of its own state; in an old line only notes say it."""
    if isinstance(line.condition, Condition):
        return line.condition
    return condition_of_notes(line.state, line.notes) if line.target_kind is UNSET else NOTHING_KNOWN


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
