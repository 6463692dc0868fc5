from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .written import Written


@pytest.fixture(scope="session")
def written(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> "dict[str, Written]":
    """Checkpoints of real queries, by what is special about them; to be copied before anything is changed."""
    from .written import write_all

    return write_all(spark, tmp_path_factory.mktemp("checkpoints"))
