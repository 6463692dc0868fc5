"""`wmtop serve`: the screen through a web server, seen by a client of its own and by a real browser."""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import aiohttp
import pytest

from tests.tui.recorded import record

COMMAND = [sys.executable, "-m", "wmtop.tui.cli", "serve"]
WITHIN_S = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The address of a recording's screen."""
    file = tmp_path / "run.rec"
    record(file)
    port = free_port()
    with process([*COMMAND, str(file), "--port", str(port)], stdout=subprocess.PIPE) as (_, out, _):
        line = out.readline()
        assert f"http://127.0.0.1:{port} (read-only)" in line
        wait_for(port)
        yield f"http://127.0.0.1:{port}"


@contextmanager
def process(command: list[str], **streams: Any) -> Iterator[tuple[int, IO[str], IO[str]]]:
    """A process group of its own, gone at the end."""
    child = subprocess.Popen(command, text=True, start_new_session=True, **streams)
    try:
        yield child.pid, child.stdout, child.stderr  # type: ignore[misc]
    finally:
        os.killpg(child.pid, signal.SIGTERM)
        child.communicate(timeout=WITHIN_S)


async def first_screen(address: str, origin: str | None) -> str:
    """What the app draws first."""
    headers = {} if origin is None else {"Origin": origin}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{address}/ws?width=120&height=36", headers=headers) as stream,
    ):
        drawn = b""
        while b"REPLAY" not in drawn:
            message = await stream.receive(timeout=WITHIN_S)
            assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), message
            drawn += message.data if isinstance(message.data, bytes) else message.data.encode()
        return drawn.decode(errors="replace")


def test_a_client_gets_the_screen(served: str) -> None:
    assert "LEVEL" in asyncio.run(first_screen(served, served))


def test_another_site_in_the_browser_may_not_look(served: str) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        asyncio.run(first_screen(served, "http://elsewhere.example"))
    assert refused.value.status == 403


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium here to look with")
def test_a_real_browser_shows_the_screen(served: str, tmp_path: Path) -> None:
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'browser'}"]
    with process([*browser, "--remote-debugging-port=0", "about:blank"], stderr=subprocess.PIPE) as (_, _, err):
        port = next(found[1] for line in err if (found := re.search(r"ws://127\.0\.0\.1:(\d+)/", line)))
        assert "-first-byte" in asyncio.run(body_of(f"http://127.0.0.1:{port}", served))


async def body_of(debugger: str, address: str) -> str:
    """The classes of the page's body once the app has drawn (the page marks its first byte so)."""
    async with aiohttp.ClientSession() as session:
        page = await (await session.put(f"{debugger}/json/new?{address}")).json()
        async with session.ws_connect(page["webSocketDebuggerUrl"]) as tab:
            classes = ""
            for number in range(WITHIN_S * 2):
                await tab.send_json(
                    {"id": number, "method": "Runtime.evaluate", "params": {"expression": "document.body.className"}}
                )
                answer = await tab.receive_json()
                classes = str(answer["result"]["result"].get("value", ""))
                if "-first-byte" in classes:
                    break
                await asyncio.sleep(0.5)
            return classes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("nowhere", "there is no run or directory nowhere"),
        ("{file} --host 203.0.113.7", "cannot listen at 203.0.113.7"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: str, said: str) -> None:
    file = tmp_path / "run.rec"
    record(file)
    words = arguments.format(file=file).split()
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=WITHIN_S)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert said in line
