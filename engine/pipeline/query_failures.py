"""The consequence of a Spark query's failure: another start after a pause, or the end of the run, in one line."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from .sources.capabilities import Retries
from .spark_error import SparkError, reason_of


class QueryFailures:
    """The failures of one query since its last batch, and when it starts again."""

    def __init__(
        self, retries: Retries | None, checkpoint: Path, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._retries = retries
        self._checkpoint = checkpoint
        self._clock_s = clock_s
        self.read_error: BaseException | None = None
        """The error that kept the last batch from being read: its source may say that a retry helps."""
        self._count = 0
        self._retry_at: float | None = None

    def batch_applied(self) -> None:
        """Reset: the next failure counts as the first."""
        self._count = 0

    def is_restart_due(self, error: BaseException) -> bool:
        """Whether the query that ended with `error` starts again now; SparkError if it has failed for good."""
        if self._retry_at is None:
            self._count += 1
            why = reason_of(self.read_error or error)
            wait_s = None if self._retries is None else self._retries.retry_after_s(self._count, why)
            if wait_s is None:
                raise SparkError(self._with_advice(why))
            self._retry_at = self._clock_s() + wait_s
        if self._clock_s() < self._retry_at:
            return False
        self._retry_at = self.read_error = None
        return True

    def _with_advice(self, why: str) -> str:
        """Spark's message about a full disk, which names no file, with the directory and the fix."""
        if os.strerror(errno.ENOSPC) not in why:
            return why
        return (
            f"Spark cannot write in {self._checkpoint} or its local directory: {why}; free some space and run "
            "the same command again: with --state-dir it continues after the last saved batch"
        )
