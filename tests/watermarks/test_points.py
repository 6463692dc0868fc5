"""The sample of records: who is late in it, and that it stays small and everywhere the same."""

import pytest
from wmtop.engine.snapshot import TimePoint
from wmtop.engine.watermarks.counts import MAX_LATE, MAX_ON_TIME, PointSample, is_late, points_of
from wmtop.engine.watermarks.observation import BatchObservation, Group
from wmtop.engine.watermarks.settings import Session, Settings, Sliding, Tumbling, WindowSpec
from wmtop.engine.watermarks.times import MAX, MIN

from .lockstep import Driver
from .steps import batch


def group(start: int, event: int | None, head: bool = False, channel: str = "a") -> Group:
    return Group(channel, start, head, 5, max_event_ms=event)


@pytest.mark.parametrize(
    ("window", "head", "event", "allowed", "level", "late"),
    [
        (Tumbling(10), False, 7, 0, 8, False),  # the window [0, 10) closes at 9
        (Tumbling(10), False, 7, 0, 9, True),
        (Tumbling(10), False, 7, 5, 13, False),
        (Tumbling(10), False, 7, 5, 14, True),
        (Tumbling(10), False, 7, 0, MIN, False),
        (Sliding(10, 5), False, 4, 0, 9, True),
        (Sliding(4, 10), True, 3, 0, 3, True),
        (Sliding(4, 10), False, 7, 0, 6, False),  # in the gap: a record is late by itself
        (Sliding(4, 10), False, 7, 0, 7, True),
        (Session(20), False, 7, 0, 25, False),
        (Session(20), False, 7, 0, 26, True),
        (Tumbling(10), False, 7, MAX, MAX, True),  # times saturate
        (Sliding(4, 10), False, 7, MAX, MAX, True),
        (Session(20), False, 7, MAX, MAX, True),
    ],
)
def test_a_record_is_late_when_its_last_window_has_closed(
    window: WindowSpec, head: bool, event: int, allowed: int, level: int, late: bool
) -> None:
    settings = Settings(window=window, allowed_lateness_ms=allowed)
    assert is_late(group(0, event, head), event, settings, level) is late


def test_the_points_of_a_run_are_late_exactly_when_its_records_are() -> None:
    run = Driver(Settings(lateness_ms=0, window=Tumbling(10)))
    run.apply(batch(100, ("a", 5), ("b", 7)))
    assert run.monitor.take_points() == [TimePoint(100, 5, "a"), TimePoint(100, 7, "b")]
    run.apply(batch(110, ("a", 35), ("b", 25)))
    run.apply(batch(120, ("a", 6), ("b", 26)))
    points = run.monitor.take_points()
    assert points[-2:] == [TimePoint(120, 6, "a", late=True), TimePoint(120, 26, "b")]
    assert sum(point.late for point in points) == run.snapshot().totals.late
    assert run.monitor.take_points() == []


def test_a_record_without_a_usable_time_is_no_point() -> None:
    groups = [Group("a", None, False, 3), group(0, None), group(0, 4)]
    points = points_of(BatchObservation(batch=1, now_ms=9, groups=groups), Settings(window=Tumbling(10)), MIN, 9)
    assert points == [TimePoint(9, 4, "a")]


def test_a_huge_batch_gives_a_few_points_and_some_of_the_late_ones() -> None:
    groups = [group(10 * n, 10 * n + 5, channel=f"c{n}") for n in range(5_000)]
    observation = BatchObservation(batch=3, now_ms=9, groups=groups)
    settings = Settings(window=Tumbling(10))
    points = points_of(observation, settings, 2_499, 9)  # 250 of 5,000 are late
    assert len(points) <= 60
    assert any(point.late for point in points)
    assert points == points_of(observation, settings, 2_499, 9)


def some(count: int, *, late: bool = False, first: int = 0) -> list[TimePoint]:
    return [TimePoint(n, n - 50, f"c{n % 7}", late) for n in range(first, first + count)]


def test_a_sample_is_bounded_and_spread_over_the_whole_time() -> None:
    sample = PointSample()
    for first in range(0, 40_000, 40):
        sample.add(some(40, first=first))
        sample.add(some(2, late=True, first=first))
    kept = sample.points
    assert sum(point.late for point in kept) <= MAX_LATE * 5 // 4
    assert sum(not point.late for point in kept) <= MAX_ON_TIME * 5 // 4
    quarter = sum(point.now_ms < 10_000 for point in kept if not point.late)
    assert 0.15 * MAX_ON_TIME < quarter < 0.35 * MAX_ON_TIME


def test_who_comes_later_goes_on_with_the_same_sample() -> None:
    engine = PointSample(some(5_000))
    viewer = PointSample(engine.points)
    for sample in (engine, viewer):
        sample.add(some(5_000, first=5_000))
    assert set(engine.points) == set(viewer.points)


def test_what_is_too_old_makes_room_first() -> None:
    sample = PointSample(some(1_000))
    sample.add(some(2_000, first=1_000), since_ms=1_000)
    assert min(point.now_ms for point in sample.points) >= 1_000
