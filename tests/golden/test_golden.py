"""What the commands print today, case by case, against `expected/`: refactoring must not change a number of it.

The inputs are frozen in `inputs/` (how they were made: `harvest.py`), so that neither Spark nor Flink is needed; the
clock is that of the input. `GOLDEN=update pytest tests/golden` writes `expected/` again: read the diff, and say in the
commit what it changes and why. The JSON of the command line is compared, nothing of the modules behind it.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .golden import INPUTS, Driver, compare, unpack

HOUR = 3_600_000
JOBS: dict[str, dict[str, object]] = json.loads((INPUTS / "gallery.json").read_text())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with all inputs."""
    place = tmp_path_factory.mktemp("golden")
    unpack(INPUTS / "gallery.tar.xz", place)
    return place


@pytest.fixture(scope="module")
def driver(place: Path) -> Iterator[Driver]:
    with Driver(place) as driver:
        yield driver


@pytest.mark.parametrize("job", JOBS)
def test_gallery_job_by_its_checkpoint(driver: Driver, place: Path, job: str) -> None:
    now_ms, target = int(str(JOBS[job]["now_ms"])), place / job / "checkpoint"
    seen = {
        "attach": driver.wmtop("attach", target, "--once", "--json", now_ms=now_ms),
        "check": driver.wmtop("check", target, "--json", now_ms=now_ms),
        "check later": driver.wmtop("check", target, "--json", now_ms=now_ms + 2 * HOUR),
    }
    compare("checkpoints", job, seen)


@pytest.mark.parametrize("job", JOBS)
def test_gallery_job_by_the_event_log(driver: Driver, place: Path, job: str) -> None:
    now_ms, query, target = int(str(JOBS[job]["now_ms"])), JOBS[job]["query"], place / job / "log"
    seen = {
        "attach": driver.wmtop("attach", target, "--query", query, "--once", "--json", now_ms=now_ms),
        "check": driver.wmtop("check", target, "--query", query, "--json", now_ms=now_ms),
    }
    compare("event_logs", job, seen)
