"""`wmtop` without a command: the fleet of running engines, configured targets and published queries."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from time import monotonic, time_ns
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...engine.feed.messages import FromEngine, Header, Reply, Stop, ToEngine, json_of
from ...engine.feed.recording_reader import RecordingReader
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError, UsageError
from ...engine.targets.fleet import TargetStatus, TargetWatch, Watcher, WatchTarget
from ...engine.targets.open import kind_at, open_target
from ...engine.targets.own import is_recording, local_path, running_engine
from ...engine.targets.target import change_in_job, header_of
from ...engine.verdict.chain import Chain, ChainMember, chain_of
from ..words.fleet import RECORDING, FleetRow, aged, fleet_row, ordered
from ..words.keys import use_keys
from ..words.stations import stations_of
from ..words.user_commands import use_commands
from .config import appearance, config
from .running import has_terminal, open_screen
from .targets import Member, members

if TYPE_CHECKING:
    from ..screens.fleet import Holds
    from .running import Feed


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
                        yield header_of(message, time_ns() // 1_000_000, self._watch.points)
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


def watcher_of(find: Callable[[], Iterable[Member]], every_s: float) -> Watcher:
    """A watcher of the targets that `find` returns; foreign ones are polled every `every_s` seconds."""

    def discover() -> list[WatchTarget]:
        return [
            WatchTarget(member.name, partial(open_target, member.target, member.options), kind_at(member.target))
            for member in find()
        ]

    return Watcher(discover, every_s)


@contextmanager
def watching(find: Callable[[], Iterable[Member]]) -> Generator[Watcher]:
    """A started watcher of the targets that `find` returns, polled every `refresh` of the configuration."""
    watcher = watcher_of(find, appearance().refresh_ms / 1_000)
    try:
        watcher.start()
        yield watcher
    finally:
        watcher.stop()


def print_lines(watcher: Watcher, once_within_s: float | None, stopping: threading.Event | None = None) -> None:
    """Print the fleet as JSON until `stopping`; with `once_within_s` one, when all are seen or after that time."""
    rows, stopping = FleetRows(watcher), stopping or threading.Event()
    watcher.wait(lambda watch: watch.status.snapshot is not None, once_within_s or 0)
    while once_within_s is not None or not stopping.wait(appearance().refresh_ms / 1_000):
        line = {"version": 1, "wall_ms": time_ns() // 1_000_000, "targets": ordered(rows.rows())}
        print(json_of(line).decode(), flush=True)
        if once_within_s is not None:
            return


class FleetRows:
    """The rows of all targets; a row is recomputed only after news of its target."""

    def __init__(self, watcher: Watcher, clock: Callable[[], float] = monotonic) -> None:
        self._watcher = watcher
        self._clock = clock
        self._made: dict[str, tuple[Snapshot | None, str | None, FleetRow]] = {}

    def rows(self) -> list[FleetRow]:
        """All rows, in the order in which their targets were found."""
        return [self._row(watch) for watch in self._watcher.watches()]

    def _row(self, watch: TargetWatch) -> FleetRow:
        status = watch.status
        snapshot, lost, row = self._made.get(status.name, (None, None, None))
        if row is None or snapshot is not status.snapshot or lost != status.lost:
            row = fleet_row(status.name, status.kind, status.snapshot, watch.points, status.lost)
            self._made[status.name] = (status.snapshot, status.lost, row)
        return aged(row, age_ms(status, self._clock()), status.silent_after_ms)


def age_ms(status: TargetStatus, now_s: float) -> int | None:
    """Time (ms) since the target's last message, of a recording since its last snapshot was taken; None: none yet."""
    if status.kind == RECORDING and status.snapshot is not None and status.snapshot.wall_ms is not None:
        return max(time_ns() // 1_000_000 - status.snapshot.wall_ms, 0)
    return None if status.heard_s is None else max(int((now_s - status.heard_s) * 1_000), 0)


def chain_now(watcher: Watcher, found: dict[str, Member]) -> tuple[Chain, int]:
    """The chain now, and when (epoch ms) its targets were looked at."""
    stations, at_ms = stations_of([_in_chain(watch, found.get(watch.status.name)) for watch in watcher.watches()])
    return chain_of(stations), at_ms or time_ns() // 1_000_000


def _in_chain(watch: TargetWatch, member: Member | None) -> ChainMember:
    status = watch.status
    member = member or Member(status.name, status.name)
    bootstrap, topic = place_in_kafka(member)
    source = None if status.snapshot is None else status.snapshot.source
    return ChainMember(
        name=status.name,
        snapshot=status.snapshot,
        topic=topic,
        bootstrap=bootstrap or (None if source is None else source.bootstrap),
        cluster=(source.cluster or None) if source is not None else None,
        points=watch.points,
        lost=status.lost,
        reads=member.reads,
        writes=member.writes,
        is_timed=member.options.time is not None,
    )


def place_in_kafka(member: Member) -> tuple[str | None, str | None]:
    """The cluster that a target's address or options name, and its topic; without a topic it is a job."""
    if not member.target.startswith("kafka://"):
        return member.options.bootstrap, None
    bootstrap, _, topic = member.target.removeprefix("kafka://").partition("/")
    return bootstrap, topic if topic and member.options.group is None else None


HOW_TO_START = (
    "nothing to watch: no engine is running, no target is configured, no query is published\n"
    "  wmtop demo                        real flights, replayed through Spark\n"
    "  wmtop run replay FILE --time COL  your data\n"
    "  wmtop attach                      lists the queries that can be watched\n"
    "  wmtop config                      where to name targets"
)
FIRST_LOOK_S = 5.0


def print_fleet(*, once: bool) -> None:
    """A line of JSON a refresh; with `once` one line when every target was seen, or after a few seconds."""
    with watching(members) as watcher:
        print_lines(watcher, FIRST_LOOK_S if once else None)


def open_fleet(
    find: Callable[[], list[Member]] = members, *, on_chain: bool = False, holds: "Holds | None" = None
) -> None:
    """Open the fleet or its chain, of one target its screen; without any print how to start, unless a demo `holds`."""
    found = find()
    if not found and holds is None:
        print(HOW_TO_START)
        return
    if not has_terminal():
        raise UsageError("the screen needs a terminal; without one, use wmtop --json or wmtop check --all")
    from ..screens.base_app import preferences_file
    from ..screens.fleet import FleetApp

    use_keys(config().keys)
    use_commands(config().commands)
    opened = found[0].name if len(found) == 1 and not on_chain else None
    selected = opened
    with watching(find) as watcher:  # between the table and its targets, until the user quits; watching never stops
        rows = FleetRows(watcher)

        def chained() -> Chain:
            return chain_now(watcher, {member.name: member for member in find()})[0]

        shown = partial(FleetApp, rows.rows, appearance(), chain=chained, on_chain=on_chain, holds=holds)
        while True:
            if opened is None:
                opened = shown(selected, preferences_file=preferences_file()).run()
            watch = None if opened is None else watcher.watch(opened)
            if watch is None or not _show(watch, find()):
                return
            selected, opened = opened, None


def _show(watch: TargetWatch, found: Iterable[Member]) -> bool:
    """Show the screen of a target; returns whether the user goes back to the fleet."""
    target = next((member.target for member in found if member.name == watch.status.name), None)
    if target is not None and is_recording(target):
        from .recordings import play

        with RecordingReader(local_path(target)) as reader:
            return play(reader, 1.0, None, playing=True, of_fleet=True) == "fleet"
    return open_screen(feed_of(watch, target), "leave", of_fleet=True) == "fleet"


def feed_of(watch: TargetWatch, target: str | None) -> "Feed":
    """The feed for a target's screen; for an engine, a connection to exactly the run of the shown row."""
    engine = None if target is None else running_engine(target)
    if engine is None:
        return WatchedFeed(watch)
    if watch.header is not None and watch.header.id:
        watch.retry_now()  # if another run has the name now, show it
        engine = replace(engine, run_id=watch.header.id)
    return engine.client(read_only=False)
