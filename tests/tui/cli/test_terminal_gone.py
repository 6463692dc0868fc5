"""A terminal that closes without a hang-up signal: `wmtop` ends all the same."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from ..recorded import record, timeline


def test_the_screen_ends_with_its_terminal(tmp_path: Path) -> None:
    recording = record(tmp_path / "run.wmtoprec", *map(timeline, range(3)))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "wmtop.tui.cli", "replay", str(recording)]
    environment = os.environ | {"TERM": "xterm-256color", "XDG_STATE_HOME": str(tmp_path)}
    # A session without a controlling terminal gets no signal when this one closes.
    screen = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=environment
    )
    os.close(theirs)
    try:
        painted, until = b"", time.monotonic() + 60
        while b"watermark" not in painted and time.monotonic() < until and select.select([ours], [], [], 5)[0]:
            painted += os.read(ours, 1 << 16)
        os.close(ours)
        assert screen.wait(timeout=10) == 128 + signal.SIGHUP
    finally:
        screen.kill()
        screen.wait()
    assert b"watermark" in painted
