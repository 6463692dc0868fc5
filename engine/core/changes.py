"""Changes of settings while running: which are possible, and what became of them."""

from msgspec import UnsetType
from msgspec.structs import replace

from .judgement.autopilot import with_target
from .settings import Settings
from .snapshot import SettingsChange

MOST_CHANGES = 50
"""How many are kept."""


def changed(settings: Settings, change: SettingsChange) -> Settings:
    """The settings with that change; ValueError where the strategy has no such setting or the value is not possible."""
    lateness_ms, idle_after_ms = change.lateness_ms, change.idle_after_ms
    if any(isinstance(value, int) and value < 0 for value in (lateness_ms, idle_after_ms)):
        raise ValueError("a duration cannot be negative")
    if idle_after_ms == 0:
        raise ValueError("an idle timeout must be longer than 0; 'off' means no idle timeout")
    if isinstance(lateness_ms, int):
        if not settings.tunable:
            raise ValueError(f"the strategy '{settings.strategy}' has no lateness")
        settings = replace(settings, lateness_ms=lateness_ms)
    if not isinstance(idle_after_ms, UnsetType):
        if settings.strategy == "spark":
            raise ValueError("Spark's clock has no idle timeout")
        settings = replace(settings, idle_after_ms=idle_after_ms)
    if not isinstance(change.auto_lateness, UnsetType):
        settings = with_target(settings, change.auto_lateness)
    return settings


def noted(changes: list[SettingsChange], change: SettingsChange, now_ms: int | None) -> list[SettingsChange]:
    """The latest changes with one more, made at that processing time."""
    return [*changes, replace(change, now_ms=now_ms)][-MOST_CHANGES:]


def emitted(changes: list[SettingsChange], now: int, moved_ms: int | None) -> list[SettingsChange]:
    """The changes after an emit at `now` that moved the watermark so far (ms; None: there was none before)."""
    return [
        change if change.emitted_ms is not None else replace(change, emitted_ms=now, moved_ms=moved_ms)
        for change in changes
    ]
