"""(f) `make soak`: a run and its viewers for an hour, what each process needs, and whether that is flat."""

import argparse
import csv
import fcntl
import json
import os
import pty
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from .flat import Fit, fit, plot
from .processes import WMTOP, Command, home
from .rounds import TortureError, expect

SECONDS = 3_600.0
ROWS_PER_SECOND, CHANNELS = 1_000, 100
SAMPLES = 150
MIN_EVERY_S = 2.0
MB = 1 << 20
KEYS = ("w", "l", "t", "o", "g", "d", "h", "e", "?", "\x1b", "\x1b", "\x1b", "j", "k", "s")
"""What is typed at the screen: further screens, back, up and down, another order."""
BOUNDS = {"memory": (8.0, 0.05), "heap": (4.0, 0.10), "threads": (2.0, 0.0), "descriptors": (3.0, 0.0)}
"""What a measure may grow by over the last two thirds: so much, or so large a share of its mean."""
WARM_UP_S = 900.0
"""What comes before is not judged: screens fill the 15 minutes that they show, the JVM needs 13 for its heap."""
UNITS = {"memory": "resident memory, MB", "heap": "heap after a full collection, MB"}


class Sample(NamedTuple):
    """What a process needed at a moment."""

    at_s: float
    who: str
    memory: float
    threads: int
    descriptors: int
    heap: float | None


class Screen:
    """`wmtop attach` in a terminal, whose output is read and thrown away."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str], directory: Path) -> None:
        self._terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
        self.process = subprocess.Popen(
            [*WMTOP, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=directory,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.read = 0
        threading.Thread(target=self._drain, daemon=True).start()

    def press(self, key: str) -> None:
        with suppress(OSError):
            os.write(self._terminal, key.encode())

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _drain(self) -> None:
        with suppress(OSError):
            while data := os.read(self._terminal, 65_536):
                self.read += len(data)


class Soak:
    """The run, and its viewers once it is there."""

    def __init__(self, directory: Path, seconds: float, seed: int) -> None:
        self._directory = directory
        self._chance = random.Random(seed)
        self._environment = home(directory)
        self.rows = int(ROWS_PER_SECOND * seconds)
        self.firings = directory / "firings.ndjson"
        self._port = _free_port()
        made = f"run rate --channels {CHANNELS} --rows-per-second {ROWS_PER_SECOND} --rows {self.rows} --name soak"
        settings = "--lateness 5s --idle-after 20s --window 10s --once --json"
        files = ["--state-dir", directory / "state", "--firings", self.firings, "--record", directory / "soak.rec"]
        self._commands = {"engine": self._start("engine", *made.split(), *settings.split(), *files)}
        self._screen: Screen | None = None
        self._scraped = 0.0

    def view(self) -> None:
        """Start the viewers, once the run is there."""
        if self._screen is not None or not (Path(self._environment["WMTOP_RUN_DIR"]) / "soak.sock").exists():
            return
        self._commands["export"] = self._start("export", "export", "soak", "--prometheus", f":{self._port}")
        self._commands["watch"] = self._start("watch", "watch", "soak")
        screen = {**self._environment, "COLORTERM": "truecolor"}
        self._screen = Screen(["attach", "soak", "--read-only"], screen, self._directory)

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self._commands["engine"].code is not None

    def use(self) -> None:
        """Do what users do: press a key, scrape the metrics."""
        if self._screen is None:
            return
        self._screen.press(self._chance.choice(KEYS))
        read = scraped(self._port)
        if read is not None:
            expect(
                self._scraped <= read <= self.rows, f"{read:,.0f} records after {self._scraped:,.0f} of {self.rows:,}"
            )
            self._scraped = read

    def sample(self, at_s: float) -> list[Sample]:
        """What each process needs now."""
        roots = {name: command.process.pid for name, command in self._commands.items() if command.code is None}
        if self._screen is not None and self._screen.process.poll() is None:
            roots["attach"] = self._screen.process.pid
        samples: list[Sample] = []
        for name, root in roots.items():
            found = (measured(pid, at_s, name if pid == root else role(pid)) for pid in [root, *descendants(root)])
            samples.extend(each for each in found if each is not None)
        return samples

    def check(self) -> str:
        """Compare the totals with what was made; returns them."""
        command = self._commands["engine"]
        expect(command.code == 0, f"the run ended with {command.code}: {command.said()[-1_500:]}")
        totals = json.loads(command.out.read_text().splitlines()[-1])["totals"]
        fired = late = 0
        for line in self.firings.read_text().splitlines():
            reported = json.loads(line)
            fired += reported["records"] * (reported["kind"] == "fire")
            late += reported["records"] * (reported["kind"] == "late")
        expect(totals["records"] == self.rows, f"{totals['records']:,} records of {self.rows:,}")
        expect(late == totals["late"], f"{late:,} late records in the firings, {totals['late']:,} in the totals")
        expect(fired + late == self.rows, f"{fired:,} fired and {late:,} late of {self.rows:,}")
        expect(0 < self._scraped <= self.rows, "export showed nothing")
        expect(self._screen is not None and self._screen.read > 5_000, "the screen drew nothing")
        for name, viewer in self._commands.items():
            expect("Traceback" not in viewer.said(), f"{name}: {viewer.said()[-1_500:]}")
        return f"{self.rows:,} records: {fired:,} fired and {late:,} late; none lost, none twice"

    def close(self) -> None:
        """End every process."""
        for command in self._commands.values():
            command.end()
        if self._screen is not None:
            self._screen.end()

    def _start(self, name: str, *arguments: object) -> Command:
        directory = self._directory / name
        directory.mkdir()
        return Command(directory, arguments, self._environment)


def descendants(pid: int) -> list[int]:
    """All processes that it started, and those that these started."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, file.read_text().split()):
                found += [child, *descendants(child)]
    return found


def role(pid: int) -> str:
    """The word for a process of the engine."""
    with suppress(OSError):
        return "JVM" if Path(f"/proc/{pid}/comm").read_text().strip() == "java" else "worker"
    return "worker"


def measured(pid: int, at_s: float, who: str) -> Sample | None:
    """What a process needs; None if it has just ended."""
    heap = live_heap(pid) if who == "JVM" else None  # first: the collection is part of what is measured
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    status = dict(line.split(":", 1) for line in lines)
    if "VmRSS" not in status:
        return None
    return Sample(at_s, who, int(status["VmRSS"].split()[0]) / 1_024, int(status["Threads"]), descriptors, heap)


def live_heap(pid: int) -> float | None:
    """The heap (MB) of a JVM after a full collection; None without `jcmd`."""
    beside = Path(f"/proc/{pid}/exe").resolve().parent / "jcmd"
    jcmd = str(beside) if beside.exists() else shutil.which("jcmd")
    if jcmd is None:
        return None
    try:
        counted = subprocess.run(
            [jcmd, str(pid), "GC.class_histogram"], capture_output=True, text=True, timeout=60
        ).stdout.splitlines()
        return int(next(line for line in reversed(counted) if line.startswith("Total")).split()[2]) / MB
    except (subprocess.TimeoutExpired, StopIteration, ValueError):
        return None


def scraped(port: int) -> float | None:
    """The records read so far, by `export --prometheus`; None: it does not know."""
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("wmtop_records_total{"):
                return float(line.split()[-1])
    return None


def measures(samples: Iterable[Sample]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """The series of each measure by process; workers of one moment are added up."""
    sums: defaultdict[str, defaultdict[str, defaultdict[float, float]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(float))
    )
    for each in samples:
        for measure in BOUNDS:
            if (value := getattr(each, measure)) is not None:
                sums[measure][each.who][each.at_s] += value
    return {measure: {who: sorted(at.items()) for who, at in sums[measure].items()} for measure in BOUNDS}


def fits(samples: Iterable[Sample]) -> dict[tuple[str, str], Fit]:
    """The fit of each measure of each process that was there for long enough."""
    return {
        (measure, who): found
        for measure, series in measures(samples).items()
        for who, points in series.items()
        if (found := fit([point for point in points if point[0] >= WARM_UP_S], *BOUNDS[measure])) is not None
    }


def soak(directory: Path, seconds: float, seed: int) -> tuple[list[Sample], str]:
    """Run it; the samples, and what the totals are. TortureError if they are wrong."""
    running = Soak(directory, seconds, seed)
    samples: list[Sample] = []
    every_s = max(MIN_EVERY_S, seconds / SAMPLES)
    began = time.monotonic()
    due = every_s
    try:
        while not running.is_over:
            running.view()
            running.use()
            if (at_s := time.monotonic() - began) >= due:
                samples += running.sample(round(at_s, 1))
                due = at_s + every_s
            expect(at_s < 2 * seconds + 600, f"the run takes longer than {at_s:.0f} s")
            time.sleep(0.5)
        return samples, running.check()
    finally:
        running.close()


def write(where: Path, title: str, samples: Sequence[Sample]) -> None:
    """The samples as CSV and as a plot."""
    with where.with_suffix(".csv").open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(Sample._fields)
        rows.writerows(
            [at_s, who, f"{memory:.1f}", threads, descriptors, "" if heap is None else f"{heap:.1f}"]
            for at_s, who, memory, threads, descriptors, heap in samples
        )
    series = measures(samples)
    plot(where.with_suffix(".svg"), title, [(UNITS.get(name, name), series[name]) for name in BOUNDS])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    """Exit code 1 if the totals are wrong or something grows."""
    options = argparse.ArgumentParser(prog="make soak", description=__doc__)
    options.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options.add_argument("--seconds", type=float, default=SECONDS)
    options.add_argument("--out", type=Path, default=Path("soak"), help="the CSV and the plot, without their endings")
    given = options.parse_args()
    print(f"soak, seed {given.seed}: {ROWS_PER_SECOND:,} records/s for {given.seconds:g} s", flush=True)
    with TemporaryDirectory(prefix="wmtop-soak-", dir="/tmp") as directory:
        try:
            samples, totals = soak(Path(directory), given.seconds, given.seed)
        except TortureError as failure:
            sys.exit(f"FAILED: {failure}")
    length = f"{samples[-1].at_s / 60:.1f} min" if samples else "no sample"
    day = datetime.now(UTC).date()
    write(given.out, f"wmtop soak, {day}, seed {given.seed}, {length}, {ROWS_PER_SECOND:,} records/s", samples)
    print(f"{length}; {totals}")
    found = fits(samples)
    for (measure, who), each in found.items():
        word = "flat" if each.is_flat else "GROWS"
        grows = f"{each.growth:+7.2f} ({each.per_hour:+.1f} an hour)"
        print(f"  {word:5}  {who:7} {measure:11} mean {each.mean:8.1f}, {grows}")
    if growing := [key for key, each in found.items() if not each.is_flat]:
        sys.exit(f"FAILED: {', '.join(f'{measure} of {who}' for measure, who in growing)} grows")
    if not found:
        sys.exit("too short to say whether anything grows")


if __name__ == "__main__":
    main()
