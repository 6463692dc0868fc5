"""One Spark session for the whole test run."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """A real session on two cores; nothing is started when no test asks for it."""
    from wmtop.engine.pipeline.session import build_session, stop_session

    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    session = build_session(master="local[2]", app_name="tests", log=log, archive=False)
    yield session
    stop_session(session)
