"""What all apps have in common: theme, copies and saves, prompts, a terminal that is too small."""

import os
import signal
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from msgspec import Struct
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.events import Resize
from textual.screen import ModalScreen, Screen
from textual.widget import Widget

from ...engine.text.formatting import cut
from ..widgets.lines import Prompt, TextLine, TopLines, bindings
from ..widgets.themes import DARK, THEMES
from ..words.spans import Top, part
from ..words.texts import HOW_TO_FILTER, Chosen, TableRecords, as_csv, as_json
from .exports import file_name, save_new, self_contained
from .preferences import Preferences, read_preferences, write_preferences

# What Textual has no words for


def app_of(screen: Screen[Any]) -> App[Any]:
    """The app that a screen belongs to."""
    return screen.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def has_widgets(screen: Screen[Any]) -> bool:
    """Whether its widgets can be painted: not before it is mounted, nor when the app ends."""
    return screen.is_mounted and screen.is_attached and app_of(screen).is_running


@runtime_checkable
class HasRows(Protocol):
    """A screen with rows to copy and to save."""

    def chosen(self) -> Chosen | None:
        """The selected row."""
        ...

    def records(self) -> TableRecords | None:
        """The screen's table, None if it has none."""
        ...

    @property
    def filtered(self) -> bool:
        """Whether the records include rows that a filter hides."""
        ...


class PromptScreen(Screen[None]):
    """A screen with a prompt that takes the place of its footer's keys: for filters, and for what else it asks."""

    _focused_before: Widget | None = None

    @abstractmethod
    def take_typed(self, purpose: str, text: str, *, done: bool) -> str | None:
        """Use the typed text, at each change and when it is done; the problem in one line, or None."""

    def ask(self, purpose: str, label: str, text: str, note: str = HOW_TO_FILTER) -> None:
        """Ask for a text: `label` is before it, `note` (how to continue) after it."""
        prompt = self.query_one(Prompt)
        if not prompt.purpose:
            self._focused_before = self.focused
        self.query_one("#keys").display = False
        prompt.open(purpose, label, text, note)

    def close_prompt(self) -> None:
        """Show the keys again, and give the focus back."""
        self.query_one(Prompt).close()
        self.query_one("#keys").display = True
        self.set_focus(self._focused_before)

    @property
    def asked(self) -> str:
        """The purpose of the open prompt; empty: none is open."""
        return next((prompt.purpose for prompt in self.query(Prompt)), "")

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        self.query_one(Prompt).say(self.take_typed(event.purpose, event.text, done=False))

    def on_prompt_done(self, event: Prompt.Done) -> None:
        problem = self.take_typed(event.purpose, event.text, done=True)
        if problem is None:
            self.close_prompt()
        else:
            self.query_one(Prompt).say(problem)


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
        self.show(self._top)

    def show(self, top: Top | None) -> None:
        """Show the top lines of the covered screen; None: there are none yet."""
        self._top = top
        if not self.is_mounted:
            return
        if top is not None:
            self.query_one(TopLines).show(top)
        width, height = app_of(self).size
        needed = f" too small: {width}×{height}, needs {MIN_WIDTH}×{MIN_HEIGHT}"
        self.query_one("#needed", TextLine).show([part((needed, "stale"))])
        self.query_one("#keys", TextLine).show([part((" q", "key"), (" quit", "dim"))])


Result = TypeVar("Result")
_LOOK_FOR_TERMINAL_S = 1.0
_NOTICE_CELLS = 60
"""Cells of a copied text that its notice shows, at most."""


class BaseApp(App[Result]):
    """Copies and saves what the screen on top shows; `preferences_file`: where the theme is remembered, if anywhere."""

    CSS_PATH = str(Path(__file__).with_name("wmtop.tcss"))
    TITLE = "wmtop"
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")

    def __init__(self, preferences_file: Path | None) -> None:
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self._engine_name = ""
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

    # Copies and saves

    def action_copy_name(self) -> None:
        """Copy the name of the selected row."""
        self._copy(lambda chosen: chosen.name)

    def action_copy_row(self) -> None:
        """Copy the selected row."""
        self._copy(lambda chosen: chosen.row)

    def _copy(self, what: Callable[[Chosen], str]) -> None:
        """Copy through the terminal (OSC 52) and confirm it; the terminal does not report whether it allows that."""
        chosen = self.screen.chosen() if isinstance(self.screen, HasRows) else None
        if chosen is None:
            self.notify("Nothing is selected here", markup=False, timeout=4)
            return
        text = what(chosen)
        self.copy_to_clipboard(text)
        first = cut(text.splitlines()[0], _NOTICE_CELLS)
        self.notify(f"Copied (if the terminal allows it): {first}", markup=False, timeout=4)

    def action_save_csv(self) -> None:
        """Save the screen's table as CSV in wmtop's start directory, and name the file."""
        self._save_table(as_csv, ".csv")

    def action_save_json(self) -> None:
        """The same as JSON."""
        self._save_table(as_json, ".json")

    def _save_table(self, written: Callable[[Sequence[Struct]], str], suffix: str) -> None:
        screen = self.screen
        table = screen.records() if isinstance(screen, HasRows) else None
        if table is None or not table.rows:
            self.notify("This screen has no rows to save", markup=False, timeout=4)
            return
        hidden = isinstance(screen, HasRows) and screen.filtered
        note = " (including rows hidden by the filter)" if hidden else ""
        self._save(f"wmtop-{file_name(self._engine_name)}-{table.name}", suffix, written(table.rows), note)

    def action_save_svg(self) -> None:
        """Save a picture of the screen in wmtop's start directory, and name the file."""
        self._save(f"wmtop-{file_name(self._engine_name)}", ".svg", self_contained(self.export_screenshot()))

    def _save(self, name: str, suffix: str, text: str, note: str = "") -> None:
        try:
            path = save_new(Path.cwd(), name, suffix, text)
        except OSError as error:
            self.notify(f"not saved: {error.filename}: {error.strerror}", severity="error", markup=False)
        else:
            self.notify(f"saved {path}{note}", markup=False)

    # The terminal

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
