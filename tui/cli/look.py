"""Reads a target once, whatever its kind: a running engine, a recording, a query, a topic, a job."""

import time as clock
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ...engine.doctor import diagnose, verdict_at
from ...engine.feed.messages import Header
from ...engine.feed.recording_reader import RecordingReader
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError, UsageError
from ...engine.text.formatting import clean, first_line
from ...engine.verdict.judge import SnapshotJudge
from ..words.fail_if import CheckInput
from ..words.recent import Recent
from .fleet.members import Member
from .moment import number_at

if TYPE_CHECKING:
    from ...engine.targets.engine import Watched
    from .attach import EngineAddress


class Look(Struct):
    """The result of looking at a target."""

    recent: Recent
    snapshot: Snapshot | None = None
    lost: str | None = None

    def given(self) -> CheckInput:
        """For facts and findings."""
        assert self.snapshot is not None
        past = self.recent.until(self.snapshot)
        findings = diagnose(self.snapshot, past, lost=self.lost)
        return CheckInput(self.snapshot, past, verdict_at(self.snapshot, past, lost=self.lost), findings)


Decided = Callable[[Look], bool]
"""Whether more time would not change the answer."""


def look_at(member: Member, decided: Decided, for_ms: int, at: int | None, options: Mapping[str, Any]) -> Look:
    """Look at the target until it is `decided`, or `for_ms` are over; `at` (epoch ms) is the moment of a recording.

    `options` (of `watched_of`; None: not given) win over the member's own.
    """
    from .attach import engine_of

    target = member.target
    options = {**member.options, **{name: value for name, value in options.items() if value is not None}}
    path = Path(target)
    if (engine := engine_of(target)) is not None:
        _only_recordings(target, at)
        import asyncio  # slow to import

        return asyncio.run(_engine(engine, decided, for_ms))
    if is_recording(path):
        return _recorded(path, at)
    _only_recordings(target, at)
    from .attach import watched_of

    watched = watched_of(target, options)
    look = Look(Recent())
    with opened(watched):
        until = clock.monotonic() + for_ms / 1_000
        for snapshot in pictures(watched, until):
            look.snapshot = snapshot
            look.recent.add(snapshot)
            if decided(look):
                break
    return look


def is_recording(path: Path) -> bool:
    """Whether the file is a recording."""
    if not path.is_file():
        return False
    try:
        with RecordingReader(path):
            return True
    except UsageError:
        return False


def _only_recordings(target: str, at: int | None) -> None:
    if at is not None:
        raise UsageError(f"--at is for a recording, and {clean(target)} is not one")


def _recorded(path: Path, at: int | None) -> Look:
    with RecordingReader(path) as reader:
        if not len(reader):
            raise UsageError(f"{path} holds no snapshot")
        number = len(reader) - 1 if at is None else number_at(reader, path, at)
        points = [point for point in reader.points[: number + 1] if point is not None]
        return Look(Recent(points), reader.at(number))


async def _engine(engine: "EngineAddress", decided: Decided, for_ms: int) -> Look:
    """A running engine: its history, then its snapshots."""
    import asyncio

    look = Look(Recent())
    try:
        async with asyncio.timeout(for_ms / 1_000), aclosing(engine.client(read_only=True).messages()) as messages:
            async for message in messages:
                if isinstance(message, Header):
                    look.recent = Recent(message.history)
                elif isinstance(message, Snapshot):
                    look.snapshot = message
                    look.recent.add(message)
                    if decided(look):
                        return look
        look.lost = "the engine stopped while it was checked"
    except TimeoutError:
        pass
    except RunError as error:
        look.lost = first_line(str(error))
    if look.snapshot is None:
        raise RunError(look.lost or f"the engine {engine.socket.stem} sent no snapshot within {for_ms / 1_000:g} s")
    return look


@contextmanager
def opened(watched: "Watched[Any]") -> Generator[None]:
    watched.open()
    try:
        yield
    finally:
        watched.close()


def pictures(watched: "Watched[Any]", until: float, name: str = "check") -> Iterator[Snapshot]:
    """A snapshot with its verdict for each poll, one at least."""
    judge, first = SnapshotJudge(), True
    while True:
        facts, now_ms = watched.poll(), clock.time_ns() // 1_000_000
        seen = watched.picture(name, facts, now_ms)
        if first:
            judge.remember(watched.past(facts, now_ms))
            first = False
        yield replace(seen, verdict=judge.verdict(seen))
        if clock.monotonic() + watched.every_s >= until:
            return
        clock.sleep(watched.every_s)
