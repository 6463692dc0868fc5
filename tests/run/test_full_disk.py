"""A disk that fills while a real engine runs: one line names the file, and the state from before can be resumed."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from wmtop.engine.feed import run_directory

from ..conftest import QUICK_OPTIONS

WITHIN_S = 180


@pytest.mark.matrix
def test_a_disk_that_fills_in_the_middle_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit on the size of the engine's files stands in for the disk; it has no effect on its JVM."""
    monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, str(Path("/tmp", f"wmtop-test-{os.getpid()}")))
    arguments = "run rate --channels 20 --rows-per-second 2000 --json --name full --lateness 1s --state-dir"
    process = subprocess.Popen(
        [sys.executable, "-m", "wmtop.tui.cli", *arguments.split(), str(tmp_path / "state"), *QUICK_OPTIONS],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    state = tmp_path / "state" / "state.json"

    def batch() -> int:
        return json.loads(state.read_bytes())["monitor"]["batch"] or 0

    try:
        deadline = time.monotonic() + WITHIN_S
        while not (state.exists() and batch() >= 3):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100, 100))
        said = process.communicate(timeout=WITHIN_S)[1].splitlines()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    errors = [line for line in said if line.startswith("wmtop: ")]
    assert process.returncode == 1, said
    assert str(tmp_path / "state") in errors[-1]
    assert "free" in errors[-1]
    assert not any("Traceback" in line for line in said)
    assert batch() >= 3  # whole: what was there before is
