"""Errors of Spark, Java or a task as one line for the user."""

import re
from collections.abc import Generator
from contextlib import contextmanager

from ..system.errors import RunError

_REASON = re.compile(r"(?:Caused by: |: )?(?:[\w$]+\.)*[A-Z]\w*(?:Error|Exception|Timeout): (?P<reason>.+)")


class SparkError(RunError):
    """Spark failed; the text is one line, to which the engine adds the place of Spark's log."""


@contextmanager
def spark_errors() -> Generator[None]:
    """Turn Spark's exceptions inside into a `SparkError`, while its JVM still has the text."""
    from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkError(reason_of(error)) from error


def reason_of(error: BaseException) -> str:
    """The innermost reason of an error, without Java's, Spark's or Python's decoration; else its first line."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an error of PySpark asks the JVM for its text, which may be gone
        text = ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reasons = [found["reason"] for found in map(_REASON.match, lines) if found]
    reasons = [reason for reason in reasons if not reason.startswith(("Job aborted", "Traceback"))]
    return next(iter([*reasons[-1:], *lines[:1]]), type(error).__name__)
