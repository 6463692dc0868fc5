"""The command as a user gives it: bad input is one line and exit code 2; a running engine is seen, changed, stopped."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.tui import cli

from .conftest import QUICK_OPTIONS

COMMAND = [sys.executable, "-m", "wmtop.tui.cli"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with one good file and several bad ones."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"scheduled": [1, 2], "carrier": ["a", "b"], "text": ["x", "y"]}), "good.parquet")
    Path("words.csv").write_text("at,c\nhello,a\n")
    Path("empty.parquet").touch()
    Path("junk.parquet").write_text("junk")
    Path("empty-dir").mkdir()
    Path("data").mkdir()
    Path("data/part.csv").write_text("t\n1\n")
    with tempfile.TemporaryDirectory(prefix="wmtop-", dir="/tmp") as runs:  # sockets need short paths
        monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, runs)
        yield tmp_path


EXISTS = "already exists; choose another file or pass --force"
BAD = {
    "replay none.parquet --time t": "no file none.parquet",
    "replay good.parquet --time schedule": "--time: no column 'schedule' in good.parquet; did you mean 'scheduled'?",
    "replay good.parquet --time scheduled --channel carier": "good.parquet; did you mean 'carrier'?",
    "replay good.parquet --time text": "'x'",
    "replay words.csv --time at": "'hello'",
    "replay empty.parquet --time t": "empty",
    "replay junk.parquet --time t": "not a readable Parquet file",
    "replay good.parquet": "'wmtop run replay --help' shows",
    "replay good.parquet --time scheduled --lateness soon": "'soon' is not a duration, e.g.",
    "replay good.parquet --time scheduled --lateness -5m": "'-5m' is not a duration",
    "replay good.parquet --time scheduled --idle-after never": "or off",
    "replay good.parquet --time scheduled --speed fast": "'fast' is not a speed, e.g.",
    "replay good.parquet --time scheduled --batch-rows 0": "--batch-rows",
    "replay good.parquet --time scheduled --time-unit h": "ms, s, us or ns",
    "replay good.parquet --time scheduled --strategy fastest": "bounded, monotonous",
    "replay good.parquet --time scheduled --strategy source --strategy bounded": "give one",
    "replay good.parquet --time scheduled --strategy bounded --watermark scheduled": "--strategy source",
    "replay good.parquet --time scheduled --strategy source": "--watermark COL",
    "replay good.parquet --time scheduled --strategy punctuated": "--marker SQL",
    "replay good.parquet --time scheduled --strategy none --lateness 5m": "--lateness",
    "replay good.parquet --time scheduled --strategy nowhere:factory": "nowhere",
    "replay good.parquet --time scheduled --strategy os:getcwd": "on_event",
    "replay good.parquet --time scheduled --window 0s": "--window",
    "replay good.parquet --time scheduled --window 1h --session 5m": "--session",
    "replay good.parquet --time scheduled --subtasks 0": "--subtasks",
    "replay good.parquet --time scheduled --window 1h --slide 1ms": "3600000 windows",
    "replay good.parquet --time scheduled --idle-after 0s": "--idle-after",
    "replay good.parquet --time scheduled --conf spark --once": "K=V",
    "replay good.parquet --time scheduled --once --name a/b": "bad name",
    "replay good.parquet --time scheduled --once --state-dir good.parquet": "--state-dir",
    "replay good.parquet --time scheduled --once --firings none/f": "--firings",
    "files none --time t": "no directory none",
    "files s3://bucket/prefix --time t": "replay s3:// with wmtop run replay",
    "files empty-dir --time t": "no Parquet, CSV or JSON file",
    "files empty-dir --time t --format xml": "parquet, csv or json",
    "rate --rows 5 --for 1s": "give one of them",
    "rate --channels 0": "--channels",
    f"kafka localhost:9 orders --time t --from {'9' * 400}": "--from",
    f"kafka localhost:9 orders --time t --from {'9' * 5_000}": "--from",
    "replay good.parquet --time scheduled --once --firings good.parquet --force": "would overwrite the input",
    "replay good.parquet --time scheduled --once --record words.csv": EXISTS,
    "replay good.parquet --time scheduled --once --firings words.csv": EXISTS,
    "replay good.parquet --time scheduled --once --firings a --record ./a": "are the same file",
    "files data --time t --record data/new.rec": "is inside the input directory data",
    "": "kafka BOOTSTRAP TOPIC",
    "nowhere": "No such command 'nowhere'; 'wmtop run --help' shows what it takes",
    "replai": "Did you mean 'replay'?",
}


AS_A_PROCESS = (
    "replay good.parquet --time schedule",
    "replay good.parquet --time scheduled --once --state-dir good.parquet",
    "replay good.parquet --time scheduled --once --firings none/f",
)
"""Also, or only, seen as a process: the last two are found by the engine, which says so when it ends."""


@pytest.mark.parametrize("arguments", [arguments for arguments in BAD if arguments not in AS_A_PROCESS[1:]])
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["wmtop", "run", *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, error = capsys.readouterr()
    assert (ended.value.code, out) == (2, ""), error
    one_line(error, BAD[arguments])


@pytest.mark.parametrize("arguments", AS_A_PROCESS)
def test_bad_input_of_a_process_is_the_same(arguments: str, here: Path) -> None:
    done = subprocess.run([*COMMAND, "run", *arguments.split()], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    one_line(done.stderr, BAD[arguments])


def one_line(error: str, said: str) -> None:
    assert error.startswith("wmtop: ")
    assert error.count("\n") == 1, error
    assert said in error
    assert Path("words.csv").read_text() == "at,c\nhello,a\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["stop", "x"], "no engine 'x'"), (["set", "x"], "nothing to set"), (["fly"], "No such command")],
)
def test_other_commands_too(arguments: list[str], said: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sys.argv = ["wmtop", *arguments]
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_without_an_engine_it_says_how_to_start(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["runs"]):
        sys.argv = ["wmtop", *arguments]
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 0
        assert "wmtop demo" in capsys.readouterr().out


@pytest.fixture
def engine(here: Path) -> Iterator["subprocess.Popen[str]"]:
    """A live engine on synthetic rows, recording."""
    arguments = "run rate --channels 7 --rows-per-second 500 --json --name live --record live.rec --lateness 10s"
    process = subprocess.Popen(
        [*COMMAND, *arguments.split(), *QUICK_OPTIONS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def lines(stream: IO[str] | None) -> Iterator[dict[str, object]]:
    assert stream is not None
    for line in stream:
        yield json.loads(line)


def said(*arguments: str) -> str:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=True).stdout


def test_a_running_engine_is_seen_changed_and_stopped(engine: "subprocess.Popen[str]", here: Path) -> None:
    snapshots = lines(engine.stdout)
    first = next(snapshots)
    assert first["settings"]["lateness_ms"] == 10_000  # type: ignore[index]
    assert "live" in said("runs")
    said("set", "live", "--lateness", "3s", "--idle-after", "off")
    changed = next(s for s in snapshots if s["settings"]["version"] == 2)  # type: ignore[index]
    assert changed["settings"]["lateness_ms"] == 3_000  # type: ignore[index]
    assert changed["settings"]["idle_after_ms"] is None  # type: ignore[index]
    assert said("stop", "live") == "stopped live\n"
    rest = list(snapshots)
    assert engine.wait(60) == 0
    assert rest[-1]["totals"]["records"] > 0  # type: ignore[index]
    with RecordingReader(here / "live.rec") as recording:
        assert not recording.truncated
        recorded = list(recording)
    assert recorded[-1].totals.records == rest[-1]["totals"]["records"]  # type: ignore[index]
    assert {snapshot.settings.lateness_ms for snapshot in recorded} >= {10_000, 3_000}


def test_a_dead_jvm_is_one_line_and_exit_code_1(engine: "subprocess.Popen[str]") -> None:
    next(lines(engine.stdout))
    os.kill(jvm_of(engine.pid), signal.SIGKILL)
    out, error = engine.communicate(timeout=60)
    assert engine.returncode == 1
    assert error.count("\n") == 1
    assert "JVM" in error
    assert json.loads(out.splitlines()[-1])["state"] == "failed"


def jvm_of(pid: int) -> int:
    """The child of an engine that is a JVM."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    pids = [int(child) for file in children for child in file.read_text().split()]
    return next(child for child in pids if Path(f"/proc/{child}/comm").read_text().strip() == "java")
