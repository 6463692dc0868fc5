"""The app of the fleet: the table of all targets; returns the target to open, or None to quit."""

from collections.abc import Callable, Sequence
from os import environ
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App
from textual.binding import BindingType
from textual.screen import Screen

from . import preferences
from .bindings import bindings
from .present.appearance import THEMES as CHOICES
from .present.appearance import Appearance
from .present.fleet import FleetRow
from .present.keys import chosen_keys
from .screens.fleet import FleetScreen
from .screens.help import HelpScreen
from .themes import DARK, THEMES

_DENIED = frozenset({"save_svg", "record"})
"""Actions that work on a target only."""


def _remembered() -> str | None:
    theme = preferences.read(preferences.preferences_file()).theme
    return None if theme is None else theme.removeprefix("wmtop-")


class FleetApp(App[str]):
    """Shows what `rows` returns; `selected` is the target that the cursor begins on."""

    CSS_PATH = str(Path(__file__).with_name("wmtop.tcss"))
    TITLE = "wmtop"
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")

    def __init__(
        self, rows: Callable[[], Sequence[FleetRow]], appearance: Appearance, selected: str | None = None
    ) -> None:
        super().__init__(ansi_color=True if "NO_COLOR" in environ else None)
        for theme in THEMES:
            self.register_theme(theme)
        chosen = appearance.theme or _remembered()
        self.theme = f"wmtop-{chosen}" if chosen in CHOICES else DARK.name
        self.set_keymap(chosen_keys())
        self._fleet = FleetScreen(rows, appearance.refresh_ms / 1_000, selected)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return DARK.variables

    def get_default_screen(self) -> Screen[Any]:
        return self._fleet

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return False if action in _DENIED else super().check_action(action, parameters)

    def on_fleet_screen_opened(self, event: FleetScreen.Opened) -> None:
        self.exit(event.target)

    def action_show_help(self) -> None:
        """Open the keys of the fleet."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(place="Fleet", denied=_DENIED))

    def action_other_theme(self) -> None:
        """The next theme."""
        names = [theme.name for theme in THEMES]
        self.theme = names[(names.index(self.theme) + 1) % len(names)]

    def action_leave(self) -> None:
        """Quit."""
        self.exit(None)
