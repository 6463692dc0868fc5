"""The part of a snapshot that only a consumer group of Kafka has."""

from ..source import SourcePosition
from .any_target import AnyTarget


class ConsumerGroup(AnyTarget, frozen=True):
    """A topic, watched up to the positions of a consumer group."""

    sources: list[SourcePosition] | None = None

    @property
    def target_kind(self) -> str:
        return "group"
