"""Findings about what holds the watermark back, in words. Pure."""

from ....engine.doctor.blocking import FrozenByLateness, Lagging, NoData, OnlyRealigning, SilentChannels
from ....engine.snapshot import FlinkJob
from ....engine.text import formatting as f
from .explanation import Context, Explainers, Explanation, n, names, only, span, verb


def _least(context: Context) -> str:
    """Before a time of which only the end was seen."""
    holder = context.snapshot.level.holder
    return "≥ " if holder is not None and holder.at_least else ""


def _silent(it: SilentChannels, context: Context) -> Explanation:
    who, one = names(it.channels), len(it.channels) == 1
    never = it.never_seen == len(it.channels)
    why = "never had a record" if never else f"no data for {'' if one else 'up to '}{span(it.quiet_ms)}"
    impact = "No results yet" if it.gain_ms is None else f"The watermark is held back by {span(it.gain_ms)}"
    if it.windows:
        impact = f"{n(it.windows, 'window')} ({n(it.records, 'record')}) {'waits' if it.windows == 1 else 'wait'}"
    cause = "The watermark is the minimum over all channels that are not idle; without an idle timeout none turns idle."
    if isinstance(context.snapshot.target, FlinkJob):
        cause = (
            "The watermark is the minimum over all inputs that are not idle: the job has no idle timeout, or it has "
            "not passed yet."
        )
    elif it.idle_after_ms is not None:
        cause = "A channel without data holds back the watermark until its idle timeout has passed."
    evidence = [
        f"{'Last record' if one else 'First of them without data'}: {span(it.quiet_ms)} ago"
        if it.quiet_ms is not None
        else f"{n(it.never_seen, 'channel')} without any record",
        f"Watermark held back for {_least(context)}{span(it.held_ms)}",
        *([] if it.gain_ms is None else [f"{span(it.gain_ms)} to the next channel that has data"]),
        *([f"{n(it.never_seen, 'channel')} never had a record"] if it.never_seen and not never else []),
        *([f"{n(it.lagging, 'channel')} with data {verb('x' * it.lagging, 'holds', 'hold')} it back too"]
          if it.lagging else []),
        f"Idle timeout: {_timeout(it.idle_after_ms, context)}",
    ]  # fmt: skip
    title = f"{who} {verb(it.channels, 'holds', 'hold')} back the watermark: {why}"
    return Explanation(title, impact, cause, evidence, ("Blockers", "Windows"), only(it.channels))


def _timeout(idle_after_ms: int | None, context: Context) -> str:
    """The idle timeout; a Flink job's own is not in its REST API."""
    unknown = idle_after_ms is None and isinstance(context.snapshot.target, FlinkJob)
    return f.ELSEWHERE if unknown else f.setting(idle_after_ms)


def _no_data(it: NoData, context: Context) -> Explanation:
    evidence = [
        f"Newest record of all {n(len(it.channels), 'channel')}: {span(it.quiet_ms)} ago",
        f"Idle timeout: {_timeout(it.idle_after_ms, context)}{'; all channels are idle' if it.idle else ''}",
    ]
    if it.gain_ms and not it.idle:
        evidence.append(f"The slowest channel is {span(it.gain_ms)} behind the fastest")
    if it.windows and it.end_ms is not None:
        end = f.second(it.end_ms, context.zone)
        evidence.append(f"The window until {end} is {span(it.short_ms)} of event time short")
    impact = "The watermark is frozen until new data arrives"
    if it.windows:
        impact = f"{n(it.windows, 'window')} ({n(it.records, 'record')}) cannot fire until new data arrives"
    cause = "A watermark advances only with records."
    if it.gain_ms and it.idle_after_ms is None and not isinstance(context.snapshot.target, FlinkJob):
        cause += " Without an idle timeout it stays at the slowest channel."
    who = "All channels are idle" if it.idle else "No channel has data"
    return Explanation(f"{who}: no record for {span(it.quiet_ms)}", impact, cause, evidence, ("Windows", "Time"))


def _only_realigning(it: OnlyRealigning, context: Context) -> Explanation:
    late = [] if it.late is None else [f"{n(it.late, 'record')} of these channels late so far"]
    return Explanation(
        f"Only {names(it.channels)} {verb(it.channels, 'has', 'have')} data, from before the watermark",
        "The watermark is frozen; records of closed windows are dropped",
        "Channels that return from idle do not count until they reach the watermark; all other channels are idle.",
        [f"{span(it.short_ms)} of event time to the watermark", f"Unchanged for {span(it.frozen_ms)}", *late],
        ("Time", "Windows"),
        only(it.channels),
    )


def _lagging(it: Lagging, context: Context) -> Explanation:
    who, first = names(it.channels), names(it.channels[:1])
    unread = [] if it.backlog is None else [f"Backlog of {first}: {n(it.backlog, 'record')}"]
    held = "" if it.open_records is None else f" with {n(it.open_records, 'record')}"
    open_ = [] if it.open_windows is None else [f"{n(it.open_windows, 'open window')}{held}"]
    if it.stuck_ms is not None:
        return Explanation(
            f"{first} sends records, but its event time does not advance",
            "No window fires: the watermark is stalled",
            "Its producer repeats one timestamp or sends older ones. It is not idle, so no idle timeout helps.",
            [
                f"Watermark unchanged for {span(it.stuck_ms)}, {span(it.behind_ms)} behind the fastest channel",
                *([] if it.rate is None else [f"{first} receives {f.rate(it.rate)} records/s"]),
                *open_,
            ],
            ("Blockers", "Time"),
            it.channels[0],
        )
    return Explanation(
        f"{who} {verb(it.channels, 'lags', 'lag')} {span(it.behind_ms)} behind the fastest channel",
        f"Results come {span(it.behind_ms)} later than the fastest channel allows",
        "The watermark follows the slowest channel with data; what the others have sent stays in state.",
        [
            f"{first} is {span(it.behind_ms)} behind the fastest channel, for at least a minute",
            *([] if it.rate is None else [f"{first} receives {f.rate(it.rate)} records/s"]),
            *unread,
            *open_,
        ],
        ("Blockers", "Operators"),
        only(it.channels),
    )


def _frozen(it: FrozenByLateness, context: Context) -> Explanation:
    return Explanation(
        f"The watermark is frozen for another {span(it.left_ms)} of event time",
        "No window fires until then; records behind the watermark are still late",
        "The lateness was raised. A watermark never goes back, so it waits until event time has caught up.",
        [
            f"{span(it.left_ms)} of event time left",
            f"Lateness: {f.ELSEWHERE if it.lateness_ms is None else f.setting(it.lateness_ms)}",
        ],
        ("Time", "Lateness"),
    )


EXPLAINERS: Explainers = {
    SilentChannels: _silent,
    NoData: _no_data,
    OnlyRealigning: _only_realigning,
    Lagging: _lagging,
    FrozenByLateness: _frozen,
}
