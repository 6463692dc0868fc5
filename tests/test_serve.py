"""`wmtop serve`: the screen through a web server, seen by a client of its own and by a real browser."""

import asyncio
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer
from wmtop.tui.cli import browser
from wmtop.tui.cli.browser import MAX_SIZE
from wmtop.tui.cli.hosts import is_allowed

from .tui.recorded import record

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


async def first_screen(address: str, origin: str | None, host: str | None = None) -> str:
    """What the app draws first."""
    headers = {} if origin is None else {"Origin": origin}
    if host is not None:
        headers["Host"] = host
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
    assert "WATERMARK" in asyncio.run(first_screen(served, served))


def test_another_site_in_the_browser_may_not_look(served: str) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        asyncio.run(first_screen(served, "http://elsewhere.example"))
    assert refused.value.status == 403


def test_a_name_that_another_site_points_here_is_refused(served: str) -> None:
    """DNS rebinding: origin and host agree, and are not ours. Nothing is answered, the page neither."""
    for path in ("/", "/ws?width=120&height=36", "/static/js/textual.js"):
        answer = asyncio.run(get(served + path, Host="evil.example", Origin="http://evil.example"))
        assert answer.status == 403, path
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        asyncio.run(first_screen(served, "http://evil.example", "evil.example"))
    assert refused.value.status == 403
    port = served.rpartition(":")[2]
    assert "WATERMARK" in asyncio.run(first_screen(served, f"http://localhost:{port}", f"localhost:{port}"))


async def get(address: str, **headers: str) -> aiohttp.ClientResponse:
    async with aiohttp.ClientSession() as session, session.get(address, headers=headers) as answer:
        await answer.read()
        return answer


@pytest.mark.parametrize(
    ("host", "listening", "further", "allowed"),
    [
        ("localhost", "127.0.0.1", [], True),
        ("LOCALHOST:8080", "127.0.0.1", [], True),
        ("127.0.0.1:9", "127.0.0.1", [], True),
        ("[::1]:8080", "127.0.0.1", [], True),
        ("evil.example", "127.0.0.1", [], False),
        ("localhost.evil.example", "127.0.0.1", [], False),
        ("evil.example:8080", "0.0.0.0", [], False),
        ("10.1.2.3:8080", "127.0.0.1", [], False),
        ("10.1.2.3:8080", "10.1.2.3", [], True),
        ("10.1.2.3:8080", "0.0.0.0", [], True),
        ("[fe80::1]:8080", "::", [], True),
        ("wmtop.example.com", "0.0.0.0", ["Wmtop.Example.com"], True),
        ("wmtop.example.com:443", "127.0.0.1", ["wmtop.example.com"], True),
        ("other.example.com", "0.0.0.0", ["wmtop.example.com"], False),
        ("localhost@evil.example", "127.0.0.1", [], False),
        ("localhost:80:80", "127.0.0.1", [], False),
        ("", "127.0.0.1", [], False),
    ],
)
def test_the_names_that_are_ours(host: str, listening: str, further: list[str], allowed: bool) -> None:
    assert is_allowed(host, listening, further) is allowed


def test_the_page_names_its_target_and_refers_to_nothing_elsewhere(served: str) -> None:
    async def page() -> tuple[str, str]:
        async with aiohttp.ClientSession() as session, session.get(served) as answer:
            return await answer.text(), answer.headers["Content-Security-Policy"]

    text, policy = asyncio.run(page())
    assert "<title>wmtop run.rec</title>" in text
    links = re.findall(r"https?://[^\"'\s]+|//[a-z][^\"'\s]+", text)
    assert links
    assert {urlsplit(link).netloc for link in links} == {urlsplit(served).netloc}
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


async def typed(address: str, keys: str) -> str:
    """What is drawn until three seconds after the keys have opened the help."""
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{address}/ws?width=120&height=36") as stream:
        now = asyncio.get_running_loop().time
        drawn, sent, end = "", False, math.inf
        while (left := min(end - now(), WITHIN_S)) > 0:
            try:
                message = await stream.receive(timeout=left)
            except TimeoutError:
                return drawn
            if isinstance(message.data, bytes):
                drawn += message.data.decode(errors="replace")
            if "REPLAY" in drawn and not sent:
                sent = True
                await stream.send_json(["stdin", keys])
            if sent and "Help" in drawn:
                end = min(end, now() + 3)
        return drawn


def test_no_key_writes_into_the_folder_of_the_server(tmp_path: Path) -> None:
    file = record(tmp_path / "run.rec")
    folder = tmp_path / "folder"
    folder.mkdir()
    port = free_port()
    command = [*COMMAND, str(file), "--port", str(port), "--allow-changes"]
    with process(command, stdout=subprocess.PIPE, cwd=folder) as (_, out, _):
        out.readline()
        wait_for(port)
        drawn = asyncio.run(typed(f"http://127.0.0.1:{port}", "SRS?S"))
    assert "Help" in drawn  # the keys had arrived
    assert list(folder.iterdir()) == []


def children(pid: int) -> set[int]:
    lists = [file.read_text().split() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    return {int(child) for pids in lists for child in pids}


def wait_until_gone(pids: set[int]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, pids
        time.sleep(0.05)


@pytest.mark.parametrize("ends", ["socket", "SIGTERM", "SIGKILL"])
def test_a_screen_of_any_size_is_bounded_and_ends_with_its_socket_and_with_the_server(
    tmp_path: Path, ends: str
) -> None:
    file = record(tmp_path / "run.rec")
    port = free_port()
    server = subprocess.Popen([*COMMAND, str(file), "--port", str(port)], stdout=subprocess.DEVNULL)

    async def attack() -> set[int]:
        address = f"http://127.0.0.1:{port}/ws?width=99999999&height=99999999"
        async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=0) as stream:
            drawn = b""
            while b"REPLAY" not in drawn:
                message = await stream.receive(timeout=WITHIN_S)
                drawn += message.data
                await stream.send_json(["resize", {"width": 99_999_999, "height": 99_999_999}])
            pids = children(server.pid)
            assert len(pids) == 1
            environment = Path(f"/proc/{next(iter(pids))}/environ").read_bytes().split(b"\0")
            assert b"COLUMNS=%d" % MAX_SIZE[0] in environment
            if ends != "socket":
                server.send_signal(getattr(signal, ends))
                wait_until_gone(pids)
            return pids

    try:
        wait_for(port)
        wait_until_gone(asyncio.run(attack()))
    finally:
        server.kill()
        server.wait()


def test_a_message_of_a_wrong_shape_closes_the_socket_and_nothing_is_printed(served: str) -> None:
    async def closed_with(message: str) -> int | None:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{served}/ws") as stream:
            await stream.send_str(message)
            while (await stream.receive(timeout=WITHIN_S)).type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
                pass
            return stream.close_code

    infinite = '["resize", {"width": 1e999, "height": 2}]'
    for message in ("x", "{}", "[]", '["stdin", 5]', '["resize", {}]', infinite, '["stdin", "\\ud800"]', "[" * 5_000):
        assert asyncio.run(closed_with(message)) == aiohttp.WSCloseCode.UNSUPPORTED_DATA, message


def test_no_list_of_files_is_served(served: str) -> None:
    for path in ("/static", "/static/", "/static/js", "/static/js/"):
        assert asyncio.run(get(served + path)).status == 403


def test_only_so_many_screens_are_open_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "MAX_SCREENS", 2)
    server = browser.ScreenServer("sleep 600", host="127.0.0.1", port=0, title="", allowed=[])

    async def open_three() -> None:
        async with TestClient(TestServer(await server._make_app())) as client:  # pyright: ignore[reportPrivateUsage]
            first, _ = await client.ws_connect("/ws"), await client.ws_connect("/ws")
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await client.ws_connect("/ws")
            assert refused.value.status == 503
            await first.close()
            while True:
                with suppress(aiohttp.WSServerHandshakeError):
                    await client.ws_connect("/ws")
                    return
                await asyncio.sleep(0.1)

    before = children(os.getpid())
    asyncio.run(asyncio.wait_for(open_three(), WITHIN_S))
    wait_until_gone(children(os.getpid()) - before)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium here to look with")
def test_a_real_browser_shows_the_screen_and_loads_nothing_from_elsewhere(served: str, tmp_path: Path) -> None:
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'browser'}"]
    with process([*browser, "--remote-debugging-port=0", "about:blank"], stderr=subprocess.PIPE) as (_, _, err):
        port = next(found[1] for line in err if (found := re.search(r"ws://127\.0\.0\.1:(\d+)/", line)))
        seen = asyncio.run(look(f"http://127.0.0.1:{port}", served))
    assert "-first-byte" in seen["body"]
    assert seen["title"] == "wmtop run.rec"
    assert seen["fonts"] == 0
    assert {urlsplit(name).netloc for name in seen["loaded"]} == {urlsplit(served).netloc}
    assert any(name.endswith("textual.js") for name in seen["loaded"])


async def look(debugger: str, address: str) -> dict[str, Any]:
    """The page once the app has drawn (its body then has the class `-first-byte`): title, fonts, what it loaded."""
    expression = """JSON.stringify({
        body: document.body.className, title: document.title, fonts: document.fonts.size,
        loaded: performance.getEntriesByType("resource").map(entry => entry.name)})"""
    async with aiohttp.ClientSession() as session:
        page = await (await session.put(f"{debugger}/json/new?{address}")).json()
        async with session.ws_connect(page["webSocketDebuggerUrl"]) as tab:
            seen: dict[str, Any] = {}
            for number in range(WITHIN_S * 2):
                await tab.send_json({"id": number, "method": "Runtime.evaluate", "params": {"expression": expression}})
                answer = await tab.receive_json()
                if "value" in answer["result"]["result"]:
                    seen = json.loads(answer["result"]["result"]["value"])
                if "-first-byte" in seen.get("body", ""):
                    break
                await asyncio.sleep(0.5)
            return seen


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("nowhere", "nowhere"),
        ("{file}.txt", "{file}.txt"),
        ("{file} --host 203.0.113.7", "cannot listen on 203.0.113.7"),
        ("{file} --port 70000", "port 70000"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: str, said: str) -> None:
    file = tmp_path / "run.rec"
    record(file)
    Path(f"{file}.txt").write_text("no recording\n")
    words = arguments.format(file=file).split()
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=WITHIN_S)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert said.format(file=file) in line
