"""Runs a command for each alert: an argument vector without a shell, the alert as JSON on standard input."""

import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from ..snapshot import Note, Snapshot
from ..system import clock
from ..system.errors import UsageError, first_line, how_it_ended
from ..verdict.alerts import AlertRule, Event, as_json
from ..verdict.history import history_point

LIMIT_S = 30.0
"""Longest run time (s) of a command; then it is killed."""
LAST_S = 10.0
"""Longest time (s) that an ending engine waits for the commands of its last alerts."""
MAX_WAITING = 16
"""Alerts that may wait for the command, at most; the oldest is dropped first."""


def parse_command(text: str | None) -> list[str] | None:
    """The argument vector of `--on-alert` (None: not given), split as a shell does; UsageError for no such program."""
    if text is None:
        return None
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--on-alert '{text}': {error}; close it, e.g. --on-alert 'notify --to \"on call\"'") from None
    if not argv:
        raise UsageError("--on-alert is empty; give a command, e.g. --on-alert '/usr/local/bin/page on-call'")
    if shutil.which(argv[0]) is None:
        raise UsageError(f"--on-alert: there is no program {argv[0]!r}; give its path (no shell is used)")
    return argv


class AlertCommand:
    """Watches one run's snapshots and runs `argv` for each alert, one at a time, on a thread of its own.

    When a command first fails, `say` gets one line, and `note` is set for the snapshots that follow.
    """

    def __init__(self, argv: list[str], target: str, say: Callable[[str], object], *, limit_s: float = LIMIT_S) -> None:
        self._argv, self._target, self._say, self._limit_s = argv, target, say, limit_s
        self._rule = AlertRule()
        self._waiting: deque[bytes] = deque(maxlen=MAX_WAITING)
        self._changed = threading.Condition()
        self._busy = self._closing = False
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self.note: Note | None = None

    def see(self, snapshot: Snapshot) -> None:
        """Take the next snapshot; returns at once."""
        if snapshot.state == "failed":
            wall_ms = snapshot.wall_ms or clock.now_ms()
            events = self._rule.lose(wall_ms, first_line(snapshot.error or "the engine failed"))
        else:
            point = history_point(snapshot)
            events = [] if point is None else self._rule.see(point)
        self._take(events)

    def lose(self, wall_ms: int, why: str | None = None, *, silent_ms: int | None = None) -> None:
        """Report that the engine is lost, for a reader in another process; call it again while the engine is lost."""
        self._take(self._rule.lose(wall_ms, why, silent_ms=silent_ms))

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.alert:
                self._queue(as_json(event, self._target, self._rule.verdict))

    def close(self) -> None:
        """Give waiting commands a moment to run, then end them."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            if self._thread is None:
                return
            self._changed.wait_for(lambda: not self._busy and not self._waiting, LAST_S)
            self._waiting.clear()
            if self._process is not None:
                _kill(self._process)

    def _queue(self, line: bytes) -> None:
        with self._changed:
            self._waiting.append(line)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run_all, name="wmtop-alerts", daemon=True)
                self._thread.start()

    def _run_all(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                line = self._waiting.popleft()
                self._busy = True
            why = self._run(line)
            if why is not None and self.note is None:
                self.note = Note(clock.now_ms(), "alert_failed", {"command": self._argv[0], "why": why})
                self._say(f"--on-alert {shlex.join(self._argv)} failed: {why}; further failures are not reported")

    def _run(self, line: bytes) -> str | None:
        """Run the command once; returns why it failed, or None."""
        try:
            # Its output goes to the engine's standard error: standard output may be NDJSON for another program.
            self._process = process = subprocess.Popen(
                self._argv, stdin=subprocess.PIPE, stdout=2, stderr=2, start_new_session=True
            )
        except OSError as error:
            return error.strerror or str(error)
        try:
            process.communicate(line + b"\n", timeout=self._limit_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            return f"it was killed after {self._limit_s:g} s"
        except OSError:  # it did not read its input
            process.wait()
        finally:
            self._process = None
        return how_it_ended(process.returncode) if process.returncode else None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the command and its child processes."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
