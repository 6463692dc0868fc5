"""The part of a snapshot that only an attached Spark query has."""

from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct

from ...watermarks.lateness import WhatIf
from ...watermarks.watermark_history import Beat
from ..source import SourcePosition, SourceView
from ..spark_progress import SparkProgress
from ..watermark import ChannelView
from .any_target import AnyTarget, JobLanguage, Load, topics_of


class SiblingQuery(Struct, frozen=True):
    """Another query of the same application."""

    name: str
    id: str
    state: Literal["running", "stopped", "failed"]
    error: str | None = None


class BarrelRule(Struct, frozen=True):
    """The watermark of an attached query if the slowest channel set it; Spark's one clock follows the fastest."""

    watermark_ms: int | None
    """The lowest event time of the channels, minus the delay."""
    holder: str | None
    """The slowest channel."""
    below: list[str]
    """The channels whose event time is at or below the watermark that Spark compares late records with, the most behind
    first: all their records are late, and dropped if the window has closed.
    """
    whatif: list[WhatIf] | None = None
    """`Snapshot.whatif` under this rule; `Snapshot.whatif` itself follows Spark's rule."""


class SparkQuery(AnyTarget, frozen=True):
    """What only a snapshot of an attached Spark query has."""

    spark: SparkProgress = SparkProgress()
    sources: list[SourcePosition] | None = None
    barrel: BarrelRule | None = None
    """The watermark by the slowest channel; None: the channels are not known."""
    siblings: list[SiblingQuery] | None = None
    """The other queries of its application; None: not known."""

    @property
    def target_kind(self) -> str:
        return "spark"

    @property
    def written_in(self) -> JobLanguage:
        return "spark"

    @property
    def topics_written(self) -> list[str]:
        return self.spark.writes or []

    def beat(self, source: SourceView | None) -> Beat:
        return "spark"

    def load(self, *, is_stale: bool) -> Load:
        """That of its last batch, which stays what it was."""
        return Load(read_per_second=self.spark.input_rows_per_second)

    def topics_read(
        self, source: SourceView | None, channels: Sequence[ChannelView], known: Collection[str]
    ) -> set[str]:
        return topics_of(self.sources)
