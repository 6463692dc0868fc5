"""When an open window closes, and why not yet; what became of a fired one. Pure."""

from collections.abc import Sequence
from datetime import tzinfo
from itertools import takewhile
from typing import Literal

from msgspec import Struct

from ...engine.snapshot import ChannelView, FiredWindow, Holder, OpenWindow, Snapshot
from ...engine.text import formatting as f
from ...engine.text.formatting import name
from ...engine.verdict.blame import channel_named, holding_channel, holding_view
from ...engine.verdict.history import HistoryPoint
from ...engine.watermarks.settings import StrategyName
from .kinds import presenter_of
from .spans import Span
from .staircase import idle_when

Kind = Literal["now", "pace", "idle", "never", "unknown"]
MIN_POINTS = 4
MIN_WALL_MS = 3_000
"""A pace needs this many points of history, over at least this time (ms of wall clock)."""
LOOK_BACK_MS = 300_000
"""A pace uses at most this much (ms of wall clock) of history."""
FAR_MS = 30 * f.DAY
"""A window farther off than this (ms) counts as never closing at the present pace."""


_BEYOND_LATENESS_MS: dict[StrategyName, int] = {"bounded": 0, "bounded-legacy": -1, "spark": 0}
"""What a record needs beyond a window's end and the lateness, to close it; other strategies do not go by one record."""


class Closing(Struct, frozen=True):
    """How a window closes: in `in_ms` of processing time where that is known, in a few words, and in a sentence."""

    kind: Kind
    brief: str
    why: list[Span]
    in_ms: float | None = None


def pace(points: Sequence[HistoryPoint], snapshot: Snapshot) -> float | None:
    """The recent event time per ms of processing time, while the present holder held back the watermark.

    None if that was not observed for long enough; if the holder has just taken over, the watermark's last minutes
    count.
    """
    holder = snapshot.level.holder.channel if snapshot.level.holder else None
    recent = [point for point in points if points[-1].wall_ms - point.wall_ms <= LOOK_BACK_MS]
    reported = _pace([*takewhile(lambda point: point.holder == holder, reversed(recent))][::-1])
    return _pace(recent) if reported is None else reported


def _pace(points: Sequence[HistoryPoint]) -> float | None:
    known = [(point.now_ms, point.watermark_ms) for point in points if point.watermark_ms is not None]
    if len(known) < MIN_POINTS or points[-1].wall_ms - points[0].wall_ms < MIN_WALL_MS:
        return None
    began, first = known[0]
    ended, last = known[-1]
    return (last - first) / (ended - began) if ended > began else None


def closing(snapshot: Snapshot, window: OpenWindow, pace: float | None, zone: tzinfo | None) -> Closing:
    """How `window` closes; `pace` is that of `pace()`."""
    level = snapshot.level
    if snapshot.ended:
        return _closing("now", "ended", "The stream has ended: all that was open has fired.")
    if window.short_ms is not None and window.short_ms <= 0:
        return _at_next_emit(snapshot)
    if snapshot.settings.strategy == "none":
        why = "This strategy has no watermark before the end of the stream, so it closes only then."
        return _closing("never", "at the end of the stream", why)
    if level.idle:
        why = "All channels are idle: the window stays open until new data arrives."
        return _closing("never", "never: needs data", why)
    if level.holder is None:
        return _without_holder(snapshot, window, pace, zone)
    if level.holder.cause in ("quiet", "never_seen"):
        return _quiet(snapshot, window, level.holder, zone)
    spans = [*_waits(snapshot, window, level.holder), *_needed(snapshot, window, zone)]
    if level.holder.cause == "paused":
        return Closing("unknown", "not while paused", [*spans, (".", "text")])
    if window.short_ms is None:
        return Closing("unknown", "no watermark yet", [*spans, (".", "text")])
    return _at_pace(spans, window.short_ms, pace, "its pace")


def _at_next_emit(snapshot: Snapshot) -> Closing:
    """A window that the watermark has closed and that has not fired: Spark emits it with the next batch."""
    if (number := snapshot.closed_by) is None:
        return _closing("now", "at the next emit", "The watermark has passed its end: it fires at the next emit.")
    is_emitted = snapshot.target.fires_windows or snapshot.spark.output_mode == "append"
    does = "emitted" if is_emitted else "removed"
    brief = f"closed by batch {number:,}, {does} by batch {number + 1:,}"
    why = f"{brief[0].upper()}{brief[1:]}, which still accepts its records: it compares them with the watermark of "
    return _closing("now", brief, f"{why}batch {number:,}.")


def _closing(kind: Kind, brief: str, why: str) -> Closing:
    return Closing(kind, brief, [(why, "text")])


def blockers(snapshot: Snapshot, end_ms: int) -> list[ChannelView]:
    """The channels that take part in the minimum and are short of a window's end, most behind first."""
    part = [view for view in snapshot.channels if view.state in ("active", "never_seen")]
    short = [view for view in part if view.watermark_ms is None or view.watermark_ms < end_ms - 1]
    return sorted(short, key=lambda view: (view.watermark_ms is not None, view.watermark_ms or 0))


def needs_ms(snapshot: Snapshot, end_ms: int) -> int | None:
    """The earliest event time of a record (epoch ms) that closes a window; None if no single record does."""
    settings = snapshot.settings
    if settings.strategy == "monotonous":
        return end_ms
    extra_ms = _BEYOND_LATENESS_MS.get(settings.strategy)
    return None if settings.lateness_ms is None or extra_ms is None else end_ms + settings.lateness_ms + extra_ms


def fired_words(window: FiredWindow, snapshot: Snapshot, zone: tzinfo | None) -> list[Span]:
    """The outcome of a fired window, in a sentence or two."""
    spans: list[Span] = [("It fired ", "text")]
    if window.ended:
        spans.append(("when the stream ended", "text"))
    elif window.fired_ms is not None:
        delay = window.fired_ms - window.end_ms
        after = f", {f.duration(delay)} after its end" if delay >= 0 else ""
        spans += [(f.clock(window.fired_ms, zone, snapshot.now_ms), "strong"), (after, "text")]
    spans += [(", with ", "text"), (f"{f.counted(window.records, 'record')}.", "strong")]
    then = ""
    if window.late_firings:
        then += f" Late records made it fire {f.counted(window.late_firings, 'more time')}."
    if (until := kept_until_ms(window, snapshot)) is not None:
        then += f" It still accepts late records, until the watermark reaches {f.clock(until, zone, snapshot.now_ms)}."
    if window.late_drops:
        then += f" {f.counted(window.late_drops, 'record')} dropped: the window was closed."
    elif not window.late_firings:
        then += " No record came after it fired."
    return [*spans, (then, "text")]


def kept_until_ms(window: FiredWindow, snapshot: Snapshot) -> int | None:
    """The watermark (epoch ms) at which a fired window stops accepting records; None if it has reached that."""
    until = window.end_ms - 1 + snapshot.settings.allowed_lateness_ms
    level = snapshot.level.watermark_ms
    return None if snapshot.ended or (level is not None and level >= until) else until


def _without_holder(snapshot: Snapshot, window: OpenWindow, pace: float | None, zone: tzinfo | None) -> Closing:
    if not snapshot.channels and snapshot.target.expects_channels:
        return _closing("never", "never: needs data", "No record has come yet that could move the watermark.")
    if window.short_ms is None:
        return _beyond_the_watermark(snapshot, window)
    short = f.duration(window.short_ms)
    spans: list[Span] = [("The watermark is ", "text"), (short, "strong"), (" short of its end", "text")]
    needed = needs_ms(snapshot, window.end_ms)
    if snapshot.one_clock and needed is not None and not snapshot.has_several_inputs:
        moment = f.clock(needed, zone, snapshot.now_ms)
        spans.append((f": Spark's one clock reaches it with a record of any channel from {moment} or later", "text"))
    if not snapshot.channels:
        spans.append((f"; what holds it back is {f.ELSEWHERE}", "text"))
    return _at_pace(spans, window.short_ms, pace, "the watermark's pace")


def _beyond_the_watermark(snapshot: Snapshot, window: OpenWindow) -> Closing:
    """A window of an attached query that the query's watermark does not close, or not by itself."""
    if snapshot.level.watermark_ms is None:
        return _closing("unknown", f.ELSEWHERE, f"The watermark is {f.ELSEWHERE}.")
    if snapshot.spark.output_mode == "complete":
        why = "Complete mode: every batch emits it, and it stays in the state."
        return _closing("never", "emitted by every batch", why)
    if any(one.evicts is False and window.operator in (None, one.operator) for one in snapshot.spark.operators or ()):
        return _closing("never", "never removed", "Its operator never removes state: it stays open.")
    why = "An operator before it passes on an earlier watermark than the query's: when it closes is "
    return _closing("unknown", f.ELSEWHERE, f"{why}{f.ELSEWHERE}.")


def _at_pace(spans: list[Span], short_ms: int, pace: float | None, whose: str) -> Closing:
    if pace is None:
        return Closing("unknown", "pace not known yet", [*spans, ("; its pace is not known yet.", "text")])
    if pace <= 0 or short_ms / pace > FAR_MS:
        far = f"; at {whose} that is more than 30 days away."
        return Closing("unknown", "not at this pace", [*spans, (far, "text")])
    took = short_ms / pace
    about: list[Span] = [(f"; at {whose} in about ", "text"), (f.duration(took), "strong"), (".", "text")]
    return Closing("pace", f"≈ in {f.duration(took)}", [*spans, *about], took)


def _quiet(snapshot: Snapshot, window: OpenWindow, holder: Holder, zone: tzinfo | None) -> Closing:
    view = holding_view(snapshot) or channel_named(snapshot, holder.channel)
    timeout = snapshot.settings.idle_after_ms
    spans = _waits(snapshot, window, holder)
    if timeout is None:
        end: list[Span] = [
            (", and no idle timeout is set: it ", "text"), ("never", "stale"), (" fires without ", "text"),
            *_needed(snapshot, window, zone, lead="")[:2], (" or an idle timeout.", "text"),
        ]  # fmt: skip
        return Closing("never", "never: needs data or an idle timeout", [*spans, *end])
    # Recordings from before blockers were kept have no timers.
    timer_ms = 0 if view is None else view.quiet_ms or 0 if snapshot.blockers is None else view.timer_ms
    if timer_ms is None:
        stopped = f"; its idle timer ({f.setting(timeout)}) does not run: the window stays open until new data arrives."
        return Closing("never", "never: needs data", [*spans, (stopped, "text")])
    left = max(timeout - timer_ms, 0)
    when = idle_when(left)
    spans += [(f"; without data it becomes idle {when} (idle timeout {f.setting(timeout)}), and then ", "text")]
    short_of_it = blockers(snapshot, window.end_ms)
    behind = [other for other in short_of_it if other.channel != (view.channel if view else holder.channel)]
    if not behind and snapshot.blockers == []:
        spans.append(("the window stays open until new data arrives.", "text"))
        return Closing("never", "never: needs data", spans)
    if not behind:
        return Closing("idle", f"idle {when}", [*spans, ("the window fires.", "text")], left)
    after = behind[0]
    short = "" if after.watermark_ms is None else f", {f.duration(window.end_ms - 1 - after.watermark_ms)} short"
    more = f", and {len(behind) - 1:,} more" if len(behind) > 1 else ""
    spans += [("the window waits for ", "text"), (name(after.channel), "strong"), (f"{short}{more}.", "text")]
    return Closing("idle", f"idle {when}, then {name(after.channel)}", spans)


def _waits(snapshot: Snapshot, window: OpenWindow, holder: Holder) -> list[Span]:
    short = "" if window.short_ms is None else f", {f.duration(window.short_ms)} of event time short"
    held = name(holding_channel(snapshot) or holder.channel)
    return [("It waits for ", "text"), (held, "holder"), (f"{short}: {presenter_of(snapshot).cause()}", "text")]


def _needed(snapshot: Snapshot, window: OpenWindow, zone: tzinfo | None, lead: str = "; it needs ") -> list[Span]:
    """What must come, and what came last."""
    needed = needs_ms(snapshot, window.end_ms)
    view = holding_view(snapshot)
    if needed is None:
        return [(f"{lead}its watermark at ", "text"), (f.clock(window.end_ms - 1, zone, snapshot.now_ms), "strong")]
    spans: list[Span] = [(f"{lead}a record from ", "text"), (f.clock(needed, zone, snapshot.now_ms), "strong")]
    if view is None or view.max_event_ms is None:
        return spans
    return [*spans, (f" or later, its newest is from {f.clock(view.max_event_ms, zone, snapshot.now_ms)}", "text")]
