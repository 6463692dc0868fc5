"""How windows are made is told from those seen, and only where they tell."""

import pytest
from wmtop.engine.targets.spark.open_windows import OpenWindows, StoredWindow
from wmtop.engine.targets.spark.operators import WindowShape, window_spec_of
from wmtop.engine.watermarks.settings import Session, Sliding, Tumbling, WindowSpec

SEEN: list[tuple[list[tuple[int, int]], WindowSpec | None]] = [
    ([], None),
    ([(0, 10)], None),  # tumbling, or the last one of a sliding pair
    ([(0, 10), (10, 20)], Tumbling(10)),
    ([(3, 13), (43, 53)], Tumbling(10, 3)),  # no records between
    ([(0, 10), (5, 15)], Sliding(10, 5)),
    ([(1, 10), (4, 13), (7, 16)], Sliding(9, 3, 1)),
    ([(-5, 5), (-10, 0)], Sliding(10, 5)),
    ([(0, 10), (15, 25)], None),  # gaps, of which one may be seen only in part
    ([(0, 10), (0, 20)], None),  # two sizes
]


@pytest.mark.parametrize(("windows", "spec"), SEEN)
def test_what_windows_show(windows: list[tuple[int, int]], spec: WindowSpec | None) -> None:
    assert WindowShape().add(windows) == spec


def test_windows_seen_one_after_the_other_show_the_shape_too() -> None:
    shape = WindowShape()
    assert shape.add([(0, 10)]) is None
    assert shape.add([(10, 20)]) == Tumbling(10)
    assert shape.add([]) == Tumbling(10)


def test_what_is_remembered_is_bounded() -> None:
    shape = WindowShape()
    for number in range(1_000):
        shape.add([(10 * number, 10 * number + 10)])
    assert shape.add([(5, 15), (15, 25)]) == Sliding(10, 5)
    assert shape.add((10 * n, 10 * n + 10) for n in range(2_000, 2_300)) == Tumbling(10)


SESSIONS: list[tuple[list[tuple[int, int, int | None]], WindowSpec | None]] = [
    ([(90, 95, 1), (5, 14, 2)], Session(5)),
    ([(90, 95, 1), (5, 90, 7)], None),  # of another gap: 7 records last at most 7 gaps
    ([(90, 95, 1), (5, 25, 1)], None),
    ([(5, 14, 2)], None),
    ([(5, 14, None)], None),
    ([], None),
]


@pytest.mark.parametrize(("sessions", "spec"), SESSIONS)
def test_a_gap_is_shown_where_all_sessions_fit_it(
    sessions: list[tuple[int, int, int | None]], spec: WindowSpec | None
) -> None:
    """`session_window` may compute another gap for each row."""
    windows = tuple(StoredWindow(start, end, 1, records) for start, end, records in sessions)
    assert window_spec_of([OpenWindows(operator=0, kind="session", windows=windows)], {}) == spec
