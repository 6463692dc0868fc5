"""Addresses of targets, and those of our own: running engines and recordings."""

import os
import re
import stat
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from ..feed import run_directory
from ..feed.messages import FromEngine, Header
from ..feed.recording_reader import RecordingReader
from ..snapshot import Snapshot
from ..system.errors import LOGIN_IN_ADDRESS, RunError, UsageError, one_line
from ..system.places import URI, scheme_of
from .target import Message, Pace

_NAMELESS = re.compile(
    r"[_.]?(checkpoints?|checkpoint[_-]?(dir|location)|ckpts?|chk(pt)?s?|ck|cp)([_-]?\d+)?|", re.IGNORECASE
)
"""Directory names that do not identify a query."""

WHAT = (
    "a run, a checkpoint or event log (path or URI), a published query, kafka://BOOTSTRAP[/TOPIC], "
    "flink://HOST:PORT[/JOB] or spark+http://HOST:PORT[/APP]"
)
_MAX_ADDRESS = 4_096
"""The longest address (characters): the longest path of a file, too."""


def check_address(address: str) -> str:
    """The address; UsageError, which does not repeat it, where it is none or has a password."""
    if LOGIN_IN_ADDRESS.search(address):
        raise UsageError(
            "a password in an address shows in process lists; set it in the environment (WMTOP_FLINK_LOGIN, "
            "KAFKA_SASL_PASSWORD) or in a file (--auth-file, --kafka-config)",
            code="login",
        )
    if len(address) > _MAX_ADDRESS:
        raise UsageError(
            f"an address of {len(address):,} characters is too long (at most {_MAX_ADDRESS:,})", code="long"
        )
    try:
        urlsplit(address)
        os.path.lexists(address)
    except ValueError as error:
        raise UsageError(f"{one_line(address)} is not an address: {error}; give {WHAT}", code="address") from None
    return address


def is_remote(address: str) -> bool:
    """Whether the address is a URI of a store or of another machine's file system."""
    return scheme_of(address) is not None


def without_scheme(address: str) -> str:
    """The part of a URI after its scheme."""
    return URI.sub("", address)


def local_path(address: str) -> Path:
    """The path of the address, also from a URI in Spark's form (`file:/data/ckpt`).

    UsageError if this user may not read there.
    """
    uri = URI.match(address)
    path = address if uri is None else re.sub("^(?://[^/]*)?/+", "/", address[len(uri[1]) + 1 :])
    if uri is not None and uri[1].lower() == "dbfs":
        path = f"/dbfs/{path.lstrip('/')}"  # where Databricks mounts it
        if not os.path.exists("/dbfs"):
            raise UsageError(
                f"{one_line(address)} is not mounted here: run wmtop on the cluster's driver, or copy it here"
            )
    try:
        os.stat(path)
        if os.path.isdir(path):
            os.scandir(path).close()
    except PermissionError as error:
        raise UsageError(f"cannot read {one_line(path)}: {error.strerror}") from None
    except (OSError, ValueError):
        pass  # it does not exist: the caller reports that, with similar names
    return Path(path)


def known_as(path: Path) -> str:
    """The name for a checkpoint: for a directory named just `ckpt` or `_checkpoint`, that of its parent."""
    whole = path.absolute()
    return next((each.name for each in (whole, *whole.parents) if not _NAMELESS.fullmatch(each.name)), whole.name)


def name_of(text: str) -> str:
    """An engine name derived from a file or directory name."""
    kept = "".join(character if character.isascii() and character.isalnum() else "-" for character in text)
    return kept.strip("-")[:40] or "run"


if TYPE_CHECKING:  # asyncio is slow to import
    import asyncio

    from ..feed.client import Client


class RunningEngine(Struct, frozen=True):
    """The address of a running engine; the engine there must have the id (None: the target was a socket's path)."""

    socket: Path
    run_id: str | None

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.socket.stem

    def client(self, *, read_only: bool) -> "Client":
        """A connection to that engine only: another one at the same address is refused."""
        from ..feed.client import Client

        return Client(self.socket, run_id=self.run_id, read_only=read_only)

    def follow(self, name: str, pace: Pace) -> Generator[Message]:
        """Its header and snapshots, until its stream ends."""
        import asyncio

        over = asyncio.Event()
        with asyncio.Runner() as runner:
            loop = runner.get_loop()

            def stop() -> None:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(over.set)

            pace.at_stop(stop)
            messages = self.client(read_only=True).messages()
            try:
                while (message := runner.run(_next_of(messages, over, pace.left_s))) is not None:
                    if isinstance(message, Header | Snapshot):
                        yield message
            finally:
                runner.run(messages.aclose())


async def _next_of(
    messages: "AsyncGenerator[FromEngine]", over: "asyncio.Event", within_s: float | None
) -> "FromEngine | None":
    """The next message; None after the last one, when it is `over`, or where none comes within `within_s`."""
    import asyncio

    async def read() -> FromEngine | None:
        return await anext(messages, None)

    coming, ending = asyncio.ensure_future(read()), asyncio.ensure_future(over.wait())
    try:
        await asyncio.wait({coming, ending}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
    finally:
        ending.cancel()
        if not coming.done():  # a generator that is read cannot be closed
            coming.cancel()
            await asyncio.wait({coming})


class Recording(Struct, frozen=True):
    """A recording, whose last snapshot never becomes stale."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    def follow(self, name: str, pace: Pace) -> Generator[Message]:
        """Its header with its history, then its last snapshot again and again."""
        with RecordingReader(self.path) as reader:
            if not len(reader):
                raise UsageError(f"{self.path} holds no snapshot")
            last = reader.at(len(reader) - 1)
            yield replace(reader.header, history=[point for point in reader.points if point is not None])
        yield last
        while pace.wait(0):
            yield last


def is_path(address: str) -> bool:
    """Whether the address is a path or a URI; else it is the name of a run or of a published query."""
    return "/" in address


def is_recording(address: str) -> bool:
    """Whether the address (a path, or its `file:` URI) is that of a recording, also of one that cannot be read here."""
    if not is_path(address) or is_remote(address):
        return False
    try:
        if not (path := local_path(address)).is_file():
            return False
        with RecordingReader(path):
            return True
    except UsageError as error:
        return error.code == "version"
    except RunError:  # it is damaged: its reader reports where
        return True


def running_engine(address: str) -> RunningEngine | None:
    """The running engine that the address names, as its socket's path or by its name; None: no engine."""
    if is_path(address):
        path = Path(address)
        with suppress(OSError, ValueError):
            if stat.S_ISSOCK(path.stat().st_mode):
                return RunningEngine(path, None)
        return None
    runs = [run for run in run_directory.list_runs() if run.name == address]
    return RunningEngine(runs[0].socket, runs[0].id) if runs else None


def own_run(address: str, *, runs: bool = True) -> RunningEngine | Recording | None:
    """The running engine (only with `runs`) or the recording at an address; None: neither."""
    engine = running_engine(address) if runs else None
    return Recording(local_path(address)) if engine is None and is_recording(address) else engine
