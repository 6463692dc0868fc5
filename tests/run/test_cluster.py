"""A run on a real cluster: two workers whose Python has no wmtop."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from subprocess import PIPE

import pyarrow.parquet as pq
import pytest
from wmtop.engine.watermarks.settings import Settings, Tumbling

from ..conftest import QUICK_OPTIONS
from ..reference.ops import in_batches
from ..reference.result import same_lines
from ..reference.run import run_ops
from .clusters import Cluster, local_cluster
from .test_against_reference import BATCH_ROWS, make_rows, write

SETTINGS = Settings(lateness_ms=300, window=Tumbling(500, 7), idle_after_ms=400, future_guard_ms=None)
OPTIONS = [
    "--time",
    "t",
    "--time-unit",
    "ms",
    "--arrival",
    "a",
    "--channel",
    "c",
    "--batch-rows",
    str(BATCH_ROWS),
    "--once",
    "--json",
]
OPTIONS += ["--lateness", "300ms", "--window", "500ms", "--offset", "7ms", "--idle-after", "400ms"]
TIMEOUT_S = 300.0
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
ON_CLUSTER = [
    *("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1", *QUICK_OPTIONS),
    *("--conf", f"spark.executor.extraJavaOptions={JAVA_OPTIONS}"),
]


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python with all that is installed here, but without wmtop, which is installed by a file that `-S` skips.

    PySpark comes from there, compiled: Spark's zip of its sources takes seconds in every worker.
    """
    program = tmp_path / "python"
    libraries = sysconfig.get_path("purelib")
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{libraries}:$PYTHONPATH" exec {sys.executable} -S "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master with two workers of one core each, all in directories of their own."""
    with local_cluster(tmp_path_factory.mktemp("cluster"), 2) as cluster:
        yield cluster


def executors(worker: int) -> list[int]:
    """The executors that a worker has started: of its processes, which are others too for a moment."""
    children = [pid for file in Path(f"/proc/{worker}/task").glob("*/children") for pid in file.read_text().split()]
    commands = {int(pid): Path(f"/proc/{pid}/cmdline") for pid in children}
    return [pid for pid, command in commands.items() if command.exists() and b"ExecutorBackend" in command.read_bytes()]


@pytest.mark.matrix
def test_a_cluster_whose_executors_have_no_wmtop(tmp_path: Path, cluster: Cluster, python: Path) -> None:
    """The totals, firings and late records of the reference, also with an executor killed in the middle."""
    rows = make_rows(SETTINGS)
    write(rows, tmp_path / "rows.parquet")
    firings, late = tmp_path / "firings.ndjson", tmp_path / "late"
    command = [sys.executable, "-m", "wmtop.tui.cli", "run", "replay", tmp_path / "rows.parquet", *OPTIONS]
    command += ["--firings", firings, "--late-output", late, "--master", cluster.url, *ON_CLUSTER]
    environment = {**os.environ, "PYSPARK_PYTHON": str(python)}
    with subprocess.Popen(command, env=environment, stdout=PIPE, stderr=PIPE, text=True) as run:
        while run.poll() is None and not (firings.exists() and firings.stat().st_size):
            time.sleep(0.05)
        killed = executors(cluster.workers[0])
        assert killed
        for executor in killed:
            os.kill(executor, signal.SIGKILL)
        said, errors = run.communicate(timeout=TIMEOUT_S)
    assert run.returncode == 0, errors
    last = json.loads(said)
    expected = run_ops(in_batches(rows, BATCH_ROWS), SETTINGS)
    assert last["totals"] == asdict(expected.totals)
    assert same_lines([json.loads(line) for line in firings.read_text().splitlines()], expected.lines)
    assert pq.read_table(late).num_rows == expected.totals.late > 0


def on_bare_python(tmp_path: Path, cluster: Cluster, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """A run whose executors have no libraries."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    command = [sys.executable, "-m", "wmtop.tui.cli", "run", *arguments, "--once", "--json", "--master", cluster.url]
    command += [*ON_CLUSTER, "--conf", f"spark.pyspark.python={bare}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@pytest.mark.matrix
def test_executors_that_cannot_run_tasks_are_named_with_the_fix(tmp_path: Path, cluster: Cluster) -> None:
    write(make_rows(SETTINGS), tmp_path / "rows.parquet")
    done = on_bare_python(tmp_path, cluster, "replay", tmp_path / "rows.parquet", "--time", "t", "--channel", "c")
    assert done.returncode == 2
    *notes, error = done.stderr.splitlines()
    assert {"msgspec", "numpy", "pyarrow:", "PYSPARK_PYTHON"} <= set(error.split())
    assert all(note.startswith(f"wmtop: {cluster.url} ") for note in notes)  # a busy machine starts executors slowly
