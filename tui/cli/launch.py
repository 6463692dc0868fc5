"""Starting an engine in a process of its own, and asking after it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ...engine.errors import RunError

LOG_TAIL_BYTES = 8192


class EngineProcess:
    """An engine that this terminal started: in a session of its own, its output in a log file.

    With `tied` it stops when this process ends, however it ends: the pipe to its standard input closes.
    """

    def __init__(self, arguments: list[str], log: Path, *, tied: bool) -> None:
        self._log = log
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "wmtop.tui.cli", *arguments],
                stdin=subprocess.PIPE if tied else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def died(self) -> str | None:
        """None while it runs, or after it ended well; else one line that says why it is gone."""
        code = self._process.poll()
        if not code:
            return None
        return last_error(self._log) or f"the engine ended (exit code {code}); its log is {self._log}"

    @property
    def code(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._process.poll()

    def stop(self, timeout_s: float = 30.0) -> int:
        """Have it stop, if it has not heard so yet, and wait for its end; RunError if it does not end in time."""
        try:
            return self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise RunError(f"the engine (process {self._process.pid}) does not stop; its log is {self._log}") from None


def last_error(log: Path) -> str | None:
    """The last line that an engine addressed to its user, from its log."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return None
    said = [line.removeprefix("wmtop: ") for line in lines if line.startswith("wmtop: ")]
    return said[-1] if said else None


def redirect_output(log: Path) -> Callable[[str], None]:
    """Send this process's and its children's output to the log; the function writes a line to the real stderr."""
    real = os.dup(2)
    os.set_inheritable(real, False)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 2)
    os.close(descriptor)

    def say(line: str) -> None:
        os.write(real, f"wmtop: {line}\n".encode())

    return say
