"""Rules about what holds the watermark back: channels without data or lagging, no data at all, a raised lateness.

They judge groups: with two dead channels, idling one alone frees nothing; idling both frees everything.
"""

from collections.abc import Sequence

from ..snapshot import ChannelView, OpenWindow, WhatIfIdle
from .diagnosis_input import MINUTE, DiagnosisInput
from .finding import Finding, Fix
from .progress import verdict_of

NEARLY = 0.9
"""Share of the possible gain that makes an idle timeout good enough."""
SKEW_TIMES = 2
"""A channel is lagging if it is this many times the normal delay of a result behind the fastest channel, for a
minute.
"""


class SilentChannels(Finding, frozen=True, kw_only=True, tag="silent-channels"):
    """Channels without data hold the watermark back while others send; idling all of them frees `gain_ms`
    (None: all).
    """

    quiet_ms: int | None
    """Time since the first of them had its last record."""
    never_seen: int
    """How many of them never had a record."""
    held_ms: int | None
    gain_ms: int | None
    windows: int
    """Open windows that no other channel holds back."""
    records: int | None
    idle_after_ms: int | None
    lagging: int
    """How many channels with data hold it back too."""


class NoData(Finding, frozen=True, kw_only=True, tag="no-data"):
    """No channel receives data: the watermark is frozen until new data arrives."""

    quiet_ms: int
    """Time since the newest record of all."""
    idle: bool
    """Whether all channels are idle already."""
    gain_ms: int | None
    """How far an idle timeout would still advance the watermark: up to the fastest channel (0: not at all)."""
    windows: int
    """Open windows that only new data can close."""
    records: int | None
    end_ms: int | None
    """The end of the last of these windows."""
    short_ms: int | None
    """How much event time is missing until that end."""
    idle_after_ms: int | None


class OnlyRealigning(Finding, frozen=True, kw_only=True, tag="only-realigning"):
    """All data comes from channels that are back from idle and behind the watermark: it cannot advance."""

    short_ms: int
    """How far the fastest of them is behind the watermark, in event time."""
    frozen_ms: int | None
    late: int | None
    idle_after_ms: int | None


class Lagging(Finding, frozen=True, kw_only=True, tag="lagging-channels"):
    """Channels with data are far behind the fastest in event time, the slowest of them by `behind_ms`."""

    behind_ms: int
    backlog: int | None
    rate: float | None
    open_windows: int | None
    open_records: int | None
    balanced: bool
    """Whether balanced reading (`--max-drift`) is already on."""
    kafka: bool
    stuck_ms: int | None = None
    """How long the first channel's event time has not advanced although it receives data: the watermark is stalled."""


class FrozenByLateness(Finding, frozen=True, kw_only=True, tag="frozen-by-lateness"):
    """Lateness was raised: the watermark is frozen until event time has caught up by `left_ms`."""

    left_ms: int
    lateness_ms: int | None
    small: bool = False
    """The watermark is much farther behind the fastest channel: something else holds it back."""


def silent_channels(given: DiagnosisInput) -> SilentChannels | None:
    """The active channels without data that are below the first one with data."""
    if given.ended or not given.has_valve or given.now_ms is None or given.snapshot.state == "paused":
        return None
    silent, sending = _split(given)
    if not silent or not _sends(given, sending):
        return None
    level = given.watermark_ms
    next_ms = min((ms for view, ms in given.active if view.channel not in silent), default=None)
    top_ms = given.fastest_ms if next_ms is None else next_ms
    gain_ms = None if level is None or top_ms is None else top_ms - level
    if next_ms is not None:  # those above it do not hold the watermark back
        silent = {name: view for name, view in silent.items() if (view.watermark_ms or next_ms - 1) < next_ms}
        if not silent:
            return None
    lagging = [ms for view, ms in given.active if view.channel in sending and top_ms is not None and ms <= (level or 0)]
    waiting = [w for w in given.snapshot.windows.open if top_ms is not None and w.end_ms - 1 <= top_ms]
    if not _matters(given, silent, gain_ms, len(waiting)):
        return None
    return _silent(given, list(silent.values()), gain_ms, waiting, len(lagging))


def _split(given: DiagnosisInput) -> tuple[dict[str, ChannelView], dict[str, ChannelView]]:
    """Channels of the minimum, by name: those without data, the first that holds the watermark back, and those with
    data.
    """
    holder = given.snapshot.level.holder
    views = [view for view, _ in given.active]
    if holder is not None and holder.cause in ("never_seen", "no_split"):
        views = [*(view for view in given.channels if _holds_unseen(view, given)), *views]
    unread = holder.channel if holder is not None and holder.cause in ("backlog", "paused", "held_back") else None
    after_ms = given.patience_ms / 2
    if verdict_of(given) == "stalled":
        after_ms = min(after_ms, given.horizon_ms / 2)  # no data for long enough to stall the watermark
    after_ms = max(MINUTE, after_ms)
    silent = {view.channel: view for view in views if view.channel != unread and _is_silent(view, after_ms)}
    return silent, {view.channel: view for view in views if view.channel not in silent}


def _holds_unseen(view: ChannelView, given: DiagnosisInput) -> bool:
    idle = given.settings.idle_after_ms
    takes_part = (idle is None or (view.quiet_ms or 0) <= idle) if view.aligned is None else view.aligned
    return view.state == "never_seen" and takes_part


def _is_silent(view: ChannelView, after_ms: float) -> bool:
    return not view.backlog and not view.held_back and view.quiet_ms is not None and view.quiet_ms >= after_ms


def _sends(given: DiagnosisInput, sending: dict[str, ChannelView]) -> bool:
    """Whether any channel has data: one in the minimum, or a realigning one."""
    fresh = [view for view in given.channels if view.state == "catching_up" and not _is_silent(view, MINUTE)]
    return bool(sending or fresh)


def _matters(given: DiagnosisInput, silent: dict[str, ChannelView], gain_ms: int | None, windows: int) -> bool:
    """Whether they matter: no data for longer than patience, at a cost, or the watermark is stalled by them."""
    first = next(iter(silent.values()))
    holder = given.snapshot.level.holder
    leads = holder is None or holder.channel in silent
    if gain_ms is not None and gain_ms <= 0 and not leads:
        return False
    worst = max(view.quiet_ms or 0 for view in silent.values())
    long = (first.quiet_ms or 0) >= given.patience_ms or (worst >= given.patience_ms and leads)
    costs = gain_ms is None or windows > 0 or gain_ms >= given.scale_ms
    return (long and costs) or (leads and (gain_ms is None or gain_ms > 0) and verdict_of(given) == "stalled")


def _silent(
    given: DiagnosisInput, views: list[ChannelView], gain_ms: int | None, waiting: Sequence[OpenWindow], lagging: int
) -> SilentChannels:
    names = tuple(view.channel for view in views)
    idle = given.settings.idle_after_ms
    holder = given.snapshot.level.holder
    seen = [view.quiet_ms for view in views if view.state != "never_seen" and view.quiet_ms is not None]
    held_ms = given.frozen_ms
    if holder is not None and given.now_ms is not None:
        held_ms = max(held_ms or 0, given.now_ms - holder.since_ms)
    records = [window.records for window in waiting if window.records is not None]
    endless = idle is None and (gain_ms is None or gain_ms >= given.scale_ms or bool(waiting))
    return SilentChannels(
        severity="critical" if endless else "warning",
        size=float(held_ms or 0) if gain_ms is None else float(gain_ms),
        channels=names,
        quiet_ms=max(seen, default=None),
        never_seen=sum(view.state == "never_seen" for view in views),
        held_ms=held_ms,
        gain_ms=gain_ms,
        windows=len(waiting),
        records=sum(records) if len(records) == len(waiting) else None,
        idle_after_ms=idle,
        lagging=lagging,
        fixes=(_idle_fix(given, set(names), gain_ms), Fix(code="check-channels")),
    )


def _idle_fix(given: DiagnosisInput, silent: set[str], gain_ms: int | None = None) -> Fix:
    """The longest idle timeout of the ladder under which none of these channels would hold the watermark back.

    One that gives nearly all of `gain_ms` is good enough: which channels have had no data for long enough changes from
    batch to batch, and a shorter timeout makes more records late.
    """
    level, idle = given.watermark_ms, given.settings.idle_after_ms
    shorter = [row for row in given.snapshot.whatif_idle or () if _frees(row, level, silent, gain_ms)]
    better = max(shorter, key=lambda row: row.idle_after_ms or 0, default=None)
    if better is None or better.idle_after_ms is None:
        return Fix(code="add-idle-timeout" if idle is None else "shorten-idle-timeout")
    own, then = given.own_idle, better.watermark_ms
    return Fix(
        code="set-idle-timeout",
        value_ms=better.idle_after_ms,
        gain_ms=None if then is None or level is None else then - level,
        more_late=None if own is None else max(better.late - own.late, 0),
    )


def _frees(row: WhatIfIdle, level: int | None, silent: set[str], gain_ms: int | None) -> bool:
    if row.idle_after_ms is None or row.watermark_ms is None:
        return False
    if level is None:
        return row.holder not in silent
    gained = row.watermark_ms - level
    return gained > 0 and (row.holder not in silent or (gain_ms is not None and gained >= NEARLY * gain_ms))


def no_data(given: DiagnosisInput) -> NoData | None:
    """No channel has data for longer than patience, and no record is unread."""
    snapshot, settings = given.snapshot, given.settings
    if given.ended or snapshot.state in ("paused", "stale", "starting", "failed") or settings.strategy == "none":
        return None
    views = [view for view in given.channels if view.state not in ("never_seen", "finished")]
    quiet = [view.quiet_ms for view in views]
    known = [ms for ms in quiet if ms is not None]
    if not known or len(known) < len(quiet) or any(view.backlog or view.held_back for view in given.channels):
        return None
    idle_after, all_idle = settings.idle_after_ms, all(view.state == "idle" for view in views)
    gain_ms = _freed_by_idling(given)
    patience = given.patience_ms if idle_after is None else max(MINUTE, given.scale_ms + idle_after)
    if min(known) < patience:
        return None
    stuck = idle_after is None and given.has_valve and gain_ms is not None and gain_ms >= given.scale_ms
    stranded = _stranded(given, idles=idle_after is not None) if given.unbounded else []
    if not stuck and not given.unbounded:
        return None  # a replay: its clock will reach the next record, or the end
    end_ms = max((window.end_ms for window in stranded), default=None)
    level = given.watermark_ms
    return NoData(
        severity="critical" if stuck else "warning" if stranded or idle_after is None else "info",
        size=min(known),
        channels=tuple(view.channel for view in views),
        quiet_ms=min(known),
        idle=all_idle,
        gain_ms=gain_ms,
        windows=len(stranded),
        records=sum(window.records or 0 for window in stranded) if stranded else None,
        end_ms=end_ms,
        short_ms=None if end_ms is None or level is None else end_ms - 1 - level,
        idle_after_ms=idle_after,
        fixes=_no_data_fixes(given, stuck=stuck),
    )


def _no_data_fixes(given: DiagnosisInput, *, stuck: bool) -> tuple[Fix, ...]:
    fixes = [Fix(code="check-producers"), Fix(code="send-heartbeats")]
    if stuck:
        fixes.insert(0, _idle_fix(given, {view.channel for view, _ in given.active}))
    return tuple(fixes)


def _freed_by_idling(given: DiagnosisInput) -> int | None:
    """What the watermark would gain if all channels turned idle: Flink then flushes the greatest one."""
    if not given.has_valve or given.fastest_ms is None or given.watermark_ms is None:
        return None
    return max(given.fastest_ms - given.watermark_ms, 0)


def _stranded(given: DiagnosisInput, *, idles: bool) -> list[OpenWindow]:
    """Open windows that the watermark cannot reach without another record."""
    reach_ms = given.fastest_ms if idles and given.has_valve else given.watermark_ms
    return [window for window in given.snapshot.windows.open if reach_ms is None or window.end_ms - 1 > reach_ms]


def only_realigning(given: DiagnosisInput) -> OnlyRealigning | None:
    """Channels are realigning, all others are idle, for some time."""
    level = given.watermark_ms
    views = [view for view in given.channels if view.state not in ("idle", "never_seen", "finished")]
    if given.ended or level is None or not views or any(view.state != "catching_up" for view in views):
        return None
    marks = [view.watermark_ms for view in views if view.watermark_ms is not None]
    frozen = given.frozen_ms
    if not marks or max(marks) >= level:
        return None
    if verdict_of(given) != "stalled" and (frozen or 0) < max(MINUTE, given.scale_ms):
        return None
    lates = [view.late for view in views]
    return OnlyRealigning(
        severity="critical",
        size=level - max(marks),
        channels=tuple(view.channel for view in views),
        short_ms=level - max(marks),
        frozen_ms=frozen,
        late=None if None in lates else sum(late or 0 for late in lates),
        idle_after_ms=given.settings.idle_after_ms,
        fixes=(Fix(code="lengthen-idle-timeout"), Fix(code="check-channels")),
    )


def lagging_channels(given: DiagnosisInput) -> Lagging | None:
    """The watermark has been far behind the fastest channel for a minute because of channels with data, or one of those
    that hold it back receives data and repeats its event time.
    """
    level, behind_ms = given.snapshot.level, given.snapshot.level.behind_fastest_ms
    if given.ended or not given.has_valve or behind_ms is None or given.snapshot.state == "paused":
        return None
    least = max(MINUTE, SKEW_TIMES * given.scale_ms)
    stuck_ms = _stuck_ms(given)
    recent = given.last(MINUTE)
    far = len(recent) >= 10 and all((point.behind_fastest_ms or 0) >= least for point in recent)
    if stuck_ms is None and (behind_ms < least or not far):
        return None
    silent, _ = _split(given)
    fastest, held_ms = given.fastest_ms or 0, given.watermark_ms or 0
    lags = [
        (view, fastest - ms)
        for view, ms in given.active
        if view.channel not in silent and (fastest - ms >= least or (stuck_ms is not None and ms <= held_ms))
    ]
    behind = [view for view, _ in lags]
    if not behind or (level.holder is not None and level.holder.cause in ("held_back", "future_elsewhere")):
        return None  # paused to wait for others, or on time while the fastest is ahead of the clock
    first, source = behind[0], given.snapshot.source
    kafka = source is not None and source.kind == "kafka"
    balanced = source is not None and source.max_drift_ms is not None
    fixes = [Fix(code="check-channels")]
    if first.backlog:
        fixes.insert(0, Fix(code="add-readers"))
    if kafka and not balanced and stuck_ms is None:
        fixes.insert(0, Fix(code="set-max-drift"))
    return Lagging(
        severity="warning" if stuck_ms is None else "critical",
        size=lags[0][1],
        channels=tuple(view.channel for view in behind),
        behind_ms=lags[0][1],
        backlog=first.backlog,
        rate=first.rate,
        open_windows=given.snapshot.windows.open_count,
        open_records=given.snapshot.windows.open_records,
        balanced=balanced,
        kafka=kafka,
        stuck_ms=stuck_ms,
        fixes=tuple(fixes),
    )


_FOLLOWING = ("bounded", "bounded-legacy", "monotonous")
"""Strategies whose watermark does not move only if the greatest event time does not."""


def _stuck_ms(given: DiagnosisInput) -> int | None:
    """How long the watermark has been stalled by a channel with data and no unread records that repeats its event time.

    None if another channel or another reason stalls it, or if it is not known what the channel receives.
    """
    holder, frozen_ms = given.snapshot.level.holder, given.frozen_ms
    if holder is None or holder.cause != "behind" or frozen_ms is None or verdict_of(given) != "stalled":
        return None
    view = next((view for view, _ in given.active if view.channel == holder.channel), None)
    if view is None or view.backlog or view.quiet_ms is None or view.rate == 0 or view.max_event_ms is None:
        return None
    if given.settings.strategy not in _FOLLOWING:
        return None
    reached_ms = view.max_event_ms - (given.settings.lateness_ms or 0) - 1
    if (view.watermark_ms or 0) > reached_ms + 1:  # its event time may advance: lateness was raised
        return None
    return frozen_ms if view.quiet_ms < min(frozen_ms, given.horizon_ms) / 2 else None


def frozen_by_lateness(given: DiagnosisInput) -> FrozenByLateness | None:
    """The generators of the channels that hold it back are below the watermark: lateness was raised."""
    lateness, level = given.settings.lateness_ms, given.watermark_ms
    reported_ms = given.snapshot.spark.frozen_ms
    if given.ended or level is None or not given.settings.tunable or (lateness is None and not reported_ms):
        return None
    if reported_ms is not None or lateness is None:
        return _frozen(given, reported_ms, lateness)
    left_ms = _left_by_minimum(given, level, lateness) if given.has_valve else _left_by_fastest(given, level, lateness)
    return None if given.settings.strategy == "smoothed" else _frozen(given, left_ms, lateness)


def _frozen(given: DiagnosisInput, left_ms: int | None, lateness: int | None) -> FrozenByLateness | None:
    if left_ms is None or left_ms <= 1:
        return None
    return FrozenByLateness(
        severity="info" if left_ms < given.scale_ms else "warning",
        size=left_ms,
        left_ms=left_ms,
        lateness_ms=lateness,
        small=given.has_valve and (given.snapshot.level.behind_fastest_ms or 0) > left_ms + given.scale_ms,
        fixes=(Fix(code="wait"),),
    )


def _left_by_minimum(given: DiagnosisInput, level: int, lateness: int) -> int | None:
    """For the channel that holds it back: how far its present watermark is below the one that it sent before lateness
    was raised.
    """
    if not given.active:
        return None
    view, sent = given.active[0]
    if view.max_event_ms is None or sent <= view.max_event_ms - lateness:
        return None
    reached = [one.max_event_ms - lateness - 1 for one, _ in given.active if one.max_event_ms is not None]
    return level - min(reached)


def _left_by_fastest(given: DiagnosisInput, level: int, delay: int) -> int | None:
    times = [view.max_event_ms for view in given.channels if view.max_event_ms is not None]
    return level - (max(times) - delay) if times else None
