"""Starts an engine in its own process, and checks on it."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from ...engine.feed.run_directory import Claim
from ...engine.system.errors import RunError, how_it_ended, signal_name
from .output import LineWriter

LOG_TAIL_BYTES = 8192
_VARIABLE = "WMTOP_LAUNCHED_ENGINE"


class Launch(Struct, frozen=True, kw_only=True):
    """What an engine gets from the terminal that started it: its claimed name and id, and when to stop."""

    lock: int
    """The descriptor that holds the name."""
    name: str
    id: str
    stop_on_eof: bool


@functools.cache
def launched() -> Launch | None:
    """The launch of this process by a terminal; None: started by a user. Child processes do not inherit it."""
    passed = os.environ.pop(_VARIABLE, None)
    return None if passed is None else msgspec.json.decode(passed, type=Launch)


class EngineProcess:
    """An engine that this terminal started: in a session of its own, its output in its log file.

    It continues `claim`, so that it has that name and id and no other. With `tied` it stops when this process ends,
    however it ends: the pipe to its standard input closes.
    """

    def __init__(self, arguments: list[str], claim: Claim, *, tied: bool) -> None:
        self._log = Path(claim.run.log)
        launch = Launch(lock=claim.lock, name=claim.run.name, id=claim.run.id, stop_on_eof=tied)
        with open(self._log, "ab") as output:
            self._log_before = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "wmtop.tui.cli", *arguments],
                stdin=subprocess.PIPE if tied else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=(claim.lock,),
                env={**os.environ, "PYTHONUNBUFFERED": "1", _VARIABLE: msgspec.json.encode(launch).decode()},
            )
        claim.hand_over()

    def died(self) -> str | None:
        """None while it runs, or after a normal end; else one line on why it died."""
        code = self._process.poll()
        if not code:
            return None
        if code in (1, 2) and (said := last_line_to_user(self._log, self._log_before)) is not None:
            return said
        # More than 128: a clean end on a signal.
        how = f"stopped by {signal_name(code - 128)}" if code > 128 else how_it_ended(code)
        return f"the engine ended: {how}; its log is {self._log}"

    @property
    def code(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._process.poll()

    def stop(self, timeout_s: float = 30.0) -> int:
        """Stop it, if it has not stopped by itself, and wait for its end; RunError if it does not end in time."""
        try:
            return self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise RunError(f"the engine (process {self._process.pid}) does not stop; its log is {self._log}") from None


def last_line_to_user(log: Path, since: int) -> str | None:
    """The last line for the user that an engine wrote, in its log after byte `since`."""
    try:
        with open(log, "rb") as file:
            file.seek(max(since, file.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return None
    said = [line.removeprefix("wmtop: ") for line in lines if line.startswith("wmtop: ")]
    return said[-1] if said else None


def redirect_output(log: Path) -> LineWriter:
    """Redirect standard error of this process and its children to the log; returns a writer to the original."""
    real = os.dup(2)
    os.set_inheritable(real, False)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    return LineWriter(real)
