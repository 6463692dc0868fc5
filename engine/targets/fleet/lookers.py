"""Readers of targets: an engine by its stream, a tap by polls, a recording by its last snapshot."""

import asyncio
import threading
import time
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ...feed.client import Client
from ...feed.messages import Header
from ...feed.recording_reader import RecordingReader
from ...snapshot import Snapshot
from ...system.errors import UsageError
from ...verdict.judge import SnapshotJudge
from ..engine import Watched
from .watcher import Take


class EngineLooker:
    """The stream of a running engine."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._stopped = False

    def follow(self, take: Take) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._follow(take))

    def stop(self) -> None:
        self._stopped = True
        loop, task = self._loop, self._task
        if loop is not None and task is not None and not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)

    async def _follow(self, take: Take) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self._stopped:
            return
        async with aclosing(self._client.messages()) as messages:
            async for message in messages:
                if isinstance(message, Header | Snapshot):
                    take(message)


class TapLooker:
    """A target that another program runs, polled every `every_s` seconds, or less often if its tap asks for it."""

    def __init__(self, name: str, watched: Watched[Any], every_s: float) -> None:
        self._name = name
        self._watched = watched
        self._every_s = every_s
        self._stopping = threading.Event()

    def follow(self, take: Take) -> None:
        judge = SnapshotJudge()
        watched = self._watched
        watched.open()
        try:
            first = True
            while not self._stopping.is_set():
                facts, now_ms = watched.poll(), time.time_ns() // 1_000_000
                seen = watched.picture(self._name, facts, now_ms)
                if first:
                    judge.remember(watched.past(facts, now_ms))
                    first = False
                take(replace(seen, verdict=judge.verdict(seen)))
                self._stopping.wait(max(self._every_s, watched.every_s))
        finally:
            watched.close()

    def stop(self) -> None:
        self._stopping.set()


class RecordingLooker:
    """A recording: its last snapshot, which never becomes stale."""

    def __init__(self, path: Path, every_s: float) -> None:
        self._path = path
        self._every_s = every_s
        self._stopping = threading.Event()

    def follow(self, take: Take) -> None:
        with RecordingReader(self._path) as reader:
            if not len(reader):
                raise UsageError(f"{self._path} holds no snapshot")
            last = reader.at(len(reader) - 1)
            take(replace(reader.header, history=[point for point in reader.points if point is not None]))
        while not self._stopping.is_set():
            take(last)
            self._stopping.wait(self._every_s)

    def stop(self) -> None:
        self._stopping.set()
