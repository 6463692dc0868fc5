"""The texts below and above the curve of the lateness screen, and for an idle timeout. Pure."""

from collections.abc import Sequence

from ...engine.core.snapshot import Snapshot, WhatIfIdle
from . import formatting as f
from . import preview as what_if
from .lateness_curve import DEVIATIONS, TARGETS, Curve, evidence, horizon_words, moments
from .line import Part, Run, part
from .preview_words import changes_delay, delay_change, share_range
from .screen_words import NO_RECORD, NONE_IN_THIS_TIME, OF_ITS_RECORDS
from .wording import name


def targets_line(snapshot: Snapshot, curve: Curve, best: Sequence[int | None]) -> list[Part]:
    """The recommended latenesses, and the effect of each on the results."""
    parts = [part((" recommended for ", "dim"))]
    what = " on time" if not curve.of_part else " not behind"
    for place, (text, value) in enumerate(zip(TARGETS, best, strict=True)):
        ending = what if not place else ""
        runs: list[Run] = [(f"{text} %{ending} ", "dim"), ("none" if value is None else f.setting(value), "good")]
        parts.append(part(*runs, gap="   " if place else ""))
        if value is not None and not curve.of_part:
            parts += _few(curve, value)
        preview = None if value is None else what_if.lateness(snapshot, value)
        if preview is not None and changes_delay(preview) and curve.horizon_ms is None:
            parts.append(part((f" ({delay_change(preview)})", "dim"), rank=3, gap=""))
    if curve.upper_bound:
        bucket = snapshot.whatif_bucket_ms
        why = "session windows" if bucket is None else f"counted in buckets of {f.setting(bucket)}"
        parts.append(part((f"≤: upper bounds ({why})", "dim"), rank=2))
    return parts


def _few(curve: Curve, lateness_ms: int) -> list[Part]:
    """The number of late records behind a recommendation, if it is too small."""
    late, few, (low, high) = evidence(curve, lateness_ms)
    if not few:
        return []
    return [
        part((" few", "stale"), gap=""),
        part((f": {late} late", "stale"), rank=1, gap=""),
        part((f", {_interval(low, high)}", "dim"), rank=3, gap=""),
    ]


def _interval(low: float | None, high: float | None) -> str:
    return f.span(f.share(low), f.share(high))


def moments_line(curve: Curve) -> list[Part]:
    """Mean and deviation, and what a normal distribution would say."""
    known = moments(curve)
    if known is None:
        none = NO_RECORD if curve.horizon_ms is None else NONE_IN_THIS_TIME
        return [part((f" {none}", "dim"))]
    mean, deviation = known
    normal = ", ".join(f.duration(mean + times * deviation) for times in DEVIATIONS)
    on_time = f.share_of(curve.on_time, curve.records)
    return [
        part((" mean ", "dim"), (f"≈ {f.duration(mean)}", "text"), (", deviation ", "dim")),
        part((f"≈ {f.duration(deviation)}", "text"), gap=""),
        part(("if normally distributed: ", "dim"), (normal, "text"), rank=1),
        part((on_time, "text"), (" not behind at all", "dim"), rank=2),
    ]


def reading_line(snapshot: Snapshot, curve: Curve, cursor: int) -> list[Part]:
    """The curve's values at the cursor."""
    edge, late = curve.edges[cursor], curve.late[cursor]
    parts = [part((f" │ at {f.setting(edge)} ", "accent"))]
    preview = what_if.lateness(snapshot, edge)
    of_which = f" ({f.count(late)} of {f.count(curve.records)}"
    if not curve.of_part and curve.records:
        _, _, (low, high) = evidence(curve, edge)
        of_which += f"; 95 %: {_interval(low, high)}"
    of_which += ")"
    if curve.of_part:
        share = f.share(curve.shares[cursor])
        parts.append(part((share, "stale"), (f" {OF_ITS_RECORDS}", "text"), gap=""))
    else:
        share = share_range(preview) if curve.horizon_ms is None else _recent_share(curve, cursor)
        parts.append(part((share or f.UNKNOWN, "stale"), (" late", "text"), gap=""))
    parts.append(part((of_which, "dim"), rank=2, gap=""))
    delay = curve.delays[cursor]
    if (change := delay_change(preview)) is not None:
        parts.append(part((f"results {change}", "level"), gap=", "))
    if delay is not None:
        parts.append(part((f"{f.duration(delay)} after their window's end", "text"), rank=3, gap=", "))
    return parts


def _recent_share(curve: Curve, cursor: int) -> str:
    return ("≤ " if curve.upper_bound else "") + f.share(curve.shares[cursor])


def timeout_words(snapshot: Snapshot, row: WhatIfIdle, horizon_ms: int | None) -> list[Run]:
    """The effect of another timeout, in a sentence."""
    if horizon_ms is not None:
        return [
            (f"Not known for the {horizon_words(horizon_ms)}: ", "strong"),
            ("late records and changes of an idle timeout are counted since the start only (H shows them).", "text"),
        ]
    settings = snapshot.settings
    held = "no channel holds it back" if row.holder is None else f"held back by {name(row.holder)}"
    if row.idle_after_ms == settings.idle_after_ms:
        return [(f"This is the idle timeout in force: watermark {held}, {_changes(row.flaps)} so far.", "text")]
    runs: list[Run] = [("Had the idle timeout been ", "text"), (f.setting(row.idle_after_ms), "strong")]
    runs.append((" from the start, ", "text"))
    now = snapshot.level.watermark_ms
    if row.watermark_ms is None or now is None:
        runs.append(("there would be no watermark yet", "text"))
    elif row.watermark_ms == now:
        runs.append(("the watermark would be the same", "text"))
    else:
        ahead = "ahead of" if row.watermark_ms > now else "behind"
        runs.append(
            (f"the watermark would be {f.duration(abs(row.watermark_ms - now))} {ahead} the present one", "text")
        )
    late = f"{f.count(row.late)} records late" + (f" (± {f.count(row.late_error)})" if row.late_error else "")
    current = next((r.flaps for r in snapshot.whatif_idle or [] if r.idle_after_ms == settings.idle_after_ms), None)
    instead = "" if current is None else f" instead of {current:,}"
    return [*runs, (f", {held}, with {_changes(row.flaps)}{instead}, and {late}.", "text")]


def _changes(flaps: int) -> str:
    return f"{f.counted(flaps, 'change')} between active and idle"
