"""What of a source is unread: by the broker, else as the query said it; not known where the broker is silent."""

from types import SimpleNamespace
from typing import Any

import pytest
from wmtop.engine.targets.spark.facts import QueryFacts, SourceProgress
from wmtop.engine.targets.spark.inputs import positions_of
from wmtop.engine.targets.topic import PartitionFacts, TopicFacts

READ = '{"orders":{"0":40}}'


def partition(number: int, end: int, position: int) -> PartitionFacts:
    return PartitionFacts("orders", number, end, None, None, position, None)


@pytest.mark.parametrize(
    ("topics", "backlog"),
    [
        (None, 0),
        (TopicFacts(trouble="no broker answers"), None),
        (TopicFacts(partitions=(partition(0, 45, 40),)), 5),
        (TopicFacts(partitions=(partition(0, 7, 40),)), None),  # recreated: the position is another topic's
    ],
)
def test_a_backlog_that_is_not_known_is_not_zero(topics: TopicFacts | None, backlog: int | None) -> None:
    source = SourceProgress("KafkaV2[Subscribe[orders]]", READ, READ)
    run = SimpleNamespace(progress=SimpleNamespace(sources=(source,), input_rows_per_second=None))
    report: Any = SimpleNamespace(run=run)
    assert [one.backlog for one in positions_of(QueryFacts(report=report, topics=topics), ())] == [backlog]
