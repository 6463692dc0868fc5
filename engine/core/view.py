"""The monitor as a snapshot, in the terms of the JSON contract; nothing here changes the monitor."""

from heapq import nlargest
from operator import itemgetter

from .channel_views import channel_views
from .counts import totals_of
from .holder_cause import Around, cause_of_channel
from .judgement.blockers import Staircase, staircase
from .monitor import Monitor
from .operator_clock import InstanceFacts
from .settings import Session
from .snapshot import (
    Blocker,
    ChannelLateness,
    ChannelRecords,
    ChannelState,
    EngineState,
    Holder,
    InstanceView,
    LateRecord,
    Level,
    Note,
    OpenWindow,
    Snapshot,
    SourceView,
    SparkProgress,
    TimePoint,
    Verdict,
    WhatIfIdle,
    Windows,
)
from .times import MIN
from .unread import Unread
from .windows import Window

MOST_OPEN_WINDOWS = 200
"""Open windows that a snapshot lists, at most: the earliest ones, which the watermark closes next."""
WITH_CHANNELS, MOST_IN_WINDOW = 20, 8
"""How many of the earliest open windows list their channels, and how many channels each lists: those with most
records.
"""
MOST_BLOCKERS, MOST_BLOCKERS_OF_WINDOW = 100, 32
"""Channels that a snapshot names in a step of the staircase, and for each open window, at most."""
MOST_LATE_CHANNELS = 16
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
    verdict: Verdict | None = None,
    late_output: str | None = None,
    late_sample: list[LateRecord] | None = None,
) -> Snapshot:
    """The snapshot at processing time `now_ms` (None: the monitor's last); `rates` are records per wall-clock
    second.
    """
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
        verdict=verdict or Verdict(),
        blockers=_blockers(monitor, now, stairs, around),
        channels=channel_views(monitor, known, now, rates or {}, unread),
        folded=monitor.folded.view(),
        instances=_instance_views(monitor),
        windows=_windows_view(monitor, level.holder.channel if level.holder else None, stairs),
        totals=totals,
        whatif=monitor.whatif.view(totals.records or 0) if monitor.whatif else None,
        whatif_recent=monitor.whatif.recent_view(totals.records or 0, now or 0) if monitor.whatif else None,
        whatif_idle=[_idle_view(monitor, number) for number in range(len(monitor.rungs))],
        whatif_upper_bound=isinstance(monitor.settings.window, Session),
        lateness_by_channel=_lateness_by_channel(monitor),
        last_future=monitor.last_future,
        last_malformed=monitor.last_malformed,
        changes=monitor.changes,
        explain=None if monitor.explain is None else monitor.explain.view(),
        late_output=late_output,
        late_sample=late_sample,
        spark=spark or SparkProgress(),
        points=points or [],
        notes=notes or [],
    )


def _level_view(monitor: Monitor, now: int | None, around: Around) -> Level:
    """The watermark, its distances, and the channel that holds it back."""
    level = monitor.level
    idle = monitor.clock.all_idle
    if level == MIN:
        return Level(holder=_holder(monitor, now, around), idle=idle)
    w0 = monitor.w0
    shown = monitor.shown(level)
    return Level(
        watermark_ms=shown,
        behind_fastest_ms=max(around.fastest, level) - level,
        behind_clock_ms=None if now is None or shown is None else now - shown,
        holder=_holder(monitor, now, around),
        idle=idle,
        moved_ms=monitor.moved_ms,
        at_zero_lateness_ms=monitor.shown(w0),
    )


def _blockers(monitor: Monitor, now: int | None, stairs: Staircase | None, around: Around) -> list[Blocker] | None:
    """The staircase with names and causes; None without a valve, empty after the end of the stream."""
    if stairs is None or now is None:
        return [] if monitor.ended and monitor.clock.has_valve else None
    return [
        Blocker(
            channels=[monitor.channels[number].name for number in step.channels[:MOST_BLOCKERS]],
            gain_ms=step.gain_ms,
            watermark_ms=monitor.shown(step.watermark),
            cause=cause_of_channel(monitor, step.channels[0], now, around),
            channel_count=len(step.channels),
        )
        for step in stairs.steps()
    ]


def _holder(monitor: Monitor, now: int | None, around: Around) -> Holder | None:
    number = monitor.clock.holder()
    if number is None or now is None or monitor.ended:
        return None
    cause = cause_of_channel(monitor, number, now, around)
    return Holder(monitor.channels[number].name, monitor.holder_since_ms, cause, _instance_of(monitor, number))


def _instance_of(monitor: Monitor, number: int) -> int | None:
    subtasks = monitor.settings.subtasks
    return None if subtasks is None else number % subtasks


def _instance_views(monitor: Monitor) -> list[InstanceView] | None:
    instances = monitor.clock.instance_facts()
    if instances is None:
        return None
    return [
        InstanceView(
            instance=instance.number,
            channel=f"#{instance.number}",
            watermark_ms=monitor.shown(instance.watermark),
            state=_instance_state(instance, ended=monitor.ended),
            channels=instance.channels,
            aligned=instance.aligned,
            since_ms=instance.since_ms,
        )
        for instance in instances
    ]


def _instance_state(instance: InstanceFacts, *, ended: bool) -> ChannelState:
    if ended or instance.finished:
        return "finished"
    if instance.idle:
        return "idle"
    return "active" if instance.aligned else "catching_up"


def _windows_view(monitor: Monitor, holder: str | None, stairs: Staircase | None) -> Windows:
    rest = monitor.operator.windows.unfired()
    return Windows(
        open=[
            _open_window(monitor, window, holder, stairs, with_channels=place < WITH_CHANNELS)
            for place, window in enumerate(rest[:MOST_OPEN_WINDOWS])
        ],
        open_count=len(rest),
        open_records=sum(window.records for window in rest),
        fired=monitor.operator.fired,
        late_firings=monitor.operator.late_firings,
        last_fired=monitor.fired.last,
    )


def _open_window(
    monitor: Monitor, window: Window, holder: str | None, stairs: Staircase | None, *, with_channels: bool
) -> OpenWindow:
    level = monitor.level
    channels: list[ChannelRecords] | None = None
    if with_channels:
        most = nlargest(MOST_IN_WINDOW, window.channels.items(), key=itemgetter(1))
        channels = [ChannelRecords(channel, records) for channel, records in most]
    blockers = None if stairs is None else stairs.below(window.end - 1)
    return OpenWindow(
        start_ms=window.start,
        end_ms=window.end,
        records=window.records,
        waits_for=holder,
        short_ms=None if level == MIN else window.end - 1 - level,
        channels=channels,
        channel_count=len(window.channels) if with_channels else None,
        blockers=None if stairs is None or blockers is None else _names(monitor, stairs, blockers),
        blocker_count=blockers,
    )


def _names(monitor: Monitor, stairs: Staircase, count: int) -> list[str]:
    return [monitor.channels[number].name for number in stairs.first(min(count, MOST_BLOCKERS_OF_WINDOW))]


def _lateness_by_channel(monitor: Monitor) -> list[ChannelLateness]:
    """The lateness of the channels with most records behind W0 since the start."""
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
