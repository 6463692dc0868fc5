"""`kill -9` of driver and JVM at any moment, the same command again: as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from wmtop.engine.feed.recording_reader import RecordingReader

from ..conftest import QUICK_OPTIONS

BATCHES = 12
ROWS_A_BATCH = 100
MAX_COUNTERS = 40
"""What only the windows of the fifth batch exceed."""
SEED = int(os.environ.get("WMTOP_TEST_SEED", "7"))
"""Of the moments of the kills; another one explores others."""
Outcome = tuple[dict[str, object], list[object]]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return records(tmp_path_factory.mktemp("recovery") / "records.parquet")


def records(path: Path) -> Path:
    """A file with the records of the run."""
    r = random.Random(11)
    rows = BATCHES * ROWS_A_BATCH - 7
    arrivals = sorted(r.randrange(0, 3_600_000) for _ in range(rows))
    times = [None if r.random() < 0.01 else a - int(r.expovariate(1 / 200_000)) for a in arrivals]
    channels = [r.choice("abcde") for _ in range(rows)]
    pq.write_table(pa.table({"t": times, "a": arrivals, "c": channels, "number": range(rows)}), path)
    return path


def command(file: Path, directory: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "wmtop.tui.cli", "run", "replay", str(file)),
        *("--time", "t", "--arrival", "a", "--time-unit", "ms"),
        *("--channel", "c", "--batch-rows", str(ROWS_A_BATCH), "--lateness", "5m", "--idle-after", "2m"),
        *("--window", "10m", "--slide", "3m", "--allowed-lateness", "1m", "--once", "--json", *QUICK_OPTIONS),
        *("--state-dir", str(directory / "state"), "--firings", str(directory / "firings.ndjson")),
        *("--record", str(directory / "run.rec"), "--late-output", str(directory / "late")),
        *("--explain", "c,number"),
    ]


@pytest.fixture(scope="module")
def expected(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """What a run says that nobody disturbs."""
    return finish(file, tmp_path_factory.mktemp("undisturbed"))


def finish(file: Path, directory: Path) -> Outcome:
    """Run to the end; the last snapshot's results, and the firings."""
    done = subprocess.run(command(file, directory), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return outcome(done.stdout, directory)


def outcome(printed: str, directory: Path) -> Outcome:
    """What a run that ended has printed and written."""
    snapshot = json.loads(printed)
    names = ("batch", "now_ms", "ended", "level", "totals", "windows", "whatif", "whatif_idle", "explain")
    results = {name: snapshot[name] for name in names}
    results["channels"] = [{k: v for k, v in channel.items() if k != "rate"} for channel in snapshot["channels"]]
    lines = [json.loads(line) for line in (directory / "firings.ndjson").read_text().splitlines()]
    late = sorted(pq.read_table(directory / "late").to_pylist(), key=lambda row: row["number"])
    assert len(late) == len({row["number"] for row in late}) == snapshot["totals"]["late"]
    return results, [*lines, *late]


def kill_when(file: Path, directory: Path, batch: int, delay_s: float) -> None:
    """Start the run and kill its whole process group `delay_s` after it has applied `batch`."""
    process = subprocess.Popen(
        command(file, directory), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        while applied(directory) < batch:
            assert process.poll() is None, process.communicate()[1].decode()
            time.sleep(0.005)
        time.sleep(delay_s)
        assert process.poll() is None, "it ended before the kill"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def applied(directory: Path) -> int:
    """The last batch in the saved state; -1 before the first."""
    try:
        batch = json.loads((directory / "state" / "state.json").read_bytes())["monitor"]["batch"]
    except FileNotFoundError:
        return -1
    return -1 if batch is None else int(batch)


def test_killed_it_ends_as_if_undisturbed(file: Path, expected: Outcome, tmp_path: Path) -> None:
    r = random.Random(SEED)
    kill_when(file, tmp_path, r.randrange(BATCHES - 2), r.uniform(0, 0.4))
    assert finish(file, tmp_path) == expected
    assert expected[0]["totals"]["late"] > 0  # type: ignore[index]
    with RecordingReader(tmp_path / "run.rec") as recording:  # its own, continued without --force
        batches = [snapshot.batch for snapshot in recording]
    assert set(batches) >= {0, BATCHES - 1}


@pytest.mark.matrix
def test_whatever_ends_it_it_ends_as_if_undisturbed(file: Path, expected: Outcome, tmp_path: Path) -> None:
    """Killed at a random moment, failed with too many windows, killed again, and started again after its end."""
    r = random.Random(SEED)
    kill_when(file, tmp_path, r.randrange(2), r.uniform(0, 0.2))
    lower = (
        f"from wmtop.engine.watermarks import windows; windows.MAX_COUNTERS = {MAX_COUNTERS}; "
        "from wmtop.tui.cli.main import main; main()"
    )
    python, _, _, *arguments = command(file, tmp_path)
    failed = subprocess.run([python, "-c", lower, *arguments], capture_output=True, text=True, timeout=900)
    assert failed.returncode == 1, failed.stderr
    error = failed.stderr.splitlines()[-1]
    assert all(option in error for option in ("--window", "--slide", "--max-channels", "--lateness"))
    assert "Traceback" not in failed.stderr
    reached = applied(tmp_path)
    assert reached == 3
    kill_when(file, tmp_path, r.randrange(reached + 1, BATCHES - 2), r.uniform(0, 0.4))
    assert finish(file, tmp_path) == expected
    assert finish(file, tmp_path) == expected  # an engine that had ended says the same again
