"""One Spark session for the whole test run."""

import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No deadline: on a busy machine a property is slow, not wrong. The same examples are drawn each time, so that chance
# does not decide whether a change passes; `make test-all` draws fresh ones, `make quick` few, you by hand many.
hypothesis.settings.register_profile("wmtop", deadline=None, derandomize=True)
hypothesis.settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)
hypothesis.settings.register_profile("fresh", deadline=None, derandomize=False)
hypothesis.settings.register_profile("many", deadline=None, derandomize=False, max_examples=5_000)
hypothesis.settings.load_profile("wmtop")

QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Without the JVM's optimising compiler and parallel collector: for tests' small data they cost more than they save."""
QUICK_OPTIONS = [option for key, value in QUICK.items() for option in ("--conf", f"{key}={value}")]
"""The same for a command."""


def job_environment() -> dict[str, str]:
    """The environment of a PySpark job that is not ours: a Java and quick options for it, and where its workers are."""
    from wmtop.engine.run.session import java_options
    from wmtop.engine.system.java import find_java

    java = find_java()
    arguments = [f"--conf={key}={value} {java_options(java)}" for key, value in QUICK.items()]
    return {
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": shlex.join([*arguments, "pyspark-shell"]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


TOGETHER = {"kafka": "kafka", "targets/spark": "spark", "targets/flink": "flink", "targets/streams": "streams"}
"""Folders of which one worker has all tests: what these look at is expensive to create (jobs, a broker, a Flink)."""
FIRST = (*TOGETHER, "gallery", "run", "golden")
"""The folders whose tests take long, so that no worker is idle at the end."""


def pytest_configure(config: pytest.Config) -> None:
    meaning = "a further case of what another test proves; `make test` leaves it out, `make test-all` runs it"
    config.addinivalue_line("markers", f"matrix: {meaning}")
    config.addinivalue_line("markers", "hours: simulates hours of a stream; `make quick` leaves it out")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Decide which tests share a worker, and which begin."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=lambda item: FIRST.index(folder) if (folder := _folder(item)) in FIRST else len(FIRST))


def _group(item: pytest.Item) -> str:
    """The tests that one worker has; one Spark session serves most of those that need one."""
    folder = _folder(item)
    if folder == "run" and isinstance(item, pytest.Function) and "spark" in item.fixturenames:
        return "spark"
    if folder == "golden" and isinstance(item, pytest.Function):
        return f"golden {item.originalname}"  # by kind of input
    return TOGETHER.get(folder, item.path.name)


def _folder(item: pytest.Item) -> str:
    """The folder of `tests` that a test is in; of the targets that of the kind."""
    parts = item.path.relative_to(Path(__file__).parent).parts
    return "/".join(parts[: 2 if parts[0] == "targets" else 1])


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests() -> Iterator[None]:
    """What a test declares a secret is a word to the next one."""
    from wmtop.engine.system import errors

    known = set(errors._kept)
    yield
    errors._kept.intersection_update(known)


@pytest.fixture(autouse=True, scope="session")
def _no_command_ends_this_process() -> None:
    """`main` leaves at once where a thread still waits for a store: here that may be one of an earlier test."""
    vars(import_module("wmtop.tui.cli.main"))["_leave"] = sys.exit


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """A real session on two cores; nothing is started when no test asks for it."""
    from wmtop.engine.run.session import build_session, java_options, stop_session
    from wmtop.engine.system.java import find_java

    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    conf = {key: f"{value} {java_options(find_java())}" for key, value in QUICK.items()}
    session = build_session(master="local[2]", app_name="tests", conf=conf, log=log, archive=False)
    yield session
    stop_session(session)
