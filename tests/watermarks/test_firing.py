"""The windows that fired last, with what came too late for them."""

from wmtop.engine.snapshot import FiredWindow
from wmtop.engine.watermarks.settings import Session, Settings, Tumbling
from wmtop.engine.watermarks.window_operator import MAX_FIRED

from ..reference.ops import End
from .lockstep import Driver
from .steps import batch


def fired(driver: Driver) -> list[FiredWindow]:
    return driver.snapshot().windows.last_fired


def test_a_window_is_there_once_it_has_fired_and_not_before() -> None:
    driver = Driver(Settings(lateness_ms=0, window=Tumbling(10)))
    driver.apply(batch(1, ("a", 5), ("a", 6), ("a", 8)))
    assert fired(driver) == []
    driver.apply(batch(42, ("a", 12)))
    assert fired(driver) == [FiredWindow(0, 10, records=3, fired_ms=42)]


def test_late_firings_and_late_drops_are_counted_with_their_window() -> None:
    driver = Driver(Settings(lateness_ms=0, allowed_lateness_ms=5, window=Tumbling(10)))
    driver.apply(batch(1, ("a", 5)))
    driver.apply(batch(2, ("a", 12)))
    driver.apply(batch(3, ("a", 6), ("a", 7)))
    assert fired(driver) == [FiredWindow(0, 10, records=3, fired_ms=2, late_firings=2)]
    driver.apply(batch(4, ("a", 18)))
    driver.apply(batch(5, ("a", 6), ("b", 7), ("b", 8)))
    assert fired(driver) == [FiredWindow(0, 10, records=3, fired_ms=2, late_firings=2, late_drops=3)]


def test_a_window_whose_first_record_is_late_is_there_too() -> None:
    driver = Driver(Settings(lateness_ms=0, allowed_lateness_ms=50, window=Tumbling(10)))
    driver.apply(batch(1, ("a", 35)))
    driver.apply(batch(2, ("a", 15)))
    assert fired(driver) == [FiredWindow(10, 20, records=1, fired_ms=2, late_firings=1)]


def test_drops_of_a_window_that_never_fired_make_no_row() -> None:
    driver = Driver(Settings(lateness_ms=0, window=Tumbling(10)))
    driver.apply(batch(1, ("a", 55)))
    driver.apply(batch(2, ("a", 5)))
    assert driver.snapshot().totals.late == 1
    assert fired(driver) == []


def test_only_the_last_are_kept() -> None:
    driver = Driver(Settings(lateness_ms=0, window=Tumbling(10)))
    for number in range(MAX_FIRED + 5):
        driver.apply(batch(number, ("a", 10 * number)))
    assert [window.start_ms for window in fired(driver)] == [10 * (number + 4) for number in range(MAX_FIRED)]


def test_the_end_fires_what_is_open_and_says_so() -> None:
    driver = Driver(Settings(lateness_ms=0, window=Session(10)))
    driver.apply(batch(1, ("a", 5), ("a", 9)))
    driver.apply(End(3))
    assert fired(driver) == [FiredWindow(5, 19, records=2, fired_ms=3, ended=True)]


def test_what_a_snapshot_shows_is_not_changed_later() -> None:
    driver = Driver(Settings(lateness_ms=0, window=Tumbling(10)))
    driver.apply(batch(1, ("a", 5)))
    driver.apply(batch(2, ("a", 12)))
    before = fired(driver)
    driver.apply(batch(3, ("a", 6), ("a", 33)))
    assert before == [FiredWindow(0, 10, records=1, fired_ms=2)]
