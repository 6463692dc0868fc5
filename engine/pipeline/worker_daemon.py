"""Spark's daemon of Python workers, with what every worker imports: once, before it forks them.

Spark runs it as `python -m wmtop.engine.pipeline.worker_daemon WORKER_MODULE` (`spark.python.daemon.module`).
"""

import gc
import importlib
import runpy
import sys

if __name__ == "__main__":
    if sys.argv[1:] == ["pyspark.worker"]:  # the others plan data sources
        from . import columnar  # noqa: F401 # pyright: ignore[reportUnusedImport]
        from .sources import staged  # noqa: F401 # pyright: ignore[reportUnusedImport]
    importlib.import_module(sys.argv[1])
    gc.freeze()  # the workers share these pages as long as the collector does not touch them
    runpy.run_module("pyspark.daemon", run_name="__main__")
