"""Rebuilds the clock of a run from a snapshot: channels, source instances, valve and timers."""

from msgspec import Struct

from ..idleness import IdlenessTimers
from ..multiplexer import Multiplexer, Split, WatermarkOutput
from ..operator_clock import Instance, OperatorClock
from ..snapshot import ChannelView, InstanceView, Snapshot
from ..times import MIN
from ..valve import Status, Valve


class ShownClock(Struct, frozen=True):
    """A clock, its inactivity timers, and the channels' numbers in it."""

    clock: OperatorClock
    timers: IdlenessTimers
    channels: dict[int, ChannelView]


def shown_clock(snapshot: Snapshot, now: int, lateness: int, idle_after: int | None) -> ShownClock:
    """The run's clock as in the snapshot, at processing time `now`, with this lateness and idle timeout (ms).

    Every channel of the snapshot must have `aligned`.
    """
    subtasks = snapshot.settings.subtasks
    views = dict(zip(_numbers(snapshot), snapshot.channels, strict=True))
    running = {n: now - view.timer_ms for n, view in views.items() if view.timer_ms is not None}
    clock = OperatorClock(
        lateness_ms=lateness,
        idle_after_ms=idle_after,
        subtasks=subtasks,
        valve=_valve_of_channels(snapshot) if subtasks is None else _valve(snapshot, _inputs(snapshot, subtasks)),
        channels=len(views),
        instances=[] if subtasks is None else _instances(snapshot, views, subtasks),
        outdated=set() if subtasks is None else set(range(len(_inputs(snapshot, subtasks)))),
        idle={number for number, view in views.items() if view.idle},
        waiting=[(since, number) for number, since in running.items() if not views[number].idle],
    )
    return ShownClock(clock, IdlenessTimers(since=running), views)


def time_or_min(time_ms: int | None) -> int:
    """The time; `MIN` for None."""
    return MIN if time_ms is None else time_ms


def _valve_of_channels(snapshot: Snapshot) -> Valve:
    """Every channel is an input: there may be 100,000 of them, for each key that previews a setting."""
    views, finished, idle, active = snapshot.channels, Status.FINISHED, Status.IDLE, Status.ACTIVE
    return Valve(
        watermarks=[MIN if (watermark := view.watermark_ms) is None else watermark for view in views],
        statuses=[finished if view.state == "finished" else idle if view.idle else active for view in views],
        aligned=[bool(view.aligned) for view in views],
        since=[view.since_ms or 0 for view in views],
        last_output=time_or_min(snapshot.level.watermark_ms),
        idle=snapshot.level.idle,
    )


def _valve(snapshot: Snapshot, inputs: list[InstanceView | None]) -> Valve:
    return Valve(
        watermarks=[MIN if view is None else time_or_min(view.watermark_ms) for view in inputs],
        statuses=[_status(view) for view in inputs],
        aligned=[view is not None and bool(view.aligned) for view in inputs],
        since=[0 if view is None else view.since_ms or 0 for view in inputs],
        last_output=time_or_min(snapshot.level.watermark_ms),
        idle=snapshot.level.idle,
    )


def _status(view: InstanceView | None) -> Status:
    if view is None:
        return Status.REMOVED
    if view.state == "finished":
        return Status.FINISHED
    return Status.IDLE if view.state == "idle" else Status.ACTIVE


def _inputs(snapshot: Snapshot, subtasks: int) -> list[InstanceView | None]:
    """The source instances by number; None for one without channels."""
    known = {view.instance: view for view in snapshot.instances or ()}
    return [known.get(number) for number in range(min(subtasks, max(known, default=-1) + 1))]


def _instances(snapshot: Snapshot, views: dict[int, ChannelView], subtasks: int) -> list[Instance]:
    found: list[Instance] = []
    for view in _inputs(snapshot, subtasks):
        combined = MIN if view is None else time_or_min(view.watermark_ms)
        idle = view is not None and view.state == "idle"
        found.append(Instance(Multiplexer(combined=combined), WatermarkOutput(last=combined, idle=idle)))
    for number, view in views.items():
        instance = found[number % subtasks]
        if view.state == "finished":
            instance.finished[number] = time_or_min(view.watermark_ms)
            continue
        instance.multiplexer.splits[number] = Split(time_or_min(view.watermark_ms), view.idle, view.since_ms or 0)
    return found


def _numbers(snapshot: Snapshot) -> list[int]:
    """A number for each channel, in the snapshot's order; with source instances, a number that maps to its own."""
    subtasks = snapshot.settings.subtasks
    if subtasks is None:
        return list(range(len(snapshot.channels)))
    numbers: list[int] = []
    for view in snapshot.channels:
        after = numbers[-1] + 1 if numbers else 0
        numbers.append(after + ((view.instance or 0) - after) % subtasks)
    return numbers
