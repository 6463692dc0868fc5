"""Rules about channels: who stops the level, who flaps, who is late because he was idle, who is far behind."""

from statistics import median

from ..snapshot import ChannelView, Holder, WhatIfIdle
from .case import MINUTE, SECOND, Case, Finding, share

STUCK_TIMES = 2
"""With an idle timeout, a channel that holds is stuck after so many times the normal delay of a result."""
FLAPS, ROUNDS = 6, 2
"""Flapping: so many changes at least, and less than so many idle timeouts from one idleness to the next."""
RETURNS, RETURN_SHARE, RETURN_TIMES, RETURN_LEAST = 4, 0.02, 3, 20
"""Late after idleness: of channels that change so often such a share, so many times that of the others, so many."""
SKEW_TIMES = 2
"""Skew: so many times the normal delay of a result, all the time."""


class StuckChannel(Finding, frozen=True, kw_only=True, tag="stuck-channel"):
    """A silent channel holds the level: `freed_ms` of event time would be gained without it (None: all of it)."""

    channel: str
    held_ms: int
    quiet_ms: int | None
    never_seen: bool
    freed_ms: int | None
    windows: int
    """Open windows that wait for it alone."""
    records: int | None
    idle_after_ms: int | None
    try_idle_ms: int | None = None
    """An idle timeout under which the level would be `try_gain_ms` ahead, for `try_late` more late records."""
    try_gain_ms: int | None = None
    try_late: int | None = None


class LastWindow(Finding, frozen=True, kw_only=True, tag="last-window"):
    """Everybody is quiet, and `windows` windows can only close when records come again."""

    quiet_ms: int
    windows: int
    records: int | None
    end_ms: int
    """The end of the last of them."""
    short_ms: int
    """How much event time is missing to that."""
    idle_after_ms: int | None


class FlappingIdleness(Finding, frozen=True, kw_only=True, tag="flapping-idleness"):
    """Channels turn idle and come back again and again; `channel` most often, once in `round_ms`."""

    channel: str
    channels: int
    flaps: int
    round_ms: int
    late: int | None
    idle_after_ms: int
    try_idle_ms: int | None = None


class LateAfterIdle(Finding, frozen=True, kw_only=True, tag="late-after-idle"):
    """Channels turn idle, the level goes on without them, and what they send then is late."""

    channel: str
    channels: int
    late: int
    late_share: float
    others_share: float
    idle_after_ms: int
    try_idle_ms: int | None
    """The idle timeout (None: off) under which `try_saved` of them would have been on time."""
    try_saved: int
    try_behind_ms: int | None
    """How much further behind the level would be under it."""


class Skew(Finding, frozen=True, kw_only=True, tag="skew"):
    """A channel that is read is far behind the fastest in event time, and so is the level."""

    channel: str
    behind_ms: int
    backlog: int | None
    rate: float | None
    open_windows: int | None
    open_records: int | None
    balanced: bool
    """Balanced reading is on already."""
    kafka: bool


class LeftBehind(Finding, frozen=True, kw_only=True, tag="left-behind"):
    """The fastest channel alone drives the clock, and `channels` others lose all that they send."""

    channel: str
    channels: int
    behind_ms: int
    late: int | None


def stuck_channel(case: Case) -> StuckChannel | None:
    """A silent holder for which windows wait: for ever without an idle timeout, or for much longer than usual."""
    holder, level = case.snapshot.level.holder, case.snapshot.level.watermark_ms
    if case.ended or holder is None or case.now_ms is None or holder.cause not in ("quiet", "never_seen"):
        return None
    next_ms = min((ms for view, ms in case.active if view.channel != holder.channel), default=None)
    if next_ms is None or (level is not None and next_ms <= level):
        return None
    endless = case.settings.idle_after_ms is None
    held_ms = case.now_ms - holder.since_ms
    if held_ms < max(MINUTE, case.scale_ms * (1 if endless else STUCK_TIMES)):
        return None
    waiting = [window for window in case.snapshot.windows.open if window.end_ms - 1 <= next_ms]
    gained_ms = None if level is None else next_ms - level
    if not waiting and gained_ms is not None and gained_ms < case.scale_ms:
        return None
    return _stuck(case, holder, held_ms, gained_ms, len(waiting), sum(window.records or 0 for window in waiting))


def _stuck(case: Case, holder: Holder, held_ms: int, gained_ms: int | None, windows: int, records: int) -> StuckChannel:
    view, better, own = case.channel(holder.channel), _shorter(case, holder.channel), case.own_idle
    level = case.snapshot.level.watermark_ms
    then = better.watermark_ms if better else None
    return StuckChannel(
        harm="stops" if case.settings.idle_after_ms is None else "delays",
        size=held_ms if gained_ms is None else gained_ms,
        channel=holder.channel,
        held_ms=held_ms,
        quiet_ms=view.quiet_ms if view else None,
        never_seen=holder.cause == "never_seen",
        freed_ms=gained_ms,
        windows=windows,
        records=records,
        idle_after_ms=case.settings.idle_after_ms,
        try_idle_ms=better.idle_after_ms if better else None,
        try_gain_ms=None if then is None or level is None else then - level,
        try_late=None if better is None or own is None else max(better.late - own.late, 0),
    )


def _shorter(case: Case, holder: str) -> WhatIfIdle | None:
    """The longest idle timeout that would let go of the holder."""
    level = case.snapshot.level.watermark_ms
    rows = [
        row
        for row in case.snapshot.whatif_idle or ()
        if row.idle_after_ms is not None
        and row.holder != holder
        and row.watermark_ms is not None
        and (level is None or row.watermark_ms > level)
    ]
    return max(rows, key=lambda row: row.idle_after_ms or 0, default=None)


def last_window(case: Case) -> LastWindow | None:
    """Windows beyond what the level can reach without another record, and nobody has sent one for long."""
    snapshot, settings = case.snapshot, case.settings
    if case.ended or not case.unbounded or snapshot.state in ("paused", "stale") or not case.channels:
        return None
    if not settings.tunable or any(view.backlog or view.held_back for view in case.channels):
        return None
    quiet = [view.quiet_ms for view in case.channels if view.state != "never_seen"]
    known = [ms for ms in quiet if ms is not None]
    if not known or len(known) < len(quiet):
        return None
    if min(known) < max(MINUTE, case.scale_ms + (settings.idle_after_ms or 0)):
        return None
    marks = [view.watermark_ms for view in case.channels if view.watermark_ms is not None]
    level = snapshot.level.watermark_ms
    reach_ms = max(marks, default=None) if settings.idle_after_ms is not None else level
    stranded = [w for w in snapshot.windows.open if reach_ms is None or w.end_ms - 1 > reach_ms]
    if not stranded or level is None:
        return None
    end_ms = max(window.end_ms for window in stranded)
    return LastWindow(
        harm="delays",
        size=min(known),
        quiet_ms=min(known),
        windows=len(stranded),
        records=sum(window.records or 0 for window in stranded),
        end_ms=end_ms,
        short_ms=end_ms - 1 - level,
        idle_after_ms=settings.idle_after_ms,
    )


def flapping_idleness(case: Case) -> FlappingIdleness | None:
    """Channels for which the idle timeout is about as long as their usual silence."""
    idle_after_ms = case.settings.idle_after_ms
    if case.ended or idle_after_ms is None:
        return None
    flapping = [
        (view.round_ms, view)
        for view in case.channels
        if view.round_ms is not None and view.flaps >= FLAPS and view.round_ms < ROUNDS * idle_after_ms
    ]
    if not flapping:
        return None
    round_ms, worst = min(flapping, key=lambda pair: pair[0])
    late = _sum_late([view for _, view in flapping])
    lost = share(late, case.snapshot.totals.records)
    longest = max(length for length, _ in flapping)
    return FlappingIdleness(
        harm="loses" if lost and lost >= 0.001 else "burdens",
        size=lost if lost and lost >= 0.001 else sum(view.flaps for _, view in flapping),
        channel=worst.channel,
        channels=len(flapping),
        flaps=sum(view.flaps for _, view in flapping),
        round_ms=round_ms,
        late=late,
        idle_after_ms=idle_after_ms,
        try_idle_ms=next((ms for ms in _timeouts(case) if ms > idle_after_ms and ms >= longest), None),
    )


def late_after_idle(case: Case) -> LateAfterIdle | None:
    """Channels that come back from idleness have far more late records than the others, and a longer timeout fewer."""
    own, idle_after_ms = case.own_idle, case.settings.idle_after_ms
    if own is None or idle_after_ms is None:
        return None
    often = max(RETURNS, 2 * median([view.flaps for view in case.channels] or [0]))
    back = [view for view in case.channels if view.flaps >= often and view.late is not None]
    stayed = [view for view in case.channels if view.flaps < often]
    late, late_share = _sum_late(back), share(_sum_late(back), sum(view.records or 0 for view in back)) or 0.0
    others_share = share(_sum_late(stayed), sum(view.records or 0 for view in stayed))
    if others_share is None or late < RETURN_LEAST or late_share < max(RETURN_SHARE, RETURN_TIMES * others_share):
        return None
    rows = {row.idle_after_ms: row for row in case.snapshot.whatif_idle or ()}
    longer = [*(ms for ms in _timeouts(case) if ms > idle_after_ms), None]
    better = next((rows[ms] for ms in longer if ms in rows and own.late - rows[ms].late >= late / 2), None)
    if better is None:
        return None
    worst = max(back, key=lambda view: view.late or 0)
    then, now = better.watermark_ms, own.watermark_ms
    return LateAfterIdle(
        harm="loses",
        size=share(own.late - better.late, case.snapshot.totals.records) or 0.0,
        channel=worst.channel,
        channels=sum(1 for view in back if view.late),
        late=late,
        late_share=late_share,
        others_share=others_share,
        idle_after_ms=idle_after_ms,
        try_idle_ms=better.idle_after_ms,
        try_saved=own.late - better.late,
        try_behind_ms=None if then is None or now is None else max(now - then, 0),
    )


def skew(case: Case) -> Skew | None:
    """The holder sends, but old records: the level is far behind the fastest channel, and has been for a minute."""
    level = case.snapshot.level
    holder, behind_ms, source = level.holder, level.behind_fastest_ms, case.snapshot.source
    if case.ended or holder is None or behind_ms is None or holder.cause not in ("behind", "backlog"):
        return None
    least = max(MINUTE, SKEW_TIMES * case.scale_ms)
    recent = case.last(MINUTE)
    if len(recent) < 10 or any((point.behind_fastest_ms or 0) < least for point in recent) or behind_ms < least:
        return None
    view = case.channel(holder.channel)
    return Skew(
        harm="delays",
        size=behind_ms,
        channel=holder.channel,
        behind_ms=behind_ms,
        backlog=view.backlog if view else None,
        rate=view.rate if view else None,
        open_windows=case.snapshot.windows.open_count,
        open_records=case.snapshot.windows.open_records,
        balanced=source is not None and source.max_drift_ms is not None,
        kafka=source is not None and source.kind == "kafka",
    )


def left_behind(case: Case) -> LeftBehind | None:
    """Spark's one clock has passed everything that some channels still send."""
    level = case.snapshot.level.watermark_ms
    if case.ended or case.settings.strategy != "spark" or level is None:
        return None
    closed_ms = level - case.window_ms - case.settings.allowed_lateness_ms
    lost = [
        (view.max_event_ms, view)
        for view in case.channels
        if view.max_event_ms is not None and view.max_event_ms < closed_ms and _loses(view, case)
    ]
    if not lost:
        return None
    oldest_ms, worst = min(lost, key=lambda pair: pair[0])
    late = None if any(view.late is None for _, view in lost) else _sum_late([view for _, view in lost])
    return LeftBehind(
        harm="loses",
        size=share(late, case.snapshot.totals.records) or len(lost) / len(case.channels),
        channel=worst.channel,
        channels=len(lost),
        behind_ms=level - oldest_ms,
        late=late,
    )


def _loses(view: ChannelView, case: Case) -> bool:
    """Half of its records were late; of a query that others run: it sends now."""
    lost = share(view.late, view.records)
    if lost is not None:
        return lost >= 0.5 and (view.late or 0) >= RETURN_LEAST
    return case.others and view.quiet_ms is not None and view.quiet_ms < 10 * SECOND


def _sum_late(views: list[ChannelView]) -> int:
    return sum(view.late or 0 for view in views)


def _timeouts(case: Case) -> list[int]:
    """The idle timeouts that are tried beside the one in force, the shortest first."""
    return sorted(row.idle_after_ms for row in case.snapshot.whatif_idle or () if row.idle_after_ms is not None)
