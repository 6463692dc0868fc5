"""`wmtop attach CHECKPOINT`, as a user gives it, on checkpoints of real queries."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.client import request
from wmtop.engine.feed.messages import Change, Stop
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.snapshot import Note
from wmtop.engine.targets.watch_engine import NO_IDLE_TIMEOUT, NOT_FROM_HERE
from wmtop.tui.words.notes import note_text

from .written import Written, state_by_spark

COMMAND = [sys.executable, "-m", "wmtop.tui.cli"]
WITHIN_S = 30
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def written(written: dict[str, Written], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Written]:
    """The checkpoints an hour later: nobody writes them any more, however quick these tests are."""
    directory = tmp_path_factory.mktemp("aged")
    return {name: each.aged(directory / name, HOUR_MS) for name, each in written.items()}


@pytest.fixture(autouse=True)
def own_run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, str(Path("/tmp", f"wmtop-test-{os.getpid()}")))


def wmtop(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def snapshot(*arguments: str | Path) -> dict[str, Any]:
    """What `attach … --once --json` prints: one line, and nothing else."""
    done = wmtop("attach", *arguments, "--once", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    [line] = done.stdout.splitlines()
    return json.loads(line)


@pytest.mark.parametrize("name", ["counts", "several", "stateless"])
def test_the_watermarks_are_spark_s_own(written: dict[str, Written], name: str, tmp_path: Path) -> None:
    copy = written[name].copy(tmp_path / "q", last=1)
    reported = snapshot(copy.path)
    assert (reported["name"], reported["batch"], reported["source"]["kind"]) == ("q", 1, "checkpoint")
    assert reported["spark"]["batch_watermark_ms"] == written[name].watermark_ms(1)
    assert reported["level"]["watermark_ms"] == reported["spark"]["watermark_ms"]
    # Nothing was retained of the batch after it: what it used is in the progress that the query reported.
    following = written[name].watermark_ms(2) if 2 in written[name].progress else None
    assert following in (None, reported["level"]["watermark_ms"])
    assert reported["spark"]["policy"] == ("max" if name == "stateless" else "min")
    assert reported["channels"] == []


def test_the_open_windows_are_those_of_the_state(
    written: dict[str, Written], spark: SparkSession, tmp_path: Path
) -> None:
    copy = written["counts"].copy(tmp_path / "q")
    expected: dict[tuple[int, int], int] = {}
    for (start, end, _), records in state_by_spark(spark, copy, copy.last).items():
        expected[start, end] = expected.get((start, end), 0) + records
    reported = snapshot(copy.path)
    assert {(w["start_ms"], w["end_ms"]): w["records"] for w in reported["windows"]["open"]} == expected
    assert reported["windows"]["open_count"] == len(expected)
    level = reported["level"]["watermark_ms"]
    assert all(w["short_ms"] == max(0, w["end_ms"] - level) for w in reported["windows"]["open"])
    assert reported["settings"]["window"] == {"type": "tumbling", "size_ms": 10_000, "offset_ms": 0, "slide_ms": 10_000}
    assert reported["settings"]["lateness_ms"] == 30_000
    assert snapshot(copy.path, "--state-reader", "none")["windows"]["open_count"] is None


@pytest.mark.parametrize(
    ("name", "code", "argument"), [("rocksdb", "state_store", "RocksDB"), ("join", "no_windows", "join")]
)
def test_what_cannot_be_read_is_null_with_its_reason(
    written: dict[str, Written], name: str, code: str, argument: str, tmp_path: Path
) -> None:
    reported = snapshot(written[name].copy(tmp_path / "q").path)
    assert reported["windows"]["open_count"] is None
    assert reported["windows"]["unknown"] == code
    assert argument in reported["windows"]["unknown_args"].values()
    note = reported["notes"][-1]
    assert (note["code"], note["args"]["code"]) == ("windows_unknown", code)
    assert reported["level"]["watermark_ms"] is not None


def test_sessions_are_read(written: dict[str, Written], tmp_path: Path) -> None:
    reported = snapshot(written["sessions"].copy(tmp_path / "q").path)["windows"]
    assert reported["unknown"] is None
    assert reported["open_count"] == len(reported["open"]) > 0
    assert all(window["end_ms"] - window["start_ms"] >= 10_000 for window in reported["open"])  # the gap


def test_each_input_s_delay_is_a_node(written: dict[str, Written], tmp_path: Path) -> None:
    reported = snapshot(written["join"].copy(tmp_path / "q").path)
    assert sorted(node["delay_ms"] for node in reported["spark"]["nodes"]) == [30_000, 60_000]
    assert reported["settings"]["lateness_ms"] is None


def test_without_json_a_few_lines(written: dict[str, Written], tmp_path: Path) -> None:
    done = wmtop("attach", written["counts"].copy(tmp_path / "orders" / "checkpoint").path, "--once")
    assert done.returncode == 0
    assert re.match(r"orders: stale, \w+ \d+", done.stdout)
    assert note_text(Note(0, "no_new_batch")) in done.stdout
    assert "windows 10s, " in done.stdout
    assert " 0 records" not in done.stdout


class Watching:
    """An engine that watches a checkpoint, headless; its snapshots come as lines."""

    def __init__(self, *arguments: str | Path) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "attach", *map(str, arguments), "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def until(self, wanted: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The first snapshot that is as wanted."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + WITHIN_S
        for line in self.process.stdout:
            reported = json.loads(line)
            if wanted(reported):
                return reported
            assert time.monotonic() < deadline, reported
        raise AssertionError("it ended")

    def end(self) -> tuple[int, str]:
        _, error = self.process.communicate(timeout=WITHIN_S)
        return self.process.returncode, error


@pytest.fixture
def watching(written: dict[str, Written], tmp_path: Path) -> Iterator[tuple[Watching, Written]]:
    """The last batch of a query's checkpoint is still to come."""
    copy = written["counts"].copy(tmp_path / "q", last=written["counts"].last - 1)
    engine = Watching(copy.path, "--name", "seen", "--record", tmp_path / "seen.rec")
    yield engine, copy
    if engine.process.poll() is None:
        os.killpg(engine.process.pid, signal.SIGKILL)
    engine.process.communicate()


def next_part(written: Written, copy: Written, log: str) -> None:
    """Write what the last batch wrote, as Spark does: under another name first."""
    name = str(written.last)
    shutil.copy(written.path / log / name, copy.path / log / f".{name}.tmp")
    os.rename(copy.path / log / f".{name}.tmp", copy.path / log / name)


def test_a_new_batch_is_seen_in_flight_and_committed(
    written: dict[str, Written], watching: tuple[Watching, Written], tmp_path: Path
) -> None:
    engine, copy = watching
    last = written["counts"].last
    before = engine.until(lambda reported: True)
    assert (before["batch"], before["spark"]["in_flight"]) == (last - 1, False)
    next_part(written["counts"], copy, "offsets")
    begun = engine.until(lambda reported: reported["batch"] == last)
    assert begun["spark"]["in_flight"] is True
    assert begun["level"]["watermark_ms"] == before["level"]["watermark_ms"] == written["counts"].watermark_ms(last)
    next_part(written["counts"], copy, "commits")
    engine.until(lambda reported: reported["spark"]["in_flight"] is False)
    shutil.rmtree(copy.path)
    gone = engine.until(lambda reported: any(note["code"] == "unreadable" for note in reported["notes"]))
    assert (gone["batch"], gone["state"]) == (last, "stale")
    assert gone["level"]["watermark_ms"] is not None
    assert request(run_directory.socket_path("seen"), Stop(id=1)).ok
    assert engine.end() == (0, "")
    with RecordingReader(tmp_path / "seen.rec") as recording:
        batches = [recorded.batch for recorded in recording]
    assert batches[0] == last - 1
    assert batches[-1] == last


def test_an_attached_query_is_not_changed_and_the_line_to_change_is_shown(watching: tuple[Watching, Written]) -> None:
    engine, _ = watching
    engine.until(lambda reported: True)
    socket = run_directory.socket_path("seen")
    refused = request(socket, Change(id=7, lateness_ms=45_000, who="test"))
    assert (refused.ok, refused.id) == (False, 7)
    line = 'withWatermark("<event-time column>", "45 seconds")'
    assert line in refused.text
    idle = request(socket, Change(id=8, idle_after_ms=None, who="test"))
    assert (idle.ok, idle.text) == (False, f"{NOT_FROM_HERE}: {NO_IDLE_TIMEOUT}")
    done = wmtop("set", "seen", "--lateness", "45s")
    assert (done.returncode, done.stderr) == (1, f"wmtop: {refused.text}\n")


def test_an_engine_that_runs_is_a_target_by_name_and_by_socket(watching: tuple[Watching, Written]) -> None:
    engine, copy = watching
    engine.until(lambda reported: True)
    by_name, by_socket = snapshot("seen"), snapshot(run_directory.socket_path("seen"))
    assert by_name["name"] == by_socket["name"] == "seen"
    assert by_name["batch"] == by_socket["batch"] == copy.last
    assert "seen: stale" in wmtop("attach", "seen", "--once").stdout
    engine.process.terminate()
    assert engine.end() == (143, "")


def test_without_a_target_it_lists_what_there_is(watching: tuple[Watching, Written], tmp_path: Path) -> None:
    engine, copy = watching
    engine.until(lambda reported: True)
    os.utime(copy.path / "offsets")
    done = wmtop("attach")
    assert done.returncode == 0
    assert "\n  seen  " in done.stdout
    assert f"\n  {copy.path}  changed " in done.stdout


WRONG = {
    "nowhere": "there is no run, file or directory nowhere: give a run, a checkpoint",
    "seem": "did you mean seen?",
    "./orders/checkpoit": "did you mean orders/checkpoint?",
    "orders": "orders is not a checkpoint directory: did you mean orders/checkpoint?",
    "file": "file is a file: give the query's checkpoint directory",
    "kafka://host": "kafka://host needs a topic, e.g. kafka://localhost:9092/orders, or --group G",
    "orders/checkpoint --group g": "--group has no effect for a Spark query",
    "orders/checkpoint --time ts": "--time has no effect for a query without --bootstrap",
    "orders/checkpoint --bootstrap host:1 --once": "it has no offsets of Kafka: leave out --bootstrap",
    "orders/checkpoint --state-reader rocks": "--state-reader 'rocks' is not known: use none, files or spark",
    "kafka://host:1/topic --state-reader none": "--state-reader has no effect for kafka://",
    "kafka://host:1/topic --time a..b": "--time 'a..b' is not a path into a JSON value",
    "seen --record r": "--record has no effect for a running engine",
    "seen": "the screen needs a terminal; without one, use --once",
    "--headless": "--headless has no effect without TARGET",
}


def test_a_wrong_target_is_one_line_and_exit_code_2(
    watching: tuple[Watching, Written], written: dict[str, Written], tmp_path: Path
) -> None:
    watching[0].until(lambda reported: True)
    written["plain"].copy(tmp_path / "orders" / "checkpoint")
    Path("file").touch()
    for arguments, said in WRONG.items():
        done = wmtop("attach", *arguments.split())
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert done.stderr.startswith("wmtop: "), arguments
        assert done.stderr.count("\n") == 1, done.stderr
        assert said in done.stderr, arguments
