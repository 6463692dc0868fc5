"""The monitor as a snapshot: what is known, in the terms of the contract; nothing here changes the monitor."""

from heapq import nlargest
from operator import itemgetter

from .counts import ChannelCounts, totals_of
from .lateness import MINUTE
from .monitor import Channel, Monitor
from .operator_clock import OperatorClock
from .settings import Session
from .snapshot import (
    ChannelLateness,
    ChannelRecords,
    ChannelState,
    ChannelView,
    EngineState,
    Holder,
    InstanceView,
    Level,
    OpenWindow,
    Snapshot,
    SourceView,
    SparkProgress,
    TimePoint,
    WhatIfIdle,
    Windows,
)
from .times import MIN
from .unread import Unread
from .verdict import cause_of
from .windows import Window

MOST_OPEN_WINDOWS = 200
"""How many open windows a snapshot lists: the earliest, which are what the level is about to close."""
TOLD_APART, MOST_IN_WINDOW = 20, 8
"""Of so many of them the channels are told apart, those with most records."""
MOST_LATE_CHANNELS = 16
"""Of how many channels a snapshot has the lateness."""


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
    notes: list[str] | None = None,
    points: list[TimePoint] | None = None,
) -> Snapshot:
    """The picture at processing time `now_ms` (else the monitor's last); `rates` are records per wall-clock second."""
    now = monitor.now_ms if now_ms is None else now_ms
    level = level_view(monitor, now, paused=state == "paused", unread=unread)
    counts = [monitor.counts[channel.name] for channel in monitor.channels]
    totals = totals_of(monitor.counts.values())
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
        channels=[
            _channel_view(monitor, number, channel, counts[number], now, (rates or {}).get(channel.name), unread)
            for number, channel in enumerate(monitor.channels)
        ],
        instances=_instance_views(monitor),
        windows=_windows_view(monitor, level.holder.channel if level.holder else None),
        totals=totals,
        whatif=monitor.whatif.view(totals.records or 0) if monitor.whatif else None,
        whatif_idle=[_idle_view(monitor, number) for number in range(len(monitor.rungs))],
        whatif_upper_bound=isinstance(monitor.settings.window, Session),
        lateness_by_channel=_lateness_by_channel(monitor),
        last_future=monitor.last_future,
        last_malformed=monitor.last_malformed,
        changes=monitor.changes,
        spark=spark or SparkProgress(),
        points=points or [],
        notes=notes or [],
    )


def level_view(monitor: Monitor, now: int | None, *, paused: bool, unread: Unread | None = None) -> Level:
    """The level, its distances, and who holds it."""
    level = monitor.level
    if level == MIN:
        return Level(holder=_holder(monitor, now, paused, unread))
    fastest = max((monitor.clock.watermark(number) for number in range(len(monitor.channels))), default=level)
    w0 = monitor.w0
    shown = monitor.shown(level)
    return Level(
        watermark_ms=shown,
        behind_fastest_ms=fastest - level,
        behind_clock_ms=None if now is None or shown is None else now - shown,
        holder=_holder(monitor, now, paused, unread),
        idle=isinstance(monitor.clock, OperatorClock) and monitor.clock.valve.idle,
        at_zero_lateness_ms=monitor.shown(w0),
    )


def _holder(monitor: Monitor, now: int | None, paused: bool, unread: Unread | None) -> Holder | None:
    number = monitor.clock.holder()
    if number is None or now is None or monitor.ended:
        return None
    channel = monitor.channels[number]
    watermark = monitor.clock.watermark(number)
    heard = channel.added_ms if channel.last_record_ms is None else channel.last_record_ms
    newest = [c.max_event_ms for c in monitor.channels if c.max_event_ms is not None]
    cause = cause_of(
        seen=channel.last_record_ms is not None,
        paused=paused,
        held_back=unread is not None and channel.name in unread.held_back,
        backlog=None if unread is None else unread.backlog(channel.name),
        all_read=unread is None or unread.may_be_of(channel.name) == 0,
        quiet_ms=now - heard,
        usual_quiet_ms=(heard - channel.added_ms) // max(1, _times_heard(monitor, channel)),
        lag_ms=max(monitor.clock.watermark(other) for other in range(len(monitor.channels))) - watermark,
        fastest_ahead_of_clock_ms=max(newest) - now if newest else None,
        holder_ahead_of_clock_ms=None if channel.max_event_ms is None else channel.max_event_ms - now,
        future_after_ms=monitor.settings.future_guard_ms or 30 * MINUTE,
    )
    return Holder(channel.name, monitor.holder_since_ms, cause, _instance_of(monitor, number))


def _times_heard(monitor: Monitor, channel: Channel) -> int:
    """How often a channel can have been heard of at most: a batch of many records is one time."""
    return min(monitor.counts[channel.name].records, (monitor.batch or 0) + 1)


def _instance_of(monitor: Monitor, number: int) -> int | None:
    subtasks = monitor.settings.subtasks
    return None if subtasks is None else number % subtasks


def _state_of(monitor: Monitor, number: int) -> ChannelState:
    if monitor.ended:
        return "finished"
    if monitor.channels[number].last_record_ms is None:
        return "never_seen"
    if number in monitor.clock.idle:
        return "idle"
    return "catching_up" if monitor.clock.catching_up(number) else "active"


def _channel_view(
    monitor: Monitor,
    number: int,
    channel: Channel,
    counts: ChannelCounts,
    now: int | None,
    rate: float | None,
    unread: Unread | None,
) -> ChannelView:
    heard = channel.added_ms if channel.last_record_ms is None else channel.last_record_ms
    clock = monitor.clock
    since = clock.valve.since if isinstance(clock, OperatorClock) else clock.since
    return ChannelView(
        channel=channel.name,
        watermark_ms=monitor.shown(clock.watermark(number)),
        max_event_ms=channel.max_event_ms,
        state=_state_of(monitor, number),
        records=counts.records,
        behind_watermark=counts.behind_watermark,
        late=counts.late,
        malformed=counts.malformed,
        future=counts.future,
        backlog=None if unread is None else unread.of(channel.name),
        held_back=unread is not None and channel.name in unread.held_back,
        quiet_ms=None if now is None else max(0, now - heard),
        longest_quiet_ms=channel.longest_quiet_ms,
        flaps=clock.flaps.get(number, 0),
        round_ms=None if now is None else monitor.rounds.length_ms(number, now),
        rate=rate,
        since_ms=since[number] if monitor.settings.subtasks is None else None,
        instance=_instance_of(monitor, number),
    )


def _instance_views(monitor: Monitor) -> list[InstanceView] | None:
    clock = monitor.clock
    if not isinstance(clock, OperatorClock) or clock.subtasks is None:
        return None
    return [
        InstanceView(
            instance=number,
            channel=f"#{number}",
            watermark_ms=monitor.shown(clock.valve.watermarks[number]),
            state=_instance_state(monitor, clock, number),
            channels=len(instance.multiplexer.splits),
        )
        for number, instance in enumerate(clock.instances)
    ]


def _instance_state(monitor: Monitor, clock: OperatorClock, number: int) -> ChannelState:
    if monitor.ended:
        return "finished"
    if clock.instances[number].output.idle:
        return "idle"
    return "active" if clock.valve.aligned[number] else "catching_up"


def _windows_view(monitor: Monitor, holder: str | None) -> Windows:
    rest = monitor.operator.windows.unfired()
    level = monitor.level
    return Windows(
        open=[
            _open_window(window, level, holder, told_apart=place < TOLD_APART)
            for place, window in enumerate(rest[:MOST_OPEN_WINDOWS])
        ],
        open_count=len(rest),
        open_records=sum(window.records for window in rest),
        fired=monitor.operator.fired,
        late_firings=monitor.operator.late_firings,
        last_fired=monitor.fired.last,
    )


def _open_window(window: Window, level: int, holder: str | None, *, told_apart: bool) -> OpenWindow:
    channels: list[ChannelRecords] | None = None
    if told_apart:
        most = nlargest(MOST_IN_WINDOW, window.channels.items(), key=itemgetter(1))
        channels = [ChannelRecords(channel, records) for channel, records in most]
    return OpenWindow(
        start_ms=window.start,
        end_ms=window.end,
        records=window.records,
        waits_for=holder,
        short_ms=None if level == MIN else window.end - 1 - level,
        channels=channels,
        channel_count=len(window.channels) if told_apart else None,
    )


def _lateness_by_channel(monitor: Monitor) -> list[ChannelLateness]:
    """Of the channels with most records behind W0 since the start."""
    if monitor.whatif is None:
        return []
    counts = monitor.counts
    late = monitor.whatif.behind_by_channel
    most = nlargest(MOST_LATE_CHANNELS, late, key=lambda name: (counts[name].behind_watermark, counts[name].records))
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
