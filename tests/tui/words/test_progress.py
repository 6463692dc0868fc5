"""The figures of the Progress screen: what each column stands for."""

import pytest
from wmtop.engine.snapshot import Snapshot, SourcePosition, SparkProgress
from wmtop.engine.verdict.history import HistoryPoint, Phases
from wmtop.tui.widgets.charts import stacked
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.progress import Chart, UnreadPosition, cells_of, step_ms, unread

from tests.snapshots import replace

from ...doctor.patients import channel, healthy
from ..canned import WALL, attached, live


def point(second: int, **more: object) -> HistoryPoint:
    return HistoryPoint(0, None, None, None, 0, 0, WALL + 1_000 * second, **more)  # type: ignore[arg-type]


def drawn(snapshot: Snapshot, points: list[HistoryPoint], columns: int = 4, cell_ms: int = 2_000) -> dict[str, Chart]:
    cells = cells_of(points, columns, cell_ms)
    return {chart.name: chart for chart in presenter_of(snapshot).charts(points, cells)}


@pytest.mark.parametrize(
    ("seconds", "columns", "step"),
    [(0, 80, 2_000), (150, 80, 2_000), (170, 80, 3_000), (900, 80, 12_000), (900, 5, 60_000)],
)
def test_a_column_is_as_much_time_as_all_of_it_needs(seconds: int, columns: int, step: int) -> None:
    assert step_ms([point(0), point(seconds)], columns) == step


def test_columns_are_stretches_of_the_clock_the_newest_last() -> None:
    points = [point(second) for second in (0, 1, 5, 6, 7)]
    assert [len(cell) for cell in cells_of(points, 5, 2_000)] == [0, 2, 0, 1, 2]
    assert [len(cell) for cell in cells_of(points, 2, 2_000)] == [1, 2]
    assert cells_of([], 3, 2_000) == [[], [], []]


def test_rows_in_are_the_growth_of_the_total() -> None:
    points = [replace(point(second), records=1_000 + 40 * second) for second in range(8)]
    chart = drawn(live(), points)["rows in"]
    assert chart.columns == [(40.0,), (40.0,), (40.0,), (40.0,)]
    assert chart.now == "5,402/s"


def test_of_a_query_that_others_run_spark_says_them() -> None:
    points = [point(second, rows_in=10.0 * second) for second in range(4)]
    assert drawn(attached(), points, columns=2)["rows in"].columns == [(5.0,), (25.0,)]


def test_a_batch_is_stacked_by_phase_the_slowest_of_each_column() -> None:
    phases = Phases(offsets_ms=10, planning_ms=20, work_ms=200, commit_ms=50)
    points = [point(0, batch_ms=300, phases=phases), point(1, batch_ms=120), point(2), point(4, batch_ms=80)]
    snapshot = live(spark=SparkProgress(batch_ms=310, phases_ms={"addBatch": 248, "walCommit": 20}))
    chart = drawn(snapshot, points, columns=3)["batch"]
    assert chart.columns == [(220.0, 50.0, 20.0, 10.0), None, (80.0,)]  # what Spark does not account for is work
    assert chart.now == "310ms, 80.0 % work"


def test_a_few_outliers_are_cut_off() -> None:
    points = [point(second, batch_ms=300) for second in range(40)] + [point(41, batch_ms=9_000)]
    chart = drawn(live(), points, columns=25)["batch"]
    assert (chart.top, chart.gauge) == (750.0, "750ms")


def test_what_is_not_known_says_so() -> None:
    by_name = drawn(attached(), [point(0)])
    assert by_name["results out"].note == "not known from here"
    assert by_name["batch"].note == "not known from here"
    assert by_name["backlog"].note == "not known from here"
    assert drawn(live(), [point(0)])["backlog"].note is None
    assert drawn(live([channel("a", backlog=None)]), [point(0)])["backlog"].note == "none: a replay has no backlog"


def test_the_backlog_in_records_and_event_time() -> None:
    views = [
        channel("a", backlog=3, behind_end_ms=900),
        channel("b", backlog=40_000, behind_end_ms=41_000),
        channel("c"),
    ]
    snapshot = healthy([*views, channel("d", backlog=None)])
    assert unread(snapshot) == [
        UnreadPosition("b", 40_000, 41_000),
        UnreadPosition("a", 3, 900),
        UnreadPosition("c", 0, None),
    ]
    chart = drawn(snapshot, [point(0, backlog=7), point(1, backlog=9), point(2, backlog=5)], columns=2)["backlog"]
    assert (chart.now, chart.columns) == ("40,003, 41s behind", [(9.0,), (5.0,)])


def test_the_sources_of_a_query_that_others_run() -> None:
    snapshot = replace(attached(), sources=[SourcePosition("files", None), SourcePosition("orders", {"0": 1}, 4_117)])
    assert unread(snapshot) == [UnreadPosition("orders", 4_117, None), UnreadPosition("files", None, None)]


def test_the_state_in_rows_and_windows() -> None:
    points = [point(0, state_rows=50, open_windows=2), point(1, state_rows=90, open_windows=3)]
    chart = drawn(live(spark=SparkProgress(state_bytes=7_340_032)), points, columns=1)["state"]
    assert (chart.now, chart.columns) == ("90 rows, 7.0 MiB", [(90.0,)])
    assert drawn(live(), [point(0, open_windows=3)], columns=1)["state"].columns == [(3.0,)]


def text(rows: list[list[tuple[str, str]]]) -> list[str]:
    return ["".join(text for text, _ in row) for row in rows]


def test_bars_grow_by_eighths() -> None:
    assert text(stacked([(0.0,), (1.0,), (8.0,), (12.0,), (16.0,), None], 16, 16.0)) == ["   ▄█ ", "▁▁███ "]


def test_what_goes_beyond_the_top_is_marked() -> None:
    assert text(stacked([(16.0,), (17.0,), (90.0,)], 16, 16.0)) == ["██▲", "███"]


def test_parts_differ_by_colour_and_without_colours_by_pattern() -> None:
    column = (10.0, 6.0)
    assert stacked([column], 16, 16.0) == [[("▂", "part-0@over-1")], [("█", "part-0")]]
    assert stacked([column], 16, 16.0, plain=True) == [[("▓", "part-1")], [("█", "part-0")]]
    assert stacked([(1.0, 1.0, 14.0)], 16, 16.0) == [[("█", "part-2")], [("▁", "part-0@over-2")]]
