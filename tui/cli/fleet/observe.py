"""The watcher of the fleet, with each target's row and facts."""

import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from time import monotonic, sleep, time_ns

import msgspec

from ....engine.doctor import diagnose, verdict_at
from ....engine.snapshot import Snapshot
from ....engine.targets.fleet import TargetStatus, TargetWatch, Watcher, WatchTarget
from ....engine.targets.open import kind_at, open_target
from ...words.fail_if import CheckInput
from ...words.fleet import RECORDING, FleetRow, aged, fleet_row, ordered
from ..config.force import appearance
from .members import Member


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
    """Print the fleet as a line of JSON each refresh until `stopping`; with `once_within_s` one line, when every target
    was seen or is lost, or after that time.
    """
    rows, stopping = FleetRows(watcher), stopping or threading.Event()
    if once_within_s is not None:
        wait_for_all(watcher, once_within_s)
        print(fleet_line(rows.rows(), time_ns() // 1_000_000))
        return
    while not stopping.wait(appearance().refresh_ms / 1_000):
        print(fleet_line(rows.rows(), time_ns() // 1_000_000), flush=True)


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
        return aged(row, age_ms(status, self._clock()))


def age_ms(status: TargetStatus, now_s: float) -> int | None:
    """Time (ms) since the target's last message, of a recording since its last snapshot was taken; None: none yet."""
    if status.kind == RECORDING and status.snapshot is not None and status.snapshot.wall_ms is not None:
        return max(time_ns() // 1_000_000 - status.snapshot.wall_ms, 0)
    return None if status.heard_s is None else max(int((now_s - status.heard_s) * 1_000), 0)


def facts_input(watch: TargetWatch, lost: str | None) -> CheckInput | None:
    """The input for a target's facts and metrics; None before its first snapshot."""
    snapshot, past = watch.status.snapshot, watch.points
    if snapshot is None:
        return None
    return CheckInput(snapshot, past, verdict_at(snapshot, past, lost=lost), diagnose(snapshot, past, lost=lost))


def fleet_line(rows: Iterable[FleetRow], wall_ms: int) -> str:
    """The fleet as a line of JSON, the worst first."""
    return msgspec.json.encode({"version": 1, "wall_ms": wall_ms, "targets": ordered(list(rows))}).decode()


def wait_for_all(watcher: Watcher, most_s: float) -> None:
    """Wait until every target was seen or is lost, at most `most_s`."""
    until = monotonic() + most_s
    while monotonic() < until:
        statuses = [watch.status for watch in watcher.watches()]
        if all(status.snapshot is not None or status.lost is not None for status in statuses):
            return
        sleep(0.05)
