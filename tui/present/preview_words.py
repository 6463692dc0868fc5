"""The effect of a previewed setting, in words. Pure."""

from ...engine.core.judgement.applied_now import AppliedNow
from ...engine.core.lateness import HOUR
from ...engine.core.snapshot import Snapshot
from . import formatting as f
from .lateness_curve import horizon_name, recent_of
from .line import Part, part
from .preview import LatenessPreview, Preview, Range, late_at
from .screen_words import DID_NOT_MOVE, SAME_TIME, SHARE_UNKNOWN
from .wording import name


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
