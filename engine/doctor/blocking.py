"""What holds the watermark back: channels without data, or with data and lagging; a raised lateness.

The rules judge groups: with two dead channels, idling one alone frees nothing; idling both frees everything.
"""

from itertools import compress

from ..snapshot import ChannelView, WhatIfIdle
from ..text import formatting as f
from .finding import (
    ADD_READERS,
    WAIT,
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
from .rules import MINUTE, DiagnosisInput, rule

NEARLY = 0.9
"""Share of the possible gain that makes an idle timeout good enough."""
SKEW_TIMES = 2
"""A channel is lagging if it is this many times the normal delay of a result behind the fastest channel, for a
minute.
"""


class SilentChannels(Finding, frozen=True, kw_only=True, tag="silent-channels"):
    """Channels without data hold back the watermark while other channels receive data. Windows wait for them.

    Recognised by: active channels without data for longer than a result normally takes (at least a minute), below the
    first channel with data; windows wait for them, or the watermark is stalled.

    What to do: find out why they have no data. If that is normal, set an idle timeout a little longer than their usual
    pause.
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
    lagging: int
    """How many channels with data hold it back too."""

    def words(self, context: Context) -> Explanation:
        who, one = names(self.channels), len(self.channels) == 1
        never = self.never_seen == len(self.channels)
        why = "never had a record" if never else f"no data for {'' if one else 'up to '}{span(self.quiet_ms)}"
        impact = "No results yet" if self.gain_ms is None else f"The watermark is held back by {span(self.gain_ms)}"
        if self.windows:
            impact = (
                f"{n(self.windows, 'window')} ({n(self.records, 'record')}) {'waits' if self.windows == 1 else 'wait'}"
            )
        cause = (
            "The watermark is the minimum over all channels that are not idle; without an idle timeout none turns idle."
        )
        if context.of_flink:
            cause = (
                "The watermark is the minimum over all inputs that are not idle: the job has no idle timeout, or it "
                "has not passed yet."
            )
        elif context.snapshot.settings.idle_after_ms is not None:
            cause = "A channel without data holds back the watermark until its idle timeout has passed."
        holder = context.snapshot.level.holder
        least = "≥ " if holder is not None and holder.at_least else ""  # only the end of that time was seen
        evidence = [
            f"{'Last record' if one else 'First of them without data'}: {span(self.quiet_ms)} ago"
            if self.quiet_ms is not None
            else f"{n(self.never_seen, 'channel')} without any record",
            f"Watermark held back for {least}{span(self.held_ms)}",
            *([] if self.gain_ms is None else [f"{span(self.gain_ms)} to the next channel that has data"]),
            *([f"{n(self.never_seen, 'channel')} never had a record"] if self.never_seen and not never else []),
            *([f"{n(self.lagging, 'channel')} with data {verb('x' * self.lagging, 'holds', 'hold')} it back too"]
              if self.lagging else []),
            f"Idle timeout: {context.idle_timeout}",
        ]  # fmt: skip
        title = f"{who} {verb(self.channels, 'holds', 'hold')} back the watermark: {why}"
        return Explanation(title, impact, cause, evidence, ("Blockers", "Windows"), only(self.channels))


@rule(SilentChannels, accounts_for=("stalled", "slow"))
def silent_channels(facts: DiagnosisInput) -> SilentChannels | None:
    if facts.ended or not facts.has_valve or facts.now_ms is None or facts.snapshot.state == "paused":
        return None
    silent, sending = _split(facts)
    realigning = [view for view in facts.channels if view.state == "catching_up" and not _is_silent(view, MINUTE)]
    if not silent or not (sending or realigning):
        return None
    level, idle, holder = facts.watermark_ms, facts.settings.idle_after_ms, facts.snapshot.level.holder
    next_ms = min((ms for view, ms in facts.active if view.channel not in silent), default=None)
    top_ms = facts.fastest_ms if next_ms is None else next_ms
    gain_ms = None if level is None or top_ms is None else top_ms - level
    if next_ms is not None:  # those above it do not hold the watermark back
        silent = {name: view for name, view in silent.items() if (view.watermark_ms or next_ms - 1) < next_ms}
        if not silent:
            return None
    lagging = [ms for view, ms in facts.active if view.channel in sending and top_ms is not None and ms <= (level or 0)]
    waiting = [w for w in facts.snapshot.windows.open if top_ms is not None and w.end_ms - 1 <= top_ms]
    if not _matters(facts, silent, gain_ms, len(waiting)):
        return None
    views, channels = silent.values(), tuple(silent)
    held_ms = facts.frozen_ms
    if holder is not None:
        held_ms = max(held_ms or 0, facts.now_ms - holder.since_ms)
    records = [window.records for window in waiting if window.records is not None]
    endless = idle is None and (gain_ms is None or gain_ms >= facts.scale_ms or bool(waiting))
    return SilentChannels(
        severity="critical" if endless else "warning",
        size=float(held_ms or 0) if gain_ms is None else float(gain_ms),
        channels=channels,
        quiet_ms=max((v.quiet_ms for v in views if v.state != "never_seen" and v.quiet_ms is not None), default=None),
        never_seen=sum(view.state == "never_seen" for view in views),
        held_ms=held_ms,
        gain_ms=gain_ms,
        windows=len(waiting),
        records=sum(records) if len(records) == len(waiting) else None,
        lagging=len(lagging),
        fixes=(idle_fix(facts, set(channels), gain_ms), check_channels(channels, ("has no data", "have no data"))),
    )


def _split(facts: DiagnosisInput) -> tuple[dict[str, ChannelView], dict[str, ChannelView]]:
    """Channels of the minimum, by name: those without data, the first that holds the watermark back, and those with
    data.
    """
    holder = facts.snapshot.level.holder
    views = [view for view, _ in facts.active]
    if holder is not None and holder.cause in ("never_seen", "no_split"):
        idle_ms = facts.settings.idle_after_ms
        unseen = [view for view in facts.channels if view.state == "never_seen"]
        takes_part = [
            idle_ms is None or (v.quiet_ms or 0) <= idle_ms if v.aligned is None else v.aligned for v in unseen
        ]
        views = [*compress(unseen, takes_part), *views]
    unread = holder.channel if holder is not None and holder.cause in ("backlog", "paused", "held_back") else None
    after_ms = facts.quiet_limit_ms / 2
    if facts.verdict == "stalled":
        after_ms = min(after_ms, facts.stall_ms / 2)  # no data for long enough to stall the watermark
    after_ms = max(MINUTE, after_ms)
    silent = {view.channel: view for view in views if view.channel != unread and _is_silent(view, after_ms)}
    return silent, {view.channel: view for view in views if view.channel not in silent}


def _is_silent(view: ChannelView, after_ms: float) -> bool:
    return not view.backlog and not view.held_back and view.quiet_ms is not None and view.quiet_ms >= after_ms


def _matters(facts: DiagnosisInput, silent: dict[str, ChannelView], gain_ms: int | None, windows: int) -> bool:
    """Whether they matter: no data for longer than patience, at a cost, or the watermark is stalled by them."""
    first = next(iter(silent.values()))
    holder = facts.snapshot.level.holder
    leads = holder is None or holder.channel in silent
    if gain_ms is not None and gain_ms <= 0 and not leads:
        return False
    worst = max(view.quiet_ms or 0 for view in silent.values())
    long = (first.quiet_ms or 0) >= facts.quiet_limit_ms or (worst >= facts.quiet_limit_ms and leads)
    costs = gain_ms is None or windows > 0 or gain_ms >= facts.scale_ms
    return (long and costs) or (leads and (gain_ms is None or gain_ms > 0) and facts.verdict == "stalled")


def idle_fix(facts: DiagnosisInput, silent: set[str], gain_ms: int | None = None) -> Fix:
    """The longest idle timeout of the ladder under which none of these channels would hold the watermark back.

    One that gives nearly all of `gain_ms` is good enough: which channels have had no data for long enough changes from
    batch to batch, and a shorter timeout makes more records late.
    """
    level, idle = facts.watermark_ms, facts.settings.idle_after_ms

    def frees(row: WhatIfIdle) -> bool:
        if row.idle_after_ms is None or row.watermark_ms is None:
            return False
        if level is None:
            return row.holder not in silent
        gained = row.watermark_ms - level
        return gained > 0 and (row.holder not in silent or (gain_ms is not None and gained >= NEARLY * gain_ms))

    shorter = filter(frees, facts.snapshot.whatif_idle or ())
    better = max(shorter, key=lambda row: row.idle_after_ms or 0, default=None)
    if better is None or better.idle_after_ms is None:
        return change_idle_timeout(facts.snapshot, "add" if idle is None else "shorten")
    own, then = facts.own_idle, better.watermark_ms
    return Fix(
        "set-idle-timeout",
        value_ms=better.idle_after_ms,
        gain_ms=None if then is None or level is None else then - level,
        more_late=None if own is None else max(better.late - own.late, 0),
    )


class Lagging(Finding, frozen=True, kw_only=True, tag="lagging-channels"):
    """Channels with data are far behind the fastest channel in event time, and the watermark follows the slowest.

    Recognised by: for a minute at least twice a window plus the lateness behind the fastest channel; or a channel that
    receives data while its event time does not advance and the watermark is stalled.

    What to do: read them faster if they have a backlog; else look at what their producer sends. For Kafka, --max-drift
    reads partitions in balance.
    """

    behind_ms: int
    backlog: int | None
    rate: float | None
    stuck_ms: int | None = None
    """How long the first channel's event time has not advanced although it receives data: the watermark is stalled."""

    def words(self, context: Context) -> Explanation:
        who, first = names(self.channels), names(self.channels[:1])
        unread = [] if self.backlog is None else [f"Backlog of {first}: {n(self.backlog, 'record')}"]
        windows = context.snapshot.windows
        held = "" if windows.open_records is None else f" with {n(windows.open_records, 'record')}"
        waiting = [] if windows.open_count is None else [f"{n(windows.open_count, 'open window')}{held}"]
        received = [] if self.rate is None else [f"{first} receives {f.rate(self.rate)} records/s"]
        if self.stuck_ms is not None:
            return Explanation(
                f"{first} sends records, but its event time does not advance",
                "No window fires: the watermark is stalled",
                "Its producer repeats one timestamp or sends older ones. It is not idle, so no idle timeout helps.",
                [
                    f"Watermark unchanged for {span(self.stuck_ms)}, {span(self.behind_ms)} behind the fastest channel",
                    *received,
                    *waiting,
                ],
                ("Blockers", "Time"),
                self.channels[0],
            )
        return Explanation(
            f"{who} {verb(self.channels, 'lags', 'lag')} {span(self.behind_ms)} behind the fastest channel",
            f"Results come {span(self.behind_ms)} later than the fastest channel allows",
            "The watermark follows the slowest channel with data; what the others have sent stays in state.",
            [
                f"{first} is {span(self.behind_ms)} behind the fastest channel, for at least a minute",
                *received,
                *unread,
                *waiting,
            ],
            ("Blockers", "Operators"),
            only(self.channels),
        )


@rule(Lagging, suppressed_by=("wrong-unit",), accounts_for=("stalled", "slow"))
def lagging_channels(facts: DiagnosisInput) -> Lagging | None:
    level, behind_ms = facts.snapshot.level, facts.snapshot.level.behind_fastest_ms
    if facts.ended or not facts.has_valve or behind_ms is None or facts.snapshot.state == "paused":
        return None
    least = max(MINUTE, SKEW_TIMES * facts.scale_ms)
    stuck_ms = _stuck_ms(facts)
    recent = facts.last(MINUTE)
    far = len(recent) >= 10 and all((point.behind_fastest_ms or 0) >= least for point in recent)
    if stuck_ms is None and (behind_ms < least or not far):
        return None
    silent, _ = _split(facts)
    fastest, held_ms = facts.fastest_ms or 0, facts.watermark_ms or 0
    lags = [
        (view, fastest - ms)
        for view, ms in facts.active
        if view.channel not in silent and (fastest - ms >= least or (stuck_ms is not None and ms <= held_ms))
    ]
    behind = [view for view, _ in lags]
    if not behind or (level.holder is not None and level.holder.cause in ("held_back", "future_elsewhere")):
        return None  # paused to wait for others, or on time while the fastest is ahead of the clock
    first, source = behind[0], facts.snapshot.source
    kafka = source is not None and source.kind == "kafka"
    balanced = source is not None and source.max_drift_ms is not None
    channels = tuple(view.channel for view in behind)
    fixes = [check_channels(channels, ("is behind", "are behind"))]
    if first.backlog:
        fixes.insert(0, ADD_READERS)
    if kafka and not balanced and stuck_ms is None:
        how = "Read partitions in balance (--max-drift D): fast ones wait, and the state stays small"
        fixes.insert(0, Fix("set-max-drift", how))
    return Lagging(
        severity="warning" if stuck_ms is None else "critical",
        size=lags[0][1],
        channels=channels,
        behind_ms=lags[0][1],
        backlog=first.backlog,
        rate=first.rate,
        stuck_ms=stuck_ms,
        fixes=tuple(fixes),
    )


_FOLLOWING = ("bounded", "bounded-legacy", "monotonous")
"""Strategies whose watermark does not move only if the greatest event time does not."""


def _stuck_ms(facts: DiagnosisInput) -> int | None:
    """How long the watermark has been stalled by a channel with data and no unread records that repeats its event time.

    None if another channel or another reason stalls it, or if it is not known what the channel receives.
    """
    holder, frozen_ms = facts.snapshot.level.holder, facts.frozen_ms
    if holder is None or holder.cause != "behind" or frozen_ms is None or facts.verdict != "stalled":
        return None
    view = next((view for view, _ in facts.active if view.channel == holder.channel), None)
    if view is None or view.backlog or view.quiet_ms is None or view.rate == 0 or view.max_event_ms is None:
        return None
    if facts.settings.strategy not in _FOLLOWING:
        return None
    reached_ms = view.max_event_ms - (facts.settings.lateness_ms or 0) - 1
    if (view.watermark_ms or 0) > reached_ms + 1:  # its event time may advance: lateness was raised
        return None
    return frozen_ms if view.quiet_ms < min(frozen_ms, facts.stall_ms) / 2 else None


class FrozenByLateness(Finding, frozen=True, kw_only=True, tag="frozen-by-lateness"):
    """The lateness was raised. The watermark never goes back, so it is frozen until event time has caught up.

    Recognised by: with the lateness in force, the event times so far give a watermark below the present one, and the
    slowest channel receives records.

    What to do: wait until event time has caught up.
    """

    left_ms: int

    def words(self, context: Context) -> Explanation:
        return Explanation(
            f"The watermark advances again after {span(self.left_ms)} of event time",
            "No window fires until then; records behind the watermark are still late",
            "The lateness was raised. A watermark never goes back, so it waits until event time has caught up.",
            [f"{span(self.left_ms)} of event time left", f"Lateness: {context.lateness}"],
            ("Time", "Lateness"),
        )


@rule(FrozenByLateness)
def frozen_by_lateness(facts: DiagnosisInput) -> FrozenByLateness | None:
    reason = facts.snapshot.verdict.reason
    if facts.verdict != "waiting" or reason.code != "lateness_raised" or reason.ms is None:
        return None
    severity = "info" if reason.ms < facts.scale_ms else "warning"
    return FrozenByLateness(severity=severity, size=reason.ms, left_ms=reason.ms, fixes=(WAIT,))
