"""A snapshot's JSON: the contract of the command line, with the parts of all kinds of target side by side.

The converters share all values, so that a snapshot of 10,000 channels costs no more than one of none.
"""

import re
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, field
from msgspec.structs import asdict

from ..watermarks.counts import TimePoint
from ..watermarks.explain import ExplainedColumn
from ..watermarks.settings import SettingsChange
from . import CommonPart, ConsumerGroup, KafkaTopic, LateRecord, Note, Other, OwnRun, Snapshot, Step, TargetPart
from .chain import Chain
from .flink_job import FlinkJob
from .kafka_streams import Clock, KafkaStreams, StreamsApplication
from .recommendation import Recommendation, recommendation
from .spark_query import BarrelRule, SiblingQuery, SourcePosition, SparkProgress, SparkQuery


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
    recommendation: Recommendation | None = None
    """The recommended lateness for 99.9 % on time; it follows from the rest of the snapshot."""


_C1 = re.compile(b"\xc2([\x80-\x9f])")
_COMMON = tuple(name for name in Snapshot.__struct_fields__ if name != "target")
_common = attrgetter(*_COMMON)


def line_of(snapshot: Snapshot) -> SnapshotLine:
    """The snapshot as it is written."""
    target = snapshot.target
    parts: dict[str, Any]
    match target:
        case FlinkJob():
            parts = {"flink": target}
        case Other():
            parts = {"other": target}
        case Chain():
            parts = {"chain": target}
        case _:
            parts = asdict(target)
    return SnapshotLine(**_common_parts(snapshot), **parts, recommendation=recommendation(snapshot))


def snapshot_of_line(line: SnapshotLine) -> Snapshot:
    """The snapshot that was written."""
    return Snapshot(**_common_parts(line), target=_target(line))


def encode(snapshot: Snapshot) -> bytes:
    """The snapshot as JSON."""
    return json_of(line_of(snapshot))


def json_of(value: object) -> bytes:
    """The value as JSON that can be printed: also the C1 control characters, which terminals obey, are escaped."""
    return _C1.sub(lambda found: b"\\u00%x" % found[1][0], msgspec.json.encode(value))


def _common_parts(either: Snapshot | SnapshotLine) -> dict[str, Any]:
    return dict(zip(_COMMON, _common(either), strict=True))


def _target(line: SnapshotLine) -> TargetPart:
    """The part of its kind of target; topics and groups are known by their source."""
    if isinstance(line.other, Other):
        return line.other
    if isinstance(line.chain, Chain):
        return line.chain
    if line.flink is not None:
        return line.flink
    if isinstance(line.streams, StreamsApplication):
        return KafkaStreams(line.clocks or [], line.streams, line.sources)
    if line.origin is None:
        kind = OwnRun
    elif line.settings.strategy == "spark":
        kind = SparkQuery
    else:
        kind = ConsumerGroup if line.source is not None and line.source.kind == "group" else KafkaTopic
    return kind(**{name: getattr(line, name) for name in kind.__struct_fields__})
