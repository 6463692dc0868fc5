"""What the main screen says of a query that others run: what is seen of it, and what is not known from here. Pure."""

from datetime import tzinfo

from ..engine.core.snapshot import BarrelRule, Snapshot, SourcePosition, WhatIf
from . import formatting as f
from .preview import IdlePreview, LatenessPreview, Preview, late_at
from .widgets.line import Part, Run, part

ONE_CLOCK = "one clock for the whole query"
HOW_TO_SEE = "add one line to the job to see its channels"
THE_LINE = 'events = tap(events, "…", channel="…")'
"""As `wmtop.engine` has it; before `withWatermark`, once an input."""
_IN_FLIGHT_MS = 2_000
"""A batch that runs for less is nothing to tell."""


def standing(snapshot: Snapshot) -> tuple[str, str | None]:
    """The word for a query that is not simply live, and what there is to say of it."""
    note = f.clean(snapshot.notes[0]) if snapshot.notes else None
    begun = snapshot.spark.batch_timestamp_ms
    if snapshot.state != "stale" or begun is None or snapshot.now_ms is None:
        return snapshot.state.upper(), note
    return f"STALE {f.duration(max(snapshot.now_ms - begun, 0))}", note


def in_flight(snapshot: Snapshot) -> str | None:
    """How long the last batch has been running, where that is worth a word."""
    begun = snapshot.spark.batch_timestamp_ms
    if not snapshot.spark.in_flight or begun is None or snapshot.now_ms is None:
        return None
    age_ms = snapshot.now_ms - begun
    return None if age_ms < _IN_FLIGHT_MS else f"in flight {f.duration(age_ms)}"


def moved(snapshot: Snapshot) -> str | None:
    """How long ago the level moved."""
    since = snapshot.level.since_ms
    if since is None or snapshot.now_ms is None:
        return None
    age_ms = snapshot.now_ms - since
    return "just now" if age_ms < f.SECOND else f"{f.duration(age_ms)} ago"


def tuning_parts(snapshot: Snapshot, preview: Preview | None, windows: str) -> list[Part]:
    """The settings as far as they are known, what is unread, and what the preview says."""
    settings = snapshot.settings
    spark = settings.strategy == "spark"
    delay = f.UNKNOWN if settings.lateness_ms is None else f.setting(settings.lateness_ms)
    lateness: list[Run] = [(" delay " if spark else " lateness ", "dim"), (delay, "strong")]
    if isinstance(preview, LatenessPreview):
        lateness.append((f" ▸ {f.setting(preview.lateness_ms)}?", "preview"))
    parts = [part(*lateness)]
    if spark and settings.lateness_ms is None:
        parts.append(part((f.ELSEWHERE, "dim"), rank=5, gap=" "))
    elif spark and preview is None and "first started" in (snapshot.origin or {}).get("lateness", ""):
        parts.append(part(("as first started", "dim"), rank=6, gap=" "))
    if spark:
        parts.append(part(("window ", "dim"), (windows, "strong"), rank=4))
    else:
        parts.append(part(("assumed here", "dim"), rank=6, gap=" "))
        parts.append(part(("idle after ", "dim"), (f.setting(settings.idle_after_ms), "strong"), rank=4))
    parts += _unread(snapshot)
    if preview is None:
        late = snapshot.spark.dropped_at_least
        told = f.ELSEWHERE if late is None else f"≥ {f.count(late)}"
        parts.append(part(("late ", "dim"), (told, "dim" if late is None else "strong"), rank=2))
        return parts + _costs(snapshot)
    return [*parts, *_outlook(snapshot, preview)]


def barrel_text(snapshot: Snapshot) -> str:
    """What the barrel says where it has no stave, its most important line first."""
    level = snapshot.level
    if snapshot.settings.strategy != "spark":
        return "no partition has had a record"
    if level.watermark_ms is None:
        return f"{ONE_CLOCK}\nit has no watermark, or it has not moved yet"
    told = [] if (ago := moved(snapshot)) is None else [f"the level moved {ago}"]
    if level.behind_clock_ms is not None:
        told.append(f"{f.duration(level.behind_clock_ms)} behind the clock")
    return f"{ONE_CLOCK}; {HOW_TO_SEE}\n{' · '.join(told)}"


def barrel_parts(barrel: BarrelRule, *, level_ms: int | None, zone: tzinfo | None) -> list[Part]:
    """What the slowest channel would give instead of Spark's one clock, and who loses rows to that clock."""
    parts: list[Part] = []
    if barrel.holder is None:
        parts.append(part((" the slowest channel's level is ", "dim"), (f.ELSEWHERE, "dim")))
    elif barrel.watermark_ms is None:
        parts.append(part((" by the slowest channel: no level, ", "dim"), (f.label(barrel.holder, 24), "holder")))
        parts.append(part(("never seen", "text"), gap=" "))
    else:
        time = f.clock(barrel.watermark_ms, zone, level_ms)
        apart = max((level_ms or barrel.watermark_ms) - barrel.watermark_ms, 0)
        parts.append(part((" by the slowest channel ", "dim"), (f.label(barrel.holder, 24), "holder"), gap=""))
        parts.append(part((time, "held"), gap=" "))
        parts.append(part((f"{f.duration(apart)} lower", "strong"), rank=2, gap=", "))
    if barrel.below:
        many = len(barrel.below)
        text = f"{f.count(many)} channel{'s' * (many != 1)} under Spark's level"
        parts.append(part((text, "bad"), gap=" · "))
        parts.append(part(("all late", "bad"), rank=1, gap=": "))
    else:
        parts.append(part(("no channel under Spark's level", "good"), rank=1, gap=" · "))
    return parts


def restart_words(snapshot: Snapshot, delay_ms: int | None) -> str:
    """What a query of Spark does once it is started again with another delay, as a line of its own."""
    now_ms = snapshot.settings.lateness_ms
    if snapshot.settings.strategy != "spark" or now_ms is None or delay_ms is None or delay_ms == now_ms:
        return ""
    apart = f.duration(abs(delay_ms - now_ms))
    if delay_ms < now_ms:
        return f"\nat the restart its level jumps {apart} ahead"
    return f"\nafter the restart its level stands still, and rows are dropped, for {apart} of event time"


def channels_text(snapshot: Snapshot) -> str:
    """What the channel table says where it has no channel."""
    lines = [f"{f.ELSEWHERE}: a line before withWatermark shows them", f"  {THE_LINE}"]
    nodes = snapshot.spark.nodes or []
    if len(nodes) > 1:
        policy = f", the {snapshot.spark.policy} of them counts" if snapshot.spark.policy else ""
        lines.append(f"{len(nodes)} watermarks{policy}")
        lines += [f"  {f.label(n.column or 'window', 20)} delay {_setting(n.delay_ms)}" for n in nodes]
    return "\n".join([*lines, *map(position, snapshot.sources or [])])


def windows_text(snapshot: Snapshot) -> str:
    """What the window table says where it has no window."""
    windows = snapshot.windows
    if windows.open_count is not None:
        return "no window is open"
    return f.ELSEWHERE if windows.unknown is None else f"{f.ELSEWHERE}: {f.clean(windows.unknown)}"


def _setting(ms: int | None) -> str:
    return f.UNKNOWN if ms is None else f.setting(ms)


def position(source: SourcePosition) -> str:
    """A source, where it stands and what it has not read, in a line."""
    at = source.offsets
    if isinstance(at, dict):
        at = f.count(sum(at.values()))
    elif at is not None:
        at = f.count(at) if isinstance(at, int) else f.clean(at)
    unread = "" if source.backlog is None else f", {f.count(source.backlog)} unread"
    return f"{f.clean(source.description)}{'' if at is None else f' at {at}'}{unread}"


def _unread(snapshot: Snapshot) -> list[Part]:
    known = [source.backlog for source in snapshot.sources or [] if source.backlog is not None]
    return [part(("unread ", "dim"), (f.count(sum(known)), "strong"), rank=3)] if known else []


def _outlook(snapshot: Snapshot, preview: Preview) -> list[Part]:
    now = snapshot.level.watermark_ms
    parts: list[Part] = []
    if preview.level_ms is not None and now is not None:
        parts.append(part((f"▸ level {f.signed(preview.level_ms - now)}", "preview"), gap="  "))
    if isinstance(preview, IdlePreview):
        return parts
    if preview.share is None:
        return [*parts, part(("late share not known from here", "dim"), rank=1, gap=", " if parts else "   ")]
    parts.append(part((f"≤ {f.share(preview.share.high)} late", "preview"), gap=", " if parts else "  ▸ "))
    by_barrel = _share(snapshot, snapshot.barrel.whatif if snapshot.barrel else None, preview.lateness_ms)
    if by_barrel is not None:
        parts.append(part((f"≤ {by_barrel} by the slowest channel", "preview"), rank=1, gap=", "))
    now_ms = snapshot.settings.lateness_ms
    if now_ms is not None and preview.lateness_ms > now_ms:
        longer = f.duration(preview.lateness_ms - now_ms)
        parts.append(part((f"stands still for {longer} of event time after the restart", "dim"), rank=3, gap=" · "))
    return parts


def _costs(snapshot: Snapshot) -> list[Part]:
    """The late share by either rule at the delay in force, as far as the taps counted it."""
    delay = snapshot.settings.lateness_ms
    spark = _share(snapshot, snapshot.whatif, delay)
    barrel = _share(snapshot, snapshot.barrel.whatif if snapshot.barrel else None, delay)
    if spark is None:
        return []
    rules: list[Run] = [("≤ ", "dim"), (spark, "strong")]
    if barrel is not None:
        rules += [(" by Spark's clock, ≤ ", "dim"), (barrel, "strong"), (" by the slowest channel's", "dim")]
    bucket = snapshot.whatif_bucket_ms
    counted = [] if bucket is None else [part((f"counted in {f.setting(bucket)}", "dim"), rank=7, gap=", ")]
    return [part(*rules, rank=3, gap=" · "), *counted]


def _share(snapshot: Snapshot, rows: list[WhatIf] | None, delay_ms: int | None) -> str | None:
    """The greatest share that may be late at a delay."""
    if not rows or delay_ms is None:
        return None
    found = late_at(rows, delay_ms)
    return None if found is None else f.share_of(int(found.high), snapshot.totals.records)
