"""A target of the watcher as the stream that a screen follows."""

import asyncio
import time
from collections.abc import AsyncGenerator

from ....engine.feed.messages import FromEngine, Header, Reply, Stop, ToEngine
from ....engine.snapshot import Snapshot
from ....engine.system.errors import RunError
from ....engine.targets.fleet import TargetWatch
from ....engine.targets.follow import change_in_job, header_of


class WatchedFeed:
    """The feed of a target that the fleet watches; read-only."""

    read_only = False

    def __init__(self, watch: TargetWatch) -> None:
        self._watch = watch
        self._queue: asyncio.Queue[FromEngine | None] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last: Snapshot | None = None

    async def messages(self) -> AsyncGenerator[FromEngine, None]:
        """A header with the fleet's history, then each snapshot; a lost target sends nothing until it is back."""
        self._loop = asyncio.get_running_loop()
        introduced = False
        end = self._watch.listen(self._take)
        try:
            while (message := await self._queue.get()) is not None:
                if isinstance(message, Snapshot):
                    self._last = message
                    if not introduced:
                        introduced = True
                        yield header_of(message, time.time_ns() // 1_000_000, self._watch.points)
                yield message
        finally:
            end()

    async def send(self, command: ToEngine) -> None:
        """Answer a change with the right way to make it."""
        if isinstance(command, Stop):
            raise RunError("a target of the fleet is not stopped from here")
        line = change_in_job(command, self._last)
        instead = "; change it in its job" if line is None else f": {line}"
        await self._queue.put(Reply(id=command.id, ok=False, text=f"it cannot be changed from here{instead}"))

    async def close(self) -> None:
        """End `messages`."""
        await self._queue.put(None)

    def _take(self, message: Header | Snapshot) -> None:
        """On the target's thread."""
        loop = self._loop
        if loop is None or loop.is_closed() or isinstance(message, Header):
            return
        loop.call_soon_threadsafe(self._queue.put_nowait, message)
