"""Advice: the recommended lateness keeps the target, the edge below it does not; what is not known is not advised."""

from wmtop.engine.snapshot import Level, RecentLateness, RecentRow, Snapshot, Totals, WhatIf, WhatIfIdle
from wmtop.engine.snapshot.recommendation import advice, known_horizons
from wmtop.engine.text.job_lines import lines_in_jobs
from wmtop.engine.watermarks.lateness import HOUR, MINUTE
from wmtop.engine.watermarks.settings import Settings
from wmtop.tui.words.lateness import advice_lines

from tests.snapshots import replace

EDGES = {0: 500, MINUTE: 60, 5 * MINUTE: 3, HOUR: 0}
SETTINGS = Settings(lateness_ms=MINUTE, idle_after_ms=2 * HOUR)


def row(edge: int, late: int) -> RecentRow:
    return RecentRow(edge, late, late / 1_000, 0.0, 1.0, late)


SNAPSHOT = Snapshot(
    name="a",
    state="live",
    settings=SETTINGS,
    level=Level(watermark_ms=10 * HOUR),
    totals=Totals(records=10_000),
    whatif=[WhatIf(edge, 20 * late, None, 30_000.0, 0) for edge, late in EDGES.items()],
    whatif_recent=[RecentLateness(HOUR, 1_000, [row(*pair) for pair in EDGES.items()])],
    whatif_idle=[
        WhatIfIdle(None, 9 * HOUR, "a", 0, 100),
        WhatIfIdle(MINUTE, 11 * HOUR, "b", 90, 160),
        WhatIfIdle(30 * MINUTE, 11 * HOUR, "b", 12, 105),
        WhatIfIdle(2 * HOUR, 10 * HOUR, "b", 3, 101),
    ],
)


def test_the_smallest_lateness_that_keeps_the_target() -> None:
    found = advice(SNAPSHOT, 0.99, HOUR)
    assert found is not None
    assert found.lateness is not None
    assert (found.lateness.lateness_ms, found.lateness.late, found.lateness.late_share) == (5 * MINUTE, 3, 0.003)
    assert found.lateness.low < 0.003 < found.lateness.high
    assert (found.recommendation.records, found.lateness.delay_ms) == (1_000, 30_000.0)
    assert found.current is not None
    assert found.current.late == 60
    strict = advice(SNAPSHOT, 0.9999, HOUR)
    assert strict is not None
    assert strict.lateness is None  # an hour keeps all of them, but 1,000 are too few to promise that


def test_without_a_horizon_the_shortest_with_an_answer_is_taken() -> None:
    assert [advice(SNAPSHOT, share).recommendation.horizon_ms for share in (0.99, 0.999)] == [HOUR, None]  # type: ignore[union-attr]


def test_the_shortest_idle_timeout_that_costs_little() -> None:
    found = advice(SNAPSHOT, 0.99, HOUR)
    assert found is not None
    assert found.idle is not None
    assert (found.idle.idle_after_ms, found.idle.gain_ms) == (30 * MINUTE, HOUR)
    strict = advice(SNAPSHOT, 0.9999, HOUR)
    assert strict is not None
    assert strict.idle is not None
    assert strict.idle.idle_after_ms is None


def test_where_no_channel_was_ever_idle_no_idle_timeout_is_advised() -> None:
    quiet = [replace(row, flaps=0, late=100) for row in SNAPSHOT.whatif_idle or ()]
    found = advice(replace(SNAPSHOT, whatif_idle=quiet), 0.99, HOUR)
    assert found is not None
    assert found.idle is None
    assert found.current_idle is not None
    assert [line for line in advice_lines(found) if "idle timeout: none" in line]


def test_without_evidence_there_is_no_advice() -> None:
    assert advice(SNAPSHOT, 0.99, 24 * HOUR) is None
    bare = replace(SNAPSHOT, whatif=None, whatif_recent=None)
    assert (known_horizons(bare), advice(bare, 0.99, None)) == ([], None)
    old = replace(SNAPSHOT, whatif_recent=None)
    assert known_horizons(old) == [None]
    found = advice(old, 0.99, None)
    assert found is not None
    assert found.recommendation.records == 10_000


def test_no_edge_may_be_enough() -> None:
    rows = [row(0, 900), row(MINUTE, 500)]
    found = advice(replace(SNAPSHOT, whatif_recent=[RecentLateness(HOUR, 1_000, rows)]), 0.99, HOUR)
    assert found is not None
    assert found.lateness is None


def test_the_line_of_each_kind_of_job() -> None:
    lines = lines_in_jobs(90_000, 2 * HOUR, "created")
    assert lines == {
        "spark": 'withWatermark("created", "90 seconds")',
        "flink_java": "WatermarkStrategy.<Event>forBoundedOutOfOrderness(Duration.ofSeconds(90))"
        ".withIdleness(Duration.ofHours(2))",
        "flink_sql": "WATERMARK FOR created AS created - INTERVAL '90' SECOND"
        "; WITH ('scan.watermark.idle-timeout' = '2 h')",
        "kafka_streams": "TimeWindows.ofSizeAndGrace(size, Duration.ofSeconds(90))",
    }
    assert "withIdleness" not in lines_in_jobs(0, None)["flink_java"]
