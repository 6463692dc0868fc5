"""Commands as processes of their own, in a home that is thrown away, with all that they print."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

WMTOP = (sys.executable, "-m", "wmtop.tui.cli")
ENDS_WITHIN_S = 120.0
"""Far beyond what any command takes on a busy machine: one that takes longer hangs."""
_KEPT = ("PATH", "LANG", "LC_ALL", "JAVA_HOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")


def home(directory: Path) -> dict[str, str]:
    """An environment without this user's configuration, secrets and run directory; all its files are in `directory`."""
    places = {"HOME": "home", "WMTOP_RUN_DIR": "run", "TMPDIR": "tmp"}
    for place in places.values():
        (directory / place).mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | {name: str(directory / place) for name, place in places.items()} | {"TERM": "xterm", "TZ": "UTC"}


class Command:
    """A running `wmtop …`, what it prints in files; `code` once it has ended."""

    def __init__(
        self, directory: Path, arguments: Sequence[object], environment: Mapping[str, str], program: str | None = None
    ) -> None:
        """`program`: Python code to run in place of the module, with the same arguments."""
        command = [sys.executable, "-c", program] if program else WMTOP
        self.out, self.err = directory / "stdout", directory / "stderr"
        self.arguments = list(map(str, arguments))
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [*command, *self.arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=directory,
                env=dict(environment), start_new_session=True,
            )  # fmt: skip

    def __str__(self) -> str:
        return f"wmtop {' '.join(self.arguments)}"

    @property
    def code(self) -> int | None:
        return self.process.poll()

    def wait(self, within_s: float, meanwhile: Callable[[], object] = lambda: None) -> bool:
        """Whether it ended by itself within that time; `meanwhile` is called again and again."""
        until = time.monotonic() + within_s
        while self.process.poll() is None:
            meanwhile()
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)
        return True

    def end(self) -> None:
        """Kill it and all that it started."""
        for _ in range(2):  # once more: a child that was just forked
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                break
            self.process.wait()

    def said(self) -> str:
        """What it printed, on both streams."""
        return self.out.read_text(errors="replace") + self.err.read_text(errors="replace")
