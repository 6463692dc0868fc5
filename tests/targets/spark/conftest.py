from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .jobs import Seen
    from .written import Written


@pytest.fixture(scope="session")
def written(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> "dict[str, Written]":
    """Checkpoints of real queries, by what is special about them; to be copied before anything is changed."""
    from .written import write_all

    return write_all(spark, tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="session")
def seen(tmp_path_factory: pytest.TempPathFactory) -> "dict[str, Seen]":
    """What the taps saw of two jobs of another process, by the kind of their event log."""
    from .jobs import start_job, watch_plain, watch_rolled

    plain = start_job(tmp_path_factory.mktemp("plain"), "plain")
    rolled = start_job(tmp_path_factory.mktemp("rolled"), "rolled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WMTOP_RUN_DIR", str(rolled.run_dir))
        try:
            return {"rolled": watch_rolled(rolled), "plain": watch_plain(plain)}
        finally:
            for job in (plain, rolled):
                job.process.kill()
                job.process.wait()
