"""A terminal that closes without a signal ends `wmtop`; a signal that ends it leaves the terminal as it was."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..recorded import record, timeline


@contextmanager
def screen_in_a_terminal(directory: Path) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    """A painted screen, and our end of its terminal, which the test closes."""
    recording = record(directory / "run.wmtoprec", *map(timeline, range(3)))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
    command = [sys.executable, "-m", "wmtop.tui.cli", "replay", str(recording)]
    environment = os.environ | {"TERM": "xterm-256color", "XDG_STATE_HOME": str(directory)}
    # A session without a controlling terminal gets no signal when this one closes.
    screen = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=environment
    )
    os.close(theirs)
    try:
        painted, until = b"", time.monotonic() + 60
        while b"watermark" not in painted and time.monotonic() < until and select.select([ours], [], [], 5)[0]:
            painted += os.read(ours, 1 << 16)
        assert b"watermark" in painted
        yield screen, ours
    finally:
        screen.kill()
        screen.wait()


def test_the_screen_ends_with_its_terminal(tmp_path: Path) -> None:
    with screen_in_a_terminal(tmp_path) as (screen, terminal):
        os.close(terminal)
        assert screen.wait(timeout=30) == 128 + signal.SIGHUP


def test_the_screen_ended_by_a_signal_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with screen_in_a_terminal(tmp_path) as (screen, terminal):
        screen.send_signal(signal.SIGTERM)
        shown = b""
        with suppress(OSError):  # the other end has closed
            while select.select([terminal], [], [], 30)[0]:
                shown += os.read(terminal, 1 << 16)
        os.close(terminal)
        assert screen.wait(timeout=30) == -signal.SIGTERM
        assert b"\x1b[?1049l" in shown  # the main screen
        assert b"\x1b[?1000l" in shown  # no reports of the mouse


def test_the_screen_ends_by_a_signal_also_if_its_terminal_does_not_read(tmp_path: Path) -> None:
    with screen_in_a_terminal(tmp_path) as (screen, terminal):
        fcntl.fcntl(terminal, fcntl.F_SETFL, os.O_NONBLOCK)
        for _ in range(200):  # each key is answered, until the terminal is full
            with suppress(BlockingIOError):
                os.write(terminal, b"?")
            time.sleep(0.01)
        screen.send_signal(signal.SIGTERM)
        assert screen.wait(timeout=60) in (-signal.SIGTERM, 128 + signal.SIGTERM)
        os.close(terminal)
