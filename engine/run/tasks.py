"""Wmtop's Python in Spark's tasks: sent to the executors, checked there, and called with Arrow columns.

`_look` runs in Spark's workers, where only Python may be installed: this module imports little.
"""

import importlib
import os
import platform
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..system.errors import UsageError
from .jvm import reason_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from ..system.files import PrivateDirectory

LIBRARIES = ("msgspec", "numpy", "pyarrow")
"""The libraries that the executors' Python must have besides wmtop's own code."""
SAY_AFTER_S = 15.0
"""Wait (s) for the first executor before a line about it."""
_POLL_S = 0.5

Answer = tuple[str, list[str], list[str]]
"""One task's host, the modules it cannot import, and the paths it does not see."""


class TaskNeeds(NamedTuple):
    """What the tasks of a run need on their machines."""

    modules: tuple[str, ...] = ()
    """The modules of wmtop that they import."""
    paths: tuple[Path, ...] = ()
    """Paths that they read or write and that this process reads or writes, too."""


def is_local_master(master: str) -> bool:
    """Whether a master URL names threads of the driver (`local`, `local[2]`), not a cluster (`local-cluster[…]`): then
    the workers run on this machine, with its installed packages.
    """
    return master.partition("[")[0] == "local"


def local_uri(path: Path) -> str:
    """The URI of a path on this machine: a cluster's Spark may take a plain path for another file system."""
    return f"file://{path.absolute()}"


def prepare_executors(spark: "SparkSession", needs: TaskNeeds, say: Callable[[str], None]) -> None:
    """Wait for an executor, send wmtop's Python to it, and check that tasks find what they need; UsageError otherwise.

    `say` gets a line if no executor comes for a while.
    """
    _wait_for_executors(spark, say)
    if needs == TaskNeeds():
        return
    for host, _, unseen in _answers(spark, needs):
        if unseen:
            raise UsageError(
                f"the executor at {host} does not see {unseen[0]}: use a directory that all machines share "
                "and the executors' user may open (of a replay: --state-dir), or --master local[*]"
            )


def _wait_for_executors(spark: "SparkSession", say: Callable[[str], None]) -> None:
    context: Any = spark.sparkContext
    began, reported = time.monotonic(), False
    while len(context._jsc.sc().statusTracker().getExecutorInfos()) < 2:  # includes the driver
        if not reported and time.monotonic() - began > SAY_AFTER_S:
            reported = True
            say(
                f"{context.master} has started no executor for {SAY_AFTER_S:g}s: it may be busy, or its workers have "
                "less memory than --conf spark.executor.memory=… asks for (1g); still waiting"
            )
        time.sleep(_POLL_S)


@cache
def _directory() -> "PrivateDirectory":
    """A directory that is removed when the process ends."""
    from ..system.files import PrivateDirectory  # not in the workers, before their libraries are checked

    return PrivateDirectory("wmtop-package-")


def _answers(spark: "SparkSession", needs: TaskNeeds) -> list["Answer"]:
    """The executors' answers; UsageError about the first that cannot run wmtop's Python."""
    context = spark.sparkContext
    version = ".".join(platform.python_version_tuple()[:2])
    advice = (
        f"set PYSPARK_PYTHON to a Python {version} with {', '.join(LIBRARIES)}, at the same path on every machine, "
        "this one included"
    )
    try:
        package = str(write_package(_directory().path / "wmtop.zip"))
        context.addPyFile(package)
        # Spark plans a stream in a Python process of the driver's machine, which ignores added files.
        context.environment["PYTHONPATH"] = package
        answers = _ask_workers(spark, needs)
    except Exception as error:  # whatever keeps a task from running is the answer
        raise UsageError(f"the executors cannot run wmtop's Python ({reason_of(error)}): {advice}") from error
    for host, missing, _ in answers:
        if missing:
            raise UsageError(f"the Python of the executor at {host} has no {' and no '.join(missing)}: {advice}")
    return answers


def write_package(target: Path) -> Path:
    """The Python files of `wmtop.engine`, which is all that tasks import, as a zip."""
    root = Path(__file__).parents[1]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("wmtop/__init__.py", "")
        for path in sorted(root.rglob("*.py")):
            file.write(path, Path("wmtop", "engine", path.relative_to(root)))
    return target


def start_workers(spark: "SparkSession", needs: TaskNeeds) -> None:
    """Start a worker for each core with its modules, in the background, so that the first batch finds them running."""

    def start() -> None:
        with suppress(Exception):  # a worker that cannot start fails again when it is needed
            _ask_workers(spark, needs)

    threading.Thread(target=start, name="wmtop-workers", daemon=True).start()


def _ask_workers(spark: "SparkSession", needs: TaskNeeds) -> list["Answer"]:
    """The answer of a task for each core."""
    cores = max(spark.sparkContext.defaultParallelism, 1)
    look = partial(_look, needs.modules, [str(path.absolute()) for path in needs.paths])
    return spark.sparkContext.parallelize(range(cores), cores).map(look).collect()


def _look(modules: Sequence[str], paths: Sequence[str], _number: int) -> Answer:
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if not missing:
        for module in modules:
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                missing.append(str(error.name))
    host = os.environ.get("SPARK_EXECUTOR_HOST") or platform.node()
    return host, list(dict.fromkeys(missing)), [path for path in paths if not os.path.exists(path)]


def map_in_arrow(
    rows: "DataFrame",
    task: "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]",
    schema: "StructType | str",
) -> "DataFrame":
    """What a task makes of the rows of each partition, in columns of that schema; without pandas."""
    from pyspark.sql import DataFrame
    from pyspark.util import PythonEvalType

    column = _call(rows, task, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    plan: Any = rows
    return DataFrame(plan._jdf.mapInArrow(column._jc, False, None), rows.sparkSession)


def apply_in_arrow(
    rows: "DataFrame", key: str, task: "Callable[[pa.Table], pa.Table]", schema: "StructType | str"
) -> "DataFrame":
    """What a task makes of the rows of each group with the same `key`, in columns of that schema; without pandas."""
    from pyspark.sql import DataFrame
    from pyspark.util import PythonEvalType

    column = _call(rows, task, schema, PythonEvalType.SQL_GROUPED_MAP_ARROW_UDF)
    groups: Any = rows.groupBy(key)
    return DataFrame(groups._jgd.flatMapGroupsInArrow(column._jc), rows.sparkSession)


def _call(rows: "DataFrame", task: Callable[[Any], Any], schema: "StructType | str", kind: Any) -> Any:
    """The call of the task, with all columns of the rows."""
    from pyspark.sql.udf import UserDefinedFunction

    function = UserDefinedFunction(task, returnType=schema, evalType=kind)
    return function(*[rows[name] for name in rows.columns])
