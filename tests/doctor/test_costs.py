"""Each rule about what is lost, late or dear: a case where it must speak, and its neighbours where it must not."""

import pytest
from wmtop.engine.snapshot import Level, Snapshot, SparkProgress, Totals, WatermarkNode, Windows
from wmtop.engine.verdict.history import Phases
from wmtop.engine.watermarks.settings import Session

from tests.snapshots import replace

from .patients import (
    HOUR,
    LATE,
    LATENESS,
    MINUTE,
    NOW,
    SECOND,
    SETTINGS,
    WINDOW,
    before,
    channel,
    found,
    healthy,
    said,
    whatif,
)


def losing(late: int, records: int = 200_000, **more: object) -> Snapshot:
    rows = whatif(records, {edge: count * late // LATE[LATENESS] for edge, count in LATE.items()})
    return healthy(**({"totals": Totals(records=records, late=late), "whatif": rows} | more))


def test_too_much_is_late_and_the_lateness_that_would_do_is_named() -> None:
    finding = found(losing(5_000))["lateness-too-small"]
    assert (finding.severity, finding.size, "(5,000)" in finding.impact) == ("warning", 0.025, True)
    assert (finding.fixes[0].value_ms, finding.fixes[0].later_ms) == (30 * SECOND, 25_000.0)
    assert finding.fixes[0].late_share == 125 / 200_000


def test_without_a_what_if_no_lateness_is_recommended() -> None:
    finding = found(losing(6_000, whatif=None))["lateness-too-small"]
    assert [fix.code for fix in finding.fixes] == ["see-late-records"]


@pytest.mark.parametrize("snapshot", [healthy(), losing(4_000), losing(30, records=900)])
def test_a_few_late_records_are_the_price(snapshot: Snapshot) -> None:
    assert "lateness-too-small" not in found(snapshot)


def test_few_records_are_enough_where_very_many_of_them_are_late() -> None:
    finding = found(losing(60, records=500))["lateness-too-small"]
    assert (finding.size, finding.title) == (0.12, "Lateness is too small")
    assert "lateness-too-small" not in found(losing(19, records=30))  # too few to recommend from


def test_what_was_late_before_a_change_is_past() -> None:
    snapshot = losing(6_000)
    assert "lateness-too-small" not in found(snapshot, before(snapshot, late=lambda ago: 6_000))
    assert "In the last minutes: 3.0 %" in said(found(snapshot)["lateness-too-small"])


def test_rows_that_spark_dropped_are_a_lower_bound() -> None:
    node = WatermarkNode("ts", 30_000)
    unknown = Totals(None, None, None, None, None, None)
    snapshot = healthy([], totals=unknown, spark=SparkProgress(dropped_at_least=41, nodes=[node]), origin={"a": "b"})
    finding = found(snapshot)["dropped"]
    assert (finding.severity, finding.impact) == ("warning", "≥ 41 rows lost")
    assert "dropped" not in found(replace(snapshot, spark=SparkProgress(dropped_at_least=0)))


def patient(late: dict[int, int], lateness_ms: int = LATENESS, records: int = 200_000) -> Snapshot:
    totals = Totals(records=records, late=late[lateness_ms])
    return healthy(whatif=whatif(records, late), totals=totals, settings=replace(SETTINGS, lateness_ms=lateness_ms))


def test_waiting_for_records_that_do_not_come() -> None:
    finding = found(patient({0: 900, 1_000: 150, 2_000: 10, 30_000: 0}, 30_000))["lateness-too-large"]
    assert (finding.severity, finding.fixes[0].value_ms, finding.size) == ("info", 1_000, 29_000.0)
    assert "Late with lateness 1s: 0.07 %, with 30s: 0 %" in said(finding)


@pytest.mark.parametrize(
    "snapshot",
    [
        healthy(),
        patient({0: 900, 1_000: 400, 2_000: 190, 3_000: 20, LATENESS: 0}),  # 2 s would do: more than a third
        patient({0: 900, 1_000: 30, 30_000: 0}, 30_000, records=9_000),  # too few to promise 99.9 %
        patient({0: 9_000, 1_000: 4_000, 30_000: 900}, 30_000),  # it is not even enough
    ],
)
def test_lateness_that_is_needed_is_not_too_large(snapshot: Snapshot) -> None:
    assert "lateness-too-large" not in found(snapshot)


def slow(batch_ms: int, **more: object) -> Snapshot:
    spark = SparkProgress(batch_ms=batch_ms, input_rows_per_second=900.0, processed_rows_per_second=300.0)
    return healthy(spark=spark, **more)


WORK = Phases(offsets_ms=100, planning_ms=50, work_ms=4_500, commit_ms=350)


def test_batches_that_take_a_good_part_of_what_a_result_may_take() -> None:
    snapshot = slow(5_000)
    finding = found(snapshot, before(snapshot, phases=lambda ago: WORK))["slow-batches"]
    assert (finding.size, finding.title) == (5_000, "Batches are slow")
    assert "90.0 % of that: reading and computing" in said(finding)


@pytest.mark.parametrize(
    "snapshot",
    [
        healthy(),
        slow(1_900),
        slow(5_000, settings=replace(SETTINGS, lateness_ms=2 * HOUR)),  # nobody notices
        slow(5_000, ended=True),
    ],
)
def test_a_batch_has_its_time(snapshot: Snapshot) -> None:
    assert "slow-batches" not in found(snapshot)


def test_one_slow_batch_is_not_slow_batches() -> None:
    snapshot = slow(9_000)
    assert "slow-batches" not in found(snapshot, before(snapshot, batch_ms=lambda ago: 9_000 if ago < 12 else 300))
    assert "slow-batches" not in found(snapshot, before(snapshot, 3))


def test_a_backlog_that_grows_and_grows() -> None:
    snapshot = slow(800, channels=None)
    snapshot = replace(snapshot, channels=[replace(view, backlog=30_000) for view in snapshot.channels])
    finding = found(snapshot, before(snapshot, backlog=lambda ago: 120_000 - 400 * ago))["slow-batches"]
    assert "Backlog: 120,000 records, 400 more each second" in said(finding)
    assert finding.size == 400 * SECOND
    assert "Batches" in finding.title
    unbatched = before(snapshot, backlog=lambda ago: 120_000 - 400 * ago, batch_ms=lambda ago: None)
    words = [*said(finding := found(snapshot, unbatched)["slow-batches"]), finding.title, finding.impact, finding.cause]
    assert [text for text in words if text and "batch" in text.lower()] == []


@pytest.mark.parametrize(
    "backlog", [lambda ago: 120_000 + 100 * ago, lambda ago: 900 - ago, lambda ago: 100_000 + 30_000 * (ago % 40 < 20)]
)
def test_a_backlog_that_shrinks_or_comes_and_goes_is_worked_off(backlog: object) -> None:
    snapshot = slow(800)
    assert "slow-batches" not in found(snapshot, before(snapshot, backlog=backlog))


def flying(age_ms: int, in_flight: bool = True) -> Snapshot:
    spark = SparkProgress(batch_ms=2_000, in_flight=in_flight, batch_timestamp_ms=NOW - age_ms)
    return healthy([], spark=spark, origin={"spark": "checkpoint"}, settings=replace(SETTINGS, lateness_ms=HOUR))


def test_a_batch_that_never_ends() -> None:
    finding = found(flying(20 * MINUTE))["hung-batch"]
    assert (finding.severity, finding.size) == ("critical", 20 * MINUTE + 20)
    assert "Median batch: 2s" in said(finding)


@pytest.mark.parametrize("snapshot", [flying(MINUTE), flying(20 * MINUTE, False), healthy()])
def test_a_batch_under_way_is_not_hung(snapshot: Snapshot) -> None:
    assert "hung-batch" not in found(snapshot)


def full(windows: int, rows: int, **more: object) -> Snapshot:
    return healthy(**({"windows": Windows(open_count=windows, open_records=rows, fired=9)} | more))


def test_ever_more_open_windows() -> None:
    snapshot = full(40, 90_000)
    past = before(snapshot, open_windows=lambda ago: 40 - ago // 10, state_rows=lambda ago: 90_000 - 250 * ago)
    finding = found(snapshot, past)["state-grows"]
    assert "90,000 rows in state\n15,000 rows 5m ago\n40 open windows; " in said(finding)
    assert f"account for {(LATENESS + WINDOW + 9_999) // WINDOW + 2}" in said(finding)


def test_the_state_of_a_query_without_a_watermark_grows_for_ever() -> None:
    unknown = Windows(open_count=None, fired=None, late_firings=None)
    spark = SparkProgress(state_rows=900_000, state_bytes=7_000_000)
    settings = replace(SETTINGS, window=None, lateness_ms=None)
    snapshot = healthy([], windows=unknown, spark=spark, settings=settings, origin={"a": "b"}, level=Level())
    finding = found(snapshot, before(snapshot, state_rows=lambda ago: 900_000 - 2_500 * ago))["state-grows"]
    assert (finding.size, finding.cause) == (900_000, "Without a watermark no state is ever released.")
    assert "account for" not in said(finding)


def test_sessions_that_never_close() -> None:
    snapshot = full(40, 90_000, settings=replace(SETTINGS, window=Session(5_000)))
    grown = {"state_rows": lambda ago: 90_000 - 250 * ago}
    assert "state-grows" not in found(snapshot, before(snapshot, **grown))  # the watermark moves: they will
    assert "state-grows" in found(snapshot, before(snapshot, **grown, watermark_ms=lambda ago: NOW - HOUR))


@pytest.mark.parametrize("windows", [lambda ago: 40, lambda ago: 5 + (ago % 60 < 30), lambda ago: 40 + ago // 10])
def test_state_that_is_large_or_varies_does_not_grow(windows: object) -> None:
    snapshot = full(40, 90_000)
    assert "state-grows" not in found(snapshot, before(snapshot, open_windows=windows))


def test_a_start_is_not_growth() -> None:
    snapshot = full(4, 9_000)
    assert "state-grows" not in found(snapshot, before(snapshot, open_windows=lambda ago: max(4 - ago // 50, 0)))


def test_a_start_has_nothing_to_judge() -> None:
    assert set(found(losing(50_000, state="starting"))) == {"engine-starting"}


def test_a_failure_comes_first() -> None:
    assert next(iter(found(losing(50_000, state="failed", error="OutOfMemoryError")))) == "engine-failed"


def test_the_worst_comes_first() -> None:
    views = [channel("a"), channel("d", 20 * MINUTE, flaps=40, round_ms=6 * MINUTE, late=0)]
    snapshot = losing(9_000, channels=views, spark=SparkProgress(batch_ms=9_000))
    assert [finding.severity for finding in found(snapshot).values()] == ["warning", "warning", "warning", "info"]
