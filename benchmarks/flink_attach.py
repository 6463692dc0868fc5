"""The cost of `wmtop attach flink://…` with 1,000 subtasks: that of wmtop itself, and of the JobManager that answers.

One JVM (JobManager and TaskManager) with six sources of 125 subtasks, a split each, and two windows of 125: in all
1,000 subtasks in eight vertices. Each split gets a record a second. The metrics are fetched once a second, and every 10
s as by default. The JVM's CPU is measured with and without wmtop, in turns: the difference is what requests cost.
"""

import statistics
import subprocess
import sys
import threading
import time

from tests.targets.flink.conftest import free_port
from tests.targets.flink.flinks import Flink, compiled

from .machine import process_cpu_s, scratch

SOURCES, PARALLELISM, ROUNDS, LOOK_S, SETTLE_S = "abcdef", 125, 2, 15.0, 8.0
INTERVALS_MS = (1_000, 10_000)


def main() -> None:
    """Print a table: a row for each interval of the metrics."""
    print("| metrics fetched every | wmtop, of one core | JVM without wmtop | JVM with it |\n| --- | --- | --- | --- |")
    with scratch() as directory:
        class_path = compiled(directory / "classes")
        for interval_ms in INTERVALS_MS:
            more = {"slots": PARALLELISM + 1, "network": "640mb", "splits": PARALLELISM, "chain": 1}
            at = directory / f"job-{interval_ms}"
            with Flink(
                class_path, at, free_port(), heap="2g", sources=",".join(SOURCES), parallelism=PARALLELISM,
                fetch=interval_ms, **more,
            ) as flink:  # fmt: skip
                flink.wait_for()
                measure(flink, interval_ms)


def measure(flink: Flink, interval_ms: int) -> None:
    """One row."""
    ended = threading.Event()
    feeder = threading.Thread(target=_feed, args=(flink, ended), daemon=True)
    feeder.start()
    try:
        time.sleep(SETTLE_S)
        mine: list[float] = []
        without: list[float] = []
        watched: list[float] = []
        for _ in range(ROUNDS):
            without.append(_share(flink.process.pid))
            command = [
                sys.executable,
                "-m",
                "wmtop.tui.cli",
                "attach",
                flink.url.replace("http", "flink"),
                "--headless",
            ]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                time.sleep(SETTLE_S)
                before, began = process_cpu_s(process.pid), time.monotonic()
                watched.append(_share(flink.process.pid))
                mine.append((process_cpu_s(process.pid) - before) / (time.monotonic() - began))
                assert process.poll() is None
            finally:
                process.terminate()
                process.wait()
    finally:
        ended.set()
        feeder.join()
    median = [f"{statistics.median(shares):.1%}" for shares in (mine, without, watched)]
    print(f"| {interval_ms // 1_000} s | {' | '.join(median)} |", flush=True)


def _feed(flink: Flink, ended: threading.Event) -> None:
    """A record a second for each split; split 77 of the first source lags."""
    second = 0
    while not ended.wait(1.0):
        second += 1
        for source in SOURCES:
            for split in range(PARALLELISM):
                flink.write(f"{source}-{split}", second - (60 if (source, split) == ("a", 77) else 0))


def _share(pid: int) -> float:
    before, began = process_cpu_s(pid), time.monotonic()
    time.sleep(LOOK_S)
    return (process_cpu_s(pid) - before) / (time.monotonic() - began)


if __name__ == "__main__":
    main()
