"""Rules about idleness: flapping channels, channels that come back late, and a timeout longer than any channel
needs.
"""

from statistics import median

from ..snapshot import ChannelView
from .diagnosis_input import DiagnosisInput, loss_severity, share
from .finding import Finding, Fix

FLAPS, ROUNDS = 6, 2
"""Flapping: at least this many changes, and less than this many idle timeouts from one idle status to the next."""
RETURNS, RETURN_SHARE, RETURN_TIMES, RETURN_LEAST = 4, 0.02, 3, 20
"""Late after idleness: least number of changes, and of the channels' records the least late share, as a multiple of the
other channels' share, and the least number of late ones.
"""
LOST = 0.001
"""Share of all records from which on the loss by flapping counts."""
PAUSES = 60
"""An idle timeout is too long at this many times the longest pause that ended, and as many times the delay of a
result.
"""


class FlappingIdleness(Finding, frozen=True, kw_only=True, tag="flapping-idleness"):
    """Channels turn idle and come back again and again; the first one most often, once per `round_ms`."""

    flaps: int
    round_ms: int
    late: int | None
    idle_after_ms: int


class LateAfterIdle(Finding, frozen=True, kw_only=True, tag="late-after-idle"):
    """Channels turn idle, the watermark advances without them, and their next records are late."""

    late: int
    late_share: float
    others_share: float
    """The late share of all other channels."""
    idle_after_ms: int
    try_idle_ms: int | None
    """The idle timeout (None: off) under which `saved` of these records would have been on time."""
    saved: int


class IdleTimeoutTooLong(Finding, frozen=True, kw_only=True, tag="idle-timeout-too-long"):
    """The idle timeout is far longer than any pause that ended, and a channel has held the watermark back for all of
    it.
    """

    idle_after_ms: int
    longest_pause_ms: int


def flapping_idleness(given: DiagnosisInput) -> FlappingIdleness | None:
    """Channels whose usual pause is about as long as the idle timeout."""
    idle_after_ms = given.settings.idle_after_ms
    if given.ended or idle_after_ms is None:
        return None
    flapping = [
        (view.round_ms, view)
        for view in given.channels
        if view.round_ms is not None and (view.flaps or 0) >= FLAPS and view.round_ms < ROUNDS * idle_after_ms
    ]
    if not flapping:
        return None
    flapping.sort(key=lambda pair: pair[0])
    late = _sum_late([view for _, view in flapping])
    lost = share(late, given.snapshot.totals.records) or 0.0
    longest, flaps = max(length for length, _ in flapping), sum(view.flaps or 0 for _, view in flapping)
    longer = next((ms for ms in _timeouts(given) if ms > idle_after_ms and ms >= longest), None)
    fix = Fix(code="lengthen-idle-timeout") if longer is None else Fix(code="set-idle-timeout", value_ms=longer)
    return FlappingIdleness(
        severity="warning" if lost >= LOST else "info",
        size=lost if lost >= LOST else flaps,
        channels=tuple(view.channel for _, view in flapping),
        flaps=flaps,
        round_ms=flapping[0][0],
        late=late,
        idle_after_ms=idle_after_ms,
        fixes=(fix,),
    )


def late_after_idle(given: DiagnosisInput) -> LateAfterIdle | None:
    """Channels that come back from idle with far more late records than the others, and fewer under a longer
    timeout.
    """
    own, idle_after_ms = given.own_idle, given.settings.idle_after_ms
    if own is None or idle_after_ms is None:
        return None
    often = max(RETURNS, 2 * median([view.flaps or 0 for view in given.channels] or [0]))
    back = [view for view in given.channels if (view.flaps or 0) >= often and view.late is not None]
    stayed = [view for view in given.channels if (view.flaps or 0) < often]
    late, late_share = _sum_late(back), share(_sum_late(back), sum(view.records or 0 for view in back)) or 0.0
    others_share = share(_sum_late(stayed), sum(view.records or 0 for view in stayed))
    if others_share is None or late < RETURN_LEAST or late_share < max(RETURN_SHARE, RETURN_TIMES * others_share):
        return None
    rows = {row.idle_after_ms: row for row in given.snapshot.whatif_idle or ()}
    longer = [*(ms for ms in _timeouts(given) if ms > idle_after_ms), None]
    better = next((rows[ms] for ms in longer if ms in rows and own.late - rows[ms].late >= late / 2), None)
    if better is None:
        return None
    worst = sorted((view for view in back if view.late), key=lambda view: -(view.late or 0))
    saved, then, now = own.late - better.late, better.watermark_ms, own.watermark_ms
    gain_ms = None if then is None or now is None else min(then - now, 0)
    lost = share(saved, given.snapshot.totals.records)
    return LateAfterIdle(
        severity=loss_severity(lost),
        size=lost or 0.0,
        channels=tuple(view.channel for view in worst),
        late=late,
        late_share=late_share,
        others_share=others_share,
        idle_after_ms=idle_after_ms,
        try_idle_ms=better.idle_after_ms,
        saved=saved,
        fixes=(Fix(code="set-idle-timeout", value_ms=better.idle_after_ms, more_late=-saved, gain_ms=gain_ms),),
    )


def idle_timeout_too_long(given: DiagnosisInput) -> IdleTimeoutTooLong | None:
    """A channel is idle, or on its way there, and no pause of the others justifies so long a timeout."""
    idle_after = given.settings.idle_after_ms
    if given.ended or idle_after is None or not given.has_valve or idle_after < PAUSES * given.scale_ms:
        return None
    gone = [view for view in given.channels if view.state == "idle" and view.flaps == 1]
    pauses = [view.longest_quiet_ms for view in given.channels if view.longest_quiet_ms is not None]
    if not gone or not pauses or len(gone) == len(given.channels) or max(pauses) * PAUSES > idle_after:
        return None
    rows = given.snapshot.whatif_idle or ()
    enough = [row.idle_after_ms for row in rows if row.idle_after_ms is not None and row.idle_after_ms > max(pauses)]
    shorter = min((ms for ms in enough if ms < idle_after), default=None)
    fix = Fix(code="shorten-idle-timeout") if shorter is None else Fix(code="set-idle-timeout", value_ms=shorter)
    return IdleTimeoutTooLong(
        severity="info",
        size=idle_after,
        channels=tuple(view.channel for view in gone),
        idle_after_ms=idle_after,
        longest_pause_ms=max(pauses),
        fixes=(fix,),
    )


def _sum_late(views: list[ChannelView]) -> int:
    return sum(view.late or 0 for view in views)


def _timeouts(given: DiagnosisInput) -> list[int]:
    """The idle timeouts of the what-if, without the one in force, the shortest first."""
    return sorted(row.idle_after_ms for row in given.snapshot.whatif_idle or () if row.idle_after_ms is not None)
