"""A process of a demo: it ends with its parent, however that ends, and takes commands on its standard input.

It gets no signal of the parent's terminal: it ends in order when that is closed, too.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from .errors import RunError, first_line

_ENDS_WITHIN_S = 5.0
_POLL_S = 0.1


class Child:
    """A running process whose standard input is a pipe from this one; its output goes to `log`."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self._name = name
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
            )

    def send(self, command: str) -> None:
        """Send a command; a process that has ended gets none."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{command}\n".encode())
            self._process.stdin.flush()

    def wait_for(self, has_started: Callable[[str], bool], within_s: float) -> None:
        """Wait until it has started, as far as what it printed shows; RunError if it ends before, or takes longer."""
        until = time.monotonic() + within_s
        while not has_started(said := self._log.read_text(errors="replace")):
            if self._process.poll() is not None or time.monotonic() > until:
                raise RunError(f"{self._name} did not start: {first_line(said) or 'it printed nothing'}")
            time.sleep(_POLL_S)

    def end(self) -> None:
        """End it, by force if it takes too long."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN_S)
        self._process.kill()
        self._process.wait()


def obey(take: Callable[[str], None], end: Callable[[], None] = lambda: os._exit(0)) -> None:
    """In such a process: pass each command to `take`, on a thread of its own, and `end` with the standard input."""

    def listen() -> None:
        for line in sys.stdin:
            take(line.strip())
        end()

    threading.Thread(target=listen, name="wmtop-commands", daemon=True).start()
