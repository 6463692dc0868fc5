"""What the commands print today, case by case, against `expected/`: refactoring must not change a number of it.

The inputs are frozen in `inputs/` (how they were made: `harvest.py`, `harvest_flink.py`), so that neither Spark nor
Flink is needed; the clock is that of the input. `GOLDEN=update pytest tests/golden` writes `expected/` again: read the
diff, and say in the commit what it changes and why. The JSON of the command line is compared; of the modules behind it
only `follow` in `driver.py` (a watch, poll by poll) and the streams of `test_streams.py` know anything.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .golden import INPUTS, Driver, compare, unpack

HOUR = 3_600_000
JOBS: dict[str, dict[str, object]] = json.loads((INPUTS / "gallery.json").read_text())
FLINK_JOBS = ("aligned", "bare", "busy", "finite", "keeper", "lagging", "orders", "stuck", "twins")
"""Recorded jobs of `tests/targets/flink`: `bare` is cancelled, `finite` ends, the JobManager of `keeper` dies."""
POLLS = (0, 15, 75)
RECORDINGS = sorted((INPUTS.parents[1] / "doctor").glob("*.rec"))
ASK_MS = 1_800_000_000_000
"""When recordings are looked at: of no importance to what they hold."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with all inputs."""
    place = tmp_path_factory.mktemp("inputs")
    unpack(place)
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


def first_answer_ms(answers: Path) -> int:
    """When a recording of REST answers begins (epoch ms)."""
    with answers.open() as lines:
        return json.loads(next(lines))["at_ms"]


@pytest.mark.parametrize("job", FLINK_JOBS)
def test_flink_job_by_its_rest_answers(driver: Driver, place: Path, job: str) -> None:
    answers = place / "flink" / f"{job}.jsonl"
    times = [json.loads(line)["at_ms"] for line in answers.read_text().splitlines()]

    def wmtop(command: str, *arguments: object, now_ms: int = times[0]) -> dict[str, object]:
        return driver.wmtop(
            command, f"flink://jobmanager:8081/{job}", *arguments, now_ms=now_ms, answers=str(answers)
        )  # fmt: skip

    seen = {
        "follow": wmtop("follow", *POLLS),
        "attach": wmtop("attach", "--once", "--json"),
        "attach later": wmtop("attach", "--once", "--json", now_ms=times[-1]),
        "check": wmtop("check", "--json", "--for", "100s"),
        "check later": wmtop("check", "--json", "--for", "8s", now_ms=times[-1]),
        "advise": wmtop("advise", "--json"),
    }
    compare("flink", job, seen)


@pytest.mark.parametrize("wanted", ["", "/no-such-job"])
def test_several_flink_jobs_are_listed(driver: Driver, place: Path, wanted: str) -> None:
    answers = place / "flink" / "stuck.jsonl"
    now_ms = json.loads(answers.read_text().splitlines()[0])["at_ms"]
    target = f"flink://jobmanager:8081{wanted}"
    seen = driver.wmtop("attach", target, "--once", "--json", now_ms=now_ms, answers=str(answers))
    compare("flink", "listed" + wanted.replace("/", "_"), seen)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recording(driver: Driver, path: Path) -> None:
    [*times] = (frame["now_ms"] for frame in driver.wmtop("replay", path, "--json", now_ms=ASK_MS)["json"])
    seen: dict[str, object] = {"times": times}
    for at in times[:: len(times) // 4]:
        seen[f"replay {at}"] = driver.wmtop("replay", path, "--once", "--json", "--at", at, now_ms=ASK_MS)
        seen[f"check {at}"] = driver.wmtop("check", path, "--json", "--at", at, now_ms=ASK_MS)
    for command in (["check"], ["advise"], ["preview", "--lateness", "2h"], ["preview", "--idle-after", "30m"]):
        seen[" ".join(command)] = driver.wmtop(command[0], path, *command[1:], "--json", now_ms=ASK_MS)
    compare("recordings", path.stem, seen)
