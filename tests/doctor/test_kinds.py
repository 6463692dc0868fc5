"""What the rules ask of a kind of target: what does not answer if nothing newer comes, and its words for a failure."""

from typing import get_args

import pytest
from wmtop.engine.doctor import diagnose
from wmtop.engine.doctor.kind_details import KIND_DETAILS
from wmtop.engine.snapshot import EngineState, Snapshot, SparkProgress, TargetPart
from wmtop.engine.snapshot.kinds.chain import Chain
from wmtop.engine.snapshot.kinds.flink_job import FlinkJob
from wmtop.engine.snapshot.kinds.group import ConsumerGroup
from wmtop.engine.snapshot.kinds.kafka_streams import KafkaStreams, StreamsApplication
from wmtop.engine.snapshot.kinds.own_run import OwnRun
from wmtop.engine.snapshot.kinds.plugin import Other
from wmtop.engine.snapshot.kinds.spark_query import SparkQuery
from wmtop.engine.snapshot.kinds.topic import KafkaTopic
from wmtop.engine.watermarks.settings import Settings

NOW = 1_700_000_000_000
STALE: dict[type[TargetPart], tuple[TargetPart, str]] = {
    OwnRun: (OwnRun(), "source-unreachable"),
    KafkaTopic: (KafkaTopic(), "source-unreachable"),
    ConsumerGroup: (ConsumerGroup(), "source-unreachable"),
    KafkaStreams: (KafkaStreams([], StreamsApplication("counts", None, None)), "source-unreachable"),
    FlinkJob: (FlinkJob("c" * 32, "orders", "RUNNING", None, []), "job-not-running"),
    SparkQuery: (SparkQuery(SparkProgress(batch_timestamp_ms=NOW)), "query-stale"),
    Other: (Other("gauges"), "query-not-started"),
    Chain: (Chain([], []), "query-not-started"),
}
"""For each kind the finding that accounts for it where nothing newer comes."""


def found_in(state: EngineState, target: TargetPart) -> dict[str, str]:
    """The titles of the findings, by their codes."""
    snapshot = Snapshot(name="orders", state=state, wall_ms=NOW, now_ms=NOW, settings=Settings(), target=target)
    return {finding.code: finding.title for finding in diagnose(snapshot, [])}


def test_no_kind_is_left_out() -> None:
    assert set(STALE) == set(get_args(TargetPart))
    assert set(KIND_DETAILS) < set(STALE)


@pytest.mark.parametrize("part", STALE)
def test_one_finding_names_what_does_not_answer(part: type[TargetPart]) -> None:
    target, code = STALE[part]
    accounted = {"source-unreachable", "job-not-running", "query-stale", "query-not-started"}
    assert accounted & set(found_in("stale", target)) == {code}


@pytest.mark.parametrize("part", STALE)
def test_a_failure_has_the_words_of_the_kind(part: type[TargetPart]) -> None:
    who = {OwnRun: "The engine", FlinkJob: "The job"}.get(part, "The query")
    assert found_in("failed", STALE[part][0])["engine-failed"] == f"{who} has failed"
