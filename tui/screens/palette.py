"""The command palette: what it offers on each screen, and the channels by name."""

from collections.abc import Iterator
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from textual.app import App, SystemCommand
from textual.command import Hit, Hits, Provider
from textual.screen import Screen

from ...engine.text.formatting import clean
from ..words import keys

if TYPE_CHECKING:  # imported by the first search: the first paint needs neither
    from .main import MainScreen
    from .target_screen import TargetScreen

_MAX_CHANNELS = 50
_WHOLE = 1_000.0
"""The score of a channel whose whole name was typed: above all commands that have the same letters."""
HERE = "in this directory"
EVERYWHERE = (
    (keys.THEME, "Dark, light or high contrast", "other_theme"),
    (keys.SAVE_SVG, f"Save the screen as a picture {HERE}", "save_svg"),
)
AT_THE_END = ((keys.QUIT, "Leave wmtop", "leave"),)


def target_commands(app: App[Any], screen: "TargetScreen | None") -> Iterator[SystemCommand]:
    """What the palette of a target's app offers; `screen` is the one on top, None while the engine starts."""
    if screen is not None:
        for title, about, action in screen.commands():
            yield SystemCommand(title, about, lambda action=action: app.call_later(screen.run_action, action))
    rows = (
        ("Copy the name", "Of the selected row, to the clipboard", "copy_name"),
        ("Copy the row", "The selected row, to the clipboard", "copy_row"),
        (keys.SAVE_CSV, "The table of this screen, here", "save_csv"),
        (keys.SAVE_JSON, "The same as JSON", "save_json"),
    )
    yield from commands(
        app,
        *EVERYWHERE,
        (keys.RECORD, f"Record what this screen sees, {HERE}", "record"),
        *(() if screen is None else rows),
        (keys.INCIDENT, f"Text, picture and the last minutes as a recording, {HERE}", "export_incident"),
        (keys.HELP, "The keys, and how to read the barrel", "show_help"),
        *AT_THE_END,
    )


def commands(app: App[Any], *offered: tuple[str, str, str]) -> Iterator[SystemCommand]:
    """The commands (title, help, action of the app) that the app does not deny."""
    for title, about, action in offered:
        if app.check_action(action, ()):
            yield SystemCommand(title, about, getattr(app, f"action_{action}"))


class ChannelCommands(Provider):
    """Offers the page of each channel whose name contains what was typed, also as `Channel NAME`."""

    async def search(self, query: str) -> Hits:
        main, wanted = self._main, query.casefold()
        if main is None or not wanted:
            return
        names = (view.channel for view in main.shown.snapshot.channels)
        parts = (wanted, wanted.removeprefix("channel "))  # as the label has it
        matching = [name for name in names if any(part in name.casefold() for part in parts)]
        matcher = self.matcher(query)
        for name in nsmallest(_MAX_CHANNELS, matching, key=len):  # the fewer other letters, the nearer
            label = f"Channel {clean(name)}"
            yield Hit(
                _WHOLE if name.casefold() in parts else matcher.match(label),
                label.replace("[", "\\["),
                lambda name=name: main.open_channel(name),
                text=label,
                help="Its page",
            )

    @property
    def _main(self) -> "MainScreen | None":
        """The main screen that the palette was opened over, or below that screen."""
        from .main import MainScreen
        from .target_screen import TargetScreen

        stack: list[Screen[Any]] = self.app.screen_stack  # pyright: ignore[reportUnknownMemberType]
        over = isinstance(self.screen, TargetScreen)
        return next((screen for screen in stack if over and isinstance(screen, MainScreen)), None)
