"""The line of a job of others that would set a lateness or an idle timeout."""

import pytest
from wmtop.engine.snapshot import ConsumerGroup, KafkaTopic, Snapshot, SourceView, SparkProgress, WatermarkNode
from wmtop.engine.snapshot.kinds.flink_job import FlinkJob, FlinkVertex
from wmtop.engine.text.job_lines import line_in_job, lines_in_jobs
from wmtop.engine.watermarks.settings import Settings

from tests.snapshots import replace, snapshot_for


def attached(kind: str, *nodes: WatermarkNode) -> Snapshot:
    return snapshot_for(
        name="q",
        state="live",
        settings=Settings(strategy="spark" if kind == "checkpoint" else "source"),
        source=SourceView(kind, "q"),
        spark=SparkProgress(nodes=list(nodes)),
        origin={"level": "somebody"},
    )


SPARK = attached("checkpoint", WatermarkNode("ts", 30_000))


@pytest.mark.parametrize(
    ("ms", "interval"),
    [
        (45_000, "45 seconds"),
        (1_000, "1 second"),
        (90_000, "90 seconds"),
        (60_000, "1 minute"),
        (7_200_000, "2 hours"),
        (172_800_000, "2 days"),
        (1_500, "1500 milliseconds"),
        (0, "0 seconds"),
    ],
)
def test_a_delay_as_spark_reads_it(ms: int, interval: str) -> None:
    assert line_in_job(SPARK, ms) == f'withWatermark("ts", "{interval}")'


def test_a_column_that_is_not_known_or_not_the_only_one_is_left_to_the_reader() -> None:
    line = 'withWatermark("<event-time column>", "45 seconds")'
    for nodes in ((), (WatermarkNode(None, 1),), (WatermarkNode("a", 1), WatermarkNode("b", 1))):
        assert line_in_job(attached("checkpoint", *nodes), 45_000) == line


def test_a_consumer_has_the_words_of_flink() -> None:
    group = replace(attached("group"), target=ConsumerGroup())
    assert line_in_job(group, 45_000) == "forBoundedOutOfOrderness(Duration.ofSeconds(45))"
    assert line_in_job(group, 250) == "forBoundedOutOfOrderness(Duration.ofMillis(250))"
    assert line_in_job(group, 300_000, idle=True) == ".withIdleness(Duration.ofMinutes(5))"


def test_where_there_is_no_such_line() -> None:
    assert line_in_job(SPARK, 45_000, idle=True) is None
    assert line_in_job(SPARK, None) is None
    assert line_in_job(replace(attached("topic"), target=KafkaTopic()), 45_000) is None
    assert line_in_job(replace(SPARK, origin=None), 45_000) is None


def flink(*vertices: str) -> Snapshot:
    graph = [FlinkVertex(id=name, name=name, parallelism=1, status="RUNNING", inputs=[]) for name in vertices]
    job = FlinkJob(id="1", name="orders", state="RUNNING", operator=None, vertices=graph)
    return replace(attached("flink"), flink=job)


@pytest.mark.parametrize(
    ("ms", "delay", "timeout"),
    [
        (45_000, "'45' SECOND", "45 s"),
        (60_000, "'1' MINUTE", "1 min"),
        (101_000, "'101' SECOND(3)", "101 s"),
        (7_200_000, "'2' HOUR", "2 h"),
        (1_500, "'1.500' SECOND", "1500 ms"),
        (3_661_000, "'0 01:01:01.000' DAY(3) TO SECOND", "3661 s"),
        (10_368_001_500, "'120 00:00:01.500' DAY(3) TO SECOND", "10368001500 ms"),
        (0, "'0' SECOND", "0 s"),
    ],
)
def test_of_a_flink_job_from_sql_the_line_is_sql(ms: int, delay: str, timeout: str) -> None:
    job = flink("Source: orders[1] -> WatermarkAssigner[2]", "GlobalWindowAggregate[5]")
    assert line_in_job(job, ms) == f"WATERMARK FOR ts AS ts - INTERVAL {delay}"
    assert line_in_job(job, ms, idle=True) == f"'scan.watermark.idle-timeout' = '{timeout}'"


def test_of_another_flink_job_the_line_is_java() -> None:
    job = flink("Source: orders -> Map", "Window(Tumbling[60s]) -> Sink")
    assert line_in_job(job, 45_000) == "forBoundedOutOfOrderness(Duration.ofSeconds(45))"
    assert line_in_job(job, 60_000, idle=True) == ".withIdleness(Duration.ofMinutes(1))"


def test_a_lateness_of_0_is_no_delay_of_0_in_spark() -> None:
    """Spark drops records that equal its watermark: with a delay of 0 also those with the greatest time itself."""
    lines = lines_in_jobs(0, None)
    assert lines["spark"] == 'withWatermark("ts", "1 millisecond")'
    assert "Duration.ofSeconds(0)" in lines["flink_java"]
