"""The point of history that a snapshot is."""

from wmtop.engine.snapshot import ChannelView, Holder, Level, SourcePosition, SparkProgress, Totals, Windows
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
