"""The watermark in words: where it is, how far behind, who holds it back, for how long and why. Pure."""

from collections.abc import Mapping
from datetime import tzinfo

from ...engine.snapshot import Cause, Clock, Snapshot
from ...engine.snapshot.kinds.kafka_streams import badness
from ...engine.text import formatting as f
from ...engine.text.codes import CauseWords, busy_after, kept_back
from ...engine.text.formatting import name
from ...engine.verdict.blame import fastest_view, holding_view, is_close
from ...engine.watermarks.settings import Session, Settings, Sliding
from .spans import Part, Span, part


def channels_known(snapshot: Snapshot) -> bool:
    """Whether channels are known, or will be with the first record; else only the query's watermark is."""
    return bool(snapshot.channels) or snapshot.target.expects_channels


def delay_words(ms: int | None) -> str:
    """A delay; `–` where it is not known."""
    return f.UNKNOWN if ms is None else f.setting(ms)


def watermark_parts(snapshot: Snapshot, zone: tzinfo | None, unknown: str) -> list[Part]:
    """The watermark and how far it is behind; `unknown` instead of one that is not known."""
    level = snapshot.level
    label: Span = (" WATERMARK ", "title")
    if level.watermark_ms is None:
        return [part(label, ("ended" if snapshot.ended else unknown, "level"))]
    time = f.clock(level.watermark_ms, zone, snapshot.now_ms)
    if snapshot.ended:
        last = part((f"all windows closed; the last watermark was {time}", "dim"), rank=1)
        return [part(label, ("ended", "level")), last]
    parts = [part(label, (time, "level"))]
    clock_ms = clock_distance_ms(snapshot)
    if level.behind_fastest_ms or (level.behind_fastest_ms == 0 and clock_ms is None):
        text = f.duration(level.behind_fastest_ms)
        parts.append(part((text, "strong"), (" behind fastest", "dim"), rank=2))
    if clock_ms is not None:
        text = f.duration(abs(clock_ms))
        side = " behind clock" if clock_ms >= 0 else " ahead of clock"
        parts.append(part((text, "strong"), (side, "dim"), rank=3, gap=" · " if parts[1:] else "   "))
    if (ago := moved(snapshot)) is not None:
        parts.append(part(("moved ", "dim"), (ago, "strong"), rank=4, gap=" · " if parts[1:] else "   "))
    return parts


def clock_distance_ms(snapshot: Snapshot) -> int | None:
    """How far the watermark is behind the clock (ms); None: not known, or the data are too old for that to matter."""
    behind = snapshot.level.behind_clock_ms
    return None if behind is None or behind >= f.YEAR else behind


def late_drops(snapshot: Snapshot) -> str:
    """Number of records dropped as late, `≥ 17` for a lower bound; for a Spark query: rows."""
    late, dropped = snapshot.totals.late, snapshot.spark.dropped_at_least
    if late is None:
        bound = f.count if snapshot.spark.dropped_exact else f.at_least
        return f.ELSEWHERE if dropped is None else bound(dropped)
    return f"≥ {f.count(late)}" if snapshot.job.late_at_least else f.count(late)


def moved(snapshot: Snapshot) -> str | None:
    """How long ago the watermark moved."""
    since = snapshot.level.moved_ms
    if since is None or snapshot.now_ms is None:
        return None
    age_ms = snapshot.now_ms - since
    return "just now" if age_ms < f.SECOND else f"{f.duration(age_ms)} ago"


def motion(snapshot: Snapshot) -> str:
    """When the watermark moved, and how far it is from the clock; empty if neither is known."""
    ago, distance = moved(snapshot), clock_distance_ms(snapshot)
    moments = ago and f"the watermark moved {ago}", None if distance is None else f.behind_clock(distance)
    return " · ".join(filter(None, moments))


def ahead_elsewhere(snapshot: Snapshot) -> bool:
    """Whether the slowest channel is on time, and the fastest ahead of the clock."""
    holder = snapshot.level.holder
    return holder is not None and holder.cause == "future_elsewhere"


def cause_sentence(snapshot: Snapshot, words: Mapping[Cause, CauseWords], *, all_read: bool) -> str:
    """Why the holder holds back the watermark, in `words` with numbers; `all_read`: nothing of it is unread."""
    holder, level = snapshot.level.holder, snapshot.level
    if holder is None:
        return ""
    behind = None if level.behind_fastest_ms is None else f.duration(level.behind_fastest_ms)
    if holder.cause == "behind" and behind is not None and is_close(snapshot):
        return f"{behind} behind in event time, as lateness allows"
    view = holding_view(snapshot)
    fastest = fastest_view(snapshot) if holder.cause == "future_elsewhere" else None
    stuck = "does not move"
    if view is not None and view.since_ms is not None and snapshot.now_ms is not None:
        stuck = f"has not moved for {f.duration(max(snapshot.now_ms - view.since_ms, 0))}"
    return words[holder.cause].sentence.format(
        quiet=f" for {f.duration(view.quiet_ms)}" if view and view.quiet_ms is not None else "",
        all_read=", no backlog" if all_read else "",
        backlog=f" of {f.counted(view.backlog, 'record')}" if view and view.backlog is not None else "",
        lag=f", {f.duration(view.behind_end_ms)} of event time" if view and view.behind_end_ms is not None else "",
        behind=behind or "far",
        fastest="another channel" if fastest is None else name(fastest.channel),
        busy_after=busy_after(snapshot),
        stuck=stuck,
        kept_back=kept_back(snapshot),
    )


def worst_clock(snapshot: Snapshot) -> Clock | None:
    """The clock that the verdict is about; None for targets with a watermark, and before the first commit."""
    return min(snapshot.clocks, key=badness, default=None)


def of_its_kind(snapshot: Snapshot, text: str) -> str:
    """A sentence on the watermark, for a target without one: on its stream time."""
    if snapshot.target.has_watermark:
        return text
    return text.replace("The watermark", "Stream time").replace("the watermark", "stream time")


def lag_ms(snapshot: Snapshot) -> int | None:
    """How far the watermark is behind the clock (ms); without one, the stream time of the worst task."""
    worst = worst_clock(snapshot)
    if worst is None or worst.time_ms is None or snapshot.now_ms is None:
        return snapshot.level.behind_clock_ms
    return snapshot.now_ms - worst.time_ms


def held_ms(snapshot: Snapshot) -> int | None:
    """How long (ms) the channel has held back the watermark."""
    holder, now_ms = snapshot.level.holder, snapshot.now_ms
    return None if holder is None or now_ms is None else max(now_ms - holder.since_ms, 0)


def held_for(snapshot: Snapshot) -> str:
    """` for 38s`, ` for ≥ 38s`: how long the channel has held back the watermark; empty if that is not known."""
    holder, held = snapshot.level.holder, held_ms(snapshot)
    return "" if holder is None or held is None else f" for {'≥ ' if holder.at_least else ''}{f.duration(held)}"


def window(settings: Settings) -> str:
    """The windows in words: `1h`, `1h every 15m`, `session 30m`; `not known from here` if unknown."""
    spec = settings.window
    if spec is None:
        return f.ELSEWHERE
    if isinstance(spec, Session):
        return f"session {f.setting(spec.gap_ms)}"
    every = f" every {f.setting(spec.slide_ms)}" if isinstance(spec, Sliding) else ""
    return f.setting(spec.size_ms) + every
