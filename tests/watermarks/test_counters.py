"""The bound on the counters of windows that are not closed yet."""

import msgspec
import pytest
from wmtop.engine.watermarks import windows
from wmtop.engine.watermarks.monitor import Monitor, new_monitor
from wmtop.engine.watermarks.settings import Session, Settings, Sliding, Tumbling, WindowSpec
from wmtop.engine.watermarks.windows import TooManyWindowsError

from .aggregate import observe
from .steps import batch, saved_and_read


@pytest.fixture(autouse=True)
def _four_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "MAX_COUNTERS", 4)


def monitor_of(window: WindowSpec, **more: int) -> Monitor:
    return new_monitor(Settings(lateness_ms=1_000, idle_after_ms=None, window=window, **more))


@pytest.mark.parametrize("window", [Tumbling(10), Sliding(10, 10), Session(5)], ids=str)
def test_one_counter_more_than_the_limit_fails(window: WindowSpec) -> None:
    monitor = monitor_of(window)
    monitor.apply(observe(monitor, batch(1, ("a", 5), ("a", 25), ("b", 5), ("b", 25), ("b", 26)), 0))
    with pytest.raises(TooManyWindowsError, match=r"--max-channels.*--lateness"):
        monitor.apply(observe(monitor, batch(2, ("a", 45)), 1))


def test_each_window_of_a_record_counts() -> None:
    monitor = monitor_of(Sliding(50, 10))
    with pytest.raises(TooManyWindowsError):
        monitor.apply(observe(monitor, batch(1, ("a", 5)), 0))


@pytest.mark.parametrize("window", [Tumbling(10), Session(5)], ids=str)
def test_closed_windows_do_not_count(window: WindowSpec) -> None:
    """Two channels, one window after the other for as long as one likes: at most two windows are kept at a time."""
    monitor = monitor_of(window)
    monitor.change(lateness_ms=0, who="test", wall_ms=0)
    for number in range(20):
        at = 20 * number + 5
        monitor.apply(observe(monitor, batch(number + 1, ("a", at), ("b", at)), number))
        if number == 10:
            monitor = saved_and_read(monitor)


def test_windows_kept_for_allowed_lateness_count() -> None:
    monitor = monitor_of(Tumbling(10), allowed_lateness_ms=1_000)
    monitor.change(lateness_ms=0, who="test", wall_ms=0)
    for number in range(4):
        monitor.apply(observe(monitor, batch(number + 1, ("a", 10 * number + 9)), number))
    with pytest.raises(TooManyWindowsError):
        monitor.apply(observe(monitor, batch(9, ("a", 59)), 9))


def test_a_resumed_run_counts_what_it_had() -> None:
    monitor = monitor_of(Tumbling(10))
    monitor.apply(observe(monitor, batch(1, ("a", 5), ("a", 25), ("b", 5), ("b", 25)), 0))
    monitor = saved_and_read(monitor)
    assert b"counters" not in msgspec.json.encode(monitor)
    with pytest.raises(TooManyWindowsError):
        monitor.apply(observe(monitor, batch(2, ("a", 45)), 1))
