"""Times as they are typed to go to them."""

import re
import time
from datetime import UTC

import pytest
from wmtop.engine.text.formatting import DURATION_HOW, MOMENT_HOW, parse_moment

from ..canned import DAY, HOUR, MINUTE, NOON

NOW = NOON + 2 * HOUR + 32 * MINUTE + 10_000  # 2013-02-08T14:32:10Z


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("14:30", NOON + 150 * MINUTE),
        ("9:05", NOON - 175 * MINUTE),
        (" 14:30:05 ", NOON + 150 * MINUTE + 5_000),
        ("14:30:05.250", NOON + 150 * MINUTE + 5_250),
        ("02-07 12:00", NOON - DAY),
        ("02-07", NOON - DAY - 12 * HOUR),
        ("2013-02-09 12:00", NOON + DAY),
        ("2013-02-08T13:00:00+01:00", NOON),
        ("2013-02-08T12:00Z", NOON),
        ("1360324800000", 1_360_324_800_000),
        ("+10m", NOW + 10 * MINUTE),
        ("-1h30m", NOW - 90 * MINUTE),
        ("−45s", NOW - 45_000),
    ],
)
def test_what_can_be_typed(text: str, moment: int) -> None:
    assert parse_moment(text, NOW, UTC) == moment


@pytest.mark.parametrize(
    ("text", "within", "moment"),
    [
        ("20:00", (NOW - DAY, NOW), NOON - 16 * HOUR),
        ("20:00", (NOW - DAY, NOW + DAY), NOON + 8 * HOUR),
        ("9:00", (NOW, NOW + DAY), NOON + 21 * HOUR),
        ("20:00", (NOW - HOUR, NOW), NOON + 8 * HOUR),
        ("02-08 20:00", (NOW - DAY, NOW), NOON + 8 * HOUR),
    ],
)
def test_a_time_of_day_is_that_of_the_day_which_the_recording_has(
    text: str, within: tuple[int, int], moment: int
) -> None:
    assert parse_moment(text, NOW, UTC, within) == moment


@pytest.mark.parametrize("text", ["", "noon", "25:00", "14", "2013-13-01", "14:30 pm", "9" * 400, "9" * 5_000])
def test_what_cannot_is_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(MOMENT_HOW)) as error:
        parse_moment(text, NOW, UTC)
    assert str(error.value) == MOMENT_HOW


def test_a_wrong_length_says_how_to_write_one() -> None:
    with pytest.raises(ValueError, match=re.escape(DURATION_HOW)):
        parse_moment("+soon", NOW, UTC)


def test_without_a_zone_it_is_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert parse_moment("20:02", NOW, None) == NOW - 10_000
        assert parse_moment("2013-02-08 12:00Z", NOW, None) == NOON
    finally:
        monkeypatch.undo()
        time.tzset()
