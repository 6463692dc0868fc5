"""A recording of 24 h at 1 Hz with 100 channels (goals: it opens in under 2 s, a seek takes under 200 ms).

One hour is recorded from a real monitor; the day is that hour 24 times: the encoded groups again, their summaries
moved on by the hour. `cold` is with none of the file in the page cache, `cut` without its index, as a killed writer
leaves it. The screen is `wmtop replay` in a pseudo-terminal: from its start to a picture with the timeline, from a key
that scrubs, goes to another mark or steps to the last byte of what it repaints.
"""

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import zstandard
from wmtop.engine.feed.messages import Header
from wmtop.engine.feed.recording_reader import SUMMARY, FrameInfo, RecordingReader, index_frame, skippable
from wmtop.engine.feed.recording_writer import RecordingWriter
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.verdict.history import HistoryPoint
from wmtop.engine.verdict.monitor_snapshot import snapshot_of
from wmtop.engine.watermarks.monitor import new_monitor
from wmtop.engine.watermarks.observation import BatchObservation, Group
from wmtop.engine.watermarks.settings import Settings
from wmtop.tui.replay.app import play_times
from wmtop.tui.replay.timeline import marks_of

from .screen import Terminal

CHANNELS, HOURS, HOUR_MS, SECOND_MS = 100, 24, 3_600_000, 1_000
START_MS = 1_700_000_000_000
SEEKS, KEYS, PATIENCE_S = 200, 40, 60


def pictures() -> list[Snapshot]:
    """An hour, a snapshot a second: Zipf rates, disorder of up to two minutes, a few channels that stall."""
    rng = random.Random(7)
    monitor = new_monitor(Settings(lateness_ms=60_000, idle_after_ms=600_000))
    out: list[Snapshot] = []
    for number in range(HOUR_MS // SECOND_MS):
        now = START_MS + number * SECOND_MS
        quiet = {c for c in range(5) if number // 600 % 5 == c}
        groups = [
            Group(f"orders-{c}", ts - ts % HOUR_MS, False, 1 + 500 // (c + 1), max_event_ms=ts)
            for c in range(CHANNELS)
            if c not in quiet and rng.random() < 0.8 and (ts := now - rng.randrange(120_000))
        ]
        monitor.apply(BatchObservation(batch=number, now_ms=now, groups=groups))
        out.append(snapshot_of(monitor, name="orders", state="live", wall_ms=now))
    return out


def record_hour(path: Path) -> tuple[float, float]:
    """Record the hour; the median and the worst time of appending a snapshot (ms)."""
    shown = pictures()
    header = Header(name="orders", pid=os.getpid(), started_ms=START_MS, settings=Settings())
    spent: list[float] = []
    with RecordingWriter(path, header) as writer:
        for picture in shown:
            began = time.perf_counter()
            writer.append(picture)
            spent.append((time.perf_counter() - began) * 1000)
    return statistics.median(spent), max(spent)


def repeat(hour: Path, day: Path) -> None:
    """Write the day: the groups of the hour again and again, an hour later each time."""
    data = hour.read_bytes()
    with RecordingReader(hour) as reader:
        groups = reader.index
    index: list[FrameInfo] = []
    with day.open("wb") as file:
        file.write(data[: groups[0].offset])
        for number in range(HOURS):
            for group in groups:
                points = [moved(point, number) for point in group.points if point is not None]
                info = FrameInfo(file.tell(), group.size, [*points])
                file.write(data[group.offset : group.offset + group.size])
                file.write(skippable(SUMMARY, zstandard.compress(msgspec.json.encode(info))))
                index.append(info)
        file.write(index_frame(zstandard.compress(msgspec.json.encode(index))))


def moved(point: HistoryPoint, hours: int) -> HistoryPoint:
    """The point, `hours` hours later."""
    records = point.records + hours * 10_000_000
    by = hours * HOUR_MS
    level = None if point.watermark_ms is None else point.watermark_ms + by
    return msgspec.structs.replace(
        point, now_ms=point.now_ms + by, wall_ms=point.wall_ms + by, watermark_ms=level, records=records
    )


def millis(action: Callable[[], object]) -> float:
    """The duration of `action` (ms)."""
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def forget(path: Path) -> None:
    """Take the file out of the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def opening(path: Path) -> float:
    """Open it, and close it again (ms)."""
    return millis(lambda: RecordingReader(path).close())


def seeking(path: Path) -> list[float]:
    """Random times, each sought and its snapshot read (ms)."""
    rng = random.Random(3)
    with RecordingReader(path) as reader:
        times = [START_MS + rng.randrange(HOURS * HOUR_MS) for _ in range(SEEKS)]
        return [millis(lambda t=t: reader.at(reader.seek(t))) for t in times]


def screen(path: Path) -> tuple[float, list[float]]:
    """`wmtop replay`: to its first picture with the timeline, and from keys to the last byte of what they repaint."""
    began = time.perf_counter()
    terminal = Terminal(120, 36, "replay", str(path))
    seen = b""
    while b"of 86,400" not in seen:
        if time.perf_counter() - began > PATIENCE_S:
            raise TimeoutError(f"no picture with the timeline within {PATIENCE_S} s")
        seen += terminal.read(10)
    first = (time.perf_counter() - began) * 1000
    terminal.key(b" ")
    spent: list[float | None] = []
    for number in range(KEYS):
        time.sleep(0.1)
        terminal.quiet()
        spent.append(terminal.key((b"}", b"}", b".", b"n", b"{")[number % 5]))
    terminal.close()
    return first, [value for value in spent if value is not None]


def percentiles(values: list[float]) -> str:
    """Median, 95th percentile and maximum."""
    known = sorted(values)
    return f"{statistics.median(known):.0f} / {known[int(len(known) * 0.95)]:.0f} / {known[-1]:.0f} ms"


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="wmtop-bench-") as directory:
        hour, day, cut = (Path(directory, f"{name}.rec") for name in ("hour", "day", "cut"))
        median, worst = record_hour(hour)
        repeat(hour, day)
        with RecordingReader(day) as reader:
            count, end, points = len(reader), reader.end, reader.points
        cut.write_bytes(day.read_bytes()[:end])
        size = day.stat().st_size
        print(f"{count:,} snapshots, {size / 1e6:.0f} MB; index {(size - end) / 1e6:.1f} MB\n")
        print("| what | time |\n| --- | --- |")
        print(f"| append a snapshot, median / max | {median:.1f} / {worst:.1f} ms |")
        for path, words in ((day, "open"), (cut, "open, cut")):
            forget(path)
            print(f"| {words}, cold | {opening(path):.0f} ms |")
            print(f"| {words}, warm | {opening(path):.0f} ms |")
        forget(day)
        print(f"| seek and read, cold, p50 / p95 / max | {percentiles(seeking(day))} |")
        print(f"| seek and read, warm, p50 / p95 / max | {percentiles(seeking(day))} |")
        print(f"| find the marks | {millis(lambda: marks_of(points, play_times(points))):.0f} ms |")
        first, keys = screen(day)
        print(f"| `wmtop replay`: start to timeline | {first:.0f} ms |")
        print(f"| a key that seeks to the last byte painted, p50 / p95 / max | {percentiles(keys)} |")


if __name__ == "__main__":
    main()
