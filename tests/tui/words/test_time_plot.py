"""Event time against processing time: what is shown, where each thing stands, and that it does not tremble."""

from collections.abc import Sequence
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from wmtop.engine.snapshot import TimePoint
from wmtop.engine.verdict.history import HistoryPoint
from wmtop.engine.watermarks.settings import Session, Sliding, Tumbling
from wmtop.tui.words.time_plot import (
    Data,
    PlotFrame,
    PlotView,
    data_of,
    drawn,
    frame_of,
    grid_is_drawn,
    moved,
    x_labels,
    y_labels,
    zoomed,
)

from ..canned import HOUR, LEVEL, MINUTE, NOON, NOW, SETTINGS, attached, empty, live

PART = PlotFrame(x_low=1_000, cell_ms=10, columns=8, y_low=900, row_ms=10, rows=6)
"""Eight columns and six rows of ten."""


def data(
    points: Sequence[TimePoint] = (), line: Sequence[tuple[int, int]] = (), now_ms: int = 1_080, **more: object
) -> Data:
    return Data(points, line, now_ms, scale_ms=20, lag_ms=15, **more)  # type: ignore[arg-type]


def text(data: Data, frame: PlotFrame = PART, *, plain: bool = True) -> list[str]:
    return ["".join(run for run, _ in row) for row in drawn(data, frame, plain=plain)]


def test_the_watermark_is_flat_then_steps_up() -> None:
    line = [(1_005, 905), (1_032, 925), (1_058, 955)]
    assert text(data(line=line, now_ms=1_079)) == [
        "     ╭──",
        "     │  ",
        "     │  ",
        "   ╭─╯  ",
        "   │    ",
        "───╯    ",
    ]


def test_it_is_drawn_up_to_now_and_as_it_was_before_the_picture() -> None:
    assert text(data(line=[(500, 905)], now_ms=1_035))[-1] == "────    "


def test_a_level_outside_comes_in_from_below() -> None:
    assert text(data(line=[(1_000, 10), (1_042, 915)], now_ms=1_079))[-2:] == ["    ╭───", "    │   "]


def test_records_are_dots_and_late_ones_are_crosses_in_front_of_all() -> None:
    points = [
        TimePoint(1_001, 921, "a"),
        TimePoint(1_006, 929, "a"),
        TimePoint(1_021, 905, "a", late=True),
        TimePoint(999, 905, "a"),
        TimePoint(1_021, 960, "a"),
    ]
    rows = text(data(points, [(1_000, 905)], now_ms=1_079))
    assert rows[3] == chr(0x2800 + 0x40 + 0x08) + " " * 7
    assert rows[5] == "──×─────"


def test_where_both_times_are_the_same() -> None:
    frame = PlotFrame(x_low=1_000, cell_ms=10, columns=6, y_low=1_000, row_ms=10, rows=6)
    rows = text(data(now_ms=1_045), frame)
    assert [row.rstrip() for row in rows] == ["", "    ╱", "   ╱", "  ╱", " ╱", "╱"]
    dots = drawn(data(now_ms=1_045), frame)
    assert {style for row in dots for text, style in row if text.strip()} == {"dim"}


def test_the_ends_of_windows_are_lines() -> None:
    rows = text(data(window_ms=20, offset_ms=5))
    assert [row[0] for row in rows] == [" ", "┈", " ", "┈", " ", "┈"]  # 905, 925, 945
    assert not grid_is_drawn(data(window_ms=15), PART)
    assert "┈" not in "".join(text(data(window_ms=15)))


def test_a_previewed_lateness_moves_the_level() -> None:
    rows = text(data(line=[(1_000, 925)], preview_by_ms=-20))
    assert (rows[3], rows[5]) == ("────────", "╌" * 8)


@pytest.mark.parametrize(
    ("window", "every", "end"),
    [
        (Tumbling(HOUR), HOUR, 0),
        (Tumbling(HOUR, 20 * MINUTE), HOUR, 20 * MINUTE),
        (Sliding(HOUR, 25 * MINUTE, 0), 25 * MINUTE, 10 * MINUTE),
        (Session(HOUR), None, 0),
        (None, None, 0),
    ],
)
def test_where_windows_end(window: object, every: int | None, end: int) -> None:
    snapshot = live(settings=replace(SETTINGS, window=window))
    found = data_of(snapshot, [], [], None, None)
    assert found is not None
    assert (found.window_ms, found.offset_ms) == (every, end)


def test_what_there_is_to_draw() -> None:
    sample = [TimePoint(NOW - 5, NOON, "UA"), TimePoint(NOW - 4, NOON, "F9"), TimePoint(NOW + 1, NOON, "F9")]
    history = [HistoryPoint(NOW - 9, None, None, None, 0, 0, 1), HistoryPoint(NOW - 8, LEVEL, None, None, 0, 0, 2)]
    found = data_of(live(), history, sample, "F9", 45 * MINUTE)
    assert found is not None
    assert (found.points, found.line) == (
        [sample[1]],
        [(NOW - 8, LEVEL)],
    )  # what came after a frozen picture is not in it
    assert (found.scale_ms, found.preview_by_ms) == (90 * MINUTE, -15 * MINUTE)
    assert data_of(attached(), [], [], None, None) is not None
    assert data_of(replace(empty(), now_ms=None), [], [], None, None) is None


def run(now_ms: int, lag_ms: int = 44 * MINUTE, minutes: int = 600) -> Data:
    """A stream whose records are up to half an hour old, and whose watermark follows."""
    times = range(now_ms - minutes * MINUTE, now_ms, MINUTE)
    points = [TimePoint(time, time - time // MINUTE * 7 % 30 * MINUTE, "a") for time in times]
    return Data(points, [(time, time - lag_ms) for time in times], now_ms, 90 * MINUTE, lag_ms, window_ms=HOUR)


def test_the_picture_shows_the_last_lags_up_to_now() -> None:
    found = run(NOW)
    frame = frame_of(found, PlotView(), 100, 28, None)
    assert 0 <= frame.x_high - NOW < frame.cell_ms
    assert NOW <= frame.y_high < NOW + 2 * frame.row_ms
    assert 3 * HOUR < frame.x_high - frame.x_low < 8 * HOUR
    level = next(level for now, level in found.line if now >= frame.x_low)
    assert frame.y_low <= level


def test_a_watermark_that_is_stuck_has_an_axis_of_seconds() -> None:
    line = [(NOW - place * 1_000, LEVEL) for place in range(60, 0, -1)]
    years = 10 * 365 * 24 * HOUR
    frame = frame_of(Data([], line, NOW, MINUTE, years), PlotView(), 80, 16, None)
    assert frame.row_ms >= 500
    assert not any("." in label for label in y_labels(frame, UTC).values())


@given(st.lists(st.integers(0, 40 * 1_000), min_size=1, max_size=40), st.integers(-5, 5))
def test_it_moves_by_whole_columns_and_rows_and_keeps_its_scale(steps: list[int], tremble: int) -> None:
    now, frame = NOW, frame_of(run(NOW), PlotView(), 100, 28, None)
    for step in steps:
        now += step
        after = frame_of(run(now, (44 + tremble * (step % 2)) * MINUTE), PlotView(), 100, 28, frame)
        assert (after.cell_ms, after.row_ms) == (frame.cell_ms, frame.row_ms)
        assert (after.x_low - frame.x_low) % frame.cell_ms == 0
        assert (after.y_low - frame.y_low) % frame.row_ms == 0
        frame = after


def test_one_record_far_away_does_not_flatten_the_rest() -> None:
    found = run(NOW)
    odd = replace(found, points=[*found.points, TimePoint(NOW - HOUR, NOW - 400 * 24 * HOUR, "a")])
    assert frame_of(odd, PlotView(), 100, 28, None).row_ms == frame_of(found, PlotView(), 100, 28, None).row_ms


def test_times_in_another_unit_leave_the_diagonal_out() -> None:
    points = [TimePoint(NOW - n * MINUTE, (NOW - n * MINUTE) // 1_000, "a") for n in range(60, 0, -1)]
    frame = frame_of(Data(points, [], NOW, 90 * MINUTE, 0), PlotView(), 100, 28, None)
    assert frame.y_high < 10 * NOW // 1_000
    assert "".join(text(Data(points, [], NOW, 90 * MINUTE, 0), frame)).strip() > "⠁"


def test_zooming_keeps_now_at_the_right_or_else_the_middle() -> None:
    found = run(NOW)
    first = frame_of(found, PlotView(), 100, 28, None)
    nearer = zoomed(PlotView(), first, 1)
    second = frame_of(found, nearer, 100, 28, first)
    assert second.cell_ms < first.cell_ms
    assert abs(second.x_high - first.x_high) <= first.cell_ms
    back = moved(nearer, second, -0.5, 0)
    assert back.back_ms == 50 * second.cell_ms
    third = frame_of(found, back, 100, 28, second)
    out = frame_of(found, zoomed(back, third, 1), 100, 28, third)
    middle, before = (out.x_low + out.x_high) // 2, (third.x_low + third.x_high) // 2
    assert abs(middle - before) <= 3 * third.cell_ms


def test_there_is_nothing_after_now() -> None:
    frame = frame_of(run(NOW), PlotView(), 100, 28, None)
    assert moved(PlotView(back_ms=MINUTE), frame, 1, 0).back_ms == 0


def test_zoom_has_ends() -> None:
    look, frame = PlotView(), frame_of(run(NOW), PlotView(), 100, 28, None)
    for _ in range(30):
        look = zoomed(look, frame, 1)
        frame = frame_of(run(NOW), look, 100, 28, frame)
    assert frame.cell_ms >= 1
    for _ in range(60):
        look = zoomed(look, frame, -1)
    assert look.zoom == -6


def test_the_axes_have_round_times() -> None:
    frame = frame_of(run(NOW), PlotView(), 100, 28, None)
    assert all(label.endswith(("00", "30")) for label in y_labels(frame, UTC).values())
    labels = x_labels(frame, UTC)
    assert 2 <= len(labels) <= 8
    assert all(0 <= column < 100 for column in labels)


@given(
    st.integers(-(10**15), 10**15), st.lists(st.tuples(st.integers(-(10**9), 10**9), st.booleans()), max_size=30),
    st.integers(0, 10**9), st.integers(-6, 10), st.integers(4, 200), st.integers(3, 50),
)  # fmt: skip
def test_whatever_the_times_the_picture_has_its_size(
    now: int, offsets: list[tuple[int, bool]], lag: int, zoom: int, columns: int, rows: int
) -> None:
    points = [TimePoint(now - place, now + offset, "a", late) for place, (offset, late) in enumerate(offsets)]
    found = Data(points[::-1], [(now - 5, now - lag)], now, 20, lag, window_ms=7)
    frame = frame_of(found, PlotView(zoom), columns, rows, None)
    picture = drawn(found, frame)
    assert len(picture) == rows
    assert {sum(len(run) for run, _ in row) for row in picture} == {columns}
    y_labels(frame, UTC)
    x_labels(frame, UTC)
