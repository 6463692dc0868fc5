"""The choices that a person has for how the screen looks; what a configuration file names. Pure."""

from msgspec import Struct

THEMES = ("dark", "light", "contrast")
ZONES = ("utc", "local")
ALERTS = ("toast", "bell", "desktop")
"""Ways in which the screen reports an alert; none: off."""


class Appearance(Struct, frozen=True):
    """What is chosen; `refresh_ms` is how often the fleet is read and drawn."""

    theme: str | None = None
    """None: the one that was chosen last."""
    zone: str = ZONES[0]
    alerts: tuple[str, ...] = ALERTS
    refresh_ms: int = 1_000
