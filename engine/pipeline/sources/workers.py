"""Spark's Python workers, started before they are needed."""

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_workers(spark: "SparkSession") -> None:
    """Start a worker for each core in the background, while Spark plans, so that the first batch finds them running."""
    threading.Thread(target=_run_in_all, args=(spark,), name="wmtop-workers", daemon=True).start()


def _run_in_all(spark: "SparkSession") -> None:
    cores = spark.sparkContext.defaultParallelism
    with contextlib.suppress(Exception):  # a worker that cannot start fails again when it is needed
        spark.sparkContext.parallelize(range(cores), cores).mapPartitions(_import_sources).collect()


def _import_sources(rows: Iterable[Any]) -> Iterator[Any]:
    from .. import columnar  # noqa: F401 # pyright: ignore[reportUnusedImport]
    from . import rate, staged  # noqa: F401 # pyright: ignore[reportUnusedImport]

    yield from rows
