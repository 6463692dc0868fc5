"""A tick of the whole monitor, and one of its valve, at 16, 1,000 and 10,000 channels (goal: under 1 ms at 10,000).

Four kinds: a tick at which nothing can change, one at which every channel's inactivity clock starts, one at which one
channel turns idle, and a batch's emit round in which every channel sends a greater watermark. A second table has what
grows with the channels, up to 100,000 (goals at 10,000: a batch under 20 ms, encoding and
decoding a snapshot under 20 ms).
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from wmtop.engine.feed.messages import decode_from_engine, encode_line
from wmtop.engine.verdict.monitor_snapshot import snapshot_of
from wmtop.engine.watermarks.monitor import Monitor
from wmtop.engine.watermarks.monitor_state import new_monitor, to_save
from wmtop.engine.watermarks.observation import BatchObservation, Group
from wmtop.engine.watermarks.settings import Settings
from wmtop.engine.watermarks.valve import Valve

RUNS = 15
Result = TypeVar("Result")


def millis(action: Callable[[int], object]) -> float:
    """Median over the runs (ms)."""
    spent: list[float] = []
    for run in range(RUNS):
        began = time.perf_counter()
        action(run)
        spent.append((time.perf_counter() - began) * 1000)
    return statistics.median(spent)


def cpu_ms(action: Callable[[], Result]) -> tuple[float, Result]:
    """The CPU time of this process for an action (ms), and its result."""
    began = time.process_time()
    result = action()
    return (time.process_time() - began) * 1000, result


def monitor_of(channels: int) -> Monitor:
    """A monitor whose channels have each had a record."""
    monitor = new_monitor(Settings(idle_after_ms=3_600_000, max_channels=max(channels, 10_000)))
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


def wide() -> None:
    """Print the second table: CPU time, since nothing here waits."""
    print("\n| channels | batch | snapshot made | encoded | decoded | its size | state encoded | its size |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for channels, rounds in ((1_000, 15), (10_000, 15), (100_000, 5)):
        monitor = monitor_of(channels)
        spent: list[tuple[float, ...]] = []
        size = state = 0
        for number in range(1, rounds + 3):
            records = batch(channels, number)
            apply, _ = cpu_ms(lambda m=monitor, b=records: m.apply(b))
            make, snapshot = cpu_ms(lambda m=monitor: snapshot_of(m, name="wide", state="live", wall_ms=0))
            encode, content = cpu_ms(lambda s=snapshot: encode_line(s))
            decode, _ = cpu_ms(lambda c=content: decode_from_engine(c))
            save, saved = cpu_ms(lambda m=monitor: msgspec.json.encode(to_save(m)))
            size, state = len(content), len(saved)
            spent.append((apply, make, encode, decode, save))
        apply, make, encode, decode, save = (_spread(column) for column in zip(*spent[2:], strict=True))
        print(
            f"| {channels:,} | {apply} | {make} | {encode} | {decode} | {size / 1e6:.1f} MB | {save} "
            f"| {state / 1e6:.1f} MB |",
            flush=True,
        )


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ms ({min(values):.1f}-{max(values):.1f})"


def main() -> None:
    """Print the tables."""
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
    wide()


if __name__ == "__main__":
    main()
