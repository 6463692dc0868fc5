"""Findings about channels, in words. Pure."""

from ...engine.core.doctor.channels import FlappingIdleness, LastWindow, LateAfterIdle, LeftBehind, Skew, StuckChannel
from .. import formatting as f
from ..screens.picture import Wish
from ..wording import name
from .words import At, Tellers, Told, ago, n


def _stuck(it: StuckChannel, at: At) -> Told:
    who = name(it.channel)
    waiting = f"{n(it.windows, 'window')} ({n(it.records, 'record')}) wait for it alone" if it.windows else ""
    freed = "nothing has come out yet" if it.freed_ms is None else f"event time stands {f.duration(it.freed_ms)} behind"
    quiet = "it never had a record" if it.never_seen else f"its last record came {ago(it.quiet_ms)} ago"
    unread = next((view.backlog for view in at.snapshot.channels if view.channel == it.channel), None)
    evidence = [
        quiet + ("; nothing of it is unread" if unread == 0 else ""),
        f"it has held the level for {f.duration(it.held_ms)}",
        *([] if it.freed_ms is None else [f"the next slowest channel is {f.duration(it.freed_ms)} ahead"]),
        *([waiting] if waiting else []),
        f"idle timeout: {f.setting(it.idle_after_ms)}",
    ]
    cause = "The idle timeout is long compared with the time that a result takes when nothing is wrong."
    if it.idle_after_ms is None:
        cause = "The level is the minimum over all channels that are not idle; without an idle timeout none ever is."
    remedy: list[str] = []
    if it.try_idle_ms is not None:
        gain = "" if it.try_gain_ms is None else f": the level gains {f.duration(it.try_gain_ms)}"
        price = "" if it.try_late is None else f", {f.count(it.try_late)} more records would have been late"
        remedy.append(at.change(it.try_idle_ms, idle=True) + gain + price)
    else:
        remedy.append("an idle timeout a little longer than the channel's usual silence (--idle-after)")
    remedy.append(f"or see why {who} sends nothing: a dead producer, an unused partition")
    title = f"{who} was never seen and holds the level" if it.never_seen else f"{who} is silent and holds the level"
    wish = None if it.try_idle_ms is None else Wish(True, it.try_idle_ms)
    return Told(title, waiting or freed, evidence, cause, remedy, wish)


def _last_window(it: LastWindow, at: At) -> Told:
    until = f.second(it.end_ms, at.zone)
    return Told(
        f"the last {n(it.windows, 'window')} cannot close",
        f"{n(it.records, 'record')} wait for data that does not come",
        [
            f"no channel has sent anything for {f.duration(it.quiet_ms)}",
            f"the window until {until} is {f.duration(it.short_ms)} of event time short",
            f"idle timeout: {f.setting(it.idle_after_ms)}",
        ],
        "A watermark only moves with records: when all are silent it stands at the newest record less the lateness, "
        "and what ends later stays open. An idle timeout does not help where nobody is left.",
        [
            "let the producers send a heartbeat record while there is nothing to tell",
            *(["an idle timeout, so that at least the slower channels do not hold it"] * (it.idle_after_ms is None)),
        ],
    )


def _flapping(it: FlappingIdleness, at: At) -> Told:
    others = "" if it.channels == 1 else f" and {n(it.channels - 1, 'other channel')}"
    lost = f"{n(it.late, 'record')} of them late" if it.late else "no record of them late so far"
    longer = it.try_idle_ms
    return Told(
        f"{name(it.channel)}{others} turn{'s' * (it.channels == 1)} idle again and again",
        lost,
        [
            f"{n(it.flaps, 'change')} between active and idle since the start",
            f"from one idleness to the next {f.duration(it.round_ms)}, with an idle timeout of "
            f"{f.setting(it.idle_after_ms)}",
            lost,
        ],
        "The idle timeout is about as long as the usual silence of the channel: each time the level goes on without "
        "it, and what it sends then comes behind the level.",
        [
            f"{at.change(longer, idle=True)}: longer than its silences"
            if longer is not None
            else "an idle timeout longer than its usual silence"
        ],
        None if longer is None else Wish(True, longer),
    )


def _late_after_idle(it: LateAfterIdle, at: At) -> Told:
    price = "" if it.try_behind_ms is None else f"; the level would now be {f.duration(it.try_behind_ms)} further back"
    many = "" if it.channels == 1 else f" and {n(it.channels - 1, 'other')}"
    return Told(
        f"{name(it.channel)}{many} come{'s' * (it.channels == 1)} back from idleness too late",
        f"{f.count(it.try_saved)} records lost that a longer idle timeout would have kept",
        [
            f"{f.share(it.late_share)} of the records of channels that were idle are late ({f.count(it.late)}), "
            f"{f.share(it.others_share)} of the others'",
            f"with an idle timeout of {f.setting(it.try_idle_ms)}, {f.count(it.try_saved)} fewer would have been late",
            f"idle timeout: {f.setting(it.idle_after_ms)}",
        ],
        "A channel that pauses for longer than the idle timeout is left out, the level overtakes it, and the records "
        "that it then sends find their windows closed.",
        [at.change(it.try_idle_ms, idle=True) + price],
        Wish(True, it.try_idle_ms),
    )


def _skew(it: Skew, at: At) -> Told:
    who = name(it.channel)
    unread = [] if it.backlog is None else [f"{n(it.backlog, 'record')} of {who} unread"]
    open_: list[str] = []
    if it.open_windows is not None:
        held = "" if it.open_records is None else f", {n(it.open_records, 'record')} in them"
        open_ = [n(it.open_windows, "window") + " open" + held]
    remedy = [f"see what {who} is slow at: its producer, its consumer, or records that are old when they are sent"]
    if it.backlog:
        remedy.insert(0, "more readers, or a faster sink: it is there, but it is not read in time")
    if it.kafka and not it.balanced:
        remedy.insert(0, "--max-drift: balanced reading makes the fast partitions wait, which keeps the state small")
    return Told(
        f"{who} is far behind in event time",
        f"results come {f.duration(it.behind_ms)} later than the fastest channel would allow",
        [
            f"{who} is {f.duration(it.behind_ms)} behind the fastest channel, for a minute at least",
            f"it is read at {f.rate(it.rate)} records/s",
            *unread,
            *open_,
        ],
        "The level waits for the slowest channel that sends, and all that the others have sent meanwhile is kept.",
        remedy,
    )


def _left_behind(it: LeftBehind, at: At) -> Told:
    who = name(it.channel) if it.channels == 1 else f"{name(it.channel)} and {n(it.channels - 1, 'other channel')}"
    late = [] if it.late is None else [f"{n(it.late, 'record')} of theirs late so far"]
    lateness_ms = _covers(it.behind_ms, at)
    return Told(
        f"{who} can only be late",
        late[0] if late else "every record of theirs is dropped",
        [f"the newest record of {name(it.channel)} is {f.duration(it.behind_ms)} behind the level", *late],
        "Spark has one clock for all channels, and the fastest drives it: there is no minimum that would wait.",
        [
            f"{at.change(lateness_ms)}: as much as the slowest channel is behind",
            "or a query of its own for the slow channels",
        ],
        Wish(False, lateness_ms),
    )


def _covers(behind_ms: int, at: At) -> int:
    """The lateness that covers a distance: the next value that is counted exactly."""
    needed = behind_ms + (at.snapshot.settings.lateness_ms or 0)
    edges = (row.lateness_ms for row in at.snapshot.whatif or ())
    return next((edge for edge in edges if edge >= needed), -(-needed // f.MINUTE) * f.MINUTE)


TELLERS: Tellers = {
    StuckChannel: _stuck,
    LastWindow: _last_window,
    FlappingIdleness: _flapping,
    LateAfterIdle: _late_after_idle,
    Skew: _skew,
    LeftBehind: _left_behind,
}
