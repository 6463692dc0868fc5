"""`run files` as a user starts it, on a directory into which files come as writers leave them."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ..conftest import QUICK_OPTIONS
from .test_recovery import applied

WITHIN_S = 180.0
DAY_S = 86_400
WMTOP = (sys.executable, "-m", "wmtop.tui.cli")
Line = dict[str, Any]


def command(directory: Path, state: Path, *more: str) -> list[str]:
    options = ("--time", "at", "--time-unit", "s", "--channel", "c", "--lateness", "0s", "--state-dir", str(state))
    return [*WMTOP, "run", "files", str(directory), *options, "--json", *QUICK_OPTIONS, *more]


def rows(first: int, count: int) -> str:
    return "".join(f'{{"at": {first + number}, "c": "c"}}\n' for number in range(count))


def written(path: Path, text: str, *, age_s: float = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    at = time.time() - age_s
    os.utime(path, (at, at))
    return path


class Engine:
    """A run in a process of its own, and the snapshots that it prints."""

    def __init__(self, arguments: list[str], errors: Path) -> None:
        self._errors = errors
        with errors.open("wb") as err:
            self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=err, start_new_session=True)
        self._lines: queue.Queue[Line | None] = queue.Queue()
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def until(self, wanted: Callable[[Line], object]) -> Line:
        """The first snapshot from now on that is as wanted."""
        deadline, last = time.monotonic() + WITHIN_S, None
        while (left := deadline - time.monotonic()) > 0:
            line = self._lines.get(timeout=left)
            assert line is not None, self.said()
            if wanted(line):
                return line
            last = line
        raise AssertionError(f"{last}\n{self.said()}")

    def read(self, records: int) -> Line:
        return self.until(lambda line: line["totals"]["records"] >= records)

    def said(self) -> str:
        return self._errors.read_text()

    def kill(self) -> None:
        """Kill the whole process group."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def engine(tmp_path: Path, *more: str) -> Generator[Engine]:
    running = Engine(command(tmp_path / "in", tmp_path / "state", *more), tmp_path / "errors")
    try:
        yield running
    finally:
        running.kill()


def notes(line: Line) -> list[tuple[str, str | None]]:
    return [(note["code"], note["args"].get("file")) for note in line["notes"]]


def test_every_row_is_read_once_however_its_file_comes(tmp_path: Path) -> None:
    """Created empty, written slowly, old, in a subdirectory; over a kill; with a directory that goes and comes back."""
    directory = tmp_path / "in"
    written(directory / "first.jsonl", rows(0, 100))
    with engine(tmp_path) as it:
        it.read(100)
        empty = written(directory / "empty.jsonl", "")
        written(directory / "old.jsonl", rows(200, 100), age_s=8 * DAY_S)
        written(directory / "day=1/part.jsonl", rows(300, 100), age_s=5)
        written(directory / "whole.jsonl.tmp", rows(400, 100)).rename(directory / "whole.jsonl")
        with (directory / "slow.jsonl").open("w") as slow:
            for number in range(10):
                slow.write(rows(500 + 10 * number, 10))
                slow.flush()
                time.sleep(0.3)
        it.read(500)
        with empty.open("a") as filled:
            filled.write(rows(100, 100))
        assert it.read(600)["totals"]["records"] == 600
    with engine(tmp_path) as it:
        written(directory / "after.jsonl", rows(600, 100))
        assert it.read(601)["totals"]["records"] == 700
        with (directory / "after.jsonl").open("a") as grown:
            grown.write(rows(700, 1))
        line = it.until(lambda line: ("file_changed", "after.jsonl") in notes(line))
        assert line["totals"]["records"] == 700
        directory.rename(tmp_path / "away")
        line = it.until(lambda line: "directory_lost" in dict(notes(line)))
        line = it.until(lambda line: line["state"] == "stale")
        assert (line["verdict"]["verdict"], line["verdict"]["reason"]["code"]) == ("unknown", "source_silent")
        checked = subprocess.run([*WMTOP, "check", line["name"], "--for", "1s"], capture_output=True, text=True)
        assert checked.returncode == 3, checked.stdout + checked.stderr
        (tmp_path / "away").rename(directory)
        written(directory / "again.jsonl", rows(800, 100))
        line = it.until(lambda line: line["totals"]["records"] > 700)
        assert (line["totals"]["records"], line["totals"]["malformed"], line["state"]) == (800, 0, "live")
        assert "directory_back" in dict(notes(line))


def test_once_waits_for_a_file_that_is_written_and_names_one_that_stays_empty(tmp_path: Path) -> None:
    directory = tmp_path / "in"
    written(directory / "first.jsonl", rows(0, 100), age_s=30 * DAY_S)
    written(directory / "empty.jsonl", "")
    stop = threading.Event()

    def write_slowly() -> None:
        with (directory / "slow.jsonl").open("w") as slow:
            while not stop.wait(0.2):
                slow.write(rows(100, 1))
                slow.flush()

    writer = threading.Thread(target=write_slowly)
    writer.start()
    try:
        with engine(tmp_path, "--once", "--record", str(tmp_path / "run.rec")) as it:
            deadline = time.monotonic() + WITHIN_S
            while applied(tmp_path) < 0:
                assert time.monotonic() < deadline, it.said()
                time.sleep(0.1)
            time.sleep(2)
            assert it.process.poll() is None, it.said()
            stop.set()
            writer.join()
            written_rows = len((directory / "slow.jsonl").read_text().splitlines())
            assert written_rows > 1
            line = it.until(lambda line: line["ended"])
            assert it.process.wait(WITHIN_S) == 0, it.said()
    finally:
        stop.set()
        writer.join()
    assert line["totals"]["records"] == 100 + written_rows
    assert ("file_unread", "empty.jsonl") in notes(line)
    assert "empty.jsonl is empty" in it.said()


@pytest.mark.parametrize("content", ["v1\n", "00000000 {}\n"])
def test_a_state_without_the_files_of_its_batches_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    written(tmp_path / "in/first.jsonl", rows(0, 10), age_s=5)
    arguments = command(tmp_path / "in", tmp_path / "state", "--once")
    subprocess.run(arguments, check=True, capture_output=True)
    plan = tmp_path / "state/files.log"
    assert "first.jsonl" in plan.read_text()
    state = tmp_path / "state/state.json"
    assert json.loads(state.read_bytes())["monitor"]["batch"] == 0
    plan.write_text(content)
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert str(plan) in done.stderr
