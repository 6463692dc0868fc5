"""What all apps have in common: theme, keys, permissions, the stream's messages, too small terminals."""

import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.events import Resize
from textual.message import Message
from textual.screen import ModalScreen

from ...engine.feed.messages import FromEngine, Header, Reply, ToEngine
from ...engine.snapshot import Snapshot
from ..widgets.bindings import bindings
from ..widgets.lines import TextLine, TopLines
from ..widgets.themes import DARK, THEMES
from ..words.spans import Top, part
from .host import app_of
from .preferences import Preferences, read_preferences, write_preferences


class SnapshotClient(Protocol):
    """One connection to an engine."""

    def messages(self) -> AsyncIterator[FromEngine]:
        """A header, then snapshots and replies; ends when the engine goes away, may raise `RunError`."""
        ...

    async def send(self, command: ToEngine) -> None:
        """Send a command; its answer comes as a `Reply` with the same id."""
        ...

    async def close(self) -> None:
        """Close the connection; the engine continues."""
        ...


class HeaderCame(Message):
    """The engine introduced itself."""

    def __init__(self, header: Header) -> None:
        self.header = header
        super().__init__()


class SnapshotCame(Message):
    """A newer picture; one that still waits in the queue is superseded by it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, SnapshotCame)


class ReplyCame(Message):
    """The engine answered a command."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        super().__init__()


class StreamEnded(Message):
    """The stream has ended; `reason` is one line, or None if there is no reason."""

    def __init__(self, reason: str | None) -> None:
        self.reason = reason
        super().__init__()


MIN_WIDTH, MIN_HEIGHT = 60, 15


def too_small(width: int, height: int) -> bool:
    """Whether a terminal of that many cells is too small for the screens."""
    return 0 < width < MIN_WIDTH or 0 < height < MIN_HEIGHT


class TooSmallScreen(ModalScreen[None]):
    """Covers all else until the terminal has grown."""

    def __init__(self, top: Top | None) -> None:
        super().__init__()
        self._top = top

    def compose(self) -> ComposeResult:
        yield TextLine(id="needed")
        yield TextLine(id="keys")
        yield TopLines()

    def on_mount(self) -> None:
        self.show(self._top)

    def on_resize(self, event: Resize) -> None:
        self._say()

    def show(self, top: Top | None) -> None:
        """Show the top lines of the covered screen; None: there are none yet."""
        self._top = top
        if self.is_mounted:
            if top is not None:
                self.query_one(TopLines).show(top)
            self._say()

    def _say(self) -> None:
        width, height = app_of(self).size
        needed = f" too small: {width}×{height}, needs {MIN_WIDTH}×{MIN_HEIGHT}"
        self.query_one("#needed", TextLine).show([part((needed, "stale"))])
        self.query_one("#keys", TextLine).show([part((" q", "key"), (" quit", "dim"))])


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
            write_preferences(self._preferences, Preferences(theme=self.theme))

    def _remembered_theme(self) -> str:
        known = {theme.name for theme in THEMES}
        wanted = None if self._preferences is None else read_preferences(self._preferences).theme
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
