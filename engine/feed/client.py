"""The viewer's end of the stream."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from ..core.snapshot import Snapshot
from ..errors import RunError
from .messages import (
    LINE_LIMIT,
    STREAM_VERSION,
    FromEngine,
    Header,
    Reply,
    ToEngine,
    decode_as,
    decode_from_engine,
    encode_line,
)

_CHUNK = 64 * 1024  # bytes; small, so that a viewer that falls behind leaves old snapshots to the engine to drop
_RETRY_S = 0.05
_GRACE_S = 1.0


class _Hello(Struct):
    """As much of a header as every version of the stream has."""

    kind: str = ""
    format: str = ""
    version: int = 0


class Client:
    """A connection to the engine whose socket is `path`; belongs to one event loop.

    `alive` returns None while the engine's process runs, or ended well, and one line when it died; with it the client
    waits for the socket as long as the engine lives, without it for `timeout_s`. A `read_only` one sends nothing.
    """

    def __init__(
        self,
        path: Path,
        *,
        alive: Callable[[], str | None] | None = None,
        timeout_s: float = 10.0,
        read_only: bool = False,
    ) -> None:
        self._path = path
        self._alive = alive
        self._timeout_s = timeout_s
        self._read_only = read_only
        self._writer: asyncio.StreamWriter | None = None
        self._connected = asyncio.Event()
        self._closed = False

    async def messages(self) -> AsyncGenerator[FromEngine, None]:
        """Connect; the header, then what comes, until the engine hangs up or `close`; call again to reconnect.

        RunError if there is no engine, it died (what `alive` says), or it speaks another version of the stream.
        """
        connection = await self._connect()
        if connection is None:
            return
        reader, self._writer = connection
        self._connected.set()
        over = greeted = False
        try:
            async with aclosing(self._lines(reader)) as lines:
                async for line in lines:
                    message = self._decode(line) if greeted else self._greet(line)
                    greeted = True
                    if isinstance(message, Snapshot):
                        over = message.state in ("ended", "failed")
                    yield message
        finally:
            self._connected.clear()
            self._writer.close()
            self._writer = None
        if not self._closed:
            await self._raise_if_dead(0.0 if over else _GRACE_S)

    async def send(self, command: ToEngine) -> None:
        """Send `command`, once connected; its Reply comes with the messages. RunError if nobody takes it."""
        if self._read_only:
            raise RunError("this screen changes nothing: it was opened with --read-only")
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._connected.wait()
                writer = self._writer
                assert writer is not None
                writer.write(encode_line(command))
                await writer.drain()
        except (TimeoutError, ConnectionError) as error:
            raise RunError(f"{self._name} does not take commands: is it still running?") from error

    async def close(self) -> None:
        """Hang up; `messages` ends."""
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
            try:
                return await asyncio.open_unix_connection(self._path, limit=_CHUNK)
            except (FileNotFoundError, ConnectionRefusedError) as error:
                await self._raise_if_dead(0.0)
                if self._alive is None and clock() >= deadline:
                    raise _no_answer(self._path, self._timeout_s) from error
            except OSError as error:
                raise RunError(f"cannot connect to {self._path}: {error.strerror or error}") from error
            await asyncio.sleep(_RETRY_S)
        return None

    async def _lines(self, reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
        """The whole lines that come, without their ends; not readline(), whose buffer would hold old snapshots."""
        parts: list[bytes] = []
        size = 0
        while chunk := await _read(reader):
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                yield b"".join([*parts, end])
                parts, size = [], 0
            parts.append(rest)
            size += len(rest)
            if size > LINE_LIMIT:
                raise RunError(f"{self._path} is not a wmtop engine: it sends lines of more than {LINE_LIMIT} bytes")

    async def _raise_if_dead(self, grace_s: float) -> None:
        """RunError with what `alive` says; a process is seen dead a moment after its socket was closed."""
        if self._alive is None:
            return
        clock = asyncio.get_running_loop().time
        deadline = clock() + grace_s
        while (text := self._alive()) is None and clock() < deadline:
            await asyncio.sleep(_RETRY_S)
        if text is not None:
            raise RunError(text)

    def _greet(self, line: bytes) -> FromEngine:
        try:
            hello = decode_as(_Hello, line)
        except msgspec.DecodeError:
            hello = _Hello()
        if (hello.kind, hello.format) != ("header", "wmtop"):
            raise RunError(f"{self._path} is not a wmtop engine")
        if hello.version != STREAM_VERSION:
            raise RunError(
                f"{self._name} speaks version {hello.version} of the stream, this wmtop {STREAM_VERSION}:"
                " use the wmtop that started it"
            )
        return self._decode(line)

    def _decode(self, line: bytes) -> FromEngine:
        try:
            return decode_from_engine(line)
        except msgspec.DecodeError as error:
            raise RunError(f"{self._name} sent what this wmtop cannot read: {error}") from error


def request(path: Path, command: ToEngine, timeout_s: float = 10.0) -> Reply:
    """Send one command and wait for its Reply; RunError if none comes. Not from within an event loop."""

    async def ask() -> Reply:
        client = Client(path, timeout_s=timeout_s)
        async with aclosing(client.messages()) as messages:
            async for message in messages:
                if isinstance(message, Reply) and message.id == command.id:
                    return message
                if isinstance(message, Header):
                    await client.send(command)
        raise RunError(f"engine {path.stem!r} went away without an answer")

    return _within(ask, path, timeout_s)


def first_snapshot(path: Path, timeout_s: float = 10.0) -> Snapshot:
    """The engine's newest snapshot; RunError if none comes. Not from within an event loop."""

    async def ask() -> Snapshot:
        async with aclosing(Client(path, timeout_s=timeout_s).messages()) as messages:
            async for message in messages:
                if isinstance(message, Snapshot):
                    return message
        raise RunError(f"engine {path.stem!r} went away without a snapshot")

    return _within(ask, path, timeout_s)


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(_CHUNK)
    except ConnectionError:
        return b""


_T = TypeVar("_T")


def _within(ask: Callable[[], Awaitable[_T]], path: Path, timeout_s: float) -> _T:
    async def run() -> _T:
        async with asyncio.timeout(timeout_s):
            return await ask()

    try:
        return asyncio.run(run())
    except TimeoutError as error:
        raise _no_answer(path, timeout_s) from error


def _no_answer(path: Path, timeout_s: float) -> RunError:
    return RunError(f"engine {path.stem!r} did not answer within {timeout_s:g} s: wmtop runs lists what is running")
