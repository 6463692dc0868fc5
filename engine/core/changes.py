"""Changes of settings while running: which are possible, and what each one did."""

from msgspec import UnsetType
from msgspec.structs import replace

from .settings import Settings, SettingsChange

MOST_CHANGES = 50
"""Changes kept, at most."""


def changed(settings: Settings, change: SettingsChange) -> Settings:
    """The settings with `change` applied; ValueError if the strategy has no such setting or the value is out of
    range.
    """
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
    return settings


def noted(changes: list[SettingsChange], change: SettingsChange, now_ms: int | None) -> list[SettingsChange]:
    """The latest changes, with `change` added at processing time `now_ms`."""
    return [*changes, replace(change, now_ms=now_ms)][-MOST_CHANGES:]


def emitted(changes: list[SettingsChange], now: int, moved_ms: int | None) -> list[SettingsChange]:
    """The changes after an emit at `now` that moved the watermark by `moved_ms` (None: there was no watermark
    before).
    """
    return [
        change if change.emitted_ms is not None else replace(change, emitted_ms=now, moved_ms=moved_ms)
        for change in changes
    ]
