"""Calls that wait for the JVM, on a thread of their own or not at all: a hung JVM must not stop the main loop."""

import subprocess
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from ..snapshot import SparkProgress

SILENT_AFTER_S = 10.0
"""Longest wait (s) for the JVM before the run is shown as stale."""
ANSWERS_WITHIN_S = 5.0
"""Longest time (s) that a stopping JVM may leave a question unanswered before it is killed."""
STOPS_WITHIN_S = 30.0
"""Longest time (s) that an answering JVM may take to stop before it is killed."""


class JvmWatch:
    """Calls `begin` once, then `beat` every `every_s` until that returns False, on a thread of its own.

    `error` is what either raised. The caller reads `silent_s`, `done` and `error`; it never waits.
    """

    def __init__(self, begin: Callable[[], None], beat: Callable[[], bool], every_s: float) -> None:
        self.began = False
        """Whether `begin` has returned."""
        self.done = False
        """Whether `beat` has returned False."""
        self.error: Exception | None = None
        self._begin = begin
        self._beat = beat
        self._every_s = every_s
        self._calling_since: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wmtop-jvm-watch", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float = 0.5) -> None:
        """Make no more calls; waits at most `timeout_s` for the present one."""
        self._stopping.set()
        self._thread.join(timeout_s)

    @property
    def silent_s(self) -> float:
        """How long (s) the present `beat` has been waiting."""
        since = self._calling_since
        return 0.0 if since is None else time.monotonic() - since

    def _run(self) -> None:
        try:
            self._begin()
            self.began = True
            while not self._stopping.wait(self._every_s):
                self._calling_since = time.monotonic()
                again = self._beat()
                self._calling_since = None
                if not again:
                    self.done = True
                    return
        except Exception as error:
            self._calling_since = None
            self.error = error


@contextmanager
def killed_if_stuck(process: "subprocess.Popen[bytes]", ask: Callable[[], Any]) -> Generator[None]:
    """A context in which the JVM is killed if it does not answer `ask` in time, or if the whole takes too long.

    Calls that wait for it then end with an error of py4j.
    """
    answered, over = threading.Event(), threading.Event()

    def question() -> None:
        try:
            ask()
        except Exception:
            return  # it has ended or is ending: the next call reports that
        finally:
            answered.set()

    def watch() -> None:
        if answered.wait(ANSWERS_WITHIN_S) and over.wait(STOPS_WITHIN_S):
            return
        if not over.is_set():
            process.kill()

    threading.Thread(target=question, name="wmtop-jvm-question", daemon=True).start()
    threading.Thread(target=watch, name="wmtop-jvm-kill", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def progress_of(report: dict[str, Any] | None, watermark_ms: int | None = None) -> SparkProgress:
    """The parts of a `StreamingQueryProgress` (as its JSON) that a screen shows."""
    if not report:
        return SparkProgress(watermark_ms=watermark_ms)
    phases: dict[str, int] = {name: int(ms) for name, ms in report.get("durationMs", {}).items()}
    return SparkProgress(
        input_rows_per_second=report.get("inputRowsPerSecond"),
        processed_rows_per_second=report.get("processedRowsPerSecond"),
        batch_ms=phases.pop("triggerExecution", None),
        phases_ms=phases,
        watermark_ms=watermark_ms,
    )


def processed_per_second(report: dict[str, Any] | None, rows: dict[int, int]) -> float | None:
    """The rate of the batch of a report, given the rows of batches by their numbers; None: its rows are not known."""
    if not report or report.get("batchId") not in rows:
        return None
    took_ms = report.get("durationMs", {}).get("triggerExecution", 0)
    return rows[report["batchId"]] * 1_000 / took_ms if took_ms else None


def without_wait(report: dict[str, Any], waits_ms: dict[int, int]) -> dict[str, Any]:
    """A report without the time that its batch waited for rows, by the batches' numbers (ms)."""
    waited = waits_ms.get(report.get("batchId", -1), 0)
    took = {
        name: max(0, ms - waited) if name in ("addBatch", "triggerExecution") else ms
        for name, ms in report.get("durationMs", {}).items()
    }
    return {**report, "durationMs": took}
