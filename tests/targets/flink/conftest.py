"""The job's classes, compiled once, and one Flink with the jobs that most tests look at."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from .flinks import Flink, compiled

StartFlink = Callable[..., Flink]
JOBS: dict[str, dict[str, object]] = {
    "keeper": {"sources": "keep"},
    "stuck": {},
    "aligned": {"sources": "al", "align": 5_000, "parallelism": 2},
    "finite": {"sources": "fin", "ends": 1},
    "orders": {"sources": "ord"},
    "lagging": {"sources": "lag", "splits": 3, "parallelism": 2, "idle": 4_000},
    "twins": {"sources": "left,right", "parallelism": 2, "chain": 1},
    "busy": {"sources": "slow", "parallelism": 2, "busy": 100},
    "back": {"sources": "back", "parallelism": 2, "idle": 3_000},
    "below": {"sources": "below", "idle": 3_000},
    "counted": {"sources": "count", "count": 2},
    "early": {"sources": "early", "parallelism": 2, "ends": 1, "idle": 3_000},
    "halves": {"sources": "past,now", "ends": 1},
    "plain": {"sources": "plain", "parallelism": 2, "idle": 3_000, "plain": 1},
    "spread": {"sources": "spread", "parallelism": 2, "idle": 3_000, "plain": 1, "rescale": 4},
    "gathered": {"sources": "gather", "splits": 4, "parallelism": 4, "idle": 3_000, "plain": 1, "rescale": 2},
    "named": {"sources": "named", "splits": 1, "no-watermarks": 1, "assign": 1},
    "ending": {"sources": "end"},
    "spare": {"sources": "spare", "splits": 1, "parallelism": 2},
    "poisoned": {"sources": "poison", "splits": 1},
    "loose": {"sources": "loose", "splits": 1, "no-watermarks": 1, "plain": 1},
    "bare": {"sources": "bare", "splits": 1, "no-watermarks": 1},
}
"""The jobs of the shared Flink, with their options (those of `FilesJob.main`)."""


@pytest.fixture(scope="session")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compiled(tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="module")
def start_flink(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartFlink]:
    """Starts a real Flink with a job; `start_flink(splits=3, parallelism=2)`."""
    numbers = count()
    with ExitStack() as stack:

        def start(**options: object) -> Flink:
            directory: Path = tmp_path_factory.mktemp(f"flink-{next(numbers)}")
            flink = stack.enter_context(Flink(class_path, directory, free_port(), **options))
            flink.wait_for("RUNNING")
            return flink

        yield start


@pytest.fixture(scope="session")
def flink(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    """One JobManager with all the jobs of JOBS; the last test of `test_situations` kills it."""
    options = {f"{key}-{name}": value for name, own in JOBS.items() for key, value in own.items()}
    directory = tmp_path_factory.mktemp("flink")
    options |= {"names": ",".join(JOBS), "splits": 2, "parallelism": 1, "slots": 36}
    with Flink(class_path, directory, free_port(), **options) as flink:
        for name in JOBS:
            flink.wait_for("RUNNING", name)
        yield flink


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
