"""A user's own generator (`module:factory`): loaded, checked, and sent to Spark's workers."""

import os
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.watermarks import load_factory
from ..errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_custom(factory: str) -> None:
    """Make one generator and check that it has both entry points and can be pickled; UsageError otherwise."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # where a user's own module is
    try:
        generator = load_factory(factory)()
        pickle.loads(pickle.dumps(generator))
    except Exception as error:
        raise UsageError(
            f"--strategy {factory}: {type(error).__name__}: {error}; it must return a picklable object"
        ) from None
    for method in ("on_event", "on_periodic_emit"):
        if not callable(getattr(generator, method, None)):
            raise UsageError(f"--strategy {factory}: its result has no method {method}(…); see the README")


def ship_custom(spark: "SparkSession", factory: str) -> None:
    """Send the factory's module to the workers if it is in the current directory, where they do not look."""
    file = sys.modules[factory.partition(":")[0]].__file__
    if file is not None and Path(file).parent == Path.cwd():
        spark.sparkContext.addPyFile(file)
