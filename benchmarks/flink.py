"""The same events through `wmtop run replay` and a local Flink, both processes from their start to their end.

Windows of 10 s, max out-of-orderness 5 s, a watermark for each channel, no idle timeout, parallelism 2. wmtop reads a
Parquet file (and keeps its what-if and its durable state); Flink (`FlinkWindows.java`) reads flat binary files, which
costs it nothing to decode, and counts by channel and window, without checkpoints. Both sides have to fire the same
windows with the same counts and to find the same late records, else the benchmark fails. A hundredth of the events of
the second half is two to three hours late: late wherever in a batch, or however far apart Flink's subtasks, they come.

Two sizes. The larger gives the figures of a whole run, the difference of the two those without start and end; the
smaller is large enough that both JVMs have compiled what they run often, and runs twice, of which the run with less CPU
counts: a start varies by two seconds of it.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from wmtop.engine.feed.run_directory import RUN_DIR_VARIABLE
from wmtop.engine.system.java import find_java
from wmtop.engine.targets.flink.demo import compile_job, flink_jars

from .machine import run_to_its_end

CHANNELS = (16, 256, 4_096)
SMALL, LARGE, PARALLELISM = 8_000_000, 48_000_000, 2
WINDOW_MS, LATENESS_MS, EVENTS_A_MS = 10_000, 5_000, 10
START_MS, LATE_MS = 1_700_000_000_000, (7_200_000, 10_800_000)
BATCH_ROWS = 4_000_000
"""400 s of events, so that what is late by two hours is late wherever in a batch it comes."""
JOB = Path(__file__).parent / "FlinkWindows.java"


class Result(Struct):
    """A side's result, and its cost."""

    windows: dict[int, int]
    late: int
    wall_s: float
    cpu_s: float


Sides = dict[str, Callable[[], Result]]
"""A run of each side, by its name."""


def write(directory: Path, events: int, channels: int) -> None:
    """The events in order of arrival: `events.parquet`, and `part-N` for each of Flink's subtasks."""
    rng = np.random.default_rng(channels)
    channel = rng.integers(0, channels, events).astype(np.int32)
    times = START_MS + np.arange(events) // EVENTS_A_MS - rng.integers(0, LATENESS_MS, events)
    is_late = rng.random(events) < 0.01
    is_late[: events // 2] = False
    times[is_late] -= rng.integers(*LATE_MS, int(is_late.sum()))
    names = pa.array([f"channel-{number}" for number in range(channels)])
    (directory / "run").mkdir(mode=0o700, exist_ok=True)
    arrow: Any = pa  # only partly typed
    table = arrow.table(
        {
            "channel": arrow.DictionaryArray.from_arrays(channel, names),
            "time": pa.array(times, pa.timestamp("ms", "UTC")),
        }
    )
    pq.write_table(table, directory / "events.parquet", row_group_size=1_000_000)  # pyright: ignore[reportUnknownMemberType]
    records = np.empty(events, dtype=[("channel", ">i4"), ("time", ">i8")])
    records["channel"], records["time"] = channel, times
    for part in range(PARALLELISM):
        records[channel % PARALLELISM == part].tofile(directory / f"part-{part}")


def run(command: list[str], directory: Path) -> tuple[str, float, float]:
    """The output of a command, its wall-clock seconds, and the CPU seconds of all its processes."""
    environment = os.environ | {RUN_DIR_VARIABLE: str(directory / "run")}
    done, wall_s, cpu_s = run_to_its_end(command, env=environment, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"{command[0]} failed: {done.stderr[-2_000:]}")
    return done.stdout, wall_s, cpu_s


def of_replay(directory: Path) -> Result:
    """`wmtop run replay`."""
    source = ["replay", str(directory / "events.parquet"), "--time", "time", "--channel", "channel"]
    return of_wmtop([*source, "--batch-rows", str(BATCH_ROWS)], directory)


def of_wmtop(source: list[str], directory: Path) -> Result:
    """`wmtop run` of a source, with each firing in a file."""
    firings = directory / "firings"
    command = [
        sys.executable, "-m", "wmtop.tui.cli", "run", *source,
        "--lateness", f"{LATENESS_MS}ms", "--window", f"{WINDOW_MS}ms", "--idle-after", "off",
        "--master", f"local[{PARALLELISM}]", "--once", "--json",
        "--firings", str(firings), "--force", "--name", "benchmark",
    ]  # fmt: skip
    said, wall_s, cpu_s = run(command, directory)
    windows: dict[int, int] = {}
    for line in firings.read_text().splitlines():
        firing = json.loads(line)
        if firing["kind"] == "fire":
            windows[firing["start_ms"]] = windows.get(firing["start_ms"], 0) + firing["records"]
    late = json.loads(said.splitlines()[-1])["totals"]["late"]
    return Result(windows, late, wall_s, cpu_s)


def of_flink(directory: Path, class_path: str, arguments: list[str]) -> Result:
    """A MiniCluster in one JVM, with the JVM's own settings; `arguments` begin with the job's class."""
    opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "lang.invoke", "time")]
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = [java(), "-Xmx2g", quiet, *opened, "-cp", class_path, *arguments]
    said, wall_s, cpu_s = run(command, directory)
    numbers = dict(line.split() for line in said.splitlines())
    late = int(numbers.pop("late"))
    del numbers["seconds"]
    return Result({int(start): int(count) for start, count in numbers.items()}, late, wall_s, cpu_s)


def java() -> str:
    """The command of the JVM."""
    return str(find_java().home / "bin" / "java")


def main() -> None:
    """Print the table; exit where the two sides differ."""
    jars = flink_jars()
    print_head()
    with tempfile.TemporaryDirectory(prefix="wmtop-bench-") as name:
        directory, classes = Path(name), Path(name, "classes")
        compile_job(java(), [jars], [JOB], classes)
        job = ["FlinkWindows", name, str(PARALLELISM)]
        sides: Sides = {
            "wmtop": lambda: of_replay(directory),
            "Flink 2.3.0": lambda: of_flink(directory, f"{classes}:{jars}/*", job),
        }
        for channels in CHANNELS:
            compare(channels, (SMALL, LARGE), partial(write, directory, channels=channels), sides)


def print_head() -> None:
    """The head of the table."""
    print("| channels | side | events per CPU-second | whole run | seconds, whole run | without start |", flush=True)
    print("| --- | --- | --- | --- | --- | --- |", flush=True)


def compare(channels: int, sizes: tuple[int, int], prepare: Callable[[int], None], sides: Sides) -> None:
    """One row a side, and the ratio; `prepare` makes the input of so many events."""
    found: dict[str, list[Result]] = {side: [] for side in sides}
    for events, rounds in zip(sizes, (2, 1), strict=True):
        prepare(events)
        for side, look in sides.items():
            runs = [look() for _ in range(rounds)]
            found[side].append(min(runs, key=lambda run: run.cpu_s))
            spent = ", ".join(f"{run.cpu_s:.1f}" for run in runs)
            print(f"{channels} channels, {events:,} events, {side}: {spent} s of CPU", file=sys.stderr, flush=True)
        one, other = (results[-1] for results in found.values())
        if (one.windows, one.late) != (other.windows, other.late):
            differ = sorted(set(one.windows.items()) ^ set(other.windows.items()))
            sys.exit(f"{channels} channels: late {one.late} and {other.late}, windows differ: {differ[:10]}")
    rates: list[tuple[float, float]] = []
    for side, (small, large) in found.items():
        fewer, more = sizes
        steady, whole = (more - fewer) / (large.cpu_s - small.cpu_s), more / large.cpu_s
        rates.append((steady, whole))
        print(
            f"| {channels:,} | {side} | {steady / 1e6:.2f}M | {whole / 1e6:.2f}M | {large.wall_s:.1f} s "
            f"| {large.wall_s - small.wall_s:.1f} s |",
            flush=True,
        )
    (mine, mine_whole), (theirs, theirs_whole) = rates
    large, other = (results[-1] for results in found.values())
    print(
        f"| | ratio | {mine / theirs:.1f}x | {mine_whole / theirs_whole:.1f}x | {other.wall_s / large.wall_s:.1f}x "
        f"| {len(large.windows)} windows, {large.late:,} late: the same |",
        flush=True,
    )


if __name__ == "__main__":
    main()
