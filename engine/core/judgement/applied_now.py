"""What a change of a setting does at the next emit (semantics 11.3), read from a snapshot: no state, no round trip.

The clock is built again from the snapshot and emits once, so the valve's own rules decide.
"""

from msgspec import UNSET, Struct, UnsetType

from ..idleness import IdlenessTimers
from ..multiplexer import Multiplexer, Split, WatermarkOutput
from ..operator_clock import Instance, OperatorClock
from ..settings import TUNABLE
from ..snapshot import ChannelView, InstanceView, Snapshot
from ..times import MIN, shift
from ..valve import Round, Status, Valve


class AppliedNow(Struct, frozen=True):
    """The watermark (epoch ms) right after the next emit, were the change made now and no record came.

    `fires` counts the open windows that it closes (`fires_more`: of those the snapshot does not list, perhaps more);
    `frozen_ms` of event time must come before it advances again, None where a channel has no record yet.
    """

    watermark_ms: int | None
    holder: str | None
    fires: int
    frozen_ms: int | None
    fires_more: bool = False


def applied_now(
    snapshot: Snapshot, *, lateness_ms: int | UnsetType = UNSET, idle_after_ms: int | UnsetType | None = UNSET
) -> AppliedNow | None:
    """What another lateness or idle timeout (ms; None: off) does now; None where it is not known.

    ValueError for a setting that the strategy does not have.
    """
    settings = snapshot.settings
    if lateness_ms is not UNSET and settings.strategy not in TUNABLE:
        raise ValueError(f"the strategy '{settings.strategy}' has no lateness")
    if settings.strategy == "spark":
        if idle_after_ms is not UNSET:
            raise ValueError("Spark's clock has no idle timeout")
        return _by_sparks_rule(snapshot, settings.lateness_ms if lateness_ms is UNSET else lateness_ms)
    if snapshot.ended:
        return AppliedNow(snapshot.level.watermark_ms, None, 0, 0)
    if snapshot.now_ms is None or any(view.aligned is None for view in snapshot.channels):
        return None
    lateness = (settings.lateness_ms or 0) if lateness_ms is UNSET else lateness_ms
    idle_after = settings.idle_after_ms if idle_after_ms is UNSET else idle_after_ms
    return _emitted(snapshot, snapshot.now_ms, lateness, idle_after)


def _by_sparks_rule(snapshot: Snapshot, delay_ms: int | None) -> AppliedNow | None:
    """One clock, which the fastest channel drives; what it has reached stays."""
    level, zero = snapshot.level.watermark_ms, _fastest_at_zero(snapshot)
    if snapshot.ended or (zero is None and snapshot.origin is None):
        return AppliedNow(level, None, 0, 0)
    if zero is None or delay_ms is None:
        return None
    wanted = zero - delay_ms
    reached = wanted if level is None else max(level, wanted)
    fires, more = _fires(snapshot, reached - 1)
    return AppliedNow(reached, None, fires, reached - wanted, more)


def _fastest_at_zero(snapshot: Snapshot) -> int | None:
    """What the fastest channel would give at delay 0; of a query that runs elsewhere what its watermark gives."""
    if snapshot.origin is not None:
        return snapshot.level.at_zero_lateness_ms
    if not snapshot.settings.emit_every_ms:
        return None  # nothing is ever emitted
    speaking = (view.at_zero_lateness_ms for view in snapshot.channels if view.state != "finished")
    return max((zero for zero in speaking if zero is not None), default=None)


def _emitted(snapshot: Snapshot, now: int, lateness: int, idle_after: int | None) -> AppliedNow:
    numbers = _numbers(snapshot)
    views = dict(zip(numbers, snapshot.channels, strict=True))
    clock, timers = _clock(snapshot, views, now, lateness, idle_after)
    before = clock.level
    speaking: dict[int, int] = {}
    if snapshot.settings.emit_every_ms:  # else generators send nothing, but an instance may have to recombine
        wanted = {number: shift(_at_zero(view), -lateness) for number, view in views.items()}
        speaking = {
            number: watermark
            for number, watermark in wanted.items()
            if watermark != MIN and views[number].state != "finished"
        }
    clock.emit(now, Round(speaking, now), timers)
    holder = clock.holder()
    fires, more = _fires(snapshot, clock.level)
    return AppliedNow(
        watermark_ms=None if clock.level == MIN else clock.level,
        holder=None if holder is None else views[holder].channel,
        fires=fires,
        frozen_ms=_frozen(clock, views, lateness, before),
        fires_more=more,
    )


def _frozen(clock: OperatorClock, views: dict[int, ChannelView], lateness: int, level: int) -> int | None:
    """How far the slowest aligned channel, at this lateness, is below the watermark it was at (ms)."""
    aligned = [n for n, view in views.items() if clock.takes_part(n) and view.state != "finished"]
    slowest = min((_wanted(views[number], lateness) for number in aligned), default=MIN)
    if level == MIN or not aligned:
        return 0
    return None if slowest == MIN else max(0, level - slowest)


def _wanted(view: ChannelView, lateness: int) -> int:
    """Where its generator has the channel; of a strategy without lateness where its watermark is."""
    zero = _at_zero(view)
    return _raw(view.watermark_ms) if zero == MIN else shift(zero, -lateness)


def _clock(
    snapshot: Snapshot, views: dict[int, ChannelView], now: int, lateness: int, idle_after: int | None
) -> tuple[OperatorClock, IdlenessTimers]:
    """The operator's clock and the inactivity clocks as the snapshot has them."""
    subtasks = snapshot.settings.subtasks
    running = {n: now - view.timer_ms for n, view in views.items() if view.timer_ms is not None}
    clock = OperatorClock(
        lateness_ms=lateness,
        idle_after_ms=idle_after,
        subtasks=subtasks,
        valve=_valve(snapshot, snapshot.channels if subtasks is None else _inputs(snapshot, subtasks)),
        channels=len(views),
        instances=[] if subtasks is None else _instances(snapshot, views, subtasks),
        outdated=set() if subtasks is None else set(range(len(_inputs(snapshot, subtasks)))),
        idle={number for number, view in views.items() if view.idle},
        waiting=[(since, number) for number, since in running.items() if not views[number].idle],
    )
    return clock, IdlenessTimers(since=running)


def _valve(snapshot: Snapshot, inputs: list[ChannelView] | list[InstanceView | None]) -> Valve:
    return Valve(
        watermarks=[MIN if view is None else _raw(view.watermark_ms) for view in inputs],
        statuses=[_status(view) for view in inputs],
        aligned=[view is not None and bool(view.aligned) for view in inputs],
        since=[0 if view is None else view.since_ms or 0 for view in inputs],
        last_output=_raw(snapshot.level.watermark_ms),
        idle=snapshot.level.idle,
    )


def _status(view: ChannelView | InstanceView | None) -> Status:
    if view is None:
        return Status.REMOVED
    if view.state == "finished":
        return Status.FINISHED
    idle = view.idle if isinstance(view, ChannelView) else view.state == "idle"
    return Status.IDLE if idle else Status.ACTIVE


def _inputs(snapshot: Snapshot, subtasks: int) -> list[InstanceView | None]:
    """The source instances by number; None for one without channels."""
    known = {view.instance: view for view in snapshot.instances or ()}
    return [known.get(number) for number in range(min(subtasks, max(known, default=-1) + 1))]


def _instances(snapshot: Snapshot, views: dict[int, ChannelView], subtasks: int) -> list[Instance]:
    found: list[Instance] = []
    for view in _inputs(snapshot, subtasks):
        combined = MIN if view is None else _raw(view.watermark_ms)
        idle = view is not None and view.state == "idle"
        found.append(Instance(Multiplexer(combined=combined), WatermarkOutput(last=combined, idle=idle)))
    for number, view in views.items():
        instance = found[number % subtasks]
        if view.state == "finished":
            instance.finished[number] = _raw(view.watermark_ms)
            continue
        instance.multiplexer.splits[number] = Split(_raw(view.watermark_ms), view.idle, view.since_ms or 0)
    return found


def _numbers(snapshot: Snapshot) -> list[int]:
    """A number for each channel, in the snapshot's order: with source instances one that leads to its own."""
    subtasks = snapshot.settings.subtasks
    if subtasks is None:
        return list(range(len(snapshot.channels)))
    numbers: list[int] = []
    for view in snapshot.channels:
        after = numbers[-1] + 1 if numbers else 0
        numbers.append(after + ((view.instance or 0) - after) % subtasks)
    return numbers


def _fires(snapshot: Snapshot, level: int) -> tuple[int, bool]:
    """How many of the open windows a watermark closes, and whether those not listed may be among them."""
    windows = snapshot.windows
    fires = sum(window.end_ms - 1 <= level for window in windows.open)
    return fires, bool(windows.open) and fires == len(windows.open) and (windows.open_count or 0) > fires


def _at_zero(view: ChannelView) -> int:
    return _raw(view.at_zero_lateness_ms)


def _raw(time_ms: int | None) -> int:
    return MIN if time_ms is None else time_ms
