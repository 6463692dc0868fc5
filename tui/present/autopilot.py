"""The autopilot of the lateness in words: what it keeps, when it evaluates next, and what it did last. Pure."""

from collections.abc import Sequence
from datetime import tzinfo

from ...engine.core.judgement.autopilot import AUTO, LEAST_RECORDS
from ...engine.core.snapshot import AutoView, SettingsChange, Snapshot
from . import formatting as f
from .lateness_curve import horizon_words, recent_of
from .line import Part, Run, part
from .preview import untunable
from .screen_words import BY_HAND
from .target import target_of

DEFAULT_TARGET = 0.999
"""The target share with which the key switches it on, unless the run had another one."""


def auto_refusal(snapshot: Snapshot) -> str | None:
    """Why it cannot be switched from here, in one line; None: it can."""
    if target_of(snapshot).is_attached:
        return "no autopilot: the lateness of an attached query is set in its job"
    if not snapshot.settings.tunable:
        return untunable(snapshot.settings.strategy)
    return "no autopilot: the stream has ended" if snapshot.ended else None


def next_target(snapshot: Snapshot) -> float | None:
    """The next state of the key: off (None), or on with the last share in force."""
    if snapshot.auto is not None:
        return None
    had = [change.auto_lateness for change in snapshot.changes if isinstance(change.auto_lateness, float)]
    return had[-1] if had else DEFAULT_TARGET


def target_words(target: float | None) -> str:
    """`autopilot 99.9 %`, `autopilot off`."""
    return "autopilot off" if target is None else f"autopilot {percent(target)}"


def percent(target: float) -> str:
    """`99.9 %`: a target as given."""
    return f"{100 * target:.10g} %"


def auto_mark(snapshot: Snapshot) -> list[Run]:
    """The mark after the lateness in force on the main screen; nothing while the autopilot is off."""
    auto = snapshot.auto
    if auto is None:
        return []
    return [(f" auto {percent(auto.target)}", "good"), *([(" suspended", "stale")] if _suspended(auto) else [])]


def auto_parts(snapshot: Snapshot, zone: tzinfo | None) -> list[Part]:
    """Its whole state, as a line."""
    auto = snapshot.auto
    why = auto_refusal(snapshot)
    if auto is None or why is not None:
        return [part((f" {why or 'autopilot off: the lateness changes only by hand'}", "dim")), *_last_change(snapshot)]
    parts = [
        part((" autopilot keeps ", "dim"), (percent(auto.target), "good"), (" on time", "dim")),
        part((f" ({horizon_words(auto.horizon_ms)})", "dim"), rank=3, gap=""),
    ]
    if auto.suspended_until_ms is not None:
        until = f.near(auto.suspended_until_ms, zone, snapshot.now_ms).partition(".")[0]
        parts.append(part(("suspended until ", "stale"), (until, "strong"), (f" {BY_HAND}", "dim")))
    elif (recent := recent_of(snapshot, auto.horizon_ms)) is not None and recent.records < LEAST_RECORDS:
        parts.append(part((f"waits: {recent.records:,} of {LEAST_RECORDS:,} records", "stale")))
    elif auto.next_ms is not None:
        parts.append(part(("next evaluation ", "dim"), (_next(snapshot, auto.next_ms), "text"), rank=1))
    return [*parts, *_last_change(snapshot)]


def change_words(change: SettingsChange) -> str:
    """The changed settings: `lateness 45m (0.08 % late)`, `idle timeout off`, `autopilot 99.9 %`."""
    words: list[str] = []
    if isinstance(change.lateness_ms, int):
        rests_on = "" if change.share is None else f" ({f.share(change.share)} late)"
        words.append(f"lateness {f.setting(change.lateness_ms)}{rests_on}")
    if change.idle_after_ms is None or isinstance(change.idle_after_ms, int):
        words.append(f"idle timeout {f.setting(change.idle_after_ms)}")
    if change.auto_lateness is None or isinstance(change.auto_lateness, float):
        words.append(target_words(change.auto_lateness))
    return ", ".join(words)


def _last_change(snapshot: Snapshot) -> Sequence[Part]:
    last = next((change for change in reversed(snapshot.changes) if change.who == AUTO), None)
    if last is None:
        return () if snapshot.auto is None else [part(("it has changed nothing yet", "dim"), rank=2)]
    ago = "" if last.now_ms is None or snapshot.now_ms is None else f" {f.duration(snapshot.now_ms - last.now_ms)} ago"
    return [part(("last change", "dim"), (f"{ago}: ", "dim"), (change_words(last), "text"), rank=2)]


def _suspended(auto: AutoView) -> bool:
    return auto.suspended_until_ms is not None


def _next(snapshot: Snapshot, next_ms: int) -> str:
    now = snapshot.now_ms
    return "at the next emit" if now is None or next_ms <= now else f"in {f.duration(next_ms - now)}"
