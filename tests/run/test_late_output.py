"""`--late-output` as a command: refused directories, and a correction run that ends in corrected totals."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from wmtop.engine.run.late_output import LateDirectory, check_late_output
from wmtop.engine.system.errors import UsageError

from ..conftest import QUICK_OPTIONS
from .test_hung import is_gone, jvm_of

WINDOW_MS = 600_000
TWO_MINUTES = """\
class TwoMinutes:
    greatest = None

    def on_event(self, timestamp):
        self.greatest = timestamp if self.greatest is None else max(self.greatest, timestamp)

    def on_periodic_emit(self):
        return None if self.greatest is None else self.greatest - 120_001
"""
"""A strategy of the user's own: bounded, two minutes."""


def wmtop(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wmtop.tui.cli", *arguments, *QUICK_OPTIONS]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env=os.environ | (env or {}))


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    r = random.Random(3)
    arrivals = sorted(r.randrange(0, 7_200_000) for _ in range(1_500))
    times = [arrival - int(r.expovariate(1 / 300_000)) for arrival in arrivals]
    path = tmp_path_factory.mktemp("late") / "in.parquet"
    pq.write_table(pa.table({"t": times, "a": arrivals, "WMTOP_time_ms": ["x"] * len(times)}), path)
    return path, times


def last_firings(path: Path) -> Counter[int]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return Counter({line["end_ms"]: line["records"] for line in lines if line["kind"] != "late"})


@pytest.mark.matrix
def test_a_correction_run_ends_in_corrected_totals(times: tuple[Path, list[int]], tmp_path: Path) -> None:
    late, first, missing = tmp_path / "late", tmp_path / "first", tmp_path / "missing"
    # The tests' jobs need pandas; whoever installs wmtop does not get it.
    (tmp_path / "pandas.py").write_text("raise ImportError")
    (tmp_path / "own.py").write_text(TWO_MINUTES)
    without = {"PYTHONPATH": str(tmp_path)}
    done = wmtop(
        *("run", "replay", str(times[0]), "--time", "t", "--arrival", "a", "--time-unit", "ms"),
        *("--batch-rows", "300", "--window", "10m"),
        *("--strategy", "own:TwoMinutes", "--once", "--late-output", str(late), "--firings", str(first)),
        *("--explain", "a"),
        env=without,
    )
    assert done.returncode == 0, done.stderr
    done = wmtop(
        *("run", "replay", str(late), "--time", "wmtop_time_ms", "--time-unit", "ms"),
        *("--channel", "wmtop_channel", "--strategy", "none"),
        *("--window", "10m", "--once", "--firings", str(missing)),
        env=without,
    )
    assert done.returncode == 0, done.stderr
    whole = Counter(time - time % WINDOW_MS + WINDOW_MS for time in times[1])
    assert last_firings(first) != whole
    assert last_firings(first) + last_firings(missing) == whole


def test_a_directory_of_others_is_refused(times: tuple[Path, list[int]], tmp_path: Path) -> None:
    used, full, file = tmp_path / "used", tmp_path / "full", tmp_path / "file"
    LateDirectory(str(used)).claim("another", own=False, force=False, keep_until=None)
    full.mkdir()
    file.touch()
    (full / "mine.txt").touch()
    for directory, force in ((used, False), (full, False), (full, True)):
        with pytest.raises(UsageError, match=str(directory)):
            LateDirectory(str(directory)).claim("mine", own=False, force=force, keep_until=None)
    for directory in (file, tmp_path / "gone" / "state"):
        with pytest.raises(UsageError, match=directory.name):
            check_late_output(str(directory), inputs=[tmp_path / "gone"])
    with pytest.raises(UsageError, match="below"):
        LateDirectory(str(file / "below")).claim("mine", own=False, force=False, keep_until=None)
    with pytest.raises(UsageError):  # the run has written there, but it is not there any more
        LateDirectory(str(tmp_path / "new")).claim("mine", own=True, force=False, keep_until=3)


def test_claiming_removes_what_was_not_saved_and_with_force_another_run(tmp_path: Path) -> None:
    directory = LateDirectory(str(tmp_path / "late"))
    directory.claim("mine", own=False, force=False, keep_until=None)
    for name in ("batch=2", "batch=3", "batch=10", "_batch=4"):
        (tmp_path / "late" / name).mkdir()
    directory.claim("mine", own=True, force=False, keep_until=3)
    assert sorted(path.name for path in (tmp_path / "late").iterdir()) == ["_wmtop.json", "batch=2", "batch=3"]
    directory.claim("other", own=False, force=True, keep_until=None)
    assert [path.name for path in (tmp_path / "late").iterdir()] == ["_wmtop.json"]


@pytest.mark.parametrize("kind", ["parquet", pytest.param("json", marks=pytest.mark.matrix)])
def test_a_directory_that_grows(kind: str, tmp_path: Path) -> None:
    """The second file's old records are late: Parquet keeps its types, JSON its text; both are explained.

    SIGTERM ends it without a word, and its JVM.
    """
    incoming, late = tmp_path / "in", tmp_path / "late"
    incoming.mkdir()

    def add(number: int, times: list[int]) -> None:
        rows = [{"t": time, "fw": "old" if time < 0 else "new", "x": {"n": [time, number]}} for time in times]
        target = incoming / f".{number}"
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), target)
        else:
            target.write_text("".join(json.dumps(row) + "\n" for row in rows))
        target.rename(incoming / f"{number}.{kind}")

    def until(records: int) -> dict[str, Any]:
        assert process.stdout is not None
        for line in process.stdout:
            snapshot = json.loads(line)
            if snapshot["totals"]["records"] == records:
                return snapshot
        raise AssertionError(f"no snapshot with {records} records")

    add(1, list(range(0, 7_200_000, 3_600)))
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "wmtop.tui.cli", "run", "files", str(incoming), "--json"),
            *("--time", "t", "--time-unit", "ms"),
            *("--window", "10m", "--lateness", "5m", "--future-guard", "off", *QUICK_OPTIONS),
            *("--late-output", str(late), "--explain", "fw"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(2_000)
        jvm = jvm_of(process.pid)
        assert jvm is not None
        add(2, [*range(-50_000, 0, 1_000), *range(7_100_000, 7_200_000, 1_000)])
        snapshot = until(2_150)
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (143, "")
    assert is_gone(jvm)
    rows = sorted(pq.read_table(late).to_pylist(), key=lambda row: row["wmtop_time_ms"])
    expected = list(range(-50_000, 0, 1_000))
    texts = [f'{{"n":[{time},2]}}' for time in expected]
    shapes = [{"n": [time, 2]} for time in expected] if kind == "parquet" else texts
    assert [row["wmtop_time_ms"] for row in rows] == expected
    assert [row["t"] for row in rows] == (expected if kind == "parquet" else list(map(str, expected)))
    assert [row["x"] for row in rows] == shapes
    sample = snapshot["late_sample"]
    assert (snapshot["late_output"], [row["time_ms"] for row in sample]) == (str(late), expected[:20])
    assert {(row["channel"], row["window_end_ms"], row["offset"]) for row in sample} == {("all", 0, None)}
    assert {f"batch={row['batch']}" for row in sample} <= {path.name for path in late.iterdir()}
    [first, *_] = snapshot["explain"][0]["values"]
    assert (first["value"], first["late"], first["records"]) == ("old", 50, 50)
