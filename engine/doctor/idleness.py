"""Channels without data: none has any, only realigning ones have, idle timeouts that are too short."""

from statistics import median

from ..snapshot import ChannelView, OpenWindow
from ..text import formatting as f
from ..verdict.history import backlog_at_least
from .blocking import idle_fix
from .finding import CHECK_PRODUCERS, Finding, Fix, Text, change_idle_timeout, check_channels, n, names, span, verb
from .rules import MINUTE, DiagnosisInput, loss_severity, rule

FLAPS, ROUNDS = 6, 2
"""Flapping: at least this many changes, and less than this many idle timeouts from one idle status to the next."""
RETURNS, RETURN_SHARE, RETURN_TIMES, MIN_RETURN_LATE = 4, 0.02, 3, 20
"""Late after idleness: changes; the late share of their records, also as a multiple of the others'; late records."""
LOST = 0.001
"""Share of all records from which on the loss by flapping counts."""
SEND_HEARTBEATS = Fix("send-heartbeats", "Let producers send a heartbeat record while they have no data")


@rule("no-data", "Windows", "Time", suppressed_by=("stream-time-stuck",), accounts_for=("stalled", "slow", "unknown"))
def no_data(facts: DiagnosisInput) -> Finding | None:
    """No channel receives data. The watermark waits until new data arrives.

    Recognised by: the newest record of all channels is older than a result normally takes (at least a minute), and no
    record is unread.
    What to do: check the producers. A heartbeat record keeps event time moving while there is no data.
    """
    views, level = _all_without_data(facts), facts.watermark_ms
    quiet_ms, idle_after = min((view.quiet_ms or 0 for view in views), default=0), facts.settings.idle_after_ms
    if quiet_ms < (facts.quiet_limit_ms if idle_after is None else max(MINUTE, facts.scale_ms + idle_after)):
        return None
    gain_ms = None
    if facts.has_valve and facts.fastest_ms is not None and level is not None:
        gain_ms = max(facts.fastest_ms - level, 0)  # if all turn idle, Flink flushes the greatest watermark
    stuck = idle_after is None and gain_ms is not None and gain_ms >= facts.scale_ms
    if not stuck and not facts.unbounded:
        return None  # a replay: its clock will reach the next record, or the end
    stranded = _stranded(facts)
    all_idle = all(view.state == "idle" for view in views)
    impact = f"The {facts.target.time_name} waits until new data arrives"
    cause = f"A {facts.target.time_name} advances only with records."
    if stranded:
        records = n(sum(window.records or 0 for window in stranded), "record")
        impact = f"{n(len(stranded), 'window')} ({records}) cannot fire until new data arrives"
    if gain_ms and idle_after is None and facts.target.reports_settings:
        cause += " Without an idle timeout it stays at the slowest channel."
    timeout = f"Idle timeout: {facts.idle_timeout}{'; all channels are idle' if all_idle else ''}"
    idle = (idle_fix(facts, {view.channel for view, _ in facts.active}),) if stuck else ()
    return Finding(
        severity="critical" if stuck else "warning" if stranded or idle_after is None else "info",
        size=quiet_ms,
        channels=tuple(view.channel for view in views),
        title=f"{'All channels are idle' if all_idle else 'No channel has data'}: no record for {span(quiet_ms)}",
        impact=impact,
        cause=cause,
        evidence=[
            f"Newest record of all {n(len(views), 'channel')}: {span(quiet_ms)} ago",
            timeout if facts.target.has_watermark else None,
            f"The slowest channel is {span(gain_ms)} behind the fastest" if gain_ms and not all_idle else None,
            _missing(max(window.end_ms for window in stranded), level) if stranded else None,
        ],
        channel=None,
        fixes=(*idle, CHECK_PRODUCERS, SEND_HEARTBEATS),
    )


def _all_without_data(facts: DiagnosisInput) -> list[ChannelView]:
    """The channels that have had data, if it is known of each how long it has had none, and nothing is unread."""
    is_judged = facts.snapshot.state not in ("paused", "stale", "starting", "failed")
    if facts.ended or not is_judged or facts.settings.strategy == "none":
        return []
    if any(view.backlog or view.held_back for view in facts.channels):
        return []
    if backlog_at_least(facts.snapshot):  # no reader is known of a partition with records
        return []
    views = [view for view in facts.channels if view.state not in ("never_seen", "finished")]
    return [] if any(view.quiet_ms is None for view in views) else views


def _stranded(facts: DiagnosisInput) -> list[OpenWindow]:
    """The windows that only new data can close."""
    turns_idle = facts.settings.idle_after_ms is not None and facts.has_valve
    reach_ms = facts.fastest_ms if turns_idle else facts.watermark_ms
    opened = facts.snapshot.windows.open if facts.unbounded else []
    return [window for window in opened if reach_ms is None or window.end_ms - 1 > reach_ms]


def _missing(end_ms: int, level_ms: int | None) -> Text:
    """How much event time is missing until the end of the last window that only new data can close."""
    short = span(None if level_ms is None else end_ms - 1 - level_ms)
    return lambda zone: f"The window until {f.second(end_ms, zone)} is {short} of event time short"


@rule("only-realigning", "Time", "Windows", accounts_for=("stalled",))
def only_realigning(facts: DiagnosisInput) -> Finding | None:
    """All data comes from channels that are back from idle and still behind the watermark. It cannot advance, and
    records of closed windows are dropped.

    Recognised by: every channel is idle or realigning, and the watermark is stalled, or frozen for longer than a result
    takes.
    What to do: set a longer idle timeout, so that these channels do not turn idle; check why the others have no data.
    """
    level = facts.watermark_ms
    views = [view for view in facts.channels if view.state not in ("idle", "never_seen", "finished")]
    if facts.ended or level is None or not views or any(view.state != "catching_up" for view in views):
        return None
    marks = [view.watermark_ms for view in views if view.watermark_ms is not None]
    if not marks or max(marks) >= level:
        return None
    if facts.verdict != "stalled" and (facts.frozen_ms or 0) < max(MINUTE, facts.scale_ms):
        return None
    lates, channels, short_ms = [view.late for view in views], tuple(view.channel for view in views), level - max(marks)
    late = None if None in lates else n(sum(late or 0 for late in lates), "record")
    return Finding(
        severity="critical",
        size=short_ms,
        channels=channels,
        title=f"Only {names(channels)} {verb(channels, 'has', 'have')} data, from before the watermark",
        impact="The watermark is frozen; records of closed windows are dropped",
        cause="Channels that return from idle do not count until they reach the watermark; all other channels are "
        "idle.",
        evidence=[
            f"{span(short_ms)} of event time to the watermark",
            f"Unchanged for {span(facts.frozen_ms)}",
            None if late is None else f"{late} of these channels late so far",
        ],
        fixes=(
            change_idle_timeout(facts.snapshot, "lengthen"),
            check_channels(channels, ("fell behind", "fell behind")),
        ),
    )


@rule("flapping-idleness", "Lateness")
def flapping_idleness(facts: DiagnosisInput) -> Finding | None:
    """Channels turn idle and come back again and again. The watermark advances without them, and their next records can
    be late.

    Recognised by: at least 6 changes between active and idle, one idle status at least every 2 idle timeouts.
    What to do: set an idle timeout longer than the channels' usual pause.
    """
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
    late, channels = _sum_late([view for _, view in flapping]), tuple(view.channel for _, view in flapping)
    lost = f.ratio(late, facts.snapshot.totals.records) or 0.0
    longest, flaps = max(length for length, _ in flapping), sum(view.flaps or 0 for _, view in flapping)
    longer = next((ms for ms in _timeouts(facts) if ms > idle_after_ms and ms >= longest), None)
    fix = change_idle_timeout(facts.snapshot, "lengthen")
    if longer is not None:
        fix = Fix("set-idle-timeout", value_ms=longer)
    records = f"{n(late, 'record')} of {verb(channels, 'it', 'them')} late so far"
    return Finding(
        severity="warning" if lost >= LOST else "info",
        size=lost if lost >= LOST else flaps,
        channels=channels,
        title=f"{names(channels)} {verb(channels, 'turns', 'turn')} idle again and again",
        impact=records if late else "None of their records is late so far",
        cause="The idle timeout is about as long as the channels' usual pause: the watermark advances without them, "
        "and what they send next can be late.",
        evidence=[
            f"{n(flaps, 'change')} between active and idle since the start",
            f"Idle every {span(flapping[0][0])}, with an idle timeout of {facts.idle_timeout}",
            records,
        ],
        fixes=(fix,),
    )


@rule("late-after-idle", "Lateness")
def late_after_idle(facts: DiagnosisInput) -> Finding | None:
    """Channels turn idle, the watermark advances without them, and the records that they send next are late.

    Recognised by: at least 2 % of their records are late, 3 times the share of the other channels, and a longer idle
    timeout would have kept half of them.
    What to do: set the idle timeout that the finding names.
    """
    idle_after_ms = facts.settings.idle_after_ms
    rows = {row.idle_after_ms: row for row in facts.snapshot.whatif_idle or ()}
    own = rows.get(idle_after_ms)
    if own is None or idle_after_ms is None:
        return None
    often = max(RETURNS, 2 * median([view.flaps or 0 for view in facts.channels] or [0]))
    back = [view for view in facts.channels if (view.flaps or 0) >= often and view.late is not None]
    stayed = [view for view in facts.channels if (view.flaps or 0) < often]
    late, late_share = _sum_late(back), f.ratio(_sum_late(back), sum(view.records or 0 for view in back)) or 0.0
    others_share = f.ratio(_sum_late(stayed), sum(view.records or 0 for view in stayed))
    if others_share is None or late < MIN_RETURN_LATE or late_share < max(RETURN_SHARE, RETURN_TIMES * others_share):
        return None
    longer = [*(ms for ms in _timeouts(facts) if ms > idle_after_ms), None]
    better = next((rows[ms] for ms in longer if ms in rows and own.late - rows[ms].late >= late / 2), None)
    if better is None:
        return None
    worst = sorted((view for view in back if view.late), key=lambda view: -(view.late or 0))
    saved, then, now = own.late - better.late, better.watermark_ms, own.watermark_ms
    gain_ms = None if then is None or now is None else min(then - now, 0)
    lost, channels = f.ratio(saved, facts.snapshot.totals.records), tuple(view.channel for view in worst)
    tried = "switched off" if better.idle_after_ms is None else f"of {f.setting(better.idle_after_ms)}"
    return Finding(
        severity=loss_severity(lost),
        size=lost or 0.0,
        channels=channels,
        title=f"{names(channels)} {verb(channels, 'returns', 'return')} from idle too late",
        impact=f"{n(saved, 'record')} lost that a longer idle timeout would have kept",
        cause="A channel that pauses for longer than the idle timeout no longer holds back the watermark; the records "
        "it sends next find their windows closed.",
        evidence=[
            f"{f.share(late_share)} of the records of these channels are late ({f.count(late)}), "
            f"{f.share(others_share)} of all others",
            f"With the idle timeout {tried}, {f.count(saved)} fewer would have been late",
            f"Idle timeout: {facts.idle_timeout}",
        ],
        fixes=(Fix("set-idle-timeout", value_ms=better.idle_after_ms, more_late=-saved, gain_ms=gain_ms),),
    )


def _sum_late(views: list[ChannelView]) -> int:
    return sum(view.late or 0 for view in views)


def _timeouts(facts: DiagnosisInput) -> list[int]:
    """The idle timeouts of the what-if, without the one in force, the shortest first."""
    return sorted(row.idle_after_ms for row in facts.snapshot.whatif_idle or () if row.idle_after_ms is not None)
