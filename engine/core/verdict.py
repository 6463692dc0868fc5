"""Why the holder holds the level: one cause, from what is known of the channels."""

from .snapshot import Cause

SLOW_CLOCK_MS = 1_000
"""How far (ms) event time must be ahead of the processing clock before the clock is blamed."""


def cause_of(
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
    """The cause, most certain first.

    `all_read`: it is known that nothing of the holder is unread. `usual_quiet_ms` is the mean time between the holder's
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
    if holder_ahead_of_clock_ms is not None and holder_ahead_of_clock_ms > SLOW_CLOCK_MS:
        return "slow_clock"
    if fastest_ahead_of_clock_ms is not None and fastest_ahead_of_clock_ms > future_after_ms:
        return "future_elsewhere"
    # Silence explains the lag when it has lasted for half of it, or for much longer than usual for the channel.
    return (
        "quiet" if all_read and quiet_ms > 0 and (2 * quiet_ms >= lag_ms or quiet_ms > 4 * usual_quiet_ms) else "behind"
    )
