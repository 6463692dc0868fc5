"""Several `wmtop attach` at the same moment, each in a terminal of its own: each screen shows its own query."""

import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import pytest
from wmtop.engine.feed import run_directory
from wmtop.engine.targets.own import known_as

from .checkpoints import checkpoint

WITHIN_S = 120
VIEWERS = 4
ESCAPES = re.compile(rb"\x1b(\[[0-9;?<>=$]*[a-zA-Z]|\].*?(\x07|\x1b\\)|[=>()][0-9A-B]?)")


class Terminal:
    """A command in a terminal of 120x36; `text` is all that it drew, without colours."""

    def __init__(self, *arguments: str) -> None:
        self._side, there = pty.openpty()
        ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "wmtop.tui.cli", *arguments],
            stdin=there, stdout=there, stderr=there, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(there)
        self._drawn = b""

    @property
    def text(self) -> str:
        return ESCAPES.sub(b"", self._drawn).decode(errors="replace")

    def read(self) -> None:
        while select.select([self._side], [], [], 0.05)[0]:
            try:
                self._drawn += os.read(self._side, 65536)
            except OSError:  # it has closed the terminal
                return

    def press(self, key: str) -> None:
        os.write(self._side, key.encode())

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._side)


@pytest.fixture
def terminals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Terminal]]:
    monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, str(Path("/tmp", f"wmtop-test-{os.getpid()}")))
    started: list[Terminal] = []
    yield started
    for terminal in started:
        terminal.kill()


def test_each_screen_shows_its_own_query(terminals: list[Terminal], tmp_path: Path) -> None:
    """All are called `orders`; only the number of the last batch tells them apart."""
    batches = [1001 + number for number in range(VIEWERS)]
    paths = [checkpoint(tmp_path / str(batch) / "orders" / "ckpt", batch) for batch in batches]
    terminals.extend(Terminal("attach", str(path)) for path in paths)
    deadline = time.monotonic() + WITHIN_S
    while not all(f"batch {batch:,}" in one.text for one, batch in zip(terminals, batches, strict=True)):
        assert time.monotonic() < deadline, [one.text[-3000:] for one in terminals]
        for one in terminals:
            one.read()
    for one, mine in zip(terminals, batches, strict=True):
        assert {batch for batch in batches if f"batch {batch:,}" in one.text} == {mine}
    runs = run_directory.list_runs()
    assert sorted(run.name for run in runs) == ["orders", "orders-2", "orders-3", "orders-4"]
    assert sorted(run.description for run in runs) == sorted(map(str, paths))
    for one in terminals:
        one.press("q")
    for one in terminals:
        one.read()
        assert one.process.wait(WITHIN_S) == 0
    assert run_directory.list_runs() == []


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/orders/ckpt", "orders"),
        ("a/orders/_checkpoint", "orders"),
        ("a/orders/checkpoint", "orders"),
        ("a/orders/checkpoints/checkpoint-2", "orders"),
        ("a/orders/chk", "orders"),
        ("a/orders/ck", "orders"),
        ("a/orders", "orders"),
        ("a/checkpoint-orders", "checkpoint-orders"),
    ],
)
def test_a_directory_that_is_named_for_what_it_is_has_its_parents_name(path: str, name: str) -> None:
    assert known_as(Path("/data", path)) == name
