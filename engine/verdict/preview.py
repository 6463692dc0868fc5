"""A previewed setting, and its effect at the next emit (semantics 11.3)."""

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType

from ..snapshot import ChannelView, InstanceView, Snapshot
from ..text import formatting as f
from ..watermarks.channels import IdlenessTimers
from ..watermarks.multiplexer import Multiplexer, Split, WatermarkOutput
from ..watermarks.operator_clock import Instance, OperatorClock
from ..watermarks.times import MAX, MIN, shift, shift_all
from ..watermarks.valve import Round, Status, Valve


def _shown_clock(
    snapshot: Snapshot, views: dict[int, ChannelView], now: int, lateness: int, idle_after: int | None
) -> tuple[OperatorClock, IdlenessTimers]:
    """The run's clock as in the snapshot, at processing time `now`, with this lateness and idle timeout (ms).

    Every channel of the snapshot must have `aligned`.
    """
    subtasks = snapshot.settings.subtasks
    inputs = snapshot.channels if subtasks is None else _instance_views(snapshot, subtasks)
    running = {n: now - view.timer_ms for n, view in views.items() if view.timer_ms is not None}
    clock = OperatorClock(
        lateness_ms=lateness,
        idle_after_ms=idle_after,
        subtasks=subtasks,
        valve=_valve(snapshot, inputs),
        channels=len(views),
        instances=[] if subtasks is None else _instances(snapshot, views, subtasks),
        outdated=set() if subtasks is None else set(range(len(inputs))),
        idle={number for number, view in views.items() if view.idle},
        waiting=[(since, number) for number, since in running.items() if not views[number].idle],
    )
    return clock, IdlenessTimers(since=running)


def _or_min(time_ms: int | None) -> int:
    return MIN if time_ms is None else time_ms


def _valve(snapshot: Snapshot, inputs: Sequence[ChannelView | InstanceView | None]) -> Valve:
    """The valve with these inputs; None: an instance without channels."""
    return Valve(
        watermarks=[MIN if view is None else _or_min(view.watermark_ms) for view in inputs],
        statuses=[_status(view) for view in inputs],
        aligned=[view is not None and bool(view.aligned) for view in inputs],
        since=[0 if view is None else view.since_ms or 0 for view in inputs],
        last_output=_or_min(snapshot.level.watermark_ms),
        idle=snapshot.level.idle,
    )


def _status(view: ChannelView | InstanceView | None) -> Status:
    if view is None:
        return Status.REMOVED
    if view.state == "finished":
        return Status.FINISHED
    idle = view.idle if isinstance(view, ChannelView) else view.state == "idle"
    return Status.IDLE if idle else Status.ACTIVE


def _instance_views(snapshot: Snapshot, subtasks: int) -> list[InstanceView | None]:
    """The source instances by number; None for one without channels."""
    known = {view.instance: view for view in snapshot.instances or ()}
    return [known.get(number) for number in range(min(subtasks, max(known, default=-1) + 1))]


def _instances(snapshot: Snapshot, views: dict[int, ChannelView], subtasks: int) -> list[Instance]:
    found: list[Instance] = []
    for view in _instance_views(snapshot, subtasks):
        combined = MIN if view is None else _or_min(view.watermark_ms)
        idle = view is not None and view.state == "idle"
        found.append(Instance(Multiplexer(combined=combined), WatermarkOutput(last=combined, idle=idle)))
    for number, view in views.items():
        instance = found[number % subtasks]
        if view.state == "finished":
            instance.finished[number] = _or_min(view.watermark_ms)
            continue
        instance.multiplexer.splits[number] = Split(_or_min(view.watermark_ms), view.idle, view.since_ms or 0)
    return found


def _by_number(snapshot: Snapshot) -> dict[int, ChannelView]:
    """The channels in the snapshot's order; with source instances, each has a number that maps to its own."""
    subtasks = snapshot.settings.subtasks
    if subtasks is None:
        return dict(enumerate(snapshot.channels))
    views: dict[int, ChannelView] = {}
    after = 0
    for view in snapshot.channels:
        number = after + ((view.instance or 0) - after) % subtasks
        views[number], after = view, number + 1
    return views


class ProposedSetting(Struct, frozen=True):
    """The setting that is previewed: a lateness, or an idle timeout (None: off)."""

    idle: bool
    value_ms: int | None

    def words(self) -> str:
        """`lateness 45m`."""
        return f"{'idle timeout' if self.idle else 'lateness'} {f.setting(self.value_ms)}"


class AppliedNow(Struct, frozen=True):
    """The watermark (epoch ms) right after the next emit if the change is made now and no record comes.

    `fires` counts the open windows that it closes (`fires_more`: unlisted ones may fire too); `frozen_ms` of event time
    must come before it advances again, None if a channel has no record yet.
    """

    watermark_ms: int | None
    holder: str | None
    fires: int
    frozen_ms: int | None
    fires_more: bool = False


def applied_now(
    snapshot: Snapshot, *, lateness_ms: int | UnsetType = UNSET, idle_after_ms: int | UnsetType | None = UNSET
) -> AppliedNow | None:
    """The effect of another lateness or idle timeout (ms; None: off) now; None if it is not known.

    ValueError for a setting that the strategy does not have.
    """
    settings = snapshot.settings
    if lateness_ms is not UNSET and not settings.tunable:
        raise ValueError(f"the strategy '{settings.strategy}' has no lateness")
    if settings.one_clock:
        if idle_after_ms is not UNSET:
            raise ValueError("Spark's clock has no idle timeout")
        return _by_sparks_rule(snapshot, settings.lateness_ms if lateness_ms is UNSET else lateness_ms)
    if snapshot.ended:
        return AppliedNow(snapshot.level.watermark_ms, None, 0, 0)
    if snapshot.now_ms is None or None in [view.aligned for view in snapshot.channels]:
        return None
    lateness = (settings.lateness_ms or 0) if lateness_ms is UNSET else lateness_ms
    idle_after = settings.idle_after_ms if idle_after_ms is UNSET else idle_after_ms
    return _emitted(snapshot, snapshot.now_ms, lateness, idle_after)


def effect_now(snapshot: Snapshot, proposed: ProposedSetting) -> AppliedNow | None:
    """The effect of the setting at the next emit; None if it is not known, or the strategy does not have it."""
    try:
        if proposed.idle:
            return applied_now(snapshot, idle_after_ms=proposed.value_ms)
        return None if proposed.value_ms is None else applied_now(snapshot, lateness_ms=proposed.value_ms)
    except ValueError:
        return None


def now_gain_ms(snapshot: Snapshot, proposed: ProposedSetting) -> int | None:
    """How far the watermark advances at the next emit with the setting; None: not known."""
    applied, level = effect_now(snapshot, proposed), snapshot.level.watermark_ms
    return None if applied is None or applied.watermark_ms is None or level is None else applied.watermark_ms - level


def _by_sparks_rule(snapshot: Snapshot, delay_ms: int | None) -> AppliedNow | None:
    """One clock, driven by the fastest channel; it never goes back. What it closes fires one batch later."""
    level, zero = snapshot.level.watermark_ms, _fastest_at_zero(snapshot)
    if snapshot.ended or (zero is None and level is None and not snapshot.is_attached):
        return AppliedNow(level, None, 0, 0)
    if zero is None and not snapshot.is_attached:
        wanted = level  # its channels have left: what is closed already still fires
    else:
        wanted = None if zero is None or delay_ms is None else zero - delay_ms
    if wanted is None:
        return None
    reached = wanted if level is None else max(level, wanted)
    fires, more = _fires(snapshot, reached - 1)
    return AppliedNow(reached, None, fires, reached - wanted, more)


def _fastest_at_zero(snapshot: Snapshot) -> int | None:
    """The watermark of the fastest channel at delay 0; for an attached query derived from its watermark."""
    if snapshot.is_attached:
        return snapshot.level.at_zero_lateness_ms
    if not snapshot.settings.emit_every_ms:
        return None  # nothing is ever emitted
    speaking = (view.at_zero_lateness_ms for view in snapshot.channels if view.state != "finished")
    return max((zero for zero in speaking if zero is not None), default=None)


def _emitted(snapshot: Snapshot, now: int, lateness: int, idle_after: int | None) -> AppliedNow:
    views = _by_number(snapshot)
    clock, timers = _shown_clock(snapshot, views, now, lateness, idle_after)
    before = clock.level
    speaking: dict[int, int] = {}
    if snapshot.settings.emit_every_ms:  # generators send nothing then, but an instance may have to recombine
        zeros = {
            number: zero
            for number, view in views.items()
            if (zero := view.at_zero_lateness_ms) is not None and view.state != "finished"
        }
        wanted = shift_all(zeros, -lateness)
        speaking = {number: watermark for number, watermark in wanted.items() if watermark != MIN}
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
    """How far (ms) the slowest aligned channel, at this lateness, is below its earlier watermark."""
    aligned = [view for number, view in views.items() if view.state != "finished" and clock.takes_part(number)]
    if level == MIN or not aligned:
        return 0
    zeros = [zero for view in aligned if (zero := view.at_zero_lateness_ms) is not None]
    slowest = shift(min(zeros), -lateness) if zeros else MAX
    if len(zeros) < len(aligned):  # without a lateness, the present watermark of a channel
        slowest = min(slowest, *(_or_min(v.watermark_ms) for v in aligned if v.at_zero_lateness_ms is None))
    return None if slowest == MIN else max(0, level - slowest)


def _fires(snapshot: Snapshot, level: int) -> tuple[int, bool]:
    """How many open windows a watermark closes, and whether unlisted ones may be among them."""
    windows = snapshot.windows
    fires = sum(window.end_ms - 1 <= level for window in windows.open)
    return fires, bool(windows.open) and fires == len(windows.open) and (windows.open_count or 0) > fires
