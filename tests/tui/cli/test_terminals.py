"""The screen on unusual terminals, on a pseudo-terminal: ASCII only, tiny, without a size, or with a wrong one set."""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from pathlib import Path

import pytest

RECORDING = Path(__file__).parents[2] / "doctor" / "flights-lateness-3h.rec"


def shown_until_q(rows: int, columns: int, arguments: tuple[str, ...] = (), **variables: str) -> tuple[str, int]:
    """What a replay writes to a terminal of that size until `q` ends it, and its exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(variables)
        os.execv(sys.executable, [sys.executable, "-m", "wmtop.tui.cli", "replay", str(RECORDING), *arguments])  # noqa: S606
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    written, until, asked = b"", time.monotonic() + 60, 0.0
    while time.monotonic() < until:
        if (b"WATERMARK" in written or (written and columns == 1)) and time.monotonic() > asked + 2:
            asked = time.monotonic()
            os.write(terminal, b"q")
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            written += os.read(terminal, 65_536)
        except OSError:  # it has ended
            break
    else:
        os.kill(pid, 9)
    return written.decode(errors="replace"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(
    ("rows", "columns", "arguments", "variables"),
    [
        (36, 120, (), {"TERM": "dumb"}),
        (36, 120, ("--ascii",), {"TERM": "xterm-256color"}),
        (1, 1, (), {"TERM": "xterm-256color"}),
        (0, 0, (), {"TERM": "xterm-256color"}),
        (36, 120, (), {"TERM": "xterm-256color", "COLUMNS": "99999"}),
    ],
    ids=["dumb", "ascii", "tiny", "no size", "wrong size"],
)
def test_q_ends_it(rows: int, columns: int, arguments: tuple[str, ...], variables: dict[str, str]) -> None:
    written, code = shown_until_q(rows, columns, arguments, **variables)
    assert code == 0
    assert len(written) < 500_000
    if columns != 1:
        assert "WATERMARK" in written
        assert written.isascii() == (variables["TERM"] == "dumb" or "--ascii" in arguments)
