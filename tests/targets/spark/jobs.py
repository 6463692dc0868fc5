"""Starts `somebodys_job.py`, and knows what it reads."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from wmtop.engine.feed.messages import SnapshotLine, snapshot_of_line
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.targets.spark.event_log import EventLogTap
from wmtop.engine.targets.spark.facts import Application, QueryRun
from wmtop.engine.targets.spark.reports import Published, PublishedTap, list_published

from ...conftest import job_environment

START_MS = 1_700_000_000_000
Row = tuple[int | None, str | None]
"""Event time (ms) and key."""

ORDERS: list[list[Row]] = [
    [(START_MS + 1000 * n, f"shop {n % 3} ∆") for n in range(60)],
    [(START_MS + 60_000 + 1000 * n, f"shop {n % 2} ∆") for n in range(60)] + [(None, "shop 0 ∆"), (None, None)],
    [(START_MS + 3000 * n + 1, "") for n in range(10)] + [(START_MS - 500_000, None)],
    [(START_MS + 300_000 + 500 * n, f"shop {n % 3} ∆") for n in range(40)],
]
RETURNS: list[list[Row]] = [
    [(START_MS + 2000 * n, f"till {n % 4}") for n in range(30 * (file + 1))] for file in range(4)
]
LOCAL: list[list[Row]] = [[(-1500 + 400 * n, f"desk {n % 2}") for n in range(10)]]


PATIENCE_S = 180


@dataclass
class SomebodysJob:
    """A running process; its event log, checkpoints and run directory are in `directory`."""

    directory: Path
    process: "subprocess.Popen[str]"

    @property
    def log(self) -> Path:
        """The one event log that there is."""
        [path] = [path for path in (self.directory / "log").iterdir() if not path.name.startswith(".")]
        return path

    @property
    def run_dir(self) -> Path:
        return self.directory / "run"

    @property
    def errors(self) -> str:
        return (self.directory / "stderr").read_text()

    def wait_for(self, word: str) -> None:
        assert self.word() == word, self.errors[-4000:]

    def word(self) -> str:
        """The next thing that it says."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().removesuffix("\n")

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def progress(self) -> dict[str, list[dict[str, Any]]]:
        """What Spark told the job of its queries."""
        return json.loads((self.directory / "progress.json").read_text())


@dataclass
class Seen:
    """What the taps saw of a job in the course of its life."""

    job: SomebodysJob
    early: Application
    """While it ran."""
    log: Application
    """By the same tap, after its end."""
    published: list[Published]
    """While it ran."""
    last_words: list[Published]
    """After its end."""
    exit_code: int
    attached: dict[str, Snapshot] = field(default_factory=dict[str, Snapshot])
    """What `wmtop attach --once --json` said of the query `windows` while it ran, by what it was attached to."""


def attach(*arguments: str | Path) -> Snapshot:
    """One look of the command."""
    command = [sys.executable, "-m", "wmtop.tui.cli", "attach", *map(str, arguments), "--once", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return snapshot_of_line(msgspec.json.decode(done.stdout, type=SnapshotLine))


def watch_rolled(job: SomebodysJob) -> Seen:
    """The job's life, in which its reader dies and its run directory is taken away for a while."""
    job.wait_for("running")
    tap = EventLogTap(job.log)
    early = wait_until(lambda: (log := tap.poll()) and ticks(log) and query(log, "windows").idle_ms and log)
    ours = PublishedTap(next(job.run_dir.glob("*.published")))
    wait_until(lambda: (said := ours.poll()) and ticks(said))
    published = list_published()
    copy = shutil.copytree(job.directory / "checkpoints" / "windows", job.directory / "copy")
    attached = {
        "copy": attach(copy),
        "published": attach("windows"),
        "event log": attach(job.log, "--query", "windows"),
        "checkpoint": attach(job.directory / "checkpoints" / "windows"),
    }
    reader = subprocess.Popen([sys.executable, "-c", READER, str(ours.path)], stdout=subprocess.PIPE)
    assert reader.stdout is not None
    reader.stdout.readline()
    reader.kill()
    reader.wait()
    before = ticks(tap.poll())
    wait_until(lambda: ticks(tap.poll()) > before + 2)
    shutil.rmtree(job.run_dir)
    before = ticks(tap.poll())
    wait_until(lambda: ticks(tap.poll()) > before + 2)
    job.run_dir.mkdir(mode=0o700)
    wait_until(lambda: (said := ours.poll()) and said.alive and ticks(said) > before + 2)
    job.go_on()
    job.wait_for("done")
    job.go_on()
    exit_code = job.process.wait(PATIENCE_S)
    return Seen(job, early, tap.poll(), published, list_published(), exit_code, attached)


def watch_plain(job: SomebodysJob) -> Seen:
    """The job's life, which ends in the middle of a batch."""
    words = {job.word(), job.word()}
    assert words == {"running", "hanging"}, job.errors[-4000:]
    tap = EventLogTap(job.log)
    early = tap.poll()
    job.go_on()
    job.wait_for("done")
    os.kill(int((job.directory / "jvm").read_text()), signal.SIGKILL)  # without Python it would end in good order
    job.process.kill()
    exit_code = job.process.wait(PATIENCE_S)
    return Seen(job, early, tap.poll(), [], [], exit_code)


READER = """
import fcntl, sys
from pathlib import Path
from wmtop.engine.targets.spark.reports import PublishedTap
tap = PublishedTap(Path(sys.argv[1]))
assert tap.poll().alive
print("reading", flush=True)
while True:
    tap.poll()
"""


def query(facts: Application, name: str) -> QueryRun:
    [found] = [query for query in facts.queries if query.name == name]
    return found


def ticks(facts: Application) -> int:
    """How many batches of the query that ticks have been seen."""
    return len([point for query in facts.queries if query.name == "ticking" for point in query.history])


T = TypeVar("T")


def wait_until(look: Callable[[], T]) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def start_job(directory: Path, kind: str) -> SomebodysJob:
    for name, files in {"orders": ORDERS, "returns": RETURNS, "local": LOCAL}.items():
        write(directory / "input" / name, files)
    (directory / "log").mkdir()
    environment = os.environ | {**job_environment(), "WMTOP_RUN_DIR": str(directory / "run"), "PYTHONSAFEPATH": "1"}
    if kind == "plain":
        (directory / "run").write_text("a file where the run directory should be")
    with (directory / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("somebodys_job.py"), directory, kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment,
            text=True,
        )
    return SomebodysJob(directory, process)


def write(directory: Path, files: list[list[Row]]) -> None:
    directory.mkdir(parents=True)
    for number, rows in enumerate(files):
        times = [None if ms is None else 1000 * ms + 7 for ms, _ in rows]
        table = pa.table({"ts": pa.array(times, pa.timestamp("us", tz="UTC")), "key": [key for _, key in rows]})
        pq.write_table(table, directory / f"{number}.parquet")
        os.utime(directory / f"{number}.parquet", (1000 + number, 1000 + number))
