"""The part of a snapshot that only one kind of target has: one struct a kind."""

from msgspec import Struct

from .flink_job import FlinkJob
from .source import SourcePosition
from .spark_query import SparkProgress, SparkQuery


class OwnRun(Struct, frozen=True):
    """An engine of wmtop: its records are counted, and its settings can be changed."""

    spark: SparkProgress = SparkProgress()


class KafkaTopic(Struct, frozen=True):
    """A topic, watched up to the end of its partitions."""

    sources: list[SourcePosition] | None = None


class ConsumerGroup(Struct, frozen=True):
    """A topic, watched up to the positions of a consumer group."""

    sources: list[SourcePosition] | None = None


class OtherFact(Struct, frozen=True):
    """A fact of a plug-in's target: a word of the plug-in's, its value, and its unit; "ms" is shown as a duration."""

    name: str
    value: float | int | str | None
    """None: not known."""
    unit: str = ""


class Other(Struct, frozen=True):
    """What only a plug-in's kind of target has; `kind` is the scheme of its addresses."""

    kind: str
    facts: list[OtherFact] = []


TargetPart = OwnRun | SparkQuery | FlinkJob | KafkaTopic | ConsumerGroup | Other
