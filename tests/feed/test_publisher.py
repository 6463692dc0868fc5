import asyncio
import errno
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
from wmtop.engine.feed import publisher as feed_publisher
from wmtop.engine.feed.client import Client, first_snapshot, request
from wmtop.engine.feed.messages import (
    COMMAND_LIMIT,
    MAX_MS,
    WHO_LIMIT,
    Change,
    End,
    EngineLine,
    FromEngine,
    Header,
    Reply,
    Stop,
    ToEngine,
    decode_from_engine,
    encode_line,
)
from wmtop.engine.feed.publisher import HISTORY_LIMIT, NOT_A_COMMAND, TOO_LONG, Publisher
from wmtop.engine.snapshot import Snapshot, SourceView, TimePoint
from wmtop.engine.system.errors import RunError, UsageError
from wmtop.engine.watermarks.settings import Settings

from ..refusals import refused

MakeSnapshot = Callable[..., Snapshot]
DEADLINE_S = 30.0


class Viewer:
    """A viewer that reads a line when it is told to, and not before."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(str(path))
        self._file = self.socket.makefile("rb")

    def read(self) -> EngineLine:
        line = self._file.readline()
        assert line.endswith(b"\n"), "hung up"
        return decode_from_engine(line)

    def snapshot(self) -> Snapshot:
        message = self.read()
        assert isinstance(message, Snapshot)
        return message

    def reply(self) -> Reply:
        while not isinstance(message := self.read(), Reply):
            pass
        return message

    def rest(self) -> list[EngineLine]:
        return [decode_from_engine(line) for line in self._file]

    def say(self, line: bytes) -> None:
        self.socket.sendall(line)

    def close(self) -> None:
        self._file.close()
        self.socket.close()


def obey(command: ToEngine) -> Reply:
    return Reply(id=command.id, ok=True, text=type(command).__name__)


@pytest.fixture
def path(short_dir: Path) -> Path:
    return short_dir / "flights.sock"


@pytest.fixture
def publisher(path: Path, header: Header) -> Iterator[Publisher]:
    with Publisher(path, header, obey) as publisher:
        yield publisher


@pytest.fixture
def connect(path: Path) -> Iterator[Callable[[], Viewer]]:
    viewers: list[Viewer] = []

    def connect() -> Viewer:
        viewers.append(Viewer(path))
        return viewers[-1]

    yield connect
    for viewer in viewers:
        viewer.close()


Connect = Callable[[], Viewer]


def test_header_then_newest_then_each(
    publisher: Publisher, connect: Connect, header: Header, snapshot: MakeSnapshot
) -> None:
    early = connect()
    assert early.read() == header
    for number in range(3):
        publisher.publish(snapshot(number))
        assert early.read() == snapshot(number)
    late = connect()
    greeting = late.read()
    assert isinstance(greeting, Header)
    assert [point.records for point in greeting.history] == [0, 100, 200]
    assert late.read() == snapshot(2)
    publisher.publish(snapshot(3))
    assert early.read() == late.read() == snapshot(3)


def test_a_viewer_beyond_the_limit_is_refused_until_another_leaves(
    path: Path,
    publisher: Publisher,
    connect: Connect,
    header: Header,
    snapshot: MakeSnapshot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feed_publisher, "MAX_VIEWERS", 2)
    first, second = connect(), connect()
    assert first.read() == second.read() == header
    assert connect().rest() == []
    with refused(RunError, "refused", "flights"):
        first_snapshot(path)
    second.close()
    publisher.publish(snapshot(1))
    while True:  # until the engine has noticed
        with suppress(RunError):
            assert first_snapshot(path) == snapshot(1)
            return


def test_a_process_that_hoards_connections_keeps_no_other_out(
    path: Path, publisher: Publisher, header: Header, snapshot: MakeSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_publisher, "MAX_VIEWERS", 9)
    connect = "a = socket.socket(socket.AF_UNIX); a.connect(sys.argv[1]); a.recv(1); held.append(a)"
    hoard = (
        f"import socket, sys; held = []\nfor _ in range(8): {connect}\nprint(len(held), flush=True); sys.stdin.read()"
    )
    with closing(Viewer(path)) as first, closing(Viewer(path)) as second:
        assert first.read() == second.read() == header  # 2 of this process, 8 of another: it loses one
        with subprocess.Popen(
            [sys.executable, "-c", hoard, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as hoarder:
            assert hoarder.stdout is not None
            assert hoarder.stdout.readline() == "8\n"
            assert request(path, Stop(id=1)).text == "Stop"
            publisher.publish(snapshot(1))
            assert first.read() == second.read() == snapshot(1)


def test_header_has_settings_and_source_as_they_are_now(
    publisher: Publisher, connect: Connect, snapshot: MakeSnapshot
) -> None:
    settings, source = Settings(lateness_ms=5, version=2), SourceView("rate", "synthetic")
    publisher.publish(snapshot(1, settings=settings, source=source))
    assert first_of(connect) == (settings, source)
    publisher.publish(snapshot(2, settings=settings))
    assert first_of(connect) == (settings, None)


def first_of(connect: Connect) -> tuple[Settings, SourceView | None]:
    viewer = connect()
    greeting = viewer.read()
    assert isinstance(greeting, Header)
    return greeting.settings, greeting.source


def test_who_comes_late_gets_the_sample_of_records(
    publisher: Publisher, connect: Connect, snapshot: MakeSnapshot
) -> None:
    watcher = connect()
    watcher.read()
    points = [TimePoint(1_000 + number, 900, f"F{number % 2}", late=number == 3) for number in range(6)]
    for number in range(3):
        publisher.publish(snapshot(number, points=points[2 * number : 2 * number + 2]))
        watcher.read()
    late = connect().read()
    assert isinstance(late, Header)
    assert sorted(late.points, key=lambda point: point.now_ms) == points


def test_history_is_bounded_and_has_a_point_a_second(
    publisher: Publisher, connect: Connect, snapshot: MakeSnapshot
) -> None:
    watcher = connect()
    assert isinstance(watcher.read(), Header)
    publisher.publish(snapshot(0, now_ms=None))
    watcher.read()
    for number in range(2 * HISTORY_LIMIT + 100):
        publisher.publish(snapshot(number, wall_ms=500 * number))
        watcher.read()
    publisher.publish(snapshot(number, wall_ms=500 * number - 300))  # overtaken
    watcher.read()
    greeting = connect().read()
    assert isinstance(greeting, Header)
    assert [point.wall_ms for point in greeting.history] == [1000 * second + 500 for second in range(50, 650)]
    assert greeting.history[-1].holder == "F1"


def test_a_slow_viewer_gets_the_newest_and_delays_no_other(
    publisher: Publisher, connect: Connect, snapshot: MakeSnapshot
) -> None:
    slow, quick = connect(), connect()
    assert isinstance(quick.read(), Header)
    last = 300
    for number in range(last + 1):
        publisher.publish(snapshot(number, channels=100))
        assert quick.snapshot().batch == number
    assert isinstance(slow.read(), Header)
    seen = [slow.snapshot().batch]
    while seen[-1] != last:
        seen.append(slow.snapshot().batch)
    assert seen == sorted(set(seen))
    assert len(seen) < 100
    publisher.publish(snapshot(last + 1))
    assert slow.snapshot().batch == last + 1


def test_a_viewer_that_dies_is_dropped(publisher: Publisher, connect: Connect, snapshot: MakeSnapshot) -> None:
    stays = connect()
    assert isinstance(stays.read(), Header)
    for number in range(20):
        leaves = connect()
        publisher.publish(snapshot(number, channels=1000))
        assert stays.snapshot().batch == number
        leaves.close()
    stays.say(encode_line(Stop(id=1)))
    assert stays.reply().ok
    stays.socket.shutdown(socket.SHUT_WR)
    stays.rest()
    assert not publisher._viewers


def test_ten_thousand_channels(publisher: Publisher, connect: Connect, path: Path, snapshot: MakeSnapshot) -> None:
    large = snapshot(1, channels=10_000)
    assert len(encode_line(large)) > 2_000_000
    viewers = [connect() for _ in range(3)]
    for viewer in viewers:
        viewer.read()
    publisher.publish(large)
    assert first_snapshot(path, DEADLINE_S) == large
    for viewer in viewers:
        assert viewer.read() == large


def test_commands_are_answered_on_their_connection(publisher: Publisher, connect: Connect) -> None:
    asks, other = connect(), connect()
    asks.say(encode_line(Change(id=3, idle_after_ms=None)) + encode_line(Stop(id=4)))
    assert asks.reply() == Reply(id=3, ok=True, text="Change")
    assert asks.reply() == Reply(id=4, ok=True, text="Stop")
    publisher.close()
    assert [type(message) for message in other.rest()] == [Header]


def test_a_command_reaches_the_engine_as_it_was_sent(path: Path, header: Header) -> None:
    seen: list[tuple[ToEngine, str]] = []

    def on_command(command: ToEngine) -> Reply:
        seen.append((command, threading.current_thread().name))
        return obey(command)

    change = Change(id=9, lateness_ms=2_700_000, who="ada")
    with Publisher(path, header, on_command):
        assert request(path, change, DEADLINE_S) == Reply(id=9, ok=True, text="Change")
    assert seen == [(change, "wmtop-command")]


@pytest.mark.parametrize(
    ("error", "text"), [(UsageError("use seconds"), "use seconds"), (ValueError("a\nb"), "a"), (KeyError(), "KeyError")]
)
def test_a_command_that_fails_is_answered(path: Path, header: Header, error: Exception, text: str) -> None:
    def fail(command: ToEngine) -> Reply:
        raise error

    with Publisher(path, header, fail):
        assert request(path, Stop(id=5), DEADLINE_S) == Reply(id=5, ok=False, text=text)
        assert request(path, Stop(id=6), DEADLINE_S) == Reply(id=6, ok=False, text=text)


def test_a_long_command_stops_neither_snapshots_nor_others(
    path: Path, header: Header, connect: Connect, snapshot: MakeSnapshot
) -> None:
    go_on = threading.Event()

    def on_command(command: ToEngine) -> Reply:
        if isinstance(command, Change):
            assert go_on.wait(DEADLINE_S)
        return obey(command)

    with Publisher(path, header, on_command) as publisher:
        waits = connect()
        waits.say(encode_line(Change(id=1)))
        assert request(path, Stop(id=2), DEADLINE_S).ok
        waits.read()
        publisher.publish(snapshot(1))
        assert waits.snapshot().batch == 1
        go_on.set()
        assert waits.reply().id == 1


@pytest.mark.parametrize(
    ("line", "answered_id"),
    [
        (b"\n", 0),
        (b"hello\n", 0),
        (b"\xff\x00\xfe\n", 0),
        (b'{"kind": "set", "id": 1, "who": "\xff"}\n', 1),
        (b'{"kind": "stop", "id": 1, "x": ' + b"[" * 10_000 + b"\n", 0),
        (b"[]\n", 0),
        (b"null\n", 0),
        (b'{"kind": "explode", "id": 8}\n', 8),
        (b'{"kind": "set", "id": 9, "lateness_ms": "30m"}\n', 9),
        (b'{"kind": "set", "id": "x"}\n', 0),
        (b'{"id": 8.5}\n', 0),
    ],
)
@pytest.mark.usefixtures("publisher")
def test_a_malformed_line_is_answered_and_the_connection_stays(connect: Connect, line: bytes, answered_id: int) -> None:
    viewer = connect()
    viewer.say(line)
    reply = viewer.reply()
    assert (reply.id, reply.ok) == (answered_id, False)
    assert reply.text.startswith(NOT_A_COMMAND)
    viewer.say(encode_line(Stop(id=1)))
    assert viewer.reply() == Reply(id=1, ok=True, text="Stop")


@pytest.mark.usefixtures("publisher")
def test_an_endless_line_ends_the_connection(connect: Connect, path: Path) -> None:
    viewer = connect()
    viewer.say(b"x" * (COMMAND_LIMIT + 1))
    assert viewer.reply() == Reply(id=0, ok=False, text=TOO_LONG)
    assert viewer.rest() == []
    assert request(path, Stop(id=1), DEADLINE_S).ok


@pytest.mark.parametrize(
    "command",
    [
        Change(id=4, who="a" * (WHO_LIMIT + 1)),
        Change(id=4, lateness_ms=MAX_MS + 1),
        Change(id=4, lateness_ms=10**26),
        Change(id=4, lateness_ms=-1),
        Change(id=4, idle_after_ms=MAX_MS + 1),
    ],
)
def test_what_is_beyond_its_bounds_never_reaches_the_engine(path: Path, header: Header, command: Change) -> None:
    seen: list[ToEngine] = []

    def on_command(command: ToEngine) -> Reply:
        seen.append(command)
        return obey(command)

    with Publisher(path, header, on_command):
        reply = request(path, command, DEADLINE_S)
        assert (reply.id, reply.ok) == (4, False)
        longest = Change(id=5, who="a" * WHO_LIMIT, lateness_ms=MAX_MS, idle_after_ms=None)
        assert request(path, longest, DEADLINE_S).ok
    assert seen == [longest]


def test_a_snapshot_that_is_too_long_goes_without_its_channels_and_says_so(
    publisher: Publisher, connect: Connect, path: Path, snapshot: MakeSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = snapshot(1, channels=10_000)
    monkeypatch.setattr("wmtop.engine.feed.publisher.LINE_LIMIT", 1_000_000)
    monkeypatch.setattr("wmtop.engine.feed.client.LINE_LIMIT", 1_000_000)
    publisher.publish(large)
    seen = first_snapshot(path, DEADLINE_S)
    assert (seen.state, seen.channels, seen.batch, seen.level, seen.totals) == (
        "partial", [], large.batch, large.level, large.totals,
    )  # fmt: skip
    assert seen.notes[-1].code == "snapshot_too_long"
    assert seen.notes[-1].args["channels"] == seen.condition.channels_left_out == 10_000
    publisher.publish(snapshot(2))
    viewer = connect()
    viewer.read()
    assert viewer.snapshot() == snapshot(2)


def test_the_last_line_is_the_end(publisher: Publisher, connect: Connect, snapshot: MakeSnapshot) -> None:
    viewer = connect()
    viewer.read()
    publisher.publish(snapshot(1))
    publisher.close(reason="stopped")
    assert viewer.rest() == [snapshot(1), End(reason="stopped")]


def test_close_hands_over_the_last_snapshot(
    publisher: Publisher, connect: Connect, path: Path, snapshot: MakeSnapshot
) -> None:
    viewers = [connect() for _ in range(3)]
    for viewer in viewers:
        viewer.read()
    with ThreadPoolExecutor() as pool:
        reading = [pool.submit(viewer.rest) for viewer in viewers]
        for number in range(50):
            publisher.publish(snapshot(number, channels=1000))
        failed = snapshot(50, channels=1000, state="failed", error="out of memory")
        publisher.publish(failed)
        publisher.close(DEADLINE_S)
        for seen in reading:
            assert seen.result()[-1] == failed
    assert not path.exists()


def test_close_waits_for_the_answer_under_way(path: Path, header: Header, connect: Connect) -> None:
    asked, stop = threading.Event(), threading.Event()

    def on_command(command: ToEngine) -> Reply:
        asked.set()
        assert stop.wait(DEADLINE_S)
        return obey(command)

    publisher = Publisher(path, header, on_command)
    viewer = connect()
    viewer.say(encode_line(Stop(id=1)))
    assert asked.wait(DEADLINE_S)
    closing = threading.Thread(target=publisher.close, args=(DEADLINE_S,))
    closing.start()
    stop.set()
    assert viewer.rest()[1:] == [Reply(id=1, ok=True, text="Stop")]
    closing.join()


def test_close_does_not_wait_for_a_viewer_that_does_not_read(
    publisher: Publisher, connect: Connect, snapshot: MakeSnapshot
) -> None:
    stuck, reads = connect(), connect()
    reads.read()
    publisher.publish(snapshot(1, channels=5000))
    assert reads.snapshot().batch == 1
    publisher.close(0.1)
    assert not publisher._thread.is_alive()
    data = b"".join(iter(lambda: stuck.socket.recv(65536), b""))
    assert len(data) < len(encode_line(snapshot(1, channels=5000)))


def test_after_close_nothing_happens(publisher: Publisher, snapshot: MakeSnapshot, path: Path) -> None:
    publisher.close()
    publisher.publish(snapshot(1))
    publisher.close()
    with refused(RunError, "no_answer"):
        first_snapshot(path, 0.1)


def test_a_viewer_comes_back_to_a_new_engine(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    """The same name, the same path: also where a killed engine left its socket."""

    async def watch(client: Client, publisher: Publisher) -> list[FromEngine]:
        seen: list[FromEngine] = []
        async for message in client.messages():
            seen.append(message)
            if isinstance(message, Snapshot):
                await asyncio.to_thread(publisher.close, reason="stopped")
        return seen

    async def run() -> None:
        client = Client(path, timeout_s=DEADLINE_S)
        for number in range(3):
            with Publisher(path, header, obey) as publisher:
                publisher.publish(snapshot(number))
                seen = await watch(client, publisher)
            assert [type(message) for message in seen] == [Header, Snapshot]
            assert seen[-1] == snapshot(number)

    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    asyncio.run(run())


def test_only_the_owner_may_connect(publisher: Publisher, path: Path) -> None:
    found = path.stat().st_mode
    assert stat.S_ISSOCK(found)
    assert stat.S_IMODE(found) == 0o600
    publisher.close()


def test_a_socket_that_cannot_be_made_is_one_line(short_dir: Path, header: Header) -> None:
    with refused(RunError, "not_served", short_dir / "missing" / "a.sock", os.strerror(errno.ENOENT)):
        Publisher(short_dir / "missing" / "a.sock", header, obey)
    with refused(RunError, "not_served"):
        Publisher(short_dir / ("long" * 40), header, obey)


def test_many_threads_publish_and_ask(
    publisher: Publisher, connect: Connect, path: Path, snapshot: MakeSnapshot
) -> None:
    viewer = connect()
    viewer.read()

    def work(thread: int) -> None:
        for number in range(20):
            publisher.publish(snapshot(100 * thread + number))
            assert request(path, Stop(id=number), DEADLINE_S).id == number

    with ThreadPoolExecutor() as pool:
        reading = pool.submit(viewer.rest)
        for done in [pool.submit(work, thread) for thread in range(4)]:
            done.result()
        final = snapshot(9999)
        publisher.publish(final)
        publisher.close()
        assert reading.result()[-1] == final


def test_the_stream_is_json_lines(publisher: Publisher, connect: Connect, snapshot: MakeSnapshot) -> None:
    viewer = connect()
    publisher.publish(snapshot(1))
    kinds = [json.loads(viewer._file.readline())["kind"] for _ in range(2)]
    assert kinds == ["header", "snapshot"]
