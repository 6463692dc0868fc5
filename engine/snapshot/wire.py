"""A snapshot's JSON: the contract of the command line, with the parts of all kinds of target side by side.

The converters share all values, so that a snapshot of 10,000 channels costs no more than one of none.
"""

from operator import attrgetter

import msgspec
from msgspec import UNSET, UnsetType, field

from ..watermarks.counts import TimePoint
from . import Snapshot
from .common import CommonPart
from .flink_job import FlinkJob
from .source import Note, SourcePosition, Step
from .spark_query import BarrelRule, SiblingQuery, SparkProgress, SparkQuery
from .targets import ConsumerGroup, KafkaTopic, Other, OwnRun, TargetPart


class SnapshotLine(CommonPart, frozen=True, kw_only=True, tag_field="kind", tag="snapshot"):
    """A snapshot as in streams, recordings and `--json`."""

    spark: SparkProgress = SparkProgress()
    flink: FlinkJob | None = None
    """The Flink job, if that is the target."""
    sources: list[SourcePosition] | None = None
    """The sources of an attached query."""
    barrel: BarrelRule | None = None
    """The barrel of an attached query with known channels."""
    siblings: list[SiblingQuery] | None = None
    """The other queries of an attached query's application; None: not known."""
    origin: dict[str, str] | None = None
    """The tap that each part of an attached query's snapshot comes from."""
    points: list[TimePoint] = field(default_factory=list[TimePoint])
    notes: list[Note] = field(default_factory=list[Note])
    steps: list[Step] = field(default_factory=list[Step])
    error: str | None = None
    log: str | None = None
    other: Other | UnsetType = UNSET
    """The facts of a plug-in's target."""


_COMMON = tuple(name for name in Snapshot.__struct_fields__ if name != "target")
_common = attrgetter(*_COMMON)


def line_of(snapshot: Snapshot) -> SnapshotLine:
    """The snapshot as it is written."""
    target = snapshot.target
    return SnapshotLine(
        **dict(zip(_COMMON, _common(snapshot), strict=True)),
        spark=snapshot.spark,
        flink=snapshot.flink,
        sources=snapshot.sources,
        barrel=snapshot.barrel,
        siblings=snapshot.siblings,
        other=target if isinstance(target, Other) else UNSET,
    )


def snapshot_of_line(line: SnapshotLine) -> Snapshot:
    """The snapshot that was written."""
    return Snapshot(**dict(zip(_COMMON, _common(line), strict=True)), target=_target(line))


def encode(snapshot: Snapshot) -> bytes:
    """The snapshot as JSON."""
    return msgspec.json.encode(line_of(snapshot))


def _target(line: SnapshotLine) -> TargetPart:
    """The part of its kind of target; topics and groups are known by their source."""
    if isinstance(line.other, Other):
        return line.other
    if line.flink is not None:
        return line.flink
    if line.origin is None:
        return OwnRun(line.spark)
    if line.settings.strategy == "spark":
        return SparkQuery(line.spark, line.sources, line.barrel, line.siblings)
    is_group = line.source is not None and line.source.kind == "group"
    return ConsumerGroup(line.sources) if is_group else KafkaTopic(line.sources)
