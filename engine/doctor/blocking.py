"""What holds the watermark back: channels without data, or with data and lagging; a raised lateness.

The rules judge groups: with two dead channels, idling one alone frees nothing; idling both frees everything.
"""

from itertools import compress

from msgspec import Struct

from ..snapshot import ChannelView, Holder, OpenWindow, WhatIfIdle
from ..text import formatting as f
from ..verdict.preview import ProposedSetting, now_gain_ms
from .finding import ADD_READERS, WAIT, Finding, Fix, Text, change_idle_timeout, check_channels, n, names, span, verb
from .rules import MINUTE, DiagnosisInput, rule

NEARLY = 0.9
"""Share of the possible gain that makes an idle timeout good enough."""
SKEW_TIMES = 2
"""Lagging: so many times the normal delay of a result behind the fastest channel, for a minute."""


@rule("silent-channels", "Blockers", "Windows", accounts_for=("stalled", "slow"))
def silent_channels(facts: DiagnosisInput) -> Finding | None:
    """Channels without data hold back the watermark while other channels receive data. Windows wait for them.

    Recognised by: active channels without data for longer than a result normally takes (at least a minute), below the
    first channel with data; windows wait for them, or the watermark is stalled.
    What to do: find out why they have no data. If that is normal, set an idle timeout a little longer than their usual
    pause.
    """
    silence = _silence_of(facts)
    if silence is None:
        return None
    silent, gain_ms, waiting, lagging = silence.silent, silence.gain_ms, silence.waiting, silence.lagging
    channels, holder = tuple(silent), facts.snapshot.level.holder
    held_ms = facts.frozen_ms if holder is None or facts.now_ms is None else facts.now_ms - holder.since_ms
    endless = facts.settings.idle_after_ms is None and (gain_ms is None or gain_ms >= facts.scale_ms or bool(waiting))
    # Since the first of them had its last record.
    quiets = (view.quiet_ms for view in silent.values() if view.state != "never_seen")
    quiet_ms = max((ms for ms in quiets if ms is not None), default=None)
    unseen = sum(view.state == "never_seen" for view in silent.values())
    never, one = unseen == len(silent), len(silent) == 1
    why = "never had a record" if never else f"no data for {'' if one else 'up to '}{span(quiet_ms)}"
    least = "≥ " if holder is not None and holder.at_least else ""  # only the end of that time was seen
    last = "Last record" if one else "First of them without data"
    return Finding(
        severity="critical" if endless else "warning",
        size=float(held_ms or 0) if gain_ms is None else float(gain_ms),
        channels=channels,
        title=f"{names(channels)} {verb(channels, 'holds', 'hold')} back the watermark: {why}",
        impact=_held_back(waiting, gain_ms),
        cause=_why_silent(facts),
        evidence=[
            f"{n(unseen, 'channel')} without any record" if quiet_ms is None else f"{last}: {span(quiet_ms)} ago",
            f"Holding it back for {least}{span(held_ms)}",
            None if gain_ms is None else f"{span(gain_ms)} to the next channel that has data",
            f"{n(unseen, 'channel')} never had a record" if unseen and not never else None,
            f"{n(len(lagging), 'channel')} with data {verb(lagging, 'holds', 'hold')} it back too" if lagging else None,
            f"Idle timeout: {facts.idle_timeout}",
        ],
        fixes=(idle_fix(facts, set(channels), gain_ms), check_channels(channels, ("has no data", "have no data"))),
        blames="never_seen" if never else "quiet",
        windows=len(waiting),
    )


class _Silence(Struct, frozen=True):
    """Channels without data that hold back the watermark, and what that costs."""

    silent: dict[str, ChannelView]
    """By name, the first that holds it back first."""
    gain_ms: int | None
    """The distance (ms) to the next channel with data; None: nothing has a watermark yet."""
    lagging: list[str]
    """Channels with data that hold it back too."""
    waiting: list[OpenWindow]


def _silence_of(facts: DiagnosisInput) -> _Silence | None:
    """Channels without data that hold back the watermark while others have data; None: none do, or it costs nothing."""
    if facts.ended or not facts.has_valve or facts.now_ms is None or facts.snapshot.state == "paused":
        return None
    silent, sending = _split(facts)
    realigning = any(view.state == "catching_up" and not _is_silent(view, MINUTE) for view in facts.channels)
    if not silent or not (sending or realigning):
        return None
    level = facts.watermark_ms
    next_ms = min((ms for view, ms in facts.active if view.channel not in silent), default=None)
    if next_ms is not None:  # those above it do not hold the watermark back
        silent = {name: view for name, view in silent.items() if (view.watermark_ms or next_ms - 1) < next_ms}
    top_ms = facts.fastest_ms if next_ms is None else next_ms
    lagging: list[str] = []
    waiting: list[OpenWindow] = []
    if top_ms is not None:
        lagging = [view.channel for view, ms in facts.active if ms <= (level or 0) and view.channel in sending]
        waiting = [window for window in facts.snapshot.windows.open if window.end_ms - 1 <= top_ms]
    gain_ms = None if level is None or top_ms is None else top_ms - level
    if not silent or not _matters(facts, silent, gain_ms, len(waiting)):
        return None
    return _Silence(silent, gain_ms, lagging, waiting)


def _held_back(waiting: list[OpenWindow], gain_ms: int | None) -> str:
    """What the channels without data cost: the windows that no other channel holds back, else event time."""
    if not waiting:
        return "No results yet" if gain_ms is None else f"The watermark is held back by {span(gain_ms)}"
    records = [window.records for window in waiting if window.records is not None]
    held = n(sum(records) if len(records) == len(waiting) else None, "record")
    return f"{n(len(waiting), 'window')} ({held}) {'waits' if len(waiting) == 1 else 'wait'}"


def _why_silent(facts: DiagnosisInput) -> str:
    if not facts.target.reports_settings:
        return (
            "The watermark is the minimum over all inputs that are not idle: the job has no idle timeout, or it "
            "has not passed yet."
        )
    if facts.settings.idle_after_ms is not None:
        return "A channel without data holds back the watermark until its idle timeout has passed."
    return "The watermark is the minimum over all channels that are not idle; without an idle timeout none turns idle."


def _split(facts: DiagnosisInput) -> tuple[dict[str, ChannelView], dict[str, ChannelView]]:
    """Channels of the minimum by name: those without data, the first that holds back the watermark, and the others."""
    holder = facts.snapshot.level.holder
    views = [view for view, _ in facts.active]
    if holder is not None and holder.cause in ("never_seen", "no_split"):
        idle_ms = facts.settings.idle_after_ms
        unseen = [view for view in facts.channels if view.state == "never_seen"]
        takes_part = [
            idle_ms is None or (v.quiet_ms or 0) <= idle_ms if v.aligned is None else v.aligned for v in unseen
        ]
        views = [*compress(unseen, takes_part), *views]
    blamed = holder.channel if holder is not None and _has_another_cause(facts, holder) else None
    after_ms = facts.quiet_limit_ms / 2
    if facts.verdict == "stalled":
        after_ms = min(after_ms, facts.stall_ms / 2)  # no data for long enough to stall the watermark
    after_ms = max(MINUTE, after_ms)
    silent = {view.channel: view for view in views if view.channel != blamed and _is_silent(view, after_ms)}
    return silent, {view.channel: view for view in views if view.channel not in silent}


def _has_another_cause(facts: DiagnosisInput, holder: Holder) -> bool:
    """Whether the holder is blamed for something else than having no data: one channel has one cause."""
    if holder.cause == "behind":
        quiet_ms = next((view.quiet_ms for view in facts.channels if view.channel == holder.channel), None) or 0
        return facts.verdict != "stalled" or 2 * quiet_ms < facts.stall_ms
    return holder.cause in ("backlog", "paused", "held_back")


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
    """The longest idle timeout of the ladder under which none of these channels would hold the watermark back; the one
    offered before for the same stall, while it gives nearly what it promised.

    One that gives nearly all of `gain_ms` is good enough: which channels have had no data for long enough changes from
    batch to batch, and a shorter timeout makes more records late.
    """
    level, snapshot, offered = facts.watermark_ms, facts.snapshot, facts.offered

    def frees(row: WhatIfIdle) -> bool:
        if row.idle_after_ms is None or row.watermark_ms is None:
            return False
        if level is None:
            return row.holder not in silent
        gained = row.watermark_ms - level
        return gained > 0 and (row.holder not in silent or (gain_ms is not None and gained >= NEARLY * gain_ms))

    rows = snapshot.whatif_idle or ()
    kept = next((_offer(facts, row) for row in rows if offered and row.idle_after_ms == offered.value_ms), None)
    if offered is not None and kept is not None and offered.gives(snapshot, kept.gains_ms or 0):
        return kept
    longest_first = sorted(filter(frees, rows), key=lambda row: -(row.idle_after_ms or 0))
    if not longest_first:
        return change_idle_timeout(snapshot, "add" if facts.settings.idle_after_ms is None else "shorten")
    # Set from the start it may have freed what it does not free now.
    frees_now = (fix for row in longest_first if ((fix := _offer(facts, row)).gains_ms or 0) > 0)
    return next(frees_now, None) or _offer(facts, longest_first[0])


def _offer(facts: DiagnosisInput, row: WhatIfIdle) -> Fix:
    level = facts.watermark_ms
    return Fix(
        "set-idle-timeout",
        value_ms=row.idle_after_ms,
        gain_ms=None if row.watermark_ms is None or level is None else row.watermark_ms - level,
        promise_ms=now_gain_ms(facts.snapshot, ProposedSetting(True, row.idle_after_ms)),
        late_share=f.ratio(row.late, facts.snapshot.totals.records),
        about=row.late_error > 0,
    )


_READ_IN_BALANCE = Fix(
    "set-max-drift", "Read partitions in balance (--max-drift D): fast ones wait, and the state stays small"
)


@rule("lagging-channels", suppressed_by=("wrong-unit",), accounts_for=("stalled", "slow"))
def lagging_channels(facts: DiagnosisInput) -> Finding | None:
    """Channels with data are far behind the fastest channel in event time, and the watermark follows the slowest.

    Recognised by: for a minute at least twice a window plus the lateness behind the fastest channel; or a channel that
    receives data while its event time does not advance and the watermark is stalled.
    What to do: read them faster if they have a backlog; else look at what their producer sends. For Kafka, --max-drift
    reads partitions in balance.
    """
    stuck_ms = _stuck_ms(facts)
    lags = _lags(facts, stuck_ms)
    if not lags:
        return None
    channels, first, lag = tuple(view.channel for view, _ in lags), lags[0][0], span(lags[0][1])
    name, backlog = names(channels[:1]), first.backlog
    received = None if first.rate is None else f"{name} receives {f.rate(first.rate)} records/s"
    fixes = (ADD_READERS,) if backlog else ()
    fixes = (*fixes, check_channels(channels, ("is behind", "are behind")))
    if stuck_ms is not None:
        return Finding(
            severity="critical",
            size=lags[0][1],
            channels=channels,
            title=f"{name} sends records, but its event time does not advance",
            impact=f"{facts.nothing_fires}: the watermark is stalled",
            cause="Its producer repeats one timestamp or sends older ones. It is not idle, so no idle timeout helps.",
            evidence=[
                f"Watermark unchanged for {span(stuck_ms)}, {lag} behind the fastest channel",
                received,
                _open_windows(facts),
            ],
            screens=("Blockers", "Time"),
            channel=channels[0],
            fixes=fixes,
        )
    source = facts.snapshot.source
    if source is not None and source.could_balance:
        fixes = (_READ_IN_BALANCE, *fixes)
    return Finding(
        size=lags[0][1],
        channels=channels,
        title=f"{names(channels)} {verb(channels, 'lags', 'lag')} {lag} behind the fastest channel",
        impact=f"Results come {lag} later than the fastest channel allows",
        cause="The watermark follows the slowest channel with data; what the others have sent stays in state.",
        evidence=[
            f"{name} is {lag} behind the fastest channel, for at least a minute",
            received,
            None if backlog is None else f"Backlog of {name}: {n(backlog, 'record')}",
            _open_windows(facts),
        ],
        screens=("Blockers", "Operators"),
        fixes=fixes,
    )


def _lags(facts: DiagnosisInput, stuck_ms: int | None) -> list[tuple[ChannelView, int]]:
    """The channels with data that are far behind the fastest one, or stall the watermark for `stuck_ms`, each with its
    distance (ms), the slowest first.
    """
    level, behind_ms = facts.snapshot.level, facts.snapshot.level.behind_fastest_ms
    if facts.ended or not facts.has_valve or behind_ms is None or facts.snapshot.state == "paused":
        return []
    if level.holder is not None and level.holder.cause in ("held_back", "future_elsewhere"):
        return []  # paused to wait for others, or on time while the fastest is ahead of the clock
    least, recent = max(MINUTE, SKEW_TIMES * facts.scale_ms), facts.last(MINUTE)
    far = len(recent) >= 10 and all((point.behind_fastest_ms or 0) >= least for point in recent)
    if stuck_ms is None and (behind_ms < least or not far):
        return []
    silent, _ = _split(facts)
    fastest, held_ms = facts.fastest_ms or 0, facts.watermark_ms or 0
    return [
        (view, fastest - ms)
        for view, ms in facts.active
        if view.channel not in silent and (fastest - ms >= least or (stuck_ms is not None and ms <= held_ms))
    ]


def _open_windows(facts: DiagnosisInput) -> Text:
    """`12 open windows with 1,204 records`; None: not known."""
    windows = facts.snapshot.windows
    held = "" if windows.open_records is None else f" with {n(windows.open_records, 'record')}"
    return None if windows.open_count is None else f"{n(windows.open_count, 'open window')}{held}"


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


@rule("frozen-by-lateness", "Time", "Lateness")
def frozen_by_lateness(facts: DiagnosisInput) -> Finding | None:
    """The lateness was raised, or a channel began with older records. The watermark never goes back, so it is frozen
    until event time has caught up.

    Recognised by: with the lateness in force, the event times so far give a watermark below the present one, and the
    slowest channel receives records.
    What to do: wait until event time has caught up.
    """
    reason = facts.snapshot.verdict.reason
    if facts.verdict != "waiting" or reason.code != "lateness_raised" or reason.ms is None:
        return None
    return Finding(
        severity="info" if reason.ms < facts.scale_ms else "warning",
        size=reason.ms,
        title=f"The watermark advances again after {span(reason.ms)} of event time",
        impact="No window fires until then; records behind the watermark are still late",
        cause="The lateness was raised, or a channel began with older records: the watermark waits for event time.",
        evidence=[f"{span(reason.ms)} of event time left", f"Lateness: {facts.lateness}"],
        fixes=(WAIT,),
    )
