"""One Spark session for the whole test run."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No deadline: on a busy machine a property is slow, not wrong. The same examples are drawn each time, so that chance
# does not decide whether a change passes; WMTOP_TEST_RANDOM=1 draws new ones.
hypothesis.settings.register_profile("wmtop", deadline=None, derandomize="WMTOP_TEST_RANDOM" not in os.environ)
hypothesis.settings.load_profile("wmtop")

QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""Without the JVM's optimising compiler: for tests' small data it costs more than it saves."""
QUICK_OPTIONS = [option for key, value in QUICK.items() for option in ("--conf", f"{key}={value}")]
"""The same for a command."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two workers share the files; what the taps look at is dear to make, so one of them has all of those."""
    for item in items:
        taps = "/taps/" in item.path.as_posix()
        item.add_marker(pytest.mark.xdist_group("taps" if taps else item.path.name))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """A real session on two cores; nothing is started when no test asks for it."""
    from wmtop.engine.pipeline.session import build_session, stop_session

    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    session = build_session(master="local[2]", app_name="tests", conf=QUICK, log=log, archive=False)
    yield session
    stop_session(session)
