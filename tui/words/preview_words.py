"""Previewed and applied settings in words, and the texts around the curve of the lateness screen. Pure."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...engine.snapshot import SettingsChange, Snapshot, WhatIfIdle
from ...engine.text import formatting as f
from ...engine.text.formatting import horizon_name, horizon_words, name
from ...engine.verdict.preview import AppliedNow, ProposedSetting
from ...engine.watermarks.lateness import HOUR
from . import preview as what_if
from .lists import DID_NOT_MOVE, NO_RECORD, NONE_IN_THIS_TIME, OF_ITS_RECORDS, SAME_TIME, SHARE_UNKNOWN
from .preview import DEVIATIONS, TARGETS, Curve, LatenessPreview, Preview, Range, evidence, late_at, moments, recent_of
from .spans import Part, Span, part


def preview_title(preview: Preview) -> str:
    """The meaning of a preview's picture."""
    if isinstance(preview, LatenessPreview):
        return f"with lateness {f.setting(preview.lateness_ms)} from the start"
    return f"with idle timeout {f.setting(preview.idle_after_ms)} from the start"


def share_range(preview: LatenessPreview) -> str | None:
    """The previewed late share: exact, a range between two edges, `≤` where it is an upper bound."""
    if preview.share is None:
        return None
    text = f.span(f.share(preview.share.low), f.share(preview.share.high))
    return "≤ " + f.share(preview.share.high) if preview.upper_bound else text


def changes_delay(preview: LatenessPreview) -> bool:
    """Whether the result delay would change, as far as known."""
    change = preview.delay_change_ms
    return change is not None and not _same(change)


def delay_change(preview: LatenessPreview) -> str | None:
    """How much later results would come: `15m later`, `2m–5m sooner`, `at the same time`."""
    change = preview.delay_change_ms
    if change is None:
        return None
    if _same(change):
        return SAME_TIME
    if change.low < 0 < change.high:
        return f"{f.duration(-change.low)} sooner to {f.duration(change.high)} later"
    low, high = sorted((abs(change.low), abs(change.high)))
    return f"{f.span(f.duration(low), f.duration(high))} {'later' if change.high > 0 else 'sooner'}"


def _same(change: Range) -> bool:
    return round(change.low) == 0 == round(change.high)


def now_parts(snapshot: Snapshot, now: AppliedNow | None, *, can_apply: bool) -> list[Part]:
    """The effect of Enter at the next emit: how far the watermark advances, which channel then holds it back, how many
    windows fire.

    For an attached job (not `can_apply`), the effect of a restart with the setting.
    """
    head = part((" now: " if can_apply else " after a restart: ", "dim"))
    if now is None:
        return [head, part((f.ELSEWHERE, "preview"), gap="")]
    level, reached = snapshot.level.watermark_ms, now.watermark_ms
    moved = 0 if level is None or reached is None else reached - level
    parts = [head, part((f.signed(moved) if moved else "the watermark does not move", "preview"), gap="")]
    if now.frozen_ms:
        parts.append(part((f"frozen for {f.duration(now.frozen_ms)} of event time", "stale"), rank=1, gap=", "))
    if now.holder is not None:
        parts.append(part((f"{'then ' * bool(moved)}held back by {name(now.holder)}", "preview"), rank=2, gap=", "))
    fires = f"{now.fires:,}{'+' * now.fires_more} window{'s' * (now.fires != 1)} fire{'s' * (now.fires == 1)}"
    parts.append(part((fires if now.fires else "no window fires", "preview"), rank=3, gap=", "))
    return parts


def no_change_parts() -> list[Part]:
    """What Enter does once the engine is gone."""
    return [part((" now: ", "dim")), part(("nothing can be applied, the engine does not run", "stale"), gap="")]


def from_start_parts(snapshot: Snapshot, preview: Preview) -> list[Part]:
    """The effect of the setting, had it been in force from the start."""
    parts = [part((" from the start: ", "dim"))]
    level = snapshot.level.watermark_ms
    moved = None if preview.level_ms is None or level is None else preview.level_ms - level
    parts.append(part((f.UNKNOWN if moved is None else f.signed(moved), "preview"), gap=""))
    if isinstance(preview, LatenessPreview):
        share = share_range(preview)
        parts.append(part((f"{share} late" if share else SHARE_UNKNOWN, "preview"), gap=", "))
        if (recent := _recent_share(snapshot, preview)) is not None:
            parts.append(part((f" ({recent})", "preview"), rank=1, gap=""))
        if (delay := delay_change(preview)) is not None:
            parts.append(part((f"results {delay}", "preview"), rank=1, gap=", "))
        return parts
    share = ("≈ " if preview.about else "") + f.share(preview.share)
    parts.append(part((f"{share} late", "preview"), gap=", "))
    if preview.holder is not None:
        parts.append(part((f"held back by {name(preview.holder)}", "preview"), rank=1, gap=", "))
    if preview.flaps is not None:
        parts.append(part((f.counted(preview.flaps, "idle change"), "preview"), rank=2, gap=", "))
    return parts


def _recent_share(snapshot: Snapshot, preview: LatenessPreview) -> str | None:
    """The late share of the last hour, if that is not the whole run: `1h: 0.4 %`."""
    recent = recent_of(snapshot, HOUR)
    if recent is None or not recent.records or recent.records == snapshot.totals.records:
        return None
    late = late_at(recent.rows, preview.lateness_ms)
    if late is None:
        return None
    low, high = f.share(late.low / recent.records), f.share(late.high / recent.records)
    return f"{horizon_name(HOUR)}: {'≤ ' + high if preview.upper_bound else f.span(low, high)}"


def applied_parts(words: str, moved_ms: int | None, *, undoes: bool = False) -> list[Part]:
    """The effect of a setting that was applied (`undoes`: by undoing another), and how to undo it."""
    moved = "" if moved_ms is None else f": {f.signed(moved_ms)}" if moved_ms else f": {DID_NOT_MOVE}"
    head, key = (" undone, back to ", " redoes") if undoes else (" applied ", " undoes")
    return [part((head, "dim"), (words, "strong"), (moved, "preview")), part(("u", "key"), (key, "dim"), gap=" · ")]


SHOWN_MS = 120_000
"""How long (ms of wall clock) it is shown."""


class Applied(Struct, frozen=True):
    """A change sent to the engine; it is shown from the first snapshot after the emit that applied it."""

    proposed: ProposedSetting
    before: ProposedSetting
    version: int
    """The version of the settings in force when it was sent."""
    moved_ms: int | None = None
    """How far the watermark advanced at the emit that applied it; None: there was no watermark before."""
    undoes: bool = False
    """The change takes back the one before."""
    since_ms: int | None = None
    """When (wall clock, epoch ms) that snapshot was taken."""

    def in_force(self, snapshot: Snapshot) -> bool:
        """Whether the engine has the setting now."""
        settings = snapshot.settings
        return self.proposed.value_ms == (settings.idle_after_ms if self.proposed.idle else settings.lateness_ms)

    def seen(self, snapshot: Snapshot) -> "Applied":
        """The change with its effect, once a snapshot has it."""
        if self.since_ms is not None or not self.in_force(snapshot):
            return self
        made = next((change for change in reversed(snapshot.own.changes) if self._is(change)), None)
        if made is None or made.emitted_ms is None:
            return self
        return replace(self, moved_ms=made.moved_ms, since_ms=snapshot.wall_ms)

    def _is(self, change: SettingsChange) -> bool:
        value = change.idle_after_ms if self.proposed.idle else change.lateness_ms
        return change.version > self.version and value == self.proposed.value_ms

    def parts(self, snapshot: Snapshot) -> Sequence[Part]:
        """Its effect, for a line, as long as it is recent; else nothing."""
        if self.since_ms is None or not self.in_force(snapshot) or snapshot.wall_ms is None:
            return ()
        recent = snapshot.wall_ms - self.since_ms < SHOWN_MS
        return applied_parts(self.proposed.words(), self.moved_ms, undoes=self.undoes) if recent else ()


def targets_line(snapshot: Snapshot, curve: Curve, best: Sequence[int | None]) -> list[Part]:
    """The recommended latenesses, and the effect of each on the results."""
    parts = [part((" recommended for ", "dim"))]
    what = " on time" if not curve.of_part else " not behind"
    for place, (text, value) in enumerate(zip(TARGETS, best, strict=True)):
        ending = what if not place else ""
        spans: list[Span] = [(f"{text} %{ending} ", "dim"), ("none" if value is None else f.setting(value), "good")]
        parts.append(part(*spans, gap="   " if place else ""))
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
        share = share_range(preview) if curve.horizon_ms is None else _recent_share_words(curve, cursor)
        parts.append(part((share or f.UNKNOWN, "stale"), (" late", "text"), gap=""))
    parts.append(part((of_which, "dim"), rank=2, gap=""))
    delay = curve.delays[cursor]
    if (change := delay_change(preview)) is not None:
        parts.append(part((f"results {change}", "level"), gap=", "))
    if delay is not None:
        parts.append(part((f"{f.duration(delay)} after their window's end", "text"), rank=3, gap=", "))
    return parts


def _recent_share_words(curve: Curve, cursor: int) -> str:
    return ("≤ " if curve.upper_bound else "") + f.share(curve.shares[cursor])


def timeout_words(snapshot: Snapshot, row: WhatIfIdle, horizon_ms: int | None) -> list[Span]:
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
    spans: list[Span] = [("Had the idle timeout been ", "text"), (f.setting(row.idle_after_ms), "strong")]
    spans.append((" from the start, ", "text"))
    now = snapshot.level.watermark_ms
    if row.watermark_ms is None or now is None:
        spans.append(("there would be no watermark yet", "text"))
    elif row.watermark_ms == now:
        spans.append(("the watermark would be the same", "text"))
    else:
        ahead = "ahead of" if row.watermark_ms > now else "behind"
        spans.append(
            (f"the watermark would be {f.duration(abs(row.watermark_ms - now))} {ahead} the present one", "text")
        )
    late = f"{f.count(row.late)} records late" + (f" (± {f.count(row.late_error)})" if row.late_error else "")
    current = next((r.flaps for r in snapshot.whatif_idle or [] if r.idle_after_ms == settings.idle_after_ms), None)
    instead = "" if current is None else f" instead of {current:,}"
    return [*spans, (f", {held}, with {_changes(row.flaps)}{instead}, and {late}.", "text")]


def _changes(flaps: int) -> str:
    return f"{f.counted(flaps, 'change')} between active and idle"
