"""The words of the kinds of target: a file for each, on the base in `presenter.py`, and the choice among them. Pure."""

from typing import assert_never

from ....engine.snapshot import (
    Chain,
    ConsumerGroup,
    FlinkJob,
    KafkaStreams,
    KafkaTopic,
    Other,
    OwnRun,
    Snapshot,
    SparkQuery,
)
from .chain import ChainWords
from .flink_job import FlinkJobWords
from .kafka_streams import KafkaStreamsWords
from .own_run import OwnRunWords
from .plugin import OtherWords
from .presenter import Presenter
from .spark_query import SparkQueryWords
from .topic import GroupWords, TopicWords


def presenter_of(snapshot: Snapshot) -> Presenter:
    """The presenter for the snapshot's target."""
    target = snapshot.target
    match target:
        case OwnRun():
            return OwnRunWords(snapshot)
        case SparkQuery() as query:
            return SparkQueryWords(snapshot, query)
        case FlinkJob() as job:
            return FlinkJobWords(snapshot, job)
        case KafkaStreams() as application:
            return KafkaStreamsWords(snapshot, application)
        case ConsumerGroup():
            return GroupWords(snapshot)
        case KafkaTopic():
            return TopicWords(snapshot)
        case Chain() as chain:
            return ChainWords(snapshot, chain)
        case Other() as other:
            return OtherWords(snapshot, other)
    assert_never(target)
