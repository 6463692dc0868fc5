"""The part of a snapshot that only a consumer group of Kafka has."""

from collections.abc import Collection, Sequence
from typing import ClassVar, Literal

from ...watermarks.watermark_history import Beat
from ..source import SourcePosition, SourceView
from ..watermark import ChannelView
from .any_target import AnyTarget, JobLanguage, topics_of


class ConsumerGroup(AnyTarget, frozen=True):
    """A topic, watched up to the positions of a consumer group."""

    news_from: ClassVar[Literal["query", "job", "source"]] = "source"

    sources: list[SourcePosition] | None = None

    @property
    def target_kind(self) -> str:
        return "group"

    @property
    def written_in(self) -> JobLanguage:
        """Only the positions of its reader are known: it may be a Flink job."""
        return "flink_java"

    def beat(self, source: SourceView | None) -> Beat:
        return "group"

    def topics_read(
        self, source: SourceView | None, channels: Sequence[ChannelView], known: Collection[str]
    ) -> set[str]:
        return topics_of(self.sources)
