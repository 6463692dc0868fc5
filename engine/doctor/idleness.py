"""Channels without data: none has any, only realigning ones have, idle timeouts that are too short or too long."""

from statistics import median
from typing import Literal

from ..snapshot import ChannelView
from ..text import formatting as f
from .blocking import idle_fix
from .finding import (
    CHECK_PRODUCERS,
    Context,
    Explanation,
    Finding,
    Fix,
    change_idle_timeout,
    check_channels,
    n,
    names,
    only,
    span,
    verb,
)
from .rules import MINUTE, DiagnosisInput, loss_severity, rule, share

FLAPS, ROUNDS = 6, 2
"""Flapping: at least this many changes, and less than this many idle timeouts from one idle status to the next."""
RETURNS, RETURN_SHARE, RETURN_TIMES, MIN_RETURN_LATE = 4, 0.02, 3, 20
"""Late after idleness: least number of changes, and of the channels' records the least late share, as a multiple of the
other channels' share, and the least number of late ones.
"""
LOST = 0.001
"""Share of all records from which on the loss by flapping counts."""
SEND_HEARTBEATS = Fix("send-heartbeats", "Let producers send a heartbeat record while they have no data")
PAUSES = 60
"""An idle timeout is too long at this many times the longest pause that ended, and as many times the delay of a
result.
"""


class NoData(Finding, frozen=True, kw_only=True, tag="no-data"):
    """No channel receives data. The watermark waits until new data arrives.

    Recognised by: the newest record of all channels is older than a result normally takes (at least a minute), and no
    record is unread.

    What to do: check the producers. A heartbeat record keeps event time moving while there is no data.
    """

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

    def words(self, context: Context) -> Explanation:
        idle = "; all channels are idle" if self.idle else ""
        evidence = [
            f"Newest record of all {n(len(self.channels), 'channel')}: {span(self.quiet_ms)} ago",
            f"Idle timeout: {context.idle_timeout}{idle}",
        ]
        if self.gain_ms and not self.idle:
            evidence.append(f"The slowest channel is {span(self.gain_ms)} behind the fastest")
        if self.windows and self.end_ms is not None:
            end = f.second(self.end_ms, context.zone)
            evidence.append(f"The window until {end} is {span(self.short_ms)} of event time short")
        impact = "The watermark waits until new data arrives"
        if self.windows:
            impact = f"{n(self.windows, 'window')} ({n(self.records, 'record')}) cannot fire until new data arrives"
        cause = "A watermark advances only with records."
        if self.gain_ms and context.snapshot.settings.idle_after_ms is None and not context.of_flink:
            cause += " Without an idle timeout it stays at the slowest channel."
        who = "All channels are idle" if self.idle else "No channel has data"
        return Explanation(f"{who}: no record for {span(self.quiet_ms)}", impact, cause, evidence, ("Windows", "Time"))


@rule(NoData, accounts_for=("stalled", "slow", "unknown"))
def no_data(facts: DiagnosisInput) -> NoData | None:
    snapshot, settings, level = facts.snapshot, facts.settings, facts.watermark_ms
    if facts.ended or snapshot.state in ("paused", "stale", "starting", "failed") or settings.strategy == "none":
        return None
    views = [view for view in facts.channels if view.state not in ("never_seen", "finished")]
    quiet = [view.quiet_ms for view in views]
    known = [ms for ms in quiet if ms is not None]
    if not known or len(known) < len(quiet) or any(view.backlog or view.held_back for view in facts.channels):
        return None
    idle_after, gain_ms = settings.idle_after_ms, None
    if facts.has_valve and facts.fastest_ms is not None and level is not None:
        gain_ms = max(facts.fastest_ms - level, 0)  # if all turn idle, Flink flushes the greatest watermark
    patience = facts.quiet_limit_ms if idle_after is None else max(MINUTE, facts.scale_ms + idle_after)
    if min(known) < patience:
        return None
    stuck = idle_after is None and facts.has_valve and gain_ms is not None and gain_ms >= facts.scale_ms
    if not stuck and not facts.unbounded:
        return None  # a replay: its clock will reach the next record, or the end
    reach_ms = facts.fastest_ms if idle_after is not None and facts.has_valve else level
    opened = snapshot.windows.open if facts.unbounded else []
    stranded = [window for window in opened if reach_ms is None or window.end_ms - 1 > reach_ms]
    end_ms = max((window.end_ms for window in stranded), default=None)
    idle = [idle_fix(facts, {view.channel for view, _ in facts.active})] if stuck else []
    return NoData(
        severity="critical" if stuck else "warning" if stranded or idle_after is None else "info",
        size=min(known),
        channels=tuple(view.channel for view in views),
        quiet_ms=min(known),
        idle=all(view.state == "idle" for view in views),
        gain_ms=gain_ms,
        windows=len(stranded),
        records=sum(window.records or 0 for window in stranded) if stranded else None,
        end_ms=end_ms,
        short_ms=None if end_ms is None or level is None else end_ms - 1 - level,
        fixes=(*idle, CHECK_PRODUCERS, SEND_HEARTBEATS),
    )


class OnlyRealigning(Finding, frozen=True, kw_only=True, tag="only-realigning"):
    """All data comes from channels that are back from idle and still behind the watermark. It cannot advance, and
    records of closed windows are dropped.

    Recognised by: every channel is idle or realigning, and the watermark is stalled, or frozen for longer than a result
    takes.

    What to do: set a longer idle timeout, so that these channels do not turn idle; check why the others have no data.
    """

    short_ms: int
    """How far the fastest of them is behind the watermark, in event time."""
    frozen_ms: int | None
    late: int | None

    def words(self, context: Context) -> Explanation:
        late = [] if self.late is None else [f"{n(self.late, 'record')} of these channels late so far"]
        return Explanation(
            f"Only {names(self.channels)} {verb(self.channels, 'has', 'have')} data, from before the watermark",
            "The watermark is frozen; records of closed windows are dropped",
            "Channels that return from idle do not count until they reach the watermark; all other channels are idle.",
            [f"{span(self.short_ms)} of event time to the watermark", f"Unchanged for {span(self.frozen_ms)}", *late],
            ("Time", "Windows"),
            only(self.channels),
        )


@rule(OnlyRealigning, accounts_for=("stalled",))
def only_realigning(facts: DiagnosisInput) -> OnlyRealigning | None:
    level = facts.watermark_ms
    views = [view for view in facts.channels if view.state not in ("idle", "never_seen", "finished")]
    if facts.ended or level is None or not views or any(view.state != "catching_up" for view in views):
        return None
    marks = [view.watermark_ms for view in views if view.watermark_ms is not None]
    frozen = facts.frozen_ms
    if not marks or max(marks) >= level:
        return None
    if facts.verdict != "stalled" and (frozen or 0) < max(MINUTE, facts.scale_ms):
        return None
    lates, channels = [view.late for view in views], tuple(view.channel for view in views)
    return OnlyRealigning(
        severity="critical",
        size=level - max(marks),
        channels=channels,
        short_ms=level - max(marks),
        frozen_ms=frozen,
        late=None if None in lates else sum(late or 0 for late in lates),
        fixes=(
            change_idle_timeout(facts.snapshot, "lengthen"),
            check_channels(channels, ("fell behind", "fell behind")),
        ),
    )


class FlappingIdleness(Finding, frozen=True, kw_only=True, tag="flapping-idleness"):
    """Channels turn idle and come back again and again. The watermark advances without them, and their next records can
    be late.

    Recognised by: at least 6 changes between active and idle, one idle status at least every 2 idle timeouts.

    What to do: set an idle timeout longer than the channels' usual pause.
    """

    flaps: int
    round_ms: int
    late: int | None

    def words(self, context: Context) -> Explanation:
        lost = f"{n(self.late, 'record')} of {'it' if len(self.channels) == 1 else 'them'} late so far"
        return Explanation(
            f"{names(self.channels)} {verb(self.channels, 'turns', 'turn')} idle again and again",
            lost if self.late else "None of their records is late so far",
            "The idle timeout is about as long as the channels' usual pause: the watermark advances without them, and "
            "what they send next can be late.",
            [
                f"{n(self.flaps, 'change')} between active and idle since the start",
                f"Idle every {span(self.round_ms)}, with an idle timeout of {context.idle_timeout}",
                lost,
            ],
            ("Lateness",),
            only(self.channels),
        )


@rule(FlappingIdleness)
def flapping_idleness(facts: DiagnosisInput) -> FlappingIdleness | None:
    idle_after_ms = facts.settings.idle_after_ms
    if facts.ended or idle_after_ms is None:
        return None
    flapping = [
        (view.round_ms, view)
        for view in facts.channels
        if view.round_ms is not None and (view.flaps or 0) >= FLAPS and view.round_ms < ROUNDS * idle_after_ms
    ]
    if not flapping:
        return None
    flapping.sort(key=lambda pair: pair[0])
    late = _sum_late([view for _, view in flapping])
    lost = share(late, facts.snapshot.totals.records) or 0.0
    longest, flaps = max(length for length, _ in flapping), sum(view.flaps or 0 for _, view in flapping)
    longer = next((ms for ms in _timeouts(facts) if ms > idle_after_ms and ms >= longest), None)
    return FlappingIdleness(
        severity="warning" if lost >= LOST else "info",
        size=lost if lost >= LOST else flaps,
        channels=tuple(view.channel for _, view in flapping),
        flaps=flaps,
        round_ms=flapping[0][0],
        late=late,
        fixes=(_timeout(facts, longer, "lengthen"),),
    )


class LateAfterIdle(Finding, frozen=True, kw_only=True, tag="late-after-idle"):
    """Channels turn idle, the watermark advances without them, and the records that they send next are late.

    Recognised by: at least 2 % of their records are late, 3 times the share of the other channels, and a longer idle
    timeout would have kept half of them.

    What to do: set the idle timeout that the finding names.
    """

    late: int
    late_share: float
    others_share: float
    """The late share of all other channels."""
    try_idle_ms: int | None
    """The idle timeout (None: off) under which `saved` of these records would have been on time."""
    saved: int

    def words(self, context: Context) -> Explanation:
        tried = "switched off" if self.try_idle_ms is None else f"of {f.setting(self.try_idle_ms)}"
        return Explanation(
            f"{names(self.channels)} {verb(self.channels, 'returns', 'return')} from idle too late",
            f"{n(self.saved, 'record')} lost that a longer idle timeout would have kept",
            "A channel that pauses for longer than the idle timeout no longer holds back the watermark; the records it "
            "sends next find their windows closed.",
            [
                f"{f.share(self.late_share)} of the records of these channels are late ({f.count(self.late)}), "
                f"{f.share(self.others_share)} of all others",
                f"With the idle timeout {tried}, {f.count(self.saved)} fewer would have been late",
                f"Idle timeout: {context.idle_timeout}",
            ],
            ("Lateness",),
            only(self.channels),
        )


@rule(LateAfterIdle)
def late_after_idle(facts: DiagnosisInput) -> LateAfterIdle | None:
    own, idle_after_ms = facts.own_idle, facts.settings.idle_after_ms
    if own is None or idle_after_ms is None:
        return None
    often = max(RETURNS, 2 * median([view.flaps or 0 for view in facts.channels] or [0]))
    back = [view for view in facts.channels if (view.flaps or 0) >= often and view.late is not None]
    stayed = [view for view in facts.channels if (view.flaps or 0) < often]
    late, late_share = _sum_late(back), share(_sum_late(back), sum(view.records or 0 for view in back)) or 0.0
    others_share = share(_sum_late(stayed), sum(view.records or 0 for view in stayed))
    if others_share is None or late < MIN_RETURN_LATE or late_share < max(RETURN_SHARE, RETURN_TIMES * others_share):
        return None
    rows = {row.idle_after_ms: row for row in facts.snapshot.whatif_idle or ()}
    longer = [*(ms for ms in _timeouts(facts) if ms > idle_after_ms), None]
    better = next((rows[ms] for ms in longer if ms in rows and own.late - rows[ms].late >= late / 2), None)
    if better is None:
        return None
    worst = sorted((view for view in back if view.late), key=lambda view: -(view.late or 0))
    saved, then, now = own.late - better.late, better.watermark_ms, own.watermark_ms
    gain_ms = None if then is None or now is None else min(then - now, 0)
    lost = share(saved, facts.snapshot.totals.records)
    return LateAfterIdle(
        severity=loss_severity(lost),
        size=lost or 0.0,
        channels=tuple(view.channel for view in worst),
        late=late,
        late_share=late_share,
        others_share=others_share,
        try_idle_ms=better.idle_after_ms,
        saved=saved,
        fixes=(Fix("set-idle-timeout", value_ms=better.idle_after_ms, more_late=-saved, gain_ms=gain_ms),),
    )


class IdleTimeoutTooLong(Finding, frozen=True, kw_only=True, tag="idle-timeout-too-long"):
    """The idle timeout is far longer than any pause. A channel that stops holds back the watermark for all of it.

    Recognised by: the idle timeout is at least 60 times the longest pause after which a channel came back, and a
    channel is idle for good.

    What to do: set a shorter idle timeout.
    """

    longest_pause_ms: int

    def words(self, context: Context) -> Explanation:
        idle = context.idle_timeout
        return Explanation(
            f"The idle timeout of {idle} is far longer than any pause",
            f"{names(self.channels)} held back the watermark for {idle} before turning idle",
            "A channel that stops holds back the watermark for the whole idle timeout.",
            [
                f"Longest pause after which a channel came back: {span(self.longest_pause_ms)}",
                f"Idle now: {names(self.channels)}",
            ],
            ("Lateness",),
            only(self.channels),
        )


@rule(IdleTimeoutTooLong)
def idle_timeout_too_long(facts: DiagnosisInput) -> IdleTimeoutTooLong | None:
    idle_after = facts.settings.idle_after_ms
    if facts.ended or idle_after is None or not facts.has_valve or idle_after < PAUSES * facts.scale_ms:
        return None
    gone = [view for view in facts.channels if view.state == "idle" and view.flaps == 1]
    pauses = [view.longest_quiet_ms for view in facts.channels if view.longest_quiet_ms is not None]
    if not gone or not pauses or len(gone) == len(facts.channels) or max(pauses) * PAUSES > idle_after:
        return None
    shorter = next((ms for ms in _timeouts(facts) if max(pauses) < ms < idle_after), None)
    return IdleTimeoutTooLong(
        severity="info",
        size=idle_after,
        channels=tuple(view.channel for view in gone),
        longest_pause_ms=max(pauses),
        fixes=(_timeout(facts, shorter, "shorten"),),
    )


def _sum_late(views: list[ChannelView]) -> int:
    return sum(view.late or 0 for view in views)


def _timeouts(facts: DiagnosisInput) -> list[int]:
    """The idle timeouts of the what-if, without the one in force, the shortest first."""
    return sorted(row.idle_after_ms for row in facts.snapshot.whatif_idle or () if row.idle_after_ms is not None)


def _timeout(facts: DiagnosisInput, value_ms: int | None, how: Literal["lengthen", "shorten"]) -> Fix:
    """To set that idle timeout; None: a good one is not known."""
    return change_idle_timeout(facts.snapshot, how) if value_ms is None else Fix("set-idle-timeout", value_ms=value_ms)
