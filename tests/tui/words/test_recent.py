"""The ring of the last minutes."""

from msgspec.structs import replace
from wmtop.engine.snapshot import Totals
from wmtop.engine.text.formatting import YEAR
from wmtop.engine.verdict.history import KEEP_MS, HistoryPoint
from wmtop.tui.words.progress import lags_of
from wmtop.tui.words.recent import Recent

from ..canned import LEVEL, MINUTE, NOW, WALL, live


def point(wall_ms: int, lag_ms: int | None, records: int = 0, late: int = 0) -> HistoryPoint:
    return HistoryPoint(NOW, LEVEL, lag_ms, "F9", records, late, wall_ms)


def test_now_is_the_last_minute() -> None:
    recent = Recent([point(WALL - 5 * MINUTE, 1, 0, 0), point(WALL - MINUTE, 1, 1_000, 10), point(WALL, 1, 1_200, 20)])
    assert recent.late_share() == 10 / 200


def test_without_records_nothing_is_shown() -> None:
    assert Recent().late_share() is None
    assert Recent([point(WALL - 10, 1, 5, 1), point(WALL, 1, 5, 1)]).late_share() is None


def test_snapshots_go_on_where_the_history_ends() -> None:
    recent = Recent([point(WALL - 1_000, 7, 68_000, 1_200)])
    recent.add(live())
    recent.add(replace(live(), now_ms=None))
    assert recent.late_share() == (1_242 - 1_200) / 1_000


def test_lags_are_the_greatest_of_each_stretch() -> None:
    recent = Recent([point(20_000, 3), point(24_999, 9), point(25_000, None), point(31_000, 4), point(34_000, 2)])
    assert lags_of(recent.points, 4, 5_000) == [None, 9, None, 4]


def test_an_engine_that_was_started_again_starts_again() -> None:
    recent = Recent([point(WALL, 1, 900, 90), point(WALL - MINUTE, 1, 0, 0), point(WALL, 1, 10, 1)])
    assert recent.late_share() == 0.1


def test_a_point_that_was_overtaken_is_left_out() -> None:
    """Its wall clock went back a little, or its snapshot waited while another one was sent."""
    recent = Recent([point(20_100, 3), point(19_950, 9), point(21_000, 4)])
    assert [one.wall_ms for one in recent.points] == [20_100, 21_000]
    assert lags_of(Recent([point(19_000, 7), point(20_100, 3), point(19_950, 9)]).points, 2, 10_000) == [7, 3]


def test_what_is_old_is_forgotten() -> None:
    recent = Recent([point(WALL + step * 1_000, 1) for step in range(3_000)])
    lags = lags_of(recent.points, 3_000, 1_000)
    assert len([lag for lag in lags if lag is not None]) == KEEP_MS // 1_000 + 1


def test_totals_that_fall_are_no_negative_share() -> None:
    recent = Recent([point(WALL - 10, 1, 10, 9)])
    recent.add(live(totals=Totals(records=20, late=1)))
    assert recent.late_share() == 0


def test_a_query_of_one_clock_lags_behind_the_clock_and_old_data_do_not() -> None:
    def points(behind_ms: int) -> list[HistoryPoint]:
        return [HistoryPoint(now, now - behind_ms, 0, None, 0, 0, now) for now in (50 * YEAR, 50 * YEAR + 5_000)]

    assert lags_of(points(47_000), 2, 5_000) == [47_000, 47_000]
    assert lags_of(points(13 * YEAR), 2, 5_000) == [None, None]
