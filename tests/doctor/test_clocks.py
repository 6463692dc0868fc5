"""Each rule about the times themselves: a case where it must speak, and its neighbours where it must not."""

from datetime import UTC

import pytest
from wmtop.engine.doctor import explain
from wmtop.engine.snapshot import Level, Offender, Snapshot, SourceView, Totals
from wmtop.engine.text.formatting import counted, stamp
from wmtop.engine.watermarks.observation import MalformedRecord

from tests.snapshots import replace

from .patients import DAY, HOUR, LATE, MINUTE, NOW, SECOND, SETTINGS, before, channel, found, healthy, said, whatif

NO_GUARD = replace(SETTINGS, future_guard_ms=None)


def test_records_that_the_guard_has_set_aside_are_reported_with_the_last_of_them() -> None:
    last = Offender("b", 81_204, NOW + 3 * DAY, "events-1")
    snapshot = healthy(totals=Totals(records=200_000, late=800, future=17), last_future=last)
    finding = found(snapshot)["future-timestamps"]
    assert (finding.severity, finding.size, finding.channels[0]) == ("warning", 17, "b")
    assert "3d ahead of the clock" in said(finding)


def test_without_a_guard_a_channel_far_ahead_is_reported() -> None:
    views = [channel("a"), channel("b", -DAY)]
    finding = found(healthy(views, settings=NO_GUARD))["future-timestamps"]
    assert (finding.severity, finding.channels[0]) == ("warning", "b")
    assert finding.title == "b is 23h59m ahead of the clock"
    assert finding.impact.startswith("Only the other channels keep the watermark")


def test_worse_when_the_level_runs_away_with_it() -> None:
    views = [channel("b", -DAY)]
    finding = found(healthy(views, settings=NO_GUARD, totals=Totals(records=200_000, late=90_000)))["future-timestamps"]
    assert (finding.severity, finding.size) == ("critical", 0.45)


@pytest.mark.parametrize(
    "snapshot",
    [
        healthy(),
        healthy([channel("a"), channel("b", -2 * MINUTE)], settings=NO_GUARD),  # a clock a little fast
        healthy([channel("a"), channel("b", -DAY)], settings=NO_GUARD, wall_ms=NOW + DAY),  # a replay
        healthy([channel("a"), channel("b", -DAY)], settings=NO_GUARD, ended=True),
    ],
)
def test_the_present_is_not_the_future(snapshot: Snapshot) -> None:
    assert "future-timestamps" not in found(snapshot)


def broken(records: int, malformed: int) -> Snapshot:
    last = Offender("b", 7, None)
    return healthy(totals=Totals(records=records, late=0, malformed=malformed), last_malformed=last)


def test_rows_without_a_time_are_lost() -> None:
    finding = found(broken(200_000, 4_000))["malformed"]
    assert (finding.severity, finding.size, finding.channels[0]) == ("warning", 4_000 / 204_000, "b")
    assert finding.impact.startswith("4,000 rows set aside")


def test_a_row_without_a_time_is_shown_with_the_reason() -> None:
    example = MalformedRecord("a", "row 8 of a.csv", "ts", "never", "no_time")
    snapshot = replace(broken(200_000, 4_000), malformed_example=example)
    finding = found(snapshot)["malformed"]
    evidence = explain(finding, snapshot, UTC).evidence
    assert finding.channels == ("a",)
    assert 'For example a, row 8 of a.csv: ts "never" is not a time' in evidence


def test_when_all_are_the_column_or_its_unit_is_wrong() -> None:
    assert found(broken(0, 4_000))["malformed"].severity == "critical"


@pytest.mark.parametrize(("records", "malformed"), [(200_000, 9), (200_000, 150), (0, 3), (200_000, 0)])
def test_a_few_bad_rows_are_normal(records: int, malformed: int) -> None:
    assert "malformed" not in found(broken(records, malformed))


def dated(newest_ms: int, unit: str | None = None, **more: object) -> Snapshot:
    views = [
        channel(name, max_event_ms=newest_ms - n, watermark_ms=newest_ms - 6_000 - n) for n, name in enumerate("ab")
    ]
    source = SourceView("kafka", "events", time_column="$.ts", time_unit=unit)
    return healthy(views, **({"source": source} | more))


@pytest.mark.parametrize(
    ("newest_ms", "unit", "better"),
    [
        (NOW // 1000, None, "s"),  # January 1970
        (NOW // 1000, "epoch ms", "s"),
        (NOW // 1000, "epoch us", "ms"),
        (NOW * 1000, "epoch s", "ms"),  # the year 55,840
        (NOW * 1000, "epoch ms", "us"),
        (NOW * 1_000_000, "epoch ms", "ns"),
    ],
)
def test_times_a_thousand_times_off_are_in_another_unit(newest_ms: int, unit: str | None, better: str) -> None:
    finding = found(dated(newest_ms, unit))["wrong-unit"]
    assert (finding.severity, finding.fixes[0].text) == ("critical", f"Set --time-unit {better}")
    assert f"seconds: {stamp(NOW, UTC)[:16]}" in said(finding)


def test_a_timestamp_that_is_off_has_no_unit_to_set() -> None:
    finding = found(dated(NOW // 1000, "timestamp"))["wrong-unit"]
    assert [fix.text for fix in finding.fixes] == ["Convert the seconds where they are written"]
    assert "wrong-unit" not in found(dated(NOW // 1000, "epoch s, epoch ms (recognised)"))


def test_an_attached_query_shows_it_by_its_watermark() -> None:
    snapshot = healthy([], level=Level(NOW // 1000 - 5_000), origin={"level": "checkpoint"})
    assert found(snapshot)["wrong-unit"].fixes[0].text == "Convert the seconds before withWatermark"


def test_it_is_the_first_thing_to_fix_and_hides_what_it_explains() -> None:
    snapshot = dated(NOW * 1000, settings=NO_GUARD, totals=Totals(records=200_000, late=150_000))
    assert list(found(snapshot)) == ["wrong-unit"]


@pytest.mark.parametrize(
    "snapshot",
    [
        healthy(),
        dated(22_000),  # seconds after the epoch: somebody's own small numbers
        dated(NOW - 20 * 365 * DAY),
        dated(NOW // 1000, "ISO 8601"),  # text has no unit
        dated(NOW * 1000, "epoch ns"),  # there is nothing finer
    ],
)
def test_old_and_small_times_are_no_wrong_unit(snapshot: Snapshot) -> None:
    assert "wrong-unit" not in found(snapshot)


def shifted(by_ms: int, *more_ms: int, **more: object) -> Snapshot:
    return healthy([channel(str(n), ms) for n, ms in enumerate((by_ms, by_ms + 400, *more_ms))], **more)


@pytest.mark.parametrize(("hours", "severity"), [(1, "warning"), (-2, "critical"), (9, "warning")])
def test_all_channels_a_whole_number_of_hours_away(hours: int, severity: str) -> None:
    finding = found(shifted(hours * HOUR, settings=NO_GUARD))["zone-shift"]
    assert (finding.severity, len(finding.channels)) == (severity, 2)
    side = "behind" if hours > 0 else "ahead of"
    assert f"{counted(abs(hours), 'hour')} {side} the clock" in finding.title
    assert "to within 2" in said(finding)


def test_where_the_guard_has_set_all_of_it_aside_the_last_of_them_shows_it() -> None:
    views = [channel("a", max_event_ms=None, watermark_ms=None, state="never_seen")]
    totals = Totals(records=5_000, future=5_000)
    last = Offender("a", 9, NOW + 2 * HOUR - SECOND)
    snapshot = healthy(views, totals=totals, last_future=last, level=Level())
    kinds = found(snapshot)
    assert kinds["zone-shift"].title == "All event times are 2 hours ahead of the clock"
    assert "future-timestamps" not in kinds


@pytest.mark.parametrize(
    "snapshot",
    [
        healthy(),
        shifted(31 * MINUTE),
        shifted(HOUR, 20 * MINUTE),  # not all of them
        shifted(20 * HOUR),
        shifted(HOUR, wall_ms=NOW + 30 * DAY),  # a replay has a clock of its own
        healthy([channel("a", HOUR, backlog=90_000)]),  # an hour's backlog
        healthy([channel("a", HOUR, quiet_ms=HOUR)]),  # an hour's silence
    ],
)
def test_not_every_hour_is_a_time_zone(snapshot: Snapshot) -> None:
    assert "zone-shift" not in found(snapshot)


def test_a_delay_that_comes_and_goes_is_no_time_zone() -> None:
    snapshot = shifted(HOUR)
    past = before(snapshot, max_event_ms=lambda ago: NOW - HOUR + 40 * SECOND * ago)
    assert "zone-shift" not in found(snapshot, past)


def stamped(records: int = 200_000, behind: int = 0, lag_ms: int = 300) -> Snapshot:
    rows = [
        replace(row, behind_watermark=behind if not row.lateness_ms else 0, late=0) for row in whatif(records, LATE)
    ]
    views = [channel(name, lag_ms - 2 * SECOND, late=0) for name in "ab"]
    return healthy(views, whatif=rows, totals=Totals(records=records))


def test_times_that_are_always_now_and_always_in_order_are_not_event_time() -> None:
    finding = found(stamped())["processing-time"]
    assert "None of 200,000 records is out of order\nFor 5m the newest record was at most 300ms old" in said(finding)


@pytest.mark.parametrize(
    "snapshot",
    [
        healthy(),
        stamped(behind=1),
        stamped(records=900),
        stamped(lag_ms=2 * SECOND),
        replace(stamped(), wall_ms=NOW + DAY),
        replace(stamped(), whatif=None),
    ],
)
def test_a_little_disorder_or_delay_is_event_time(snapshot: Snapshot) -> None:
    assert "processing-time" not in found(snapshot)


def test_a_moment_is_not_long_enough_for_a_finding() -> None:
    snapshot = stamped()
    assert "processing-time" not in found(snapshot, before(snapshot, 30))
    assert "processing-time" not in found(snapshot, before(snapshot, max_event_ms=lambda ago: NOW - 100 * ago**2))
