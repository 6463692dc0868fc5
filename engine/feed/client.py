"""The viewer's end of the stream."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

import msgspec

from ..snapshot import Snapshot
from ..system.errors import RunError
from .messages import (
    LINE_LIMIT,
    STREAM_VERSION,
    End,
    EngineLine,
    FromEngine,
    Greeting,
    Header,
    Reply,
    ToEngine,
    decode_as,
    decode_from_engine,
    encode_line,
)

_CHUNK = 64 * 1024  # bytes; small, so that a slow viewer leaves old snapshots to the engine to drop
_RETRY_S = 0.05
_GRACE_S = 1.0

_T = TypeVar("_T")


class Client:
    """A connection to the engine with the socket `path`; belongs to one event loop.

    `alive` returns None while the engine's process runs, or ended normally, and one line when it died. With `alive` the
    client waits for the socket as long as the engine lives, without it for `timeout_s`. With `run_id` it reads only
    that run's stream. A `read_only` client sends nothing.
    """

    def __init__(
        self,
        path: Path,
        *,
        alive: Callable[[], str | None] | None = None,
        run_id: str | None = None,
        timeout_s: float = 10.0,
        read_only: bool = False,
    ) -> None:
        self._path = path
        self._alive = alive
        self._run_id = run_id
        self._timeout_s = timeout_s
        self.read_only = read_only
        self._writer: asyncio.StreamWriter | None = None
        self._connected = asyncio.Event()
        self._closed = False

    async def messages(self) -> AsyncGenerator[FromEngine, None]:
        """Connect and yield the header, then the messages, until the engine's `End` or `close`; call again to
        reconnect.

        RunError if there is no engine, if it is another run or uses another stream version, or if the connection ends
        without the engine's `End`: with the reason from `alive`, or whether its process is gone.
        """
        connection = await self._connect()
        if connection is None:
            return
        reader, self._writer = connection
        self._connected.set()
        header: Header | None = None
        over = False
        try:
            async with aclosing(self._lines(reader)) as lines:
                async for line in lines:
                    message = self._decode(line) if header else self._greet(line)
                    if isinstance(message, End):
                        over = True
                        continue
                    if isinstance(message, Header):
                        header = message
                    elif isinstance(message, Snapshot):
                        over = message.state in ("ended", "failed")
                    yield message
        finally:
            self._connected.clear()
            self._writer.close()
            self._writer = None
        if not self._closed:
            await self._raise_if_dead(0.0 if over else _GRACE_S)
            if header is None and self._path.exists():  # an engine that ends removes it first
                text = f"{self._name} closed the connection at once; it may have too many viewers: close one of them"
                raise RunError(text, code="refused")
            if not over and self._alive is None and header is not None:
                await self._raise_lost(header)

    async def send(self, command: ToEngine) -> None:
        """Send `command`, once connected; its Reply comes with the messages. RunError if it cannot be sent."""
        if self.read_only:
            raise RunError("this screen is read-only; open it without --read-only to change settings")
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._connected.wait()
                writer = self._writer
                assert writer is not None
                writer.write(encode_line(command))
                await writer.drain()
        except (TimeoutError, ConnectionError) as error:
            raise RunError(
                f"{self._name} does not accept commands; check with wmtop runs that it is running", code="no_commands"
            ) from error

    async def close(self) -> None:
        """Close the connection; `messages` ends."""
        self._closed = True
        if self._writer is not None:
            self._writer.close()

    @property
    def _name(self) -> str:
        return f"engine {self._path.stem!r}"

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection; None if `close` came first."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._timeout_s
        while not self._closed:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.setblocking(False)
            try:
                # Not by asyncio: it takes the error of a full queue (BlockingIOError) for a connection under way.
                connection.connect(str(self._path))
                return await asyncio.open_unix_connection(sock=connection, limit=_CHUNK)
            except (FileNotFoundError, ConnectionRefusedError, BlockingIOError) as error:
                connection.close()
                await self._raise_if_dead(0.0)
                if self._alive is None and clock() >= deadline:
                    raise _no_answer(self._path, self._timeout_s) from error
            except OSError as error:
                connection.close()
                raise RunError(f"cannot connect to {self._path}: {error.strerror or error}") from error
            await asyncio.sleep(_RETRY_S)
        return None

    async def _lines(self, reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
        """The complete lines received, without line ends; not by readline(), whose buffer would hold old snapshots."""
        parts: list[bytes] = []
        size = 0
        while chunk := await _read(reader):
            *ends, unfinished = chunk.split(b"\n")
            for end in ends:
                yield b"".join([*parts, end])
                parts, size = [], 0
            parts.append(unfinished)
            size += len(unfinished)
            if size > LINE_LIMIT:
                raise RunError(
                    f"{self._name} sends lines of more than {LINE_LIMIT} bytes, the most that wmtop reads;"
                    " start it with a smaller --max-channels",
                    code="too_long",
                )

    async def _raise_if_dead(self, grace_s: float) -> None:
        """RunError with the line from `alive`; a dead process is noticed a moment after its socket was closed."""
        if self._alive is None:
            return
        clock = asyncio.get_running_loop().time
        deadline = clock() + grace_s
        while (text := self._alive()) is None and clock() < deadline:
            await asyncio.sleep(_RETRY_S)
        if text is not None:
            raise RunError(text)

    async def _raise_lost(self, header: Header) -> None:
        """RunError: the stream ended without `End`; a killed process disappears a moment after its socket."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + _GRACE_S
        while is_running(header.pid) and clock() < deadline:
            await asyncio.sleep(_RETRY_S)
        if is_running(header.pid):
            raise RunError(
                f"the connection to {self._name} (process {header.pid}) was lost, but it still runs; open it again",
                code="connection_lost",
            )
        raise RunError(
            f"{self._name} (process {header.pid}) was killed or crashed (out of memory?);"
            f" see its log {self._path.with_suffix('.log')}",
            code="engine_killed",
        )

    def _greet(self, line: bytes) -> EngineLine:
        try:
            hello = decode_as(Greeting, line)
        except msgspec.DecodeError:
            hello = Greeting()
        if (hello.kind, hello.format) != ("header", "wmtop"):
            raise RunError(f"{self._path} is not a wmtop engine", code="no_engine")
        if hello.version != STREAM_VERSION:
            raise RunError(
                f"{self._name} sends stream version {hello.version}, but this wmtop reads {STREAM_VERSION};"
                " use the wmtop that started it",
                code="version",
            )
        if self._run_id is not None and hello.id != self._run_id:
            raise RunError(f"{self._name} is a new run now; list the runs again with 'wmtop runs'", code="another_run")
        return self._decode(line)

    def _decode(self, line: bytes) -> EngineLine:
        try:
            return decode_from_engine(line)
        except msgspec.DecodeError as error:
            raise RunError(
                f"{self._name} sent a line that this wmtop cannot read: {error}", code="unreadable"
            ) from error


def is_running(pid: int) -> bool:
    """Whether a process of this machine runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return not Path("/proc/self").exists()
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def request(path: Path, command: ToEngine, timeout_s: float = 10.0, *, run_id: str | None = None) -> Reply:
    """Send one command and wait for its Reply; RunError if none comes. Must not be called in an event loop."""

    def answer(message: FromEngine) -> Reply | None:
        return message if isinstance(message, Reply) and message.id == command.id else None

    return _first(path, timeout_s, run_id, answer, "an answer", command)


def first_snapshot(path: Path, timeout_s: float = 10.0, *, run_id: str | None = None) -> Snapshot:
    """The engine's newest snapshot; RunError if none comes. Must not be called in an event loop."""
    return _first(path, timeout_s, run_id, lambda m: m if isinstance(m, Snapshot) else None, "a snapshot")


def _first(
    path: Path, timeout_s: float, run_id: str | None, wanted: Callable[[FromEngine], _T | None], what: str,
    command: ToEngine | None = None,
) -> _T:  # fmt: skip
    """What `wanted` finds first in the messages, after a command if there is one."""

    async def ask() -> _T:
        client = Client(path, timeout_s=timeout_s, run_id=run_id)
        async with asyncio.timeout(timeout_s), aclosing(client.messages()) as messages:
            async for message in messages:
                if (found := wanted(message)) is not None:
                    return found
                if command is not None and isinstance(message, Header):
                    await client.send(command)
        raise RunError(f"engine {path.stem!r} closed the connection without {what}", code="ended_early")

    try:
        return asyncio.run(ask())
    except TimeoutError as error:
        raise _no_answer(path, timeout_s) from error


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(_CHUNK)
    except ConnectionError:
        return b""


def _no_answer(path: Path, timeout_s: float) -> RunError:
    return RunError(
        f"engine {path.stem!r} did not answer within {timeout_s:g} s; list the running engines with wmtop runs",
        code="no_answer",
    )
