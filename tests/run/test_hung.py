"""What does not move holds back neither the engine nor its end: a reader of `--json`, a JVM."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.client import first_snapshot
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.system.errors import RunError
from wmtop.engine.targets.fleet import ENGINE_SILENT_MS

from ..conftest import QUICK_OPTIONS

WITHIN_S = 180


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator["subprocess.Popen[bytes]"]:
    """A live engine with large snapshots; nobody reads what it prints, on either stream."""
    monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, str(Path("/tmp", f"wmtop-test-{os.getpid()}")))
    arguments = "run rate --channels 250 --rows-per-second 500 --json --name stuck --lateness 1s"
    pipe = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "wmtop.tui.cli", *arguments.split(), *QUICK_OPTIONS],
        stdout=pipe[1], stderr=pipe[1], start_new_session=True,
    )  # fmt: skip
    os.close(pipe[1])
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    os.close(pipe[0])


def is_gone(pid: int) -> bool:
    """Whether a killed process ends: the kernel takes a moment to free its memory."""
    deadline = time.monotonic() + WITHIN_S
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def until(wanted: Callable[[Snapshot], bool]) -> Snapshot:
    """The engine's first snapshot that is as wanted."""
    deadline = time.monotonic() + WITHIN_S
    seen = None
    while time.monotonic() < deadline:
        try:
            seen = first_snapshot(run_directory.socket_path("stuck"), 5)
        except RunError:
            time.sleep(0.1)
            continue
        if wanted(seen):
            return seen
        time.sleep(0.3)
    log = run_directory.socket_path("stuck").with_suffix(".log").read_text()[-2_000:]
    raise AssertionError(f"not within {WITHIN_S} s: {seen and (seen.state, seen.batch, seen.wall_ms)}, its log: {log}")


def children_of(pid: int) -> list[int]:
    children = [file.read_text().split() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for line in children for child in line]


def jvm_of(pid: int) -> int | None:
    for child in children_of(pid):
        with suppress(FileNotFoundError):  # one that looks for a Java has ended
            if Path(f"/proc/{child}/comm").read_text().strip() == "java":
                return child
    return None


def test_neither_a_reader_nor_a_jvm_that_stops_holds_the_engine(engine: "subprocess.Popen[bytes]") -> None:
    # More than a pipe holds: a line has 50 kB.
    moved = until(lambda snapshot: (snapshot.batch or 0) >= 6)
    assert moved.state == "live"
    jvm = jvm_of(engine.pid)
    assert jvm is not None
    os.kill(jvm, signal.SIGSTOP)
    try:
        stale = until(lambda snapshot: snapshot.state == "stale")
        assert stale.notes[-1].code == "jvm_silent"
        assert stale.notes[-1].args["pid"] == jvm
        assert stale.condition.jvm_silent_ms == stale.notes[-1].args["silent_ms"]
        later = until(lambda snapshot: (snapshot.wall_ms or 0) > (stale.wall_ms or 0))
        assert later.state == "stale"
        engine.send_signal(signal.SIGTERM)
        assert engine.wait(WITHIN_S) == 128 + signal.SIGTERM
        assert is_gone(jvm)
        assert run_directory.list_runs() == []
    finally:
        if Path(f"/proc/{jvm}").exists():
            os.kill(jvm, signal.SIGKILL)


def fleet_rows(lines: "queue.Queue[bytes]") -> Iterator[dict[str, Any]]:
    """The engine's row in what `export --json` prints from now on."""
    while True:
        try:
            lines.get_nowait()
        except queue.Empty:
            break
    while True:
        yield json.loads(lines.get(timeout=WITHIN_S))["targets"][0]


def test_an_engine_that_is_suspended_or_stopping_is_not_shown_as_moving(engine: "subprocess.Popen[bytes]") -> None:
    until(lambda snapshot: snapshot.state == "live")
    export = subprocess.Popen(
        [sys.executable, "-m", "wmtop.tui.cli", "export", "stuck", "--json"], stdout=subprocess.PIPE
    )
    assert export.stdout is not None
    lines: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=lambda: [lines.put(line) for line in export.stdout or ()], daemon=True).start()
    try:
        next(row for row in fleet_rows(lines) if row["verdict"] == "moving")
        engine.send_signal(signal.SIGSTOP)
        for row in fleet_rows(lines):
            if row["age_ms"] > ENGINE_SILENT_MS:
                break
        assert (row["verdict"], row["lost"] is None) == ("unknown", False)
        engine.send_signal(signal.SIGCONT)
        next(row for row in fleet_rows(lines) if row["verdict"] == "moving")

        jvm = jvm_of(engine.pid)
        assert jvm is not None
        os.kill(jvm, signal.SIGSTOP)  # so that stopping takes a while
        engine.send_signal(signal.SIGTERM)
        next(row for row in fleet_rows(lines) if row["verdict"] != "moving")
        until_stopped = list(take_until(fleet_rows(lines), lambda row: row["lost"] is not None))
        assert {row["verdict"] for row in until_stopped} == {"unknown"}
        assert engine.wait(WITHIN_S) == 128 + signal.SIGTERM
    finally:
        export.kill()
        export.wait()


def take_until(rows: Iterator[dict[str, Any]], wanted: Callable[[dict[str, Any]], bool]) -> Iterator[dict[str, Any]]:
    """The rows up to the first wanted one."""
    for row in rows:
        yield row
        if wanted(row):
            return


def test_a_jvm_that_hangs_in_the_start_ends_with_the_engine(engine: "subprocess.Popen[bytes]") -> None:
    while (jvm := jvm_of(engine.pid)) is None:
        time.sleep(0.05)
    os.kill(jvm, signal.SIGSTOP)
    assert [child for child in children_of(engine.pid) if child == jvm] == [jvm]
    engine.send_signal(signal.SIGTERM)
    assert engine.wait(WITHIN_S) == 128 + signal.SIGTERM
    assert is_gone(jvm)
    assert run_directory.list_runs() == []
