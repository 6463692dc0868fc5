"""Words for numbers, and names from outside."""

from datetime import UTC, timedelta, timezone

import pytest
from rich.cells import cell_len
from wmtop.engine.text import formatting as f

from ..tui.canned import DAY, HOSTILE, HOUR, MINUTE, NOON, NOW

SECOND = 1_000


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"), (1, "1ms"), (999, "999ms"), (1_000, "1s"), (2_450, "2.4s"), (9_999, "10s"), (45 * SECOND, "45s"),
        (59_998, "59s"), (59_999, "1m"), (MINUTE, "1m"), (4 * MINUTE + 5 * SECOND, "4m05s"),
        (10 * MINUTE - 2, "9m59s"), (10 * MINUTE - 1, "10m"), (25 * MINUTE - 1, "25m"), (26 * MINUTE - 2, "25m"),
        (26 * MINUTE + 59 * SECOND, "26m"), (HOUR, "1h"), (65 * MINUTE, "1h05m"), (DAY - 2, "23h59m"), (DAY - 1, "1d"),
        (3 * DAY + 4 * HOUR, "3d04h"), (12 * DAY + 4 * HOUR, "12d"), (2_000 * DAY, "5.5y"), (-5 * MINUTE, "−5m"),
    ],
)  # fmt: skip
def test_a_measured_duration_has_two_units_at_most(ms: int, text: str) -> None:
    assert f.duration(ms) == text


def test_a_distance_has_its_sign() -> None:
    assert [f.signed(ms) for ms in (0, 43 * MINUTE, -185 * MINUTE)] == ["+0s", "+43m", "−3h05m"]


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0s"), (90 * MINUTE, "1h30m"), (1_500, "1s500ms"), (100_000, "1m40s"), (2 * DAY, "2d"), (None, "off")],
)
def test_a_setting_is_exact_and_can_be_typed_again(ms: int | None, text: str) -> None:
    assert f.setting(ms) == text
    if ms is not None:
        assert f.parse_duration(text) == ms


@pytest.mark.parametrize(
    "text", ["", "5", "m", "5x", "-5m", "5m30", "1.5h", "m5", "9" * 9 + "d", "²s", f"{'9' * 5_000}d"]
)
def test_what_is_no_duration_gets_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as error:
        f.parse_duration(text)
    assert str(error.value) in (f.DURATION_HOW, "longer than a hundred years")


def test_times_are_as_fine_as_they_need_to_be() -> None:
    assert f.clock(NOON - 1, UTC) == "11:59:59"
    assert f.clock(NOON - 1, UTC, near_ms=NOON) == "11:59:59.999"
    assert f.clock(NOON - 10 * SECOND, UTC, near_ms=NOON) == "11:59:50"
    assert f.clock(NOON - DAY, UTC, near_ms=NOON) == "02-07 12:00:00"
    assert f.clock(NOON - 400 * DAY, UTC, near_ms=NOON) == "2012-01-05 12:00:00"
    assert f.stamp(NOW, UTC) == "2013-02-08 14:32:10 UTC"
    assert f.stamp(NOON, timezone(timedelta(hours=5, minutes=30), "IST")) == "2013-02-08 17:30:00 IST"
    steps = [f.brief(NOON + 5_250, UTC, step) for step in (100, 10 * SECOND, HOUR, DAY)]
    assert steps == ["05.250", "12:00:05", "12:00", "02-08"]
    assert [f.brief(NOON, UTC, step) for step in (14 * DAY, 90 * DAY, 1_825 * DAY)] == ["02-08", "2013-02", "2013"]
    assert f.brief(NOON - 12 * HOUR, UTC, HOUR) == "02-08"  # midnight is a day
    assert [f.near(NOON - back, UTC, NOON) for back in (0, 13 * HOUR, DAY, 400 * DAY)] == [
        "12:00:00.000", "02-07 23:00", "02-07 12:00", "2012-01-05",
    ]  # fmt: skip


def test_windows_are_named_by_their_ends() -> None:
    assert f.interval(NOON, NOON + HOUR, UTC) == "12:00–13:00"
    assert f.interval(NOON + 5_000, NOON + 10_000, UTC) == "12:00:05–12:00:10"
    assert f.interval(NOON, NOON + 500, UTC) == "12:00:00.000–12:00:00.500"
    assert f.interval(NOON, NOON + HOUR, UTC, near_ms=NOON + DAY) == "02-08 12:00–13:00"
    assert f.interval(NOON - 12 * HOUR, NOON + 12 * HOUR, UTC) == "02-08"
    assert f.interval(NOON - 12 * HOUR, NOON + 36 * HOUR, UTC) == "02-08–02-09"
    years_later = NOON + 13 * f.YEAR
    assert f.interval(NOON, NOON + HOUR, UTC, near_ms=years_later) == "2013-02-08 12:00–13:00"
    assert f.interval(NOON - 12 * HOUR, NOON + 12 * HOUR, UTC, near_ms=years_later) == "2013-02-08"


def test_no_time_is_too_far_off_to_be_shown() -> None:
    for ms in (-(2**63), 2**63 - 1, -62_135_596_800_000, 253_402_300_799_999):
        assert f.clock(ms, UTC)
        assert f.clock(ms, None)
        assert f.stamp(ms, timezone(timedelta(hours=14)))


def test_counts_and_rates() -> None:
    assert [f.count(n) for n in (0, 1_204, 9_999_999, 12_345_678, 45 * 10**9)] == [
        "0", "1,204", "9,999,999", "12.3M", "45.0G",
    ]  # fmt: skip
    assert [f.rate(x) for x in (None, 0.0, 0.44, 9.97, 812.4, 5_402.0, 1_234_567.0)] == [
        "–", "0.0", "0.4", "10", "812", "5,402", "1.2M",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (None, "–"), (0.0, "0 %"), (0.018, "1.8 %"), (0.0004, "0.04 %"), (1e-6, "<0.01 %"), (0.99999, "99.9 %"),
        (1.0, "100 %"),
    ],
)  # fmt: skip
def test_a_share_is_never_rounded_to_none_or_to_all(part: float | None, text: str) -> None:
    assert f.share(part) == text


def test_a_range_says_its_unit_once() -> None:
    assert f.span("2.1 %", "2.3 %") == "2.1–2.3 %"
    assert f.span("2.1 %", "2.1 %") == "2.1 %"
    assert f.span("12m", "15m") == "12m–15m"


def test_nothing_from_outside_reaches_the_terminal_as_a_command() -> None:
    for name in (*HOSTILE, "".join(map(chr, range(0x300))), "\u2066x\u2069\ufeff\u200d\ud800\U000e0041"):
        clean = f.clean(name)
        assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in clean)
        assert not set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u200b\ufeff") & set(clean)
        clean.encode()
    assert f.clean("\x1b[31mred\n") == "␛[31mred␊"
    assert f.first_line("\n \n  boom\x07\n\tat Frame") == "boom␇"


def test_names_keep_to_their_cells() -> None:
    wide = "漢字漢字漢字"
    for cells in range(1, 14):
        assert cell_len(f.cut(wide, cells)) <= cells
        assert cell_len(f.cut_middle(wide, cells)) <= cells
        assert cell_len(f.pad(wide, cells)) == cells
        assert cell_len(f.label("events-" + "9" * 300, cells)) == cells
    assert f.cut_middle("events-379", 8) == "eve…-379"
    assert f.label("") == "(no name)"
    assert f.pad("5", 3, right=True) == "  5"


def test_a_long_chain_of_operators_keeps_its_first_one_and_its_number() -> None:
    chain = "Source: rates -> DataStreamToTable -> Calc[51] -> WatermarkAssigner[52] #3"
    assert f.label(chain, 24) == "Source: rates…#3"
    assert f.label(chain, 8) == "rates…#3"
    assert f.label(chain, 7) == "rate…#3"
    assert f.label("GlobalWindowAggregate[5] -> Calc[6] -> out: Writer", 28) == "GlobalWindowAggregate[5]…"
    assert f.label("Source: a -> Map #0", 24) == "Source: a -> Map #0"


def test_an_axis_by_days_that_goes_over_the_end_of_a_year_names_the_years() -> None:
    start, week = 1_828_915_200_000, 7 * 86_400_000  # 2027-12-16
    times = [start + n * week for n in range(5)]
    assert f.axis_times(times, UTC, week) == ["2027-12", "12-23", "12-30", "2028-01", "01-13"]
    assert f.axis_times(times[:3], UTC, week) == ["12-16", "12-23", "12-30"]
