"""The topics that each kind of target shows itself that it reads and writes."""

import pytest
from wmtop.engine.snapshot import (
    ChannelView,
    ConsumerGroup,
    FlinkJob,
    KafkaStreams,
    KafkaTopic,
    Other,
    OwnRun,
    SourcePosition,
    SourceView,
    SparkProgress,
    SparkQuery,
    StreamsApplication,
    TargetPart,
)

POSITIONS = [SourcePosition("kafka", {"orders/0": 1, "orders/1": 2, "a/b/0": 3}), SourcePosition("rate", 7)]
JOB = FlinkJob("1", "report", "RUNNING", None, [], topics=["eu_orders", "a_b", "new"])
PLACES = ("orders-0", "orders-1", "counts-KSTREAM-1-repartition-0", "counts-store-changelog-0", "counts-1-0")


@pytest.mark.parametrize(
    ("target", "topics"),
    [
        (SparkQuery(SparkProgress(), POSITIONS), {"orders", "a/b"}),
        (ConsumerGroup(POSITIONS), {"orders", "a/b"}),
        (KafkaTopic(POSITIONS), set[str]()),
        (Other("gauges"), set[str]()),
        (KafkaStreams([], StreamsApplication("counts", None, None)), {"orders", "counts-1"}),
        (JOB, {"eu.orders", "a.b or a_b", "new"}),
        (OwnRun(), {"orders", "clicks"}),
    ],
)
def test_a_job_shows_what_it_reads(target: TargetPart, topics: set[str]) -> None:
    source = SourceView("kafka", "orders, clicks at broker:9092", bootstrap="broker:9092")
    channels = [ChannelView(place, None, None, "active") for place in PLACES]
    assert target.topics_read(source, channels, ["eu.orders", "a.b", "a_b"]) == topics


def test_an_own_run_of_another_source_reads_no_topic() -> None:
    assert OwnRun().topics_read(SourceView("files", "orders, clicks"), [], []) == set()
    assert OwnRun().topics_read(None, [], []) == set()


def test_a_query_shows_what_its_sink_writes() -> None:
    assert SparkQuery(SparkProgress(writes=["kafka://broker:9092/out"])).topics_written == ["kafka://broker:9092/out"]
    assert SparkQuery().topics_written == OwnRun().topics_written == []
