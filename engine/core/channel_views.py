"""The channels of a snapshot: one row each, from the monitor's state."""

from collections.abc import Iterable, Mapping, Sequence

from .channels import Channel
from .monitor import Monitor
from .snapshot import ChannelState, ChannelView
from .times import MIN
from .unread import Unread
from .watermarks import BoundedWatermarks, SmoothedWatermarks


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
    one_later, subtasks = int(monitor.settings.strategy == "spark"), monitor.settings.subtasks
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
