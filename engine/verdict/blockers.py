"""The channels that hold the watermark back, step by step (semantics 11.2), and the cause of each."""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import groupby, islice
from operator import itemgetter

from msgspec import Struct

from ..snapshot import Cause
from ..watermarks.channels import Channel, Unread
from ..watermarks.lateness import MINUTE
from ..watermarks.monitor import Monitor
from ..watermarks.operator_clock import Clock, OperatorClock
from ..watermarks.times import MIN

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


MAX_STEPS = 10


class BlockerStep(Struct, frozen=True):
    """Channels (by number) with the same watermark (ms, `MIN`: none), and the gain (ms) from idling all channels up to
    here.
    """

    channels: list[int]
    watermark: int
    gain_ms: int | None
    """The gain; None: there is no watermark to gain on."""


def steps_below(lowest_first: Iterable[tuple[int, int]], level: int, flushed: int | None) -> list[BlockerStep]:
    """At most `MAX_STEPS` steps, the first of which holds the watermark back; empty: no channel is below the fastest.

    `lowest_first` has the watermark and the number of each channel in the minimum, `level` is the combined watermark
    (`MIN`: none) and `flushed` the one after all channels have turned idle (None: not known).
    """
    by_watermark = groupby(lowest_first, key=itemgetter(0))
    groups = [(watermark, [pair[1] for pair in pairs]) for watermark, pairs in islice(by_watermark, MAX_STEPS + 1)]
    steps: list[BlockerStep] = []
    for place, (watermark, channels) in enumerate(groups[:MAX_STEPS]):
        freed = groups[place + 1][0] if place + 1 < len(groups) else flushed
        if freed is None or freed <= watermark:
            break
        steps.append(BlockerStep(channels, watermark, None if level == MIN else max(0, freed - level)))
    return steps


class Staircase:
    """The aligned channels of a clock in the holder's order: watermark, longest unchanged, semantics section 6.

    A channel in a source instance (`--subtasks`) counts with the instance's watermark where its own is lower: the
    combined watermark never goes back.
    """

    def __init__(self, clock: OperatorClock) -> None:
        self._level = clock.level
        self._ordered = sorted(clock.aligned_channels())
        self._watermarks = [key[0] for key in self._ordered]
        self._flushed = clock.all_idle_watermark()

    def steps(self) -> list[BlockerStep]:
        """The steps, as `steps_below` has them."""
        return steps_below(((key[0], key[-1]) for key in self._ordered), self._level, self._flushed)

    def below(self, needed: int) -> int:
        """How many aligned channels have a watermark below `needed` (ms)."""
        return bisect_left(self._watermarks, needed)

    def first(self, count: int) -> Iterable[int]:
        """The first `count` channels in the holder's order, by number."""
        return (key[-1] for key in self._ordered[:count])


def staircase(clock: Clock) -> Staircase | None:
    """The staircase of a clock; None for Spark's rule, which has no valve."""
    return Staircase(clock) if isinstance(clock, OperatorClock) else None
