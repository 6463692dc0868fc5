"""The kinds of target: the one table of them, and for each a file with its part of the snapshot and its abilities.

A kind without words fails the type check in `tui/words/kinds`; docs/architecture.md lists what else a kind needs.
"""

from typing import Literal

from .chain import Chain
from .flink_job import FlinkJob
from .group import ConsumerGroup
from .kafka_streams import KafkaStreams
from .own_run import OwnRun
from .plugin import Other
from .spark_query import SparkQuery
from .topic import KafkaTopic

TargetPart = OwnRun | SparkQuery | FlinkJob | KafkaStreams | ConsumerGroup | KafkaTopic | Chain | Other
"""The part of any kind."""
TargetKind = Literal["own", "spark", "flink", "kafka_streams", "group", "topic", "chain"]
"""The kinds by their names in JSON; any other name is that of a plug-in's kind."""
PARTS: dict[TargetKind, type[TargetPart]] = {
    "own": OwnRun,
    "spark": SparkQuery,
    "flink": FlinkJob,
    "kafka_streams": KafkaStreams,
    "group": ConsumerGroup,
    "topic": KafkaTopic,
    "chain": Chain,
}
"""The part of each of them."""
