"""The monitor as a snapshot, in the terms of the JSON contract, with the cause of each delay; nothing changes it."""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from operator import itemgetter

from msgspec import Struct
from msgspec.structs import replace

from ..snapshot import (
    Blocker,
    Cause,
    ChannelLateness,
    ChannelRecords,
    ChannelState,
    ChannelView,
    EngineState,
    Holder,
    InstanceView,
    LateRecord,
    Level,
    Note,
    OpenWindow,
    OwnRun,
    Snapshot,
    SourceView,
    SparkProgress,
    TimePoint,
    WhatIfIdle,
    Windows,
)
from ..snapshot.blockers import blockers_of
from ..watermarks.channels import Channel, Unread
from ..watermarks.counts import totals_of
from ..watermarks.generators import BoundedWatermarks, SmoothedWatermarks
from ..watermarks.lateness import MINUTE
from ..watermarks.monitor import Monitor
from ..watermarks.operator_clock import Instance, OperatorClock, Staircase, staircase
from ..watermarks.settings import Session
from ..watermarks.times import MIN
from ..watermarks.windows import Window

SLOW_CLOCK_MS = 1_000
"""How far (ms) the slowest event time must be ahead of the processing clock before the cause is the clock; a channel
that is further behind the fastest than this is behind, whatever the clock says."""


class Around(Struct, frozen=True):
    """What the cause depends on besides the channel itself; times in ms."""

    paused: bool
    unread: Unread | None
    fastest: int
    """The greatest channel watermark, `MIN`: none."""
    newest_event_ms: int | None

    @staticmethod
    def of(monitor: Monitor, *, paused: bool, unread: Unread | None) -> "Around":
        """From the monitor's current state."""
        known = [number for number, channel in enumerate(monitor.channels) if channel.left != "removed"]
        watermarks = map(monitor.clock.watermark, known)
        newest = (at for number in known if (at := monitor.channels[number].max_event_ms) is not None)
        return Around(paused, unread, max(watermarks, default=MIN), max(newest, default=None))


def cause_of_channel(monitor: Monitor, number: int, now: int, around: Around) -> Cause:
    """Why channel `number` holds back the watermark, at processing time `now` (ms): the most certain cause first."""
    channel, unread, newest = monitor.channels[number], around.unread, around.newest_event_ms
    lag_ms = around.fastest - monitor.clock.watermark(number)
    heard = channel.last_record_ms
    if around.paused:
        return "paused"
    if unread is not None and channel.name in unread.held_back:
        return "held_back"
    if unread is not None and unread.backlog(channel.name):
        return "backlog"
    if heard is None:
        return "never_seen"
    if channel.max_event_ms is not None and channel.max_event_ms - now > SLOW_CLOCK_MS >= lag_ms:
        return "slow_clock"  # all event times are ahead of the clock: no channel is behind
    if newest is not None and newest - now > (monitor.settings.future_guard_ms or 30 * MINUTE):
        return "future_elsewhere"
    quiet_ms = now - heard
    if quiet_ms <= 0 or (unread is not None and unread.may_be_of(channel.name) != 0):
        return "behind"
    # A pause explains the lag if it has lasted for half of it, or for much longer than usual for the channel; and a
    # stall if it has lasted for half of what makes one.
    times_heard = min(monitor.counts[channel.name].records, (monitor.batch or 0) + 1)  # those of one batch count once
    usual_ms = (heard - channel.added_ms) // max(1, times_heard)
    if 2 * quiet_ms >= lag_ms or quiet_ms > 4 * usual_ms:
        return "quiet"
    patience = monitor.history.patience(monitor.settings)
    is_frozen = now - monitor.history.frozen_since(now) > patience
    return "quiet" if is_frozen and 2 * quiet_ms >= patience else "behind"


def channel_views(
    monitor: Monitor, numbers: Iterable[int], now: int | None, rates: Mapping[str, float], unread: Unread | None
) -> list[ChannelView]:
    """The rows of these channels at processing time `now` (ms); `rates` are records per wall-clock second by name.

    There may be 100,000 of them, so rows are built column by column.
    """
    clock, counts, since = monitor.clock, monitor.counts, monitor.timers.since
    numbers = list(numbers)
    channels = [monitor.channels[number] for number in numbers]
    names = [channel.name for channel in channels]
    rows = [counts[name] for name in names]
    parts = [clock.takes_part(number) for number in numbers]
    one_later, subtasks = int(monitor.settings.late_at_watermark), monitor.settings.subtasks
    watermarks = [clock.watermark(number) for number in numbers]
    heard = [channel.last_record_ms for channel in channels]
    last = [channel.added_ms if at is None else at for channel, at in zip(channels, heard, strict=True)]
    held_back = () if unread is None else unread.held_back
    nothing = [None] * len(numbers)
    columns: dict[str, Sequence[object]] = {
        "channel": names,
        "watermark_ms": [None if watermark == MIN else watermark + one_later for watermark in watermarks],
        "max_event_ms": [channel.max_event_ms for channel in channels],
        "state": _states(monitor, numbers, parts),
        "records": [row.records for row in rows],
        "behind_watermark": [row.behind_watermark for row in rows],
        "late": [row.late for row in rows],
        "malformed": [row.malformed for row in rows],
        "future": [row.future for row in rows],
        "backlog": nothing if unread is None else [unread.of(name) for name in names],
        "behind_end_ms": nothing,
        "held_back": [name in held_back for name in names],
        "quiet_ms": nothing if now is None else [now - at if now > at else 0 for at in last],
        "longest_quiet_ms": [channel.longest_quiet_ms for channel in channels],
        "flaps": [clock.flaps.get(number, 0) for number in numbers],
        "round_ms": nothing if now is None else [monitor.idle_cycles.length_ms(number, now) for number in numbers],
        "rate": [rates.get(name) for name in names],
        "since_ms": [clock.since_ms(number) for number in numbers],
        "instance": nothing if subtasks is None else [number % subtasks for number in numbers],
        "timer_ms": nothing
        if now is None
        else [None if (at := since.get(number)) is None else max(0, now - at) for number in numbers],
        "aligned": [part and channel.left is None for part, channel in zip(parts, channels, strict=True)],
        "idle": [number in clock.idle for number in numbers],
        "at_zero_lateness_ms": [_at_zero_lateness(channel, one_later) for channel in channels],
    }
    return list(map(ChannelView, *(columns[field] for field in ChannelView.__struct_fields__)))


def _states(monitor: Monitor, numbers: Sequence[int], parts: Sequence[bool | None]) -> list[ChannelState]:
    """The state of each channel; `parts` says whether it takes part in the minimum (None: the clock has no minimum)."""
    if monitor.ended:
        return ["finished"] * len(numbers)
    idle, states = monitor.clock.idle, list[ChannelState]()
    for number, part in zip(numbers, parts, strict=True):
        channel = monitor.channels[number]
        if channel.left is not None:
            states.append("finished")
        elif channel.last_record_ms is None:
            states.append("never_seen")
        elif number in idle:
            states.append("idle")
        else:
            states.append("catching_up" if part is False else "active")
    return states


def _at_zero_lateness(channel: Channel, one_later: int) -> int | None:
    """The watermark as shown that the generator would emit now at lateness 0; None for a strategy without lateness."""
    generator = channel.generator
    if not isinstance(generator, BoundedWatermarks | SmoothedWatermarks):
        return None
    emitted = generator.on_periodic_emit()
    return None if emitted is None or emitted == MIN else emitted + one_later


MAX_OPEN_WINDOWS = 200
"""Open windows that a snapshot lists, at most: the earliest ones, which the watermark closes next."""
WITH_CHANNELS, MAX_IN_WINDOW = 20, 8
"""How many of the earliest open windows list channels, and how many each: those with most records."""
MAX_BLOCKERS_OF_WINDOW = 32
"""Channels that a snapshot names for each open window, at most."""
MAX_LATE_CHANNELS = 16
"""Channels whose lateness a snapshot has, at most."""


def snapshot_of(
    monitor: Monitor,
    *,
    name: str,
    state: EngineState,
    wall_ms: int,
    now_ms: int | None = None,
    source: SourceView | None = None,
    spark: SparkProgress | None = None,
    rates: dict[str, float] | None = None,
    unread: Unread | None = None,
    notes: list[Note] | None = None,
    points: list[TimePoint] | None = None,
    late_output: str | None = None,
    late_sample: list[LateRecord] | None = None,
) -> Snapshot:
    """The snapshot at processing time `now_ms` (None: the monitor's last); `rates`: records per wall-clock second."""
    now = monitor.now_ms if now_ms is None else now_ms
    known = [number for number, channel in enumerate(monitor.channels) if channel.left != "removed"]
    totals = totals_of(monitor.counts.values())
    stairs = None if monitor.ended else staircase(monitor.clock)
    around = Around.of(monitor, paused=state == "paused", unread=unread)
    level = _level_view(monitor, now, around)
    return Snapshot(
        name=name,
        state=state,
        batch=monitor.batch,
        now_ms=now,
        wall_ms=wall_ms,
        ended=monitor.ended,
        settings=monitor.settings,
        source=source,
        level=level,
        blockers=_blockers(monitor, now, stairs, around),
        channels=channel_views(monitor, known, now, rates or {}, unread),
        folded=monitor.folded.view(),
        instances=_instance_views(monitor),
        windows=_windows_view(monitor, level.holder.channel if level.holder else None, stairs),
        totals=totals,
        whatif=monitor.whatif.view(totals.records or 0) if monitor.whatif else None,
        whatif_recent=monitor.whatif.recent_view(totals.records or 0, now or 0) if monitor.whatif else None,
        whatif_idle=[_idle_view(monitor, number) for number in range(len(monitor.rungs))],
        whatif_upper_bound=isinstance(monitor.settings.window, Session) and not monitor.settings.late_alone,
        lateness_by_channel=_lateness_by_channel(monitor),
        last_future=monitor.last_future,
        last_malformed=monitor.last_malformed,
        malformed_example=monitor.malformed_example,
        target=OwnRun(
            spark=_with_watermarks(spark or SparkProgress(), monitor),
            changes=monitor.changes,
            explain=None if monitor.explain is None else monitor.explain.view(),
            late_output=late_output,
            late_sample=late_sample,
        ),
        points=points or [],
        notes=notes or [],
    )


def _with_watermarks(spark: SparkProgress, monitor: Monitor) -> SparkProgress:
    """Under Spark's rule with the watermarks of the next and the last batch."""
    if not monitor.settings.one_clock:
        return spark
    shown, before = monitor.shown(monitor.level), monitor.shown(monitor.window_level)
    return replace(spark, watermark_ms=shown, batch_watermark_ms=before)


def _level_view(monitor: Monitor, now: int | None, around: Around) -> Level:
    """The watermark, its distances, and the channel that holds it back."""
    level, holder, idle = monitor.level, _holder(monitor, now, around), monitor.clock.all_idle
    shown = monitor.shown(level)
    if shown is None:
        return Level(holder=holder, idle=idle)
    return Level(
        watermark_ms=shown,
        behind_fastest_ms=max(around.fastest, level) - level,
        behind_clock_ms=None if now is None else now - shown,
        holder=holder,
        idle=idle,
        moved_ms=monitor.history.moved_ms,
        at_zero_lateness_ms=monitor.shown(monitor.w0),
    )


def _blockers(monitor: Monitor, now: int | None, stairs: Staircase | None, around: Around) -> list[Blocker] | None:
    """The staircase with names and causes; None without a valve, empty after the end of the stream."""
    if stairs is None or now is None:
        return [] if monitor.ended and isinstance(monitor.clock, OperatorClock) else None
    return blockers_of(
        stairs.steps(),
        lambda number: monitor.channels[number].name,
        lambda number: cause_of_channel(monitor, number, now, around),
    )


def _holder(monitor: Monitor, now: int | None, around: Around) -> Holder | None:
    number = monitor.clock.holder()
    if number is None or now is None or monitor.ended:
        return None
    cause, subtasks = cause_of_channel(monitor, number, now, around), monitor.settings.subtasks
    instance = None if subtasks is None else number % subtasks
    return Holder(monitor.channels[number].name, monitor.holder_since_ms, cause, instance)


def _instance_views(monitor: Monitor) -> list[InstanceView] | None:
    """The source instances that have or had a channel; None without source instances."""
    clock = monitor.clock
    if not isinstance(clock, OperatorClock) or clock.subtasks is None:
        return None
    valve = clock.valve
    return [
        InstanceView(
            instance=number,
            channel=f"#{number}",
            watermark_ms=monitor.shown(valve.watermarks[number]),
            state=_instance_state(instance, aligned=valve.aligned[number], ended=monitor.ended),
            channels=len(instance.multiplexer.splits) + len(instance.finished),
            aligned=valve.aligned[number],
            since_ms=valve.since[number],
        )
        for number, instance in enumerate(clock.instances)
        if instance.multiplexer.splits or instance.finished
    ]


def _instance_state(instance: Instance, *, aligned: bool, ended: bool) -> ChannelState:
    if ended or not instance.multiplexer.splits:
        return "finished"
    if instance.output.idle:
        return "idle"
    return "active" if aligned else "catching_up"


def _windows_view(monitor: Monitor, holder: str | None, stairs: Staircase | None) -> Windows:
    operator = monitor.operator
    if operator is None:
        return Windows(open_count=None, fired=None, late_firings=None)
    rest = operator.windows.unfired()
    return Windows(
        open=[
            _open_window(monitor, window, holder, stairs, with_channels=place < WITH_CHANNELS)
            for place, window in enumerate(rest[:MAX_OPEN_WINDOWS])
        ],
        open_count=len(rest),
        open_records=sum(window.records for window in rest),
        fired=operator.fired,
        late_firings=operator.late_firings,
        last_fired=monitor.fired.last,
    )


def _open_window(
    monitor: Monitor, window: Window, holder: str | None, stairs: Staircase | None, *, with_channels: bool
) -> OpenWindow:
    level = monitor.level
    channels: list[ChannelRecords] | None = None
    if with_channels:
        most = nlargest(MAX_IN_WINDOW, window.channels.items(), key=itemgetter(1))
        channels = [ChannelRecords(channel, records) for channel, records in most]
    blocker_count = None if stairs is None else stairs.below(window.end - 1)
    blockers: list[str] | None = None
    if stairs is not None and blocker_count is not None:
        first = stairs.first(min(blocker_count, MAX_BLOCKERS_OF_WINDOW))
        blockers = [monitor.channels[number].name for number in first]
    return OpenWindow(
        start_ms=window.start,
        end_ms=window.end,
        records=window.records,
        waits_for=holder,
        short_ms=None if level == MIN else window.end - 1 - level,
        channels=channels,
        channel_count=len(window.channels) if with_channels else None,
        blockers=blockers,
        blocker_count=blocker_count,
    )


def _lateness_by_channel(monitor: Monitor) -> list[ChannelLateness]:
    """The lateness of the channels with most records behind W0 since the start."""
    if monitor.whatif is None:
        return []
    counts = monitor.counts
    late = monitor.whatif.behind_by_channel
    most = nlargest(MAX_LATE_CHANNELS, late, key=lambda name: (counts[name].behind_watermark, counts[name].records))
    return [ChannelLateness(channel, counts[channel].records, _without_zeros(late[channel].counts)) for channel in most]


def _without_zeros(counts: list[int]) -> list[int]:
    end = len(counts)
    while end and not counts[end - 1]:
        end -= 1
    return counts[:end]


def _idle_view(monitor: Monitor, number: int) -> WhatIfIdle:
    rung = monitor.rungs[number]
    holder = rung.clock.holder()
    return WhatIfIdle(
        idle_after_ms=rung.idle_after_ms,
        watermark_ms=monitor.shown(rung.clock.level),
        holder=None if holder is None else monitor.channels[holder].name,
        flaps=sum(rung.clock.flaps.values()),
        late=rung.late,
        late_error=rung.late_error,
    )
