"""The engine's end of the stream: a Unix socket served by a thread of its own."""

import asyncio
import logging
import socket
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ..snapshot import Note, Snapshot, Windows
from ..system.errors import RunError, first_line
from ..verdict.history import HistoryPoint, history_point, is_overtaken
from ..watermarks.counts import PointSample
from .messages import COMMAND_LIMIT, LINE_LIMIT, End, Header, Reply, ToEngine, decode_as, decode_to_engine, encode_line

HISTORY_LIMIT = 600
MAX_VIEWERS = 256
"""Connections at once, at most: each needs a descriptor, and an engine without one cannot save its state. Of more the
process that has most loses its newest: who hoards them keeps no other, and no command, out.
"""
_log = logging.getLogger(__name__)

TOO_LONG = "the line is too long for a command"
NOT_A_COMMAND = "not a command"


class _AnyCommand(Struct):
    """The id of a line that is no known command, for the reply."""

    id: int = 0


class _Viewer:
    """One connection; lines are written to it one at a time."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        # With no write buffer allowed, drain() returns once the kernel has taken everything: no old data queues up
        # here.
        writer.transport.set_write_buffer_limits(high=0)
        self._writer = writer
        self.process = _peer(writer)
        self._turn = asyncio.Lock()
        self._sent = 0
        self.answering = asyncio.Lock()
        self.news = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def send(self, line: bytes) -> None:
        async with self._turn:
            self._writer.write(line)
            await self._writer.drain()

    async def catch_up(self, newest: Callable[[], tuple[int, bytes]]) -> None:
        """Send the newest snapshot if it has not been sent; the newest is determined when the connection is free."""
        async with self._turn:
            number, line = newest()
            if number > self._sent:
                self._sent = number
                self._writer.write(line)
                await self._writer.drain()

    def hang_up(self) -> None:
        self._writer.transport.abort()


class Publisher(AbstractContextManager["Publisher"]):
    """Serves the stream at `path` until `close`.

    `on_command` runs on a worker thread, one command of a connection at a time; its Reply goes back to the sender, an
    exception as `ok=False`. It must not call `close`. RunError if the socket cannot be created.
    """

    def __init__(self, path: Path, header: Header, on_command: Callable[[ToEngine], Reply]) -> None:
        self._path = path
        self._header = header
        self._on_command = on_command
        self._gate = threading.Lock()  # guards _waiting and _closed, the only state that two threads share
        self._waiting: Snapshot | None = None
        self._closed = False
        self._timeout_s = 0.0
        self._end: End | None = None
        self._newest: Snapshot | None = None
        self._number = 0
        self._line: bytes | None = None
        self._history: deque[HistoryPoint] = deque(maxlen=HISTORY_LIMIT)
        self._sample = PointSample()
        self._viewers: dict[_Viewer, None] = {}  # in the order in which they came
        self._loop, self._closing = self._start()

    def publish(self, snapshot: Snapshot) -> None:
        """Send `snapshot` to every viewer; returns at once, from any thread; does nothing after `close`."""
        with self._gate:
            if self._closed:
                return
            first = self._waiting is None
            self._waiting = snapshot
            if first:
                self._loop.call_soon_threadsafe(self._take)

    def close(self, timeout_s: float = 2.0, *, reason: Literal["ended", "stopped", "failed"] | None = None) -> None:
        """Send the last snapshot and pending replies to the viewers, for at most `timeout_s`, then disconnect.

        The stream's last line is an `End` with the reason (None: no reason).
        """
        with self._gate:
            first, self._closed = not self._closed, True
            if first:
                self._timeout_s = timeout_s
                self._end = None if reason is None else End(reason=reason)
                self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> tuple[asyncio.AbstractEventLoop, asyncio.Event]:
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

        def run() -> None:
            try:
                asyncio.run(self._serve(started))
            except Exception as error:
                if started.done():
                    _log.exception("the publisher died")
                else:
                    started.set_exception(error)

        self._thread = threading.Thread(target=run, name="wmtop-publisher", daemon=True)
        self._thread.start()
        try:
            return started.result()
        except OSError as error:
            raise RunError(f"cannot serve {self._path}: {error.strerror or error}", code="not_served") from error

    # From here on everything runs on the publisher's loop.

    async def _serve(self, started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]") -> None:
        closing = asyncio.Event()
        server = await asyncio.start_unix_server(self._receive, sock=_listener(self._path), limit=COMMAND_LIMIT)
        started.set_result((asyncio.get_running_loop(), closing))
        await closing.wait()
        server.close()
        self._path.unlink(missing_ok=True)
        if self._viewers:
            finishing = [asyncio.create_task(self._finish(viewer)) for viewer in self._viewers]
            await asyncio.wait(finishing, timeout=self._timeout_s)
        tasks = [viewer.task for viewer in self._viewers if viewer.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close one turn of the loop later

    def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        viewer = _Viewer(writer)
        self._viewers[viewer] = None
        viewer.task = asyncio.create_task(self._attend(reader, viewer))
        if len(self._viewers) > MAX_VIEWERS:
            newest_first = [(viewer.process, viewer) for viewer in reversed(self._viewers)]
            [(most, _)] = Counter(process for process, _ in newest_first).most_common(1)
            dropped = next(viewer for process, viewer in newest_first if process == most)
            self._viewers.pop(dropped)
            dropped.hang_up()

    async def _attend(self, reader: asyncio.StreamReader, viewer: _Viewer) -> None:
        """Serve one viewer until it disconnects."""
        # In this order: the header is written before any reply.
        tasks = [asyncio.create_task(self._feed(viewer)), asyncio.create_task(self._listen(reader, viewer))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._viewers.pop(viewer, None)
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception) and not isinstance(result, ConnectionError):
                    _log.error("a viewer was dropped", exc_info=result)
            viewer.hang_up()

    async def _feed(self, viewer: _Viewer) -> None:
        await viewer.send(encode_line(self._greeting()))
        if self._newest is not None:
            viewer.news.set()
        while True:
            await viewer.news.wait()
            viewer.news.clear()
            await viewer.catch_up(self._newest_line)

    async def _listen(self, reader: asyncio.StreamReader, viewer: _Viewer) -> None:
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                await viewer.send(encode_line(Reply(id=0, ok=False, text=TOO_LONG)))
                return
            if not line.endswith(b"\n"):
                return
            async with viewer.answering:
                await viewer.send(encode_line(await self._answer(line)))

    async def _finish(self, viewer: _Viewer) -> None:
        async with viewer.answering:
            with suppress(ConnectionError):
                if self._newest is not None:
                    await viewer.catch_up(self._newest_line)
                if self._end is not None:
                    await viewer.send(encode_line(self._end))

    def _take(self) -> None:
        """Fetch what `publish` left; of several snapshots in one turn of the loop only the newest is sent."""
        with self._gate:
            snapshot, self._waiting = self._waiting, None
        assert snapshot is not None
        self._newest, self._line = snapshot, None
        self._number += 1
        self._remember(snapshot)
        for viewer in self._viewers:
            viewer.news.set()

    def _remember(self, snapshot: Snapshot) -> None:
        """Keep one point per second, so that the history covers ten minutes however often snapshots come."""
        point = history_point(snapshot)
        last = self._history[-1] if self._history else None
        if point is None or is_overtaken(point, last):
            return
        if last is not None and last.wall_ms // 1000 == point.wall_ms // 1000:
            self._history.pop()
        self._history.append(point)
        self._sample.add(snapshot.points, self._history[0].now_ms)

    def _newest_line(self) -> tuple[int, bytes]:
        assert self._newest is not None
        if self._line is None:
            self._line = _line_of(self._newest)
        return self._number, self._line

    def _greeting(self) -> Header:
        """The header with the present settings and source, which may have changed since the start."""
        header = msgspec.structs.replace(self._header, history=list(self._history), points=self._sample.points)
        if self._newest is None:
            return header
        return msgspec.structs.replace(
            header, settings=self._newest.settings, source=self._newest.source or header.source
        )

    async def _answer(self, line: bytes) -> Reply:
        try:
            command = decode_to_engine(line)
        except msgspec.DecodeError as error:
            return Reply(id=_id_of(line), ok=False, text=f"{NOT_A_COMMAND}: {error}")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Reply] = loop.create_future()

        def deliver(reply: Reply) -> None:
            if not answer.done():
                answer.set_result(reply)

        def work() -> None:
            try:
                reply = self._on_command(command)
            except Exception as error:
                _log.exception("a command failed")
                reply = Reply(id=command.id, ok=False, text=first_line(error))
            with suppress(RuntimeError):  # the publisher was closed meanwhile
                loop.call_soon_threadsafe(deliver, reply)

        # A daemon thread, not an executor's: the process would wait for those at its end.
        threading.Thread(target=work, name="wmtop-command", daemon=True).start()
        return await answer


def _line_of(snapshot: Snapshot) -> bytes:
    """A snapshot as a line that every viewer can read: if it is too long, its largest parts are left out."""
    line = encode_line(snapshot)
    if len(line) <= LINE_LIMIT:
        return line
    args: dict[str, str | int | None] = {"channels": len(snapshot.channels), "bytes": len(line), "limit": LINE_LIMIT}
    return encode_line(
        msgspec.structs.replace(
            snapshot,
            state="partial" if snapshot.state == "live" else snapshot.state,
            channels=[],
            blockers=None,
            instances=None,
            windows=Windows(),
            lateness_by_channel=[],
            points=[],
            condition=msgspec.structs.replace(snapshot.condition, channels_left_out=len(snapshot.channels)),
            notes=[Note(snapshot.wall_ms or 0, "snapshot_too_long", args)],
        )
    )


def _peer(writer: asyncio.StreamWriter) -> int:
    """The process at the other end; 0 where the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)  # Linux: the process is the first of its numbers
    connection = writer.get_extra_info("socket")
    return 0 if option is None else int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, option, 4), sys.byteorder)


def _listener(path: Path) -> socket.socket:
    """A socket bound to `path`, for its owner only; a dead engine's socket there is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        path.chmod(0o600)
    except OSError:
        listener.close()
        raise
    return listener


def _id_of(line: bytes) -> int:
    try:
        return decode_as(_AnyCommand, line).id
    except msgspec.DecodeError:
        return 0
