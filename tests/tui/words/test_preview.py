"""Previews are pure functions of the snapshot."""

from typing import get_args

from msgspec.structs import replace
from wmtop.engine.snapshot import Totals, WhatIf, WhatIfIdle
from wmtop.engine.watermarks.settings import TUNABLE, Settings, StrategyName, Tumbling
from wmtop.tui.words import preview
from wmtop.tui.words.preview import Range, delay_change, from_start_parts, preview_title, share_range

from ...reference.ops import Batch, Row
from ...watermarks.lockstep import Driver
from ..canned import HOUR, LEVEL, MINUTE, NOON, SETTINGS, live

ROWS = [
    WhatIf(0, 500, 0.5, 1_000.0, 600),
    WhatIf(10 * MINUTE, 230, 0.23, 10 * MINUTE, 300),
    WhatIf(20 * MINUTE, 210, 0.21, 15 * MINUTE, 250),
    WhatIf(30 * MINUTE, 100, 0.1, 25 * MINUTE, 200),
]
SNAPSHOT = live(whatif=ROWS, totals=Totals(records=1_000, late=100))


def test_at_an_edge_the_answer_is_exact() -> None:
    seen = preview.lateness(SNAPSHOT, 10 * MINUTE)
    assert seen.late == Range(230, 230)
    assert seen.share == Range(0.23, 0.23)
    assert seen.delay_change_ms == Range(-15 * MINUTE, -15 * MINUTE)
    assert share_range(seen) == "23.0 %"
    assert delay_change(seen) == "15m sooner"


def test_between_two_edges_it_is_the_range_between_them() -> None:
    seen = preview.lateness(SNAPSHOT, 15 * MINUTE)
    assert seen.share == Range(0.21, 0.23)
    assert share_range(seen) == "21.0–23.0 %"
    assert delay_change(seen) == "10m–15m sooner"


def test_beyond_the_last_edge_there_are_no_more_than_there() -> None:
    seen = preview.lateness(SNAPSHOT, 90 * MINUTE)
    assert seen.late == Range(0, 100)
    assert share_range(seen) == "0–10.0 %"
    assert seen.delay_change_ms is None
    assert delay_change(seen) is None


def test_the_level_is_that_at_zero_lateness_less_the_lateness() -> None:
    assert preview.lateness(SNAPSHOT, 45 * MINUTE).level_ms == LEVEL - 15 * MINUTE
    none = replace(SNAPSHOT, level=replace(SNAPSHOT.level, at_zero_lateness_ms=None))
    assert preview.lateness(none, 45 * MINUTE).level_ms is None


def test_the_counts_of_session_windows_are_upper_bounds() -> None:
    bound = replace(SNAPSHOT, whatif_upper_bound=True)
    assert share_range(preview.lateness(bound, 15 * MINUTE)) == "≤ 23.0 %"


def test_without_a_what_if_only_the_level_is_known() -> None:
    seen = preview.lateness(replace(SNAPSHOT, whatif=None), 10 * MINUTE)
    assert (seen.late, seen.share, seen.delay_change_ms) == (None, None, None)
    assert seen.level_ms == LEVEL + 20 * MINUTE
    assert share_range(seen) is None


def test_a_delay_that_is_not_known_is_not_shown() -> None:
    rows = [replace(row, delay_ms=None) for row in ROWS]
    assert delay_change(preview.lateness(replace(SNAPSHOT, whatif=rows), 10 * MINUTE)) is None


def test_a_change_may_go_either_way_where_today_lies_between_two_edges() -> None:
    now = replace(SNAPSHOT, settings=replace(SETTINGS, lateness_ms=15 * MINUTE))
    change = preview.lateness(now, 16 * MINUTE).delay_change_ms
    assert change == Range(-5 * MINUTE, 5 * MINUTE)
    assert delay_change(preview.lateness(now, 16 * MINUTE)) == "5m sooner to 5m later"


def test_steps_go_from_edge_to_edge() -> None:
    assert preview.step_lateness(SNAPSHOT, 15 * MINUTE, 1) == 20 * MINUTE
    assert preview.step_lateness(SNAPSHOT, 20 * MINUTE, -1) == 10 * MINUTE
    assert preview.step_lateness(SNAPSHOT, 30 * MINUTE, 1) is None
    assert preview.step_lateness(SNAPSHOT, 0, -1) is None


def test_the_longest_idle_timeout_is_none_at_all() -> None:
    hour = 60 * MINUTE
    assert preview.step_idle(live(), 2 * hour, 1) == (True, 6 * hour)
    assert preview.step_idle(live(), 6 * hour, 1) == (True, None)
    assert preview.step_idle(live(), None, 1) == (False, None)
    assert preview.step_idle(live(), None, -1) == (True, 6 * hour)
    assert preview.step_idle(live(), 3 * hour, -1) == (True, 2 * hour)


def test_another_idle_timeout_is_read_from_its_row() -> None:
    row = WhatIfIdle(15 * MINUTE, LEVEL + MINUTE, "UA", 41, 190, late_error=6)
    seen = preview.idle(replace(SNAPSHOT, whatif_idle=[row]), 15 * MINUTE)
    assert seen is not None
    assert (seen.level_ms, seen.holder, seen.flaps, seen.share, seen.about) == (LEVEL + MINUTE, "UA", 41, 0.19, True)
    assert preview.idle(SNAPSHOT, 7) is None


def test_a_preview_says_what_it_answers() -> None:
    assert preview_title(preview.lateness(SNAPSHOT, 45 * MINUTE)) == "with lateness 45m from the start"
    seen = preview.idle(live(), None)
    assert seen is not None
    assert preview_title(seen) == "with idle timeout off from the start"


def test_every_strategy_without_lateness_says_why_in_one_line() -> None:
    assert {*preview.UNTUNABLE, *TUNABLE} == {*get_args(StrategyName)}
    for strategy, text in preview.UNTUNABLE.items():
        assert text.startswith(strategy)
        assert "\n" not in text


def test_the_share_of_the_last_hour_is_said_beside_that_since_the_start() -> None:
    driver = Driver(Settings(lateness_ms=HOUR, future_guard_ms=None, window=Tumbling(HOUR)))
    for hour in range(6):
        now = NOON + hour * HOUR
        late = 30 if hour < 3 else 1  # the bad hours are over
        rows = [Row(now, "a", now)] * (100 - late) + [Row(now, "a", now - 5 * HOUR)] * late
        driver.apply(Batch(tuple(rows), now))
    snapshot = driver.snapshot()
    wanted = preview.lateness(snapshot, MINUTE)
    whole = wanted.share
    assert whole is not None
    words = "".join(text for part in from_start_parts(snapshot, wanted) for text, _ in part.spans)
    assert f"{share_range(wanted)} late (last 1h: 1.0 %)" in words
    assert whole.low > 0.1
    young = Driver(Settings(lateness_ms=HOUR, future_guard_ms=None))
    young.apply(Batch((Row(NOON, "a", NOON), Row(NOON, "a", NOON - 5 * HOUR)), NOON))
    whole_run = from_start_parts(young.snapshot(), preview.lateness(young.snapshot(), MINUTE))
    assert "1h:" not in "".join(text for part in whole_run for text, _ in part.spans)  # it is the whole run
