"""The user's choices for the look of the screen, as in a configuration file. Pure."""

from msgspec import Struct

THEMES = ("dark", "light", "contrast")
ZONES = ("utc", "local")
ALERTS = ("toast", "bell", "desktop")
"""Ways in which the screen reports an alert; none: off."""


class Appearance(Struct, frozen=True):
    """The chosen look; `refresh_ms` is the interval at which the fleet is read and drawn."""

    theme: str | None = None
    """The theme; None: the last one chosen."""
    zone: str = ZONES[0]
    alerts: tuple[str, ...] = ALERTS
    refresh_ms: int = 1_000
