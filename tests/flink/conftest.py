"""The job's classes, compiled once; each test module starts the Flink that it needs."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from .flinks import Flink, compiled

StartFlink = Callable[..., Flink]


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


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
