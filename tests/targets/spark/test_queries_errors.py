"""Why a query failed, in the words of the error itself: a screen of 80 columns has no room for what announces it."""

import pytest
from wmtop.engine.targets.spark.facts import QueryStarted, QueryTerminated
from wmtop.engine.targets.spark.queries import Queries

WORKER = "org.apache.spark.api.python.PythonException: "
THROWN = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: "
PROXY = "py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: "
FOREACH = (
    "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. "
    "Reason: An exception was raised by the Python Proxy. Return Message: "
)
TRACE = 'Traceback (most recent call last):\n  File "job.py", line 3\n'
TASK = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, "
    "most recent failure: Lost task 0.0 in stage 3.0 (TID 6) (vm executor driver): "
)


AWAIT = "org.apache.spark.SparkException: Exception thrown in awaitResult: "


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"{WORKER}{THROWN}ValueError: no key", "ValueError: no key"),
        (f"{WORKER}{TRACE}ValueError: no key\n\n", "ValueError: no key"),
        (f"{TASK}{WORKER}{TRACE}ValueError: no key\n", "ValueError: no key"),
        (f"{PROXY}{TRACE}OSError: full", "OSError: full"),
        (f"{FOREACH}{TRACE}OSError: full\n SQLSTATE: 39000", "OSError: full"),
        ("org.apache.spark.sql.AnalysisException: [UNRESOLVED] no column", "AnalysisException: [UNRESOLVED] no column"),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat Foo", "OutOfMemoryError: Java heap space"),
        (
            f"{AWAIT}\n\tat Foo\nCaused by: a.b.CommitFailed: [COMMIT] batch 0\nExpected 1\n",
            "CommitFailed: [COMMIT] batch 0",
        ),
        (f"{AWAIT}\nCaused by: {TASK}{WORKER}{TRACE}ValueError: no key\n\nCaused by: {AWAIT}\n", "ValueError: no key"),
        (AWAIT, "SparkException: Exception thrown in awaitResult:"),
        (WORKER, "PythonException:"),
        ("", ""),
    ],
)
def test_the_error_itself_comes_first(said: str, shown: str) -> None:
    queries = Queries()
    queries.apply(QueryStarted("id", "run", "name", "2026-01-01T00:00:00.000Z"))
    queries.apply(QueryTerminated("id", "run", said))
    [run] = queries.facts()
    assert run.error == shown
