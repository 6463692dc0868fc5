"""What of a source is unread: by the broker, else as the query said it; not known where the broker is silent."""

import pytest
from wmtop.engine.targets.spark.facts import BatchProgress, QueryFacts, QueryProgress, QueryRun, Report, SourceProgress
from wmtop.engine.targets.spark.inputs import positions_of
from wmtop.engine.targets.spark.plan import PlanFacts
from wmtop.engine.targets.spark.queries import Queries
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
    assert backlog_of(source, topics=topics) == backlog


@pytest.mark.parametrize(
    ("latest", "rows", "real_time_ms", "backlog"),
    [
        (READ, 0, 5_000, 0),
        (READ, 7, 5_000, None),  # the source is asked when a batch begins, and read until it ends
        ('{"orders":{"0":33}}', 7, 5_000, None),
        ('{"orders":{"0":45}}', 7, 5_000, 5),
        (READ, 7, None, 0),
    ],
)
def test_in_real_time_mode_the_end_of_the_source_is_that_of_the_batchs_start(
    latest: str, rows: int, real_time_ms: int | None, backlog: int | None
) -> None:
    source = SourceProgress("KafkaV2[Subscribe[orders]]", READ, latest, rows)
    assert backlog_of(source, PlanFacts(real_time_ms=real_time_ms)) == backlog


def test_a_trigger_that_waits_for_more_shows_what_is_unread() -> None:
    """As with `minOffsetsPerTrigger`: the report on it, which only a job that publishes gets, has the sources' ends."""
    queries = Queries()
    for batch, latest, phase in ((3, READ, "addBatch"), (4, '{"orders":{"0":45}}', "latestOffset")):
        source = SourceProgress("KafkaV2[Subscribe[orders]]", READ, latest, 7 if phase == "addBatch" else 0)
        asked = {"latestOffset": 1, phase: 1}
        queries.apply(QueryProgress(BatchProgress("i", "r", batch, durations_ms=asked, sources=(source,))))
    [run] = queries.facts()
    assert run.progress is not None
    assert (run.progress.batch, backlog_of(run.progress.sources[0])) == (3, 5)


def backlog_of(source: SourceProgress, plan: PlanFacts | None = None, topics: TopicFacts | None = None) -> int | None:
    run = QueryRun(id="i", run_id="r", progress=BatchProgress("i", "r", 3, sources=(source,)), plan=plan)
    report = Report(tap="publish", run=run, alive=True, trouble=None)
    [position] = positions_of(QueryFacts(report=report, topics=topics), ())
    return position.backlog
