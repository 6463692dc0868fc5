"""The sentences of the main screen's three top lines, as parts that give way where there is no room. Pure."""

import re
from datetime import tzinfo

from msgspec import Struct

from ..engine.core.settings import Session, Settings, Sliding
from ..engine.core.snapshot import ChannelView, Snapshot
from . import attached
from . import formatting as f
from .preview import IdlePreview, LatenessPreview, Preview
from .replay import Playback
from .widgets.line import Part, Run, part
from .widgets.staves import holding

STALE_AFTER_S = 3.0
GONE = "the engine has stopped: this is the last that it sent"
"""What is said of a stream that ended without a reason."""
NAME_CELLS = 24
"""How much of a name a sentence bears."""


_NOTE = re.compile(r"(\d\d):(\d\d):(\d\d) (.*)")
_NOTED_MS = 5 * f.MINUTE
"""How long a note stands on the screen."""


class Condition(Struct, frozen=True):
    """The word for how things stand, its ink, and what else there is to say of it."""

    word: str
    ink: str
    note: str | None = None


def condition(snapshot: Snapshot, *, frozen: bool, silent_s: float, lost: str | None) -> Condition:
    """How things stand, `silent_s` after the last snapshot; `lost` says why there will be no more."""
    if snapshot.state == "failed":
        return Condition("FAILED", "bad", f.first_line(snapshot.error or "the engine failed"))
    if lost is not None and not snapshot.ended:
        return Condition("STOPPED" if lost == GONE else "FAILED", "bad", lost)
    if frozen:
        return Condition("FROZEN", "stale")
    if snapshot.ended or snapshot.state == "ended":
        return Condition("ENDED", "dim")
    if snapshot.state == "paused":
        return Condition("PAUSED", "stale")
    if silent_s > STALE_AFTER_S:
        return Condition(f"STALE {f.duration(int(silent_s) * 1_000)}", "stale")
    if snapshot.origin is not None and snapshot.state in ("stale", "partial"):
        word, note = attached.standing(snapshot)
        return Condition(word, "stale", note)
    note = recent_note(snapshot)
    return {
        "starting": Condition("STARTING", "stale"),
        "stale": Condition("STALE", "stale", note),
        "partial": Condition("PARTIAL", "stale", "some channels are unknown"),
    }.get(snapshot.state, Condition("LIVE", "good", note))


def recent_note(snapshot: Snapshot) -> str | None:
    """The last thing that happened to the source, for some minutes; notes begin with their time of day (UTC)."""
    found = _NOTE.fullmatch(snapshot.notes[-1]) if snapshot.notes else None
    if found is None or snapshot.wall_ms is None:
        return None
    hours, minutes, seconds = map(int, found.groups()[:3])
    age_ms = (snapshot.wall_ms - ((hours * 60 + minutes) * 60 + seconds) * f.SECOND) % f.DAY
    return f.clean(snapshot.notes[-1]) if age_ms < _NOTED_MS else None


def replay_condition(snapshot: Snapshot, playback: Playback) -> Condition:
    """How a replay stands, and how things stood then."""
    then = condition(snapshot, frozen=False, silent_s=0.0, lost=None)
    word = playback.word if then.word == "LIVE" else f"{playback.word} · {then.word}"
    ink = then.ink if then.ink == "bad" else "good" if playback.playing else "stale"
    return Condition(word, ink, " · ".join(note for note in (then.note, playback.note) if note) or None)


def name(text: str) -> str:
    """A name from outside, harmless and not too long for a sentence."""
    return f.label(text, NAME_CELLS)


def status_parts(snapshot: Snapshot, now: Condition, zone: tzinfo | None) -> list[Part]:
    """Name, state, batch, rates, clock and speed."""
    spark, source = snapshot.spark, snapshot.source
    parts = [
        part((" ", "text")),
        part(("wmtop  ", "accent"), rank=4, gap=""),
        part((name(snapshot.name), "strong"), gap=""),
        part(("● ", now.ink), (now.word, now.ink), gap="  "),
    ]
    if snapshot.batch is not None:
        parts.append(part((f"batch {snapshot.batch:,}", "text"), rank=3, gap="  "))
    if (running := attached.in_flight(snapshot)) is not None:
        parts.append(part((running, "text"), rank=3, gap=", "))
    if spark.batch_ms is not None:
        parts.append(part((f"{spark.batch_ms / 1000:.2f} s", "text"), rank=5, gap=" · "))
    if spark.input_rows_per_second is not None:
        parts.append(part((f"{f.rate(spark.input_rows_per_second)} rows/s", "text"), rank=2, gap=" · "))
    if source and source.rows and source.rows_read is not None:
        parts.append(part((f"{f.share_of(source.rows_read, source.rows)} read", "text"), rank=6, gap=" · "))
    if snapshot.now_ms is not None:
        parts.append(part((f.stamp(snapshot.now_ms, zone), "text"), rank=1, right=True))
    if source and source.speed is not None:
        parts.append(part((f"×{source.speed:g}", "dim"), rank=3, right=True, gap="  "))
    parts.append(part((" ", "text"), right=True, gap=""))
    return parts


def level_parts(snapshot: Snapshot, zone: tzinfo | None) -> list[Part]:
    """The level and how far it is behind."""
    level = snapshot.level
    label: Run = (" LEVEL ", "title")
    if level.watermark_ms is None:
        return [part(label, ("ended" if snapshot.ended else f.NO_DATA, "level"))]
    time = f.clock(level.watermark_ms, zone, snapshot.now_ms)
    if snapshot.ended:
        last = part((f"all windows closed, the last level was {time}", "dim"), rank=1)
        return [part(label, ("ended", "level")), last]
    parts = [part(label, (time, "level"))]
    if level.behind_fastest_ms is not None:
        text = f.duration(level.behind_fastest_ms)
        parts.append(part((text, "strong"), (" behind fastest", "dim"), rank=2))
    if level.behind_clock_ms is not None:
        text = f.duration(level.behind_clock_ms)
        parts.append(part((text, "strong"), (" behind clock", "dim"), rank=3, gap=" · " if parts[1:] else "   "))
    if (ago := attached.moved(snapshot)) is not None:
        parts.append(part(("moved ", "dim"), (ago, "strong"), rank=4, gap=" · "))
    return parts


def holder_parts(snapshot: Snapshot, zone: tzinfo | None) -> list[Part]:
    """Who holds the level, for how long, and why."""
    holder = snapshot.level.holder
    if snapshot.ended:
        return []
    if holder is None and snapshot.barrel is not None:
        return attached.barrel_parts(snapshot.barrel, level_ms=snapshot.level.watermark_ms, zone=zone)
    if holder is None:
        return [part((f" {_no_holder(snapshot)}", "dim"))]
    since = "" if snapshot.now_ms is None else " " + f.duration(max(snapshot.now_ms - holder.since_ms, 0))
    return [
        part((" held by ", "dim"), (name(holder.channel), "holder"), (since, "holder"), (": ", "dim")),
        part((cause(snapshot), "text"), gap=""),
    ]


def cause(snapshot: Snapshot) -> str:
    """Why the holder holds, in words with numbers."""
    holder, level = snapshot.level.holder, snapshot.level
    if holder is None:
        return ""
    held = holding(snapshot)
    view = next((view for view in snapshot.channels if view.channel == held), None)
    quiet = f" for {f.duration(view.quiet_ms)}" if view and view.quiet_ms is not None else ""
    behind = f" {f.duration(level.behind_fastest_ms)}" if level.behind_fastest_ms is not None else ""
    unread = f"{f.count(view.backlog)} records" if view and view.backlog is not None else "records"
    lag = f.duration(view.behind_end_ms) if view and view.behind_end_ms is not None else None
    return {
        "quiet": f"quiet{quiet}" + (", nothing unread" if _all_read(snapshot, view) else ""),
        "backlog": f"backlog, {unread} unread, " + ("still old" if lag is None else f"{lag} of event time"),
        "never_seen": "never seen, no record came since the start",
        "behind": f"behind, it is read but{behind} late in event time",
        "future_elsewhere": f"future timestamp elsewhere, {_fastest(snapshot)} is{behind} ahead",
        "slow_clock": f"slow clock, its records come{behind} behind the others",
        "held_back": "held back, so that the others are read as far",
        "paused": "paused, the source is not read",
    }[holder.cause]


def _all_read(snapshot: Snapshot, view: ChannelView | None) -> bool:
    """Whether it is known that nothing of the channel is unread: a replay has nothing that has not arrived yet."""
    if snapshot.source is not None and snapshot.source.kind in ("kafka", "topic", "group"):
        return view is not None and view.backlog == 0
    return True


def tuning_parts(snapshot: Snapshot, preview: Preview | None, recent: float | None) -> list[Part]:
    """The settings in force, what they cost, and what the preview says."""
    if snapshot.origin is not None:
        return attached.tuning_parts(snapshot, preview, window(snapshot.settings))
    settings, totals = snapshot.settings, snapshot.totals
    lateness: list[Run] = [(" lateness ", "dim"), (_lateness(settings), "strong")]
    idle: list[Run] = [("idle after ", "dim"), (f.setting(settings.idle_after_ms), "strong")]
    if isinstance(preview, LatenessPreview):
        lateness.append((f" ▸ {f.setting(preview.lateness_ms)}?", "preview"))
    elif isinstance(preview, IdlePreview):
        idle.append((f" ▸ {f.setting(preview.idle_after_ms)}?", "preview"))
    open_idle = isinstance(preview, IdlePreview)
    share = f.share_of(totals.late, totals.records)
    late: list[Run] = [("late ", "dim"), (share, "strong")]
    parts = [
        part(*lateness, rank=5 if open_idle else 0),
        part(*idle, rank=0 if open_idle else 4),
        part(("window ", "dim"), (window(settings), "strong"), rank=6),
        part(*late, rank=1),
        part((f" ({f.count(totals.late)})", "dim"), rank=3, gap=""),
    ]
    if recent is not None and not snapshot.ended:
        parts.append(part((", now ", "dim"), (f.share(recent), "strong"), rank=2, gap=""))
    parts += _drift_parts(snapshot)
    if settings.allowed_lateness_ms:
        extra = f.setting(settings.allowed_lateness_ms)
        parts.insert(3, part(("allowed ", "dim"), (extra, "strong"), rank=7))
    if isinstance(preview, LatenessPreview):
        parts += _lateness_outlook(preview)
    elif preview is not None:
        parts += _idle_outlook(preview, snapshot, settings)
    return parts


def _drift_parts(snapshot: Snapshot) -> list[Part]:
    """Balanced reading: how far the partitions are apart, and how far they would be without."""
    source = snapshot.source
    if source is None or source.max_drift_ms is None or source.drift_ms is None:
        return []
    drift: list[Run] = [("drift ", "dim"), (f.duration(source.drift_ms), "strong")]
    drift.append((f" of {f.setting(source.max_drift_ms)}", "dim"))
    if source.drift_unbalanced_ms is not None and source.drift_unbalanced_ms > source.drift_ms:
        drift.append((f", {f.duration(source.drift_unbalanced_ms)} without", "dim"))
    return [part(*drift, rank=7)]


def window(settings: Settings) -> str:
    """The windows in words: `1h`, `1h every 15m`, `session 30m`; `not known from here` of others' queries."""
    spec = settings.window
    if spec is None:
        return f.ELSEWHERE
    if isinstance(spec, Session):
        return f"session {f.setting(spec.gap_ms)}"
    every = f" every {f.setting(spec.slide_ms)}" if isinstance(spec, Sliding) else ""
    return f.setting(spec.size_ms) + every


def told(preview: Preview) -> str:
    """What the picture of a preview means."""
    if isinstance(preview, LatenessPreview):
        return f"had lateness been {f.setting(preview.lateness_ms)} from the start"
    return f"had the idle timeout been {f.setting(preview.idle_after_ms)} from the start"


def share_range(preview: LatenessPreview) -> str | None:
    """The previewed late share: exact, a range between two edges, `≤` where it is an upper bound."""
    if preview.share is None:
        return None
    text = f.span(f.share(preview.share.low), f.share(preview.share.high))
    return "≤ " + f.share(preview.share.high) if preview.upper_bound else text


def delay_change(preview: LatenessPreview) -> str | None:
    """How much later results would come: `results 15m later`, `results 2m–5m sooner`."""
    change = preview.delay_change_ms
    if change is None:
        return None
    if round(change.low) == 0 == round(change.high):
        return "results at the same time"
    if change.low < 0 < change.high:
        return f"results {f.duration(-change.low)} sooner to {f.duration(change.high)} later"
    low, high = sorted((abs(change.low), abs(change.high)))
    return f"results {f.span(f.duration(low), f.duration(high))} {'later' if change.high > 0 else 'sooner'}"


def _lateness_outlook(preview: LatenessPreview) -> list[Part]:
    share = share_range(preview)
    if share is None:
        return [part(("▸ late share not known", "preview"), rank=1, gap="  ")]
    delay = delay_change(preview)
    parts = [
        part((f"▸ {share}", "preview"), gap="  "),
        part((f" at {f.setting(preview.lateness_ms)}", "preview"), rank=2, gap=""),
    ]
    return [*parts, part((delay, "preview"), gap=", ")] if delay else parts


def _idle_outlook(preview: IdlePreview, snapshot: Snapshot, settings: Settings) -> list[Part]:
    share = ("≈ " if preview.about else "") + f.share(preview.share)
    parts = [part((f"▸ {share}", "preview"), gap="  ")]
    now = snapshot.level.watermark_ms
    if preview.level_ms is not None and now is not None:
        parts.append(part((f"level {f.signed(preview.level_ms - now)}", "preview"), rank=1, gap=", "))
    if preview.holder is not None:
        parts.append(part((f"held by {name(preview.holder)}", "preview"), rank=2, gap=", "))
    parts.append(part((f"{preview.flaps:,} idle changes", "preview"), rank=3, gap=", "))
    return parts


def _lateness(settings: Settings) -> str:
    if settings.lateness_ms is None or settings.strategy == "monotonous":
        return f"none ({settings.strategy})"
    text = f.setting(settings.lateness_ms)
    return text if settings.strategy == "bounded" else f"{text} ({settings.strategy})"


def _no_holder(snapshot: Snapshot) -> str:
    if snapshot.origin is not None and not snapshot.channels:
        return f"{attached.ONE_CLOCK}: who holds it is {f.ELSEWHERE}"
    if snapshot.settings.strategy == "spark":
        return "no holder: Spark's one clock follows the fastest channel"
    if not snapshot.channels:
        return "waiting for the first record"
    if snapshot.level.idle:
        return "every channel is idle: the level stands until a record comes"
    return "held by nobody"


def _fastest(snapshot: Snapshot) -> str:
    known = [view for view in snapshot.channels if view.watermark_ms is not None]
    return name(max(known, key=lambda view: view.watermark_ms or 0).channel) if known else "another channel"
