"""The messages from the engine's stream to the app, and the client protocol that delivers them."""

from collections.abc import AsyncIterator
from typing import Protocol

from textual.message import Message

from ..engine.core.snapshot import Snapshot
from ..engine.feed.messages import FromEngine, Header, Reply, ToEngine


class SnapshotClient(Protocol):
    """One connection to an engine."""

    def messages(self) -> AsyncIterator[FromEngine]:
        """A header, then snapshots and replies; ends when the engine goes away, may raise `RunError`."""
        ...

    async def send(self, command: ToEngine) -> None:
        """Send a command; its answer comes as a `Reply` with the same id."""
        ...

    async def close(self) -> None:
        """Close the connection; the engine continues."""
        ...


class HeaderCame(Message):
    """The engine introduced itself."""

    def __init__(self, header: Header) -> None:
        self.header = header
        super().__init__()


class SnapshotCame(Message):
    """A newer picture; one that still waits in the queue is superseded by it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, SnapshotCame)


class ReplyCame(Message):
    """The engine answered a command."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        super().__init__()


class StreamEnded(Message):
    """The stream has ended; `reason` is one line, or None if there is no reason."""

    def __init__(self, reason: str | None) -> None:
        self.reason = reason
        super().__init__()
