"""Where a time is drawn."""

from hypothesis import given
from hypothesis import strategies as st
from wmtop.tui.words.barrel import Axis, LogAxis, follow, top_of

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOON = 1_360_281_600_000 + 12 * HOUR


@given(
    low=st.integers(NOON - 10_000 * DAY, NOON),
    need=st.integers(0, 20_000 * DAY),
    least=st.integers(1_000, DAY),
    rows=st.integers(4, 80),
)
def test_water_and_top_are_in_view_and_ticks_are_round(low: int, need: int, least: int, rows: int) -> None:
    axis = follow(None, low, low + need, least, rows)
    assert 0 < axis.height(low) < rows * 0.5 + 1
    assert axis.height(low + need) <= rows
    ticks = axis.ticks()
    assert ticks
    for tick in ticks:
        assert tick.time_ms % axis.tick_ms == 0
        assert 0 <= tick.row < rows
        assert tick.row <= axis.height(tick.time_ms) < tick.row + 1


@given(st.lists(st.tuples(st.integers(-5, 40), st.integers(0, 90)), min_size=1, max_size=30), st.integers(6, 50))
def test_an_axis_that_follows_keeps_them_in_view(moves: list[tuple[int, int]], rows: int) -> None:
    low, axis = NOON, None
    for step, need in moves:
        low += step * MINUTE
        axis = follow(axis, low, low + need * MINUTE, 4 * MINUTE, rows)
        assert axis.height(low) >= 0
        assert axis.height(low + need * MINUTE) <= rows


def test_an_axis_is_fixed_while_all_fits_then_moves_by_whole_rows() -> None:
    first = follow(None, NOON, NOON + 40 * MINUTE, 1_000, 20)
    assert follow(first, NOON + MINUTE, NOON + 42 * MINUTE, 1_000, 20) is first
    moved = follow(first, NOON + 40 * MINUTE, NOON + 80 * MINUTE, 1_000, 20)
    assert moved.row_ms == first.row_ms
    assert (moved.low_ms - first.low_ms) % first.row_ms == 0
    assert moved.low_ms > first.low_ms


def test_a_channel_far_beyond_the_others_does_not_flatten_them() -> None:
    times = [NOON, NOON + 10 * MINUTE, NOON + 20 * MINUTE, NOON + 30 * MINUTE, NOON + 6_000 * DAY]
    assert top_of(times, NOON) == NOON + 30 * MINUTE
    assert top_of([NOON, NOON + HOUR], NOON) == NOON + HOUR
    assert top_of([NOON - DAY], NOON) == NOON


def test_the_log_axis_gives_each_row_the_same_factor() -> None:
    axis = LogAxis(fastest_ms=NOON, near_ms=1_000, far_ms=1_000_000, rows=30)
    assert axis.height(NOON) == 30
    assert round(axis.height(NOON - 10_000), 6) == 20
    assert round(axis.height(NOON - 100_000), 6) == 10
    assert round(axis.height(NOON - 1_000_000), 6) == 0
    assert all(0 <= tick.row < 30 for tick in axis.ticks())
    assert [tick.time_ms for tick in axis.ticks()] == [600_000, 60_000, 10_000]


def test_rows_hold_half_a_row_to_either_side_of_a_tick() -> None:
    axis = Axis(low_ms=NOON - 5 * MINUTE, row_ms=10 * MINUTE, per_tick=3, rows=9)
    assert [(tick.row, (tick.time_ms - NOON) // MINUTE) for tick in axis.ticks()] == [(0, 0), (3, 30), (6, 60)]
