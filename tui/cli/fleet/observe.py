"""The watcher of the fleet, with each target's row and facts."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from time import monotonic, sleep, time_ns

import msgspec

from ....engine.doctor import diagnose, verdict_at
from ....engine.snapshot import Snapshot
from ....engine.targets.fleet.watcher import Looker, Sight, TargetWatch, Watcher, WatchTarget
from ...words.fail_if import CheckInput
from ...words.fleet import RECORDING, FleetRow, aged, fleet_row, ordered
from ..look import is_recording
from ..targets import FLINK, TOPIC
from .members import Member


def watcher_of(find: Callable[[], Iterable[Member]], every_s: float) -> Watcher:
    """A watcher of the targets that `find` returns; foreign ones are polled every `every_s` seconds."""

    def discover() -> list[WatchTarget]:
        return [
            WatchTarget(member.name, partial(looker_of, member, every_s), _kind_of(member.target)) for member in find()
        ]

    return Watcher(discover)


def looker_of(member: Member, every_s: float) -> Looker:
    """The looker for a target; UsageError or RunError if there is no such target, or it cannot be reached."""
    from ....engine.targets.fleet.lookers import EngineLooker, RecordingLooker, TapLooker
    from ..attach import engine_of, watched_of

    if (engine := engine_of(member.target)) is not None:
        return EngineLooker(engine.client(read_only=True))
    path = Path(member.target)
    if is_recording(path):
        return RecordingLooker(path, every_s)
    return TapLooker(member.name, watched_of(member.target, member.options), every_s)


def _kind_of(target: str) -> str:
    """The kind of a target, as far as its address shows it."""
    if target.startswith(TOPIC):
        return "topic"
    if target.startswith(FLINK):
        return "flink"
    return RECORDING if is_recording(Path(target)) else ""


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
        sight = watch.sight
        snapshot, lost, row = self._made.get(sight.name, (None, None, None))
        if row is None or snapshot is not sight.snapshot or lost != sight.lost:
            row = fleet_row(sight.name, sight.kind, sight.snapshot, watch.points, sight.lost)
            self._made[sight.name] = (sight.snapshot, sight.lost, row)
        return aged(row, age_ms(sight, self._clock()))


def age_ms(sight: Sight, now_s: float) -> int | None:
    """Time (ms) since the target's last message, of a recording since its last snapshot was taken; None: none yet."""
    if sight.kind == RECORDING and sight.snapshot is not None and sight.snapshot.wall_ms is not None:
        return max(time_ns() // 1_000_000 - sight.snapshot.wall_ms, 0)
    return None if sight.heard_s is None else max(int((now_s - sight.heard_s) * 1_000), 0)


def facts_input(watch: TargetWatch, lost: str | None) -> CheckInput | None:
    """The input for a target's facts and metrics; None before its first snapshot."""
    snapshot, past = watch.sight.snapshot, watch.points
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
        sights = [watch.sight for watch in watcher.watches()]
        if all(sight.snapshot is not None or sight.lost is not None for sight in sights):
            return
        sleep(0.05)
