"""What of a source is unread: by the broker, else as the query said it; not known where the broker is silent."""

from types import SimpleNamespace
from typing import Any

import pytest
from wmtop.engine.taps.broker.topic_facts import TopicFacts
from wmtop.engine.taps.events.query_runs import SourceProgress
from wmtop.engine.taps.positions import positions

READ = '{"orders":{"0":40}}'


@pytest.mark.parametrize(("topics", "backlog"), [(None, 0), (TopicFacts(trouble="no broker answers"), None)])
def test_a_backlog_that_nobody_can_know_is_not_zero(topics: TopicFacts | None, backlog: int | None) -> None:
    source = SourceProgress("KafkaV2[Subscribe[orders]]", READ, READ, READ, 0, None, None)
    run: Any = SimpleNamespace(progress=SimpleNamespace(sources=(source,)))
    assert [one.backlog for one in positions(None, run, topics)] == [backlog]
