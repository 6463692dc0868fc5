"""Why a channel holds back the watermark: one cause, from the state of the channels."""

from msgspec import Struct

from .channels import Channel
from .lateness import MINUTE
from .monitor import Monitor
from .snapshot import Cause
from .times import MIN
from .unread import Unread

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
    """Why channel `number` holds back the watermark, at processing time `now` (ms)."""
    channel = monitor.channels[number]
    heard = channel.added_ms if channel.last_record_ms is None else channel.last_record_ms
    unread, newest = around.unread, around.newest_event_ms
    return _cause(
        seen=channel.last_record_ms is not None,
        paused=around.paused,
        held_back=unread is not None and channel.name in unread.held_back,
        backlog=None if unread is None else unread.backlog(channel.name),
        all_read=unread is None or unread.may_be_of(channel.name) == 0,
        quiet_ms=now - heard,
        usual_quiet_ms=(heard - channel.added_ms) // max(1, _times_heard(monitor, channel)),
        lag_ms=around.fastest - monitor.clock.watermark(number),
        fastest_ahead_of_clock_ms=None if newest is None else newest - now,
        holder_ahead_of_clock_ms=None if channel.max_event_ms is None else channel.max_event_ms - now,
        future_after_ms=monitor.settings.future_guard_ms or 30 * MINUTE,
    )


def _times_heard(monitor: Monitor, channel: Channel) -> int:
    """How often the channel can have been heard from, at most: many records of one batch count once."""
    return min(monitor.counts[channel.name].records, (monitor.batch or 0) + 1)


def _cause(
    *,
    seen: bool,
    paused: bool,
    held_back: bool,
    backlog: int | None,
    all_read: bool,
    quiet_ms: int,
    usual_quiet_ms: int,
    lag_ms: int,
    fastest_ahead_of_clock_ms: int | None,
    holder_ahead_of_clock_ms: int | None,
    future_after_ms: int,
) -> Cause:
    """The cause, the most certain one first.

    `all_read`: the holder is known to have no unread records. `usual_quiet_ms` is the mean time between the holder's
    records, `lag_ms` how far it is behind the fastest channel.
    """
    if paused:
        return "paused"
    if held_back:
        return "held_back"
    if backlog:
        return "backlog"
    if not seen:
        return "never_seen"
    if holder_ahead_of_clock_ms is not None and holder_ahead_of_clock_ms > SLOW_CLOCK_MS >= lag_ms:
        return "slow_clock"  # all event times are ahead of the clock: no channel is behind
    if fastest_ahead_of_clock_ms is not None and fastest_ahead_of_clock_ms > future_after_ms:
        return "future_elsewhere"
    # A pause explains the lag if it has lasted for half of it, or for much longer than usual for the channel.
    return (
        "quiet" if all_read and quiet_ms > 0 and (2 * quiet_ms >= lag_ms or quiet_ms > 4 * usual_quiet_ms) else "behind"
    )
