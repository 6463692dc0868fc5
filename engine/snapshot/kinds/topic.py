"""The part of a snapshot that only a Kafka topic has."""

from typing import ClassVar, Literal

from ..source import SourcePosition
from .any_target import AnyTarget


class KafkaTopic(AnyTarget, frozen=True):
    """A topic, watched up to the end of its partitions."""

    has_reader: ClassVar[bool] = False
    news_from: ClassVar[Literal["query", "job", "source"]] = "source"

    sources: list[SourcePosition] | None = None

    @property
    def target_kind(self) -> str:
        return "topic"
