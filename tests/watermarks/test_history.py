"""The point of history that a snapshot is."""

from wmtop.engine.snapshot import (
    Chain,
    ChannelView,
    Clock,
    Holder,
    KafkaStreams,
    Level,
    SourcePosition,
    SparkProgress,
    StreamsApplication,
    Totals,
    Windows,
)
from wmtop.engine.snapshot.kinds.flink_job import FlinkJob, FlinkVertex
from wmtop.engine.verdict.history import HistoryPoint, Phases, history_point, phases_of
from wmtop.engine.watermarks.settings import Settings

from tests.snapshots import replace, snapshot_for

NOW = 1_360_000_000_000
SPARK = SparkProgress(
    input_rows_per_second=50.0,
    processed_rows_per_second=90.0,
    batch_ms=310,
    phases_ms={"addBatch": 250, "walCommit": 20, "commitOffsets": 15, "queryPlanning": 5, "getBatch": 1, "odd": 9},
)


def channel(name: str, **more: int | None) -> ChannelView:
    return ChannelView(name, NOW - 5_000, NOW - 1_000, "active", **more)  # type: ignore[arg-type]


TAKEN = snapshot_for(
    name="run",
    state="live",
    batch=7,
    now_ms=NOW,
    wall_ms=NOW + 5,
    settings=Settings(),
    level=Level(NOW - 5_000, 500, holder=Holder("a", NOW - 9, "behind")),
    channels=[channel("a", backlog=3, behind_end_ms=70), channel("b", backlog=4, behind_end_ms=60), channel("c")],
    windows=Windows(open_count=2, open_records=11, fired=5, late_firings=1),
    totals=Totals(records=200, late=2),
    spark=SPARK,
)


def test_a_point_has_what_the_sparklines_need() -> None:
    assert history_point(TAKEN) == HistoryPoint(
        now_ms=NOW,
        watermark_ms=NOW - 5_000,
        behind_fastest_ms=500,
        holder="a",
        records=200,
        late=2,
        wall_ms=NOW + 5,
        max_event_ms=NOW - 1_000,
        batch=7,
        batch_ms=310,
        phases=Phases(offsets_ms=1, planning_ms=5, work_ms=250, commit_ms=35),
        rows_in=50.0,
        rows_done=90.0,
        backlog=7,
        backlog_ms=70,
        open_windows=2,
        state_rows=11,
        results=6,
        held_since_ms=NOW - 9,
        cause="behind",
        emitted_ms=NOW - 5_000,
    )


def test_without_a_clock_there_is_no_point() -> None:
    assert history_point(replace(TAKEN, now_ms=None)) is None
    assert history_point(replace(TAKEN, wall_ms=None)) is None


def test_an_attached_query_reports_spark_and_its_sources() -> None:
    others = replace(
        TAKEN,
        channels=[],
        totals=Totals(None, None, None, None, None, None),
        windows=Windows(open_count=None, fired=None, late_firings=None),
        sources=[SourcePosition("files", None), SourcePosition("topic", {"0": 7}, backlog=40)],
        spark=replace(SPARK, state_rows=900),
        settings=Settings(strategy="spark"),
        origin={"level": "checkpoint"},
    )
    point = history_point(others)
    assert point is not None
    assert (point.backlog, point.state_rows, point.open_windows, point.results) == (40, 900, None, None)
    assert (point.records, point.late, point.max_event_ms, point.backlog_ms) == (0, 0, None, None)


def test_without_phases_there_are_none() -> None:
    assert phases_of({}) is None


def test_the_load_of_a_flink_job_is_that_of_its_tasks_and_no_old_one() -> None:
    source = FlinkVertex("a", "Source", 1, "RUNNING", [], busy=0.2, back_pressured=0.9, taken_per_second=70.0)
    window = FlinkVertex("b", "Window", 1, "RUNNING", ["a"], busy=0.8, back_pressured=0.0, sent_per_second=3.0)
    job = FlinkJob("c" * 32, "orders", "RUNNING", "b", [source, window])
    shown = replace(TAKEN, target=job)
    point = history_point(shown)
    assert point is not None
    assert (point.rows_in, point.results_in_a_second, point.busy, point.back_pressured) == (70.0, 3.0, 0.8, 0.9)
    stale = history_point(replace(shown, state="stale"))
    assert stale is not None
    assert (stale.rows_in, stale.results_in_a_second, stale.busy, stale.back_pressured) == (None, None, None, None)


def test_a_chain_and_a_kafka_streams_application_have_times_of_their_own() -> None:
    chain = history_point(replace(TAKEN, target=Chain([], [], behind_ms=900)))
    assert chain is not None
    assert (chain.watermark_ms, chain.behind_fastest_ms) == (NOW - 5_000, 900)
    clocks = [Clock("0_0", ["a"], NOW - 50, "moving"), Clock("0_1", ["b"], NOW - 700, "stalled")]
    streams = history_point(replace(TAKEN, target=KafkaStreams(clocks, StreamsApplication("counts", None, None))))
    assert streams is not None
    assert (streams.watermark_ms, streams.behind_fastest_ms) == (NOW - 700, 500)
