"""The app of the fleet: the table of all targets; returns the target to open, or None to quit."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from textual.app import SystemCommand
from textual.screen import Screen

from .giving import ExportActions
from .present import palette
from .present.appearance import Appearance
from .present.fleet import FleetRow
from .present.keys import chosen_keys
from .screens.fleet import FleetScreen
from .screens.help import HelpScreen

_DENIED = frozenset({"record", "export_incident"})
"""Actions that work on a target only."""


class FleetApp(ExportActions[str]):
    """Shows what `rows` returns; `selected` is the target that the cursor begins on."""

    _engine_name = "fleet"

    def __init__(
        self,
        rows: Callable[[], Sequence[FleetRow]],
        appearance: Appearance,
        selected: str | None = None,
        *,
        preferences_file: Path | None = None,
    ) -> None:
        super().__init__(preferences_file)
        if appearance.theme is not None:
            self.theme = f"wmtop-{appearance.theme}"
        self.set_keymap(chosen_keys())
        self._fleet = FleetScreen(rows, appearance.refresh_ms / 1_000, selected)

    def get_default_screen(self) -> Screen[Any]:
        return self._fleet

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        if screen is self._fleet:
            yield SystemCommand("Copy the name", "Of the selected target, to the clipboard", self.action_copy_name)
            yield SystemCommand("Copy the row", "The selected target's, to the clipboard", self.action_copy_row)
            yield SystemCommand(palette.SAVE_CSV, "The table of the targets, in this directory", self.action_save_csv)
            yield SystemCommand(palette.SAVE_JSON, "The same as JSON", self.action_save_json)
            yield SystemCommand("Sort the targets", "By the next column", self._fleet.action_sort)
            yield SystemCommand("Filter the targets", "By a regular expression", self._fleet.action_filter)
        yield SystemCommand(palette.THEME, "Dark, light or high contrast", self.action_other_theme)
        yield SystemCommand(palette.SAVE_SVG, "Save the screen as a picture in this directory", self.action_save_svg)
        yield SystemCommand(palette.HELP, "The keys", self.action_show_help)
        yield SystemCommand(palette.QUIT, "Leave wmtop", self.action_leave)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return False if action in _DENIED else super().check_action(action, parameters)

    def on_fleet_screen_opened(self, event: FleetScreen.Opened) -> None:
        self.exit(event.target)

    def action_show_help(self) -> None:
        """Open the keys of the fleet."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(place="Fleet", denied=_DENIED))

    def action_leave(self) -> None:
        """Quit."""
        self.exit(None)
