"""What the app of a target and the app of the fleet share: the theme, and the cover of a terminal that is too small."""

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar, TypeVar

from textual.app import App
from textual.binding import BindingType
from textual.events import Resize

from . import preferences
from .bindings import bindings
from .present.top import Top
from .screens.too_small import TooSmallScreen, too_small
from .themes import DARK, THEMES

Result = TypeVar("Result")
_LOOK_FOR_TERMINAL_S = 1.0


class BaseApp(App[Result]):
    """`preferences_file` is where the theme is remembered; None: it is not."""

    CSS_PATH = str(Path(__file__).with_name("wmtop.tcss"))
    TITLE = "wmtop"
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")

    def __init__(self, preferences_file: Path | None) -> None:
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self._preferences = preferences_file
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = self._remembered_theme()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return DARK.variables

    def action_other_theme(self) -> None:
        """Switch between dark, light and high contrast; the choice is saved."""
        names = [theme.name for theme in THEMES]
        here = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(here + 1) % len(names)]
        if self._preferences is not None:
            preferences.write(self._preferences, preferences.Preferences(theme=self.theme))

    def _remembered_theme(self) -> str:
        known = {theme.name for theme in THEMES}
        wanted = None if self._preferences is None else preferences.read(self._preferences).theme
        return wanted if wanted in known else DARK.name

    @property
    def _most_important(self) -> Top | None:
        """The lines that also a terminal that is too small shows."""
        return None

    def on_load(self) -> None:
        if not self.is_headless and _has_terminal():
            threading.Thread(target=_end_with_terminal, name="wmtop-terminal", daemon=True).start()

    def on_resize(self, event: Resize) -> None:
        self.call_later(self._fit)

    def _fit(self) -> None:
        """Cover the screen while the terminal is too small."""
        if not self.screen_stack:  # the app is closing
            return
        covered = isinstance(self.screen, TooSmallScreen)
        if too_small(*self.size) and not covered:
            self.push_screen(TooSmallScreen(self._most_important))
        elif covered and not too_small(*self.size):
            self.pop_screen()


def _has_terminal() -> bool:
    return sys.__stdin__ is not None and os.isatty(sys.__stdin__.fileno())


def _end_with_terminal() -> None:
    """End at once, as a hang-up would end the process: not everything that closes a terminal sends one. Without a
    terminal Textual would read its end for ever, and wait for ever to write.
    """
    while _has_terminal():
        time.sleep(_LOOK_FOR_TERMINAL_S)
    os._exit(128 + signal.SIGHUP)
