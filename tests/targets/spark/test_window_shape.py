"""How windows are made is told from those seen, and only where they tell."""

import pytest
from wmtop.engine.targets.spark.operators import WindowShape
from wmtop.engine.watermarks.settings import Sliding, Tumbling, WindowSpec

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
