"""A topic whose records have times in our future: at the first look they show nothing of when they came."""

import pytest
from wmtop.engine.kafka.client_settings import KafkaConfig
from wmtop.engine.system import clock
from wmtop.engine.targets.target import Follower, TargetOptions
from wmtop.engine.targets.topic import PartitionFacts, TopicFacts
from wmtop.engine.targets.topic.consumer import TopicWatch

SECOND, HOUR = 1_000, 3_600_000
NOW = 1_700_000_000_000


def facts_of(time_ms: int, end: int = 5) -> TopicFacts:
    part = PartitionFacts("t", 0, end=end, newest_ms=time_ms, arrived_ms=time_ms, position=None, event_ms=time_ms)
    return TopicFacts(partitions=(part,))


@pytest.mark.parametrize("ahead_ms", [40 * SECOND, HOUR])
def test_a_dead_topic_with_times_in_our_future_is_never_moving(ahead_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, at = TopicWatch(KafkaConfig("localhost:9"), "t", TargetOptions()), [NOW]
    monkeypatch.setattr(clock, "now_ms", lambda: at[0])
    follower, facts = Follower(watch, "t"), facts_of(NOW + ahead_ms)
    for _ in range(120):
        at[0] += SECOND
        verdict = follower.snapshot(facts).verdict
        assert verdict.verdict in ("unknown", "waiting")
        assert (verdict.age_ms or 0) >= 0
    at[0] += SECOND
    assert follower.snapshot(facts_of(NOW + ahead_ms + SECOND, end=6)).verdict.verdict == "moving"
