"""Runs the gallery once for all its tests, in a process of its own.

`GALLERY=all` runs every job instead of the quick third; `GALLERY_PYTHON` is the interpreter whose PySpark runs them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from wmtop.engine.feed.run_directory import RUN_DIR_VARIABLE

from ..conftest import job_environment
from .jobs import JOBS

QUICK = (
    "tumbling_late", "tumbling_complete", "session_append", "join_min", "join_max", "join_empty_input",
    "chained_second_watermark", "watermark_overwritten", "filter_empties_an_input", "no_watermark",
    "restart_longer_delay", "failed_query", "failed_in_its_first_batch", "failed_sibling", "rerun_without_data",
    "windows_of_a_join", "totals_update", "rocksdb", "self_join_with_two_delays", "join_restarted_with_another_delay",
    "event_time_inside_json", "restart_with_older_rows", "late_rows_of_one_key",
    "stateless_watermark", "union_without_state",
)  # fmt: skip
"""What the suite runs; the others are variations of these."""
MATRIX = (
    "tumbling_complete", "join_max", "watermark_overwritten", "failed_sibling", "totals_update", "rocksdb",
    "join_restarted_with_another_delay", "event_time_inside_json", "self_join_with_two_delays", "windows_of_a_join",
    "rerun_without_data", "stateless_watermark",
)  # fmt: skip
"""Those of them that `make test-all` adds."""
PUBLISHED = (
    "tumbling_late", "failed_in_its_first_batch", "join_min", "filter_behind_the_watermark", "session_append",
    "rerun_without_data", "no_watermark",
)  # fmt: skip
"""The same of the jobs that publish, all of them in `make test-all` only: `tests/targets/spark` has a published job."""
PATIENCE_S = 900
_ROOT = Path(__file__).parents[2]


@dataclass
class Gallery:
    """The jobs that ran, their truths, and where their checkpoints and their one event log are."""

    directory: Path
    truths: dict[str, dict[str, Any]]

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def checkpoint(self, job: str) -> Path:
        return self.directory / job / "checkpoint"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        job = item.callspec.params.get("job") if hasattr(item, "callspec") else None
        if "published" in item.fixturenames or ("gallery" in item.fixturenames and job in MATRIX):
            item.add_marker(pytest.mark.matrix)


@pytest.fixture(scope="session")
def gallery(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    """The gallery after all its jobs have ended."""
    return _run(tmp_path_factory.mktemp("gallery"), "jobs", _names(request, "gallery", QUICK))


@pytest.fixture(scope="session")
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    """The same of jobs that publish their queries and tap their inputs."""
    names = _names(request, "published", PUBLISHED)
    return _run(tmp_path_factory.mktemp("published"), "published_jobs", names)


def _names(request: pytest.FixtureRequest, fixture: str, quick: Sequence[str]) -> Sequence[str]:
    """The jobs that the selected tests (`-k`) are about; without `GALLERY=all` the quick ones of them."""
    asked = {
        item.callspec.params["job"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and fixture in item.fixturenames and hasattr(item, "callspec")
    }
    return [job for job in JOBS if job in asked and (job in quick or os.environ.get("GALLERY") == "all")] or quick


def _run(directory: Path, script: str, names: Sequence[str]) -> Gallery:
    python = os.environ.get("GALLERY_PYTHON", sys.executable)
    environment = os.environ | job_environment() | {"PYSPARK_PYTHON": python, RUN_DIR_VARIABLE: str(directory / "run")}
    environment.pop("PYTHONSAFEPATH", None)  # an engine that ran in this process has set it; `-m` needs the directory
    command = [python, "-m", f"tests.gallery.{script}", directory, *names]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment, cwd=_ROOT, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    truths = {truth["job"]: truth for truth in map(json.loads, done.stdout.splitlines())}
    assert truths
    return Gallery(directory, truths)
