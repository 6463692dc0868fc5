"""A tick of the whole monitor, and one of its valve, at 16, 1,000 and 10,000 channels (goal: under 1 ms at 10,000).

Four kinds: a tick at which nothing can change, one at which every channel's inactivity clock starts, one at which one
channel turns idle, and a batch's emit round in which every channel sends a greater watermark.
"""

import statistics
import time
from collections.abc import Callable

from wmtop.engine.core.monitor import Monitor
from wmtop.engine.core.monitor_state import new_monitor
from wmtop.engine.core.observation import BatchObservation, Group
from wmtop.engine.core.settings import Settings
from wmtop.engine.core.valve import Valve

RUNS = 15


def millis(action: Callable[[int], object]) -> float:
    """Median over the runs (ms)."""
    spent: list[float] = []
    for run in range(RUNS):
        began = time.perf_counter()
        action(run)
        spent.append((time.perf_counter() - began) * 1000)
    return statistics.median(spent)


def monitor_of(channels: int) -> Monitor:
    """A monitor whose channels have each had a record."""
    monitor = new_monitor(Settings(idle_after_ms=3_600_000))
    monitor.apply(batch(channels, 0))
    return monitor


def batch(channels: int, number: int) -> BatchObservation:
    """One record of each channel."""
    now = number * 1_000_000
    groups = [Group(f"c{c}", now - now % 3_600_000, False, 1, max_event_ms=now + c) for c in range(channels)]
    return BatchObservation(batch=number, now_ms=now, groups=groups)


def valve_round(channels: int) -> Callable[[int], object]:
    """Every channel sends a greater watermark through one valve."""
    valve = Valve()
    for _ in range(channels):
        valve.add_channel(0)

    def run(number: int) -> None:
        for channel in range(channels):
            valve.input_watermark(channel, number * channels + channel, number)

    return run


def main() -> None:
    """Print the table."""
    print("| channels | tick, nothing due | tick, all clocks start | one turns idle (valve) | valve round | batch |")
    print("| --- | --- | --- | --- | --- | --- |")
    for channels in (16, 1_000, 10_000):
        monitor = monitor_of(channels)
        began = time.perf_counter()
        monitor.tick(1)
        start = (time.perf_counter() - began) * 1000
        quiet = millis(lambda run, m=monitor: m.tick(3 + run))
        valve = Valve()
        for channel in range(channels):
            valve.add_channel(0)
            valve.input_watermark(channel, channel + 1)
        idle = millis(lambda run, v=valve: v.mark_idle(run))
        rounds = millis(valve_round(channels))
        batches = [batch(channels, number) for number in range(1, RUNS + 1)]
        applied = millis(lambda run, m=monitor, b=batches: m.apply(b[run]))
        print(
            f"| {channels:,} | {quiet:.4f} ms | {start:.3f} ms | {idle:.4f} ms | {rounds:.3f} ms | {applied:.2f} ms |"
        )


if __name__ == "__main__":
    main()
