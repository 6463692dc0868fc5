import asyncio
import os
import socket
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path

import pytest
from wmtop.engine.feed.client import Client, first_snapshot, request
from wmtop.engine.feed.messages import STREAM_VERSION, End, FromEngine, Header, Reply, Stop, ToEngine, encode_line
from wmtop.engine.feed.publisher import Publisher
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.system.errors import RunError

from tests.snapshots import replace

from ..refusals import refused

MakeSnapshot = Callable[..., Snapshot]
DEADLINE_S = 30.0


def obey(command: ToEngine) -> Reply:
    return Reply(id=command.id, ok=True)


@pytest.fixture
def path(short_dir: Path) -> Path:
    return short_dir / "flights.sock"


@contextmanager
def speaker(path: Path, says: bytes) -> Iterator[None]:
    """Something that says what it likes to the first who connects, and hangs up."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(DEADLINE_S)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, suppress(ConnectionError):
                connection.sendall(says)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join()


async def collect(client: Client) -> list[FromEngine]:
    return [message async for message in client.messages()]


def run(work: Awaitable[object]) -> object:
    async def bounded() -> object:
        async with asyncio.timeout(DEADLINE_S):
            return await work

    return asyncio.run(bounded())


def test_waits_for_the_socket_of_a_living_engine(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    """Without a limit: `alive` is asked each time, and here starts the engine when it was asked three times."""
    asked: list[Publisher | None] = []

    def alive() -> None:
        asked.append(Publisher(path, header, obey) if len(asked) == 2 else None)

    async def work() -> list[FromEngine]:
        seen: list[FromEngine] = []
        async for message in Client(path, alive=alive, timeout_s=0).messages():
            seen.append(message)
            publisher = asked[2]
            assert publisher is not None
            if isinstance(message, Header):
                publisher.publish(snapshot(1, state="ended"))
            else:
                await asyncio.to_thread(publisher.close)
        return seen

    assert run(work()) == [header, snapshot(1, state="ended")]


def test_an_engine_that_died_before_its_socket(path: Path) -> None:
    answers = iter([None, None, "the engine died: see flights.log"])
    with pytest.raises(RunError, match=r"^the engine died: see flights.log$"):
        run(collect(Client(path, alive=lambda: next(answers))))


def test_a_full_queue_of_connections_is_waited_for(path: Path, header: Header) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(str(path))
        listener.listen(0)
        first.connect(str(path))

        async def watch() -> None:
            watching = asyncio.create_task(collect(Client(path)))
            await asyncio.sleep(0.2)
            assert not watching.done()
            accepted = [listener.accept()[0]]
            listener.setblocking(False)
            accepted.append((await asyncio.get_running_loop().sock_accept(listener))[0])
            accepted[1].sendall(encode_line(header) + encode_line(End(reason="ended")))
            for connection in accepted:
                connection.close()
            assert await watching == [header]

        run(watch())


def test_a_dead_engines_socket_is_no_engine(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with refused(RunError, "no_answer", "flights", "0.1 s"):
        run(collect(Client(path, timeout_s=0.1)))


def test_an_engine_that_dies_while_it_is_watched(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    """The process is seen dead a moment after its socket was closed."""
    answers = iter([None, None, "the engine was killed"])
    seen: list[FromEngine] = []

    async def work() -> None:
        client = Client(path, alive=lambda: next(answers))
        async for message in client.messages():
            seen.append(message)  # noqa: PERF401 (what came before the error is looked at)

    half_a_line = encode_line(snapshot(2))[:100]
    with (
        speaker(path, encode_line(header) + encode_line(snapshot(1)) + half_a_line),
        pytest.raises(RunError, match=r"^the engine was killed$"),
    ):
        run(work())
    assert seen == [header, snapshot(1)]


def test_an_engine_that_hangs_up_after_its_last_snapshot_ends_the_messages(
    path: Path, header: Header, snapshot: MakeSnapshot
) -> None:
    ended = snapshot(2, state="ended")
    with speaker(path, encode_line(header) + encode_line(ended)):
        assert run(collect(Client(path, alive=lambda: None))) == [header, ended]


@pytest.mark.parametrize(
    ("says", "error"),
    [
        (b"SSH-2.0-OpenSSH\n", "no_engine"),
        (b"\n", "no_engine"),
        (b"{}\n", "no_engine"),
        (b'{"kind":"reply","id":1,"ok":true}\n', "no_engine"),
        (b'{"kind":"header","format":"other","version":1}\n', "no_engine"),
        (b'{"kind":"header","format":"wmtop","version":%d,"new":[]}\n' % (STREAM_VERSION - 1), "version"),
        (b'{"kind":"header","format":"wmtop","version":%d,"new":[]}\n' % (STREAM_VERSION + 1), "version"),
        (b'{"kind":"header","format":"wmtop","version":%d}\n' % STREAM_VERSION, "unreadable"),
    ],
)
def test_what_is_no_engine_of_ours_is_one_line(path: Path, says: bytes, error: str) -> None:
    with speaker(path, says), refused(RunError, error):
        run(collect(Client(path)))


def test_an_unreadable_message_is_one_line(path: Path, header: Header) -> None:
    for line in (b'{"kind":"news"}\n', b'{"kind":"reply","text":"\xff"}\n', b'{"x":' + b"[" * 10_000 + b"\n"):
        with speaker(path, encode_line(header) + line), refused(RunError, "unreadable"):
            run(collect(Client(path)))
        path.unlink()


def test_an_endless_line_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmtop.engine.feed.client.LINE_LIMIT", 100_000)
    with speaker(path, b"x" * 1_000_000), refused(RunError, "too_long", 100_000):
        run(collect(Client(path)))


def test_a_line_of_an_engine_that_is_too_long_is_not_blamed_on_another_program(
    path: Path, header: Header, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wmtop.engine.feed.client.LINE_LIMIT", 100_000)
    with speaker(path, encode_line(header) + b"x" * 1_000_000), refused(RunError, "too_long", "--max-channels"):
        run(collect(Client(path)))


def test_another_run_is_not_shown(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    """The name and the socket are the same: only the id tells the runs apart."""
    mine, other = replace(header, id="mine"), replace(header, id="other")
    with Publisher(path, mine, obey) as publisher:
        publisher.publish(snapshot(1))
        with refused(RunError, "another_run"):
            run(collect(Client(path, run_id="other")))
        with refused(RunError, "another_run"):
            request(path, Stop(id=1), DEADLINE_S, run_id="other")
        assert request(path, Stop(id=1), DEADLINE_S, run_id="mine").ok
    with Publisher(path, other, obey), refused(RunError, "another_run"):
        run(collect(Client(path, run_id="mine")))


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_viewer_distinguishes_a_killed_engine_from_a_stopped_one(
    path: Path, header: Header, snapshot: MakeSnapshot, how: str
) -> None:
    process = subprocess.Popen(["sleep", "600"])
    process.kill()  # not waited for: it is a zombie, as the engine of a parent that does not look
    lines = [replace(header, id="mine", pid=process.pid), snapshot(1), *([End(reason="stopped")] * (how == "stopped"))]
    try:
        with speaker(path, b"".join(map(encode_line, lines))):
            if how == "stopped":
                assert run(collect(Client(path))) == lines[:2]
            else:
                with refused(RunError, "engine_killed", process.pid):
                    run(collect(Client(path)))
    finally:
        process.wait()


def test_a_connection_that_is_lost_while_the_engine_runs_is_not_its_end(
    path: Path, header: Header, snapshot: MakeSnapshot
) -> None:
    alive = replace(header, id="mine", pid=os.getpid())
    with speaker(path, encode_line(alive) + encode_line(snapshot(1))), refused(RunError, "connection_lost"):
        run(collect(Client(path)))


def test_a_path_that_is_no_socket_is_one_line(path: Path) -> None:
    with refused(RunError, "", path.with_name("x" * 200)):
        run(collect(Client(path.with_name("x" * 200))))


def test_send_waits_for_the_connection(path: Path, header: Header) -> None:
    async def work() -> list[FromEngine]:
        client = Client(path)
        sending = asyncio.create_task(client.send(Stop(id=5)))
        await asyncio.sleep(0)
        async with aclosing(client.messages()) as messages:
            seen = [await anext(messages), await anext(messages)]
        await sending
        return seen

    with Publisher(path, header, obey):
        assert run(work()) == [header, Reply(id=5, ok=True)]


def test_send_without_an_engine_is_one_line(path: Path) -> None:
    with refused(RunError, "no_commands", "flights"):
        run(Client(path, timeout_s=0.05).send(Stop(id=1)))


def test_close_ends_the_messages(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    async def work() -> list[FromEngine]:
        client = Client(path)
        seen: list[FromEngine] = []
        async for message in client.messages():
            seen.append(message)
            if isinstance(message, Snapshot):
                await client.close()
        return seen

    with Publisher(path, header, obey) as publisher:
        publisher.publish(snapshot(1))
        first_snapshot(path, DEADLINE_S)
        seen = run(work())
        assert isinstance(seen, list)
        assert seen[1:] == [snapshot(1)]


def test_close_ends_the_wait_for_an_engine(path: Path) -> None:
    async def work() -> list[FromEngine]:
        client: Client
        asked = asyncio.Event()

        def alive() -> None:
            asked.set()

        client = Client(path, alive=alive)
        collecting = asyncio.create_task(collect(client))
        await asked.wait()
        await client.close()
        return await collecting

    assert run(work()) == []


def test_request_to_what_does_not_answer(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    hung_up = encode_line(header) + encode_line(End(reason="stopped"))
    with speaker(path, hung_up), pytest.raises(RunError) as caught:
        request(path, Stop(id=1), DEADLINE_S)
    assert caught.value.code in ("ended_early", "no_commands")
    path.unlink()
    with speaker(path, hung_up), refused(RunError, "ended_early"):
        first_snapshot(path, DEADLINE_S)
    path.unlink()
    with Publisher(path, header, obey), refused(RunError, "no_answer", "0.1 s"):
        first_snapshot(path, 0.1)


def test_request_is_answered_between_snapshots(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    with Publisher(path, header, obey) as publisher:
        publisher.publish(snapshot(1))
        assert first_snapshot(path, DEADLINE_S) == snapshot(1)
        assert request(path, Stop(id=77), DEADLINE_S) == Reply(id=77, ok=True)
