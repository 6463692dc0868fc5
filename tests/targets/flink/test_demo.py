"""The demo's Flink: it starts, its job is seen, and nothing of it is left."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from wmtop.engine.feed import run_directory


@pytest.mark.matrix
def test_the_demo_runs_the_flights_through_flink_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, f"/tmp/wmtop-demo-{os.getpid()}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    command = [sys.executable, "-m", "wmtop.tui.cli", "demo", "--flink", "--headless", "--json"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    seen = None
    for line in demo.stdout:
        seen = json.loads(line)
        if seen["level"]["watermark_ms"] is not None:
            break
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=30)
    assert seen is not None
    assert seen["flink"]["name"] == "flights"
    assert len(seen["channels"]) > 10
    assert not list(tmp_path.glob("wmtop-flink-*"))


def test_without_maven_it_is_one_line(tmp_path: Path) -> None:
    cache, run = tmp_path / "cache", f"/tmp/wmtop-demo-{os.getpid()}"
    bare = {
        "PATH": str(tmp_path),
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(cache),
        run_directory.RUN_DIR_VARIABLE: run,
    }
    java = os.environ.get("JAVA_HOME") or str(Path("/usr/bin/java").resolve().parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "wmtop.tui.cli", "demo", "--flink", "--once"],
        capture_output=True, text=True, timeout=60, check=False, env={**bare, "JAVA_HOME": java},
    )  # fmt: skip
    assert done.returncode == 2
    assert "Maven" in done.stderr
    assert "Traceback" not in done.stderr
