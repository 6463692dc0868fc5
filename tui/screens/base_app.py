"""What all apps have in common: preferences, permissions, theme, copies and saves, prompts, a small terminal."""

import itertools
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import msgspec
import platformdirs
from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.events import Resize, TextSelected
from textual.geometry import Offset
from textual.notifications import Notify
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Input

from ...engine.feed.messages import Change
from ...engine.text.formatting import clean, cut, escaped
from ..widgets.canvas import Painted, bindings
from ..widgets.lines import Prompt, TextLine, TopLines
from ..widgets.themes import DARK, THEMES, ascii_driver, prepare_terminal, usual_theme
from ..words.keys import Hint, where_it_works
from ..words.spans import Top, fitted, part
from ..words.texts import HOW_TO_FILTER, Chosen, Filter, TableRecords, as_csv, as_json, filter_of

WRITES_FILES = frozenset({"save_svg", "save_csv", "save_json", "record", "export_incident"})
"""Actions that write into wmtop's start directory; add new ones here."""
CHANGES_ENGINE = frozenset({"apply", "undo"})
"""Actions that change a setting of the engine; for an attached query `apply` only copies a line."""
READ_ONLY = "this screen is read-only: nothing was changed"


def denied_to(*, served: bool, read_only: bool) -> frozenset[str]:
    """The actions that a screen does not have."""
    nothing = frozenset[str]()
    runs = frozenset({"user_command"}) if served or read_only else nothing
    return (WRITES_FILES if served else nothing) | (CHANGES_ENGINE if read_only else nothing) | runs


def allowed(keys: Iterable[Hint], denied: frozenset[str]) -> list[Hint]:
    """The hints whose action the screen has."""
    return [key for key in keys if key.action.removeprefix("app.").partition("(")[0] not in denied]


class Preferences(Struct, frozen=True):
    """The user's choices; None: no choice."""

    theme: str | None = None
    used: dict[str, int] = {}
    """How often each command of the palette was run, by its title."""


def preferences_file() -> Path:
    """The path of the file for this user."""
    return platformdirs.user_state_path("wmtop", appauthor=False) / "screen.json"


def read_preferences(path: Path) -> Preferences:
    """The saved choices; a missing, unreadable or damaged file counts as empty."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Preferences)
    except (OSError, msgspec.MsgspecError):
        return Preferences()


def write_preferences(path: Path, preferences: Preferences) -> None:
    """Save the choices; does nothing if that fails (a full disk, a read-only home)."""
    beside = path.with_suffix(".new")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside.write_bytes(msgspec.json.encode(preferences))
        beside.replace(path)


def app_of(screen: Screen[Any]) -> "BaseApp[Any]":
    """The app that a screen belongs to."""
    app = screen.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    assert isinstance(app, BaseApp)
    return cast("BaseApp[Any]", app)


def has_widgets(screen: Screen[Any]) -> bool:
    """Whether its widgets can be painted: not before it is mounted, nor when the app ends."""
    return screen.is_mounted and screen.is_attached and app_of(screen).is_running


class PromptScreen(Screen[None]):
    """A screen with rows to copy, save and filter, and a prompt that takes the place of its footer's keys."""

    pattern: Filter | None = None
    """The filter in force."""
    hides_records = False
    """Whether the records include rows that the filter hides."""
    _focused_before: Widget | None = None

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """As in Textual; of a widget that draws its own lines the cell, which a selection begins or ends at."""
        widget, offset = super().get_widget_and_offset_at(x, y)
        if isinstance(widget, Painted):
            offset = Offset(x, y) - widget.content_region.offset
        return widget, offset

    def chosen(self) -> Chosen | None:
        """The row under the cursor of the list that is shown."""
        from ..widgets.rows import Sheet  # the first paint needs no list

        for sheet in self.query(Sheet):
            if sheet.display and (item := sheet.item) is not None and item.key is not None:
                return Chosen(clean(item.name or item.key), sheet.line(item.key))
        return None

    def records(self) -> TableRecords | None:
        """The screen's table, to be saved; None if it has none."""

    def use_pattern(self) -> None:
        """The filter has changed."""

    def take_typed(self, purpose: str, text: str, *, done: bool) -> str | None:
        """Use the typed text, at each change and when it is done; the problem in one line, or None."""
        try:
            self.pattern = filter_of(text)
        except ValueError as error:
            return str(error)
        self.use_pattern()
        return None

    def action_filter(self) -> None:
        """Ask for a filter."""
        if not self.asked:
            self.ask("filter", "/", self.pattern.text if self.pattern else "")

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

    def on_input_changed(self, event: Input.Changed) -> None:
        if purpose := self.asked:
            self.query_one(Prompt).say(self.take_typed(purpose, event.value, done=False))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        problem = self.take_typed(self.asked, event.value, done=True)
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

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "app.leave", "quit")]

    def compose(self) -> ComposeResult:
        yield TextLine(id="needed")
        yield TextLine(id="keys")
        yield TopLines()

    def on_mount(self) -> None:
        self.set_interval(1.0, self.show)
        self.show()

    def on_resize(self, event: Resize) -> None:
        self.show()

    def show(self) -> None:
        """Show what is needed, and the top lines of the covered screen if there are any yet."""
        app = app_of(self)
        if (top := app.most_important) is not None:
            self.query_one(TopLines).show(top)
        needed = f" too small: {app.size.width}×{app.size.height}, needs {MIN_WIDTH}×{MIN_HEIGHT}"
        self.query_one("#needed", TextLine).show([part((needed, "stale"))])
        self.query_one("#keys", TextLine).show([part((" q", "key"), (" quit", "dim"))])


_FONT_FACE = re.compile(r"\s*@font-face\s*\{[^}]*\}")


def self_contained(svg: str) -> str:
    """Textual's picture as XML, without its web fonts: with a font name and the viewer's monospace font as fallback."""
    return escaped(_FONT_FACE.sub("", svg))


def save_new(directory: Path, name: str, suffix: str, text: str) -> Path:
    """Write `text` to the first of `name-1`, `name-2`, … that does not exist yet; OSError with its file name."""
    path = free_file(directory, name, suffix, "-1")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    return path


def file_name(name: str) -> str:
    """A name from outside in the form of a file name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:60] or "screen"


def free_file(directory: Path, name: str, suffix: str, first: str = "") -> Path:
    """The first of `name` (with `first` after it), `name-2`, … that does not exist yet."""
    endings = itertools.chain([first], (f"-{number}" for number in itertools.count(2)))
    return next(path for ending in endings if not (path := directory / f"{name}{ending}{suffix}").exists())


Result = TypeVar("Result")
_LOOK_FOR_TERMINAL_S, _RESTORES_TERMINAL_S = 1.0, 1.0
_NOTICE_CELLS = 60
"""Cells of a copied text that its notice shows, at most."""
_AROUND_NOTICE = 8
"""Cells around the text of a notice: its padding, its edge and the margins."""


class BaseApp(App[Result]):
    """Copies and saves what the screen on top shows; `preferences_file`: where the theme is remembered, if anywhere."""

    CSS_PATH = str(Path(__file__).with_name("wmtop.tcss"))
    TITLE = "wmtop"
    ENABLE_SELECT_AUTO_SCROLL = False
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")
    REPLAYS: ClassVar[bool] = False
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (72, "-narrow"), (150, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (20, "-tall"), (36, "-high")]  # noqa: RUF012

    def __init__(self, preferences_file: Path | None) -> None:
        prepare_terminal()
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        # Where the terminal has no size Rich assumes another one than Textual's driver, which lays out both for ever.
        self.console.size = shutil.get_terminal_size()
        self._engine_name = ""
        self._preferences_file = preferences_file
        self.preferences = Preferences() if preferences_file is None else read_preferences(preferences_file)
        for theme in THEMES:
            self.register_theme(theme)
        known = {theme.name for theme in THEMES}
        self.theme = self.preferences.theme if self.preferences.theme in known else usual_theme()

    def get_driver_class(self) -> type[Driver]:
        return ascii_driver(super().get_driver_class())

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return DARK.variables

    def show_moment(self, wall_ms: int) -> None:
        """Show a recording at this moment (wall clock, epoch ms)."""

    def leave_target(self) -> None:
        """Return to the fleet, if the target was opened from it."""

    async def send_change(self, change: Change, words: str) -> None:
        """Make a previewed setting the engine's: `words` names it, the change's id is still 0."""

    def bars(self) -> Iterable[Widget]:
        """New widgets above the footer of a screen that is not a dialog: a recording's timeline."""
        return ()

    def action_other_theme(self) -> None:
        """Switch between dark, light and high contrast; the choice is saved."""
        names = [theme.name for theme in THEMES]
        here = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(here + 1) % len(names)]
        self._prefer(replace(self.preferences, theme=self.theme))

    def run_command(self, title: str, owner: Screen[Any] | None, action: str) -> None:
        """Run a command of the palette, an action of `owner` or of the app, and count it."""
        used = self.preferences.used
        self._prefer(replace(self.preferences, used={**used, title: used.get(title, 0) + 1}))
        self.call_later((owner or self).run_action, action)

    def _prefer(self, preferences: Preferences) -> None:
        self.preferences = preferences
        if self._preferences_file is not None:
            write_preferences(self._preferences_file, preferences)

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        """As in Textual; a key without an effect says where it works."""
        if key == "ctrl+c" and self._copy_selected():
            return True
        handled = await super()._check_bindings(key, priority)
        if not (handled or priority or isinstance(self.screen, ModalScreen)):
            self.notify(where_it_works(key, replay=self.REPLAYS), markup=False, timeout=4)
        return handled

    # Copies and saves

    def on_text_selected(self, event: TextSelected) -> None:
        """Copy what the mouse has selected."""
        self._copy_selected()

    def _copy_selected(self) -> bool:
        """Copy the selected text; whether there is any."""
        if text := self.screen.get_selected_text():
            self._put(text)
        return bool(text)

    def action_copy_name(self) -> None:
        """Copy what the mouse has selected, else the name of the selected row."""
        if not self._copy_selected():
            self._copy(lambda chosen: chosen.name)

    def action_copy_row(self) -> None:
        """Copy the selected row."""
        self._copy(lambda chosen: chosen.row)

    def _copy(self, what: Callable[[Chosen], str]) -> None:
        chosen = self.screen.chosen() if isinstance(self.screen, PromptScreen) else None
        if chosen is None:
            self.notify("Nothing is selected here", markup=False, timeout=4)
        else:
            self._put(what(chosen))

    def _put(self, text: str) -> None:
        """Copy through the terminal (OSC 52) and confirm it; the terminal does not report whether it allows that."""
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
        screen = self.screen if isinstance(self.screen, PromptScreen) else PromptScreen()
        table = screen.records()
        if table is None or not table.rows:
            self.notify("This screen has no rows to save", markup=False, timeout=4)
            return
        note = " (including rows hidden by the filter)" if screen.hides_records and screen.pattern else ""
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
    def most_important(self) -> Top | None:
        """The lines that also a terminal that is too small shows."""
        return None

    def on_notify(self, event: Notify) -> None:
        """Fit a notice into its line, in whole clauses; without room for all, the newest one alone is shown."""
        notice, shown = event.notification, list(self._notifications)  # pyright: ignore[reportPrivateUsage]
        notice.message = fitted(notice.message, self.size.width - _AROUND_NOTICE)
        if sum(cell_len(each.message) + _AROUND_NOTICE for each in (*shown, notice)) > self.size.width:
            self.clear_notifications()

    def clear_notifications(self) -> None:
        """As in Textual, which keeps the holders of the cleared notices: they would take the room of the next ones."""
        super().clear_notifications()
        for screen in self.screen_stack:
            screen.query("ToastHolder").remove()

    def on_load(self) -> None:
        if not self.is_headless and _has_terminal():
            threading.Thread(target=_end_with_terminal, name="wmtop-terminal", daemon=True).start()
            signal.signal(signal.SIGTERM, self._die_of)  # not by the event loop, which may be busy

    def _die_of(self, number: int, _frame: object) -> None:
        """End by the signal, and leave the terminal as it was: unless it does not read."""
        threading.Timer(_RESTORES_TERMINAL_S, os._exit, [128 + number]).start()
        try:
            if self._driver is not None:
                self._driver.suspend_application_mode()
        finally:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def on_driver_signal_resume(self, event: Driver.SignalResume) -> None:
        """Draw everything again after a suspension: the terminal has forgotten it."""
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        self.call_later(self._fit)
        if shown := list(self._notifications):  # pyright: ignore[reportPrivateUsage]
            self.clear_notifications()
        for notice in shown:  # fitted again
            self.notify(notice.message, severity=notice.severity, markup=False, timeout=notice.time_left)

    def _fit(self) -> None:
        """Cover the screen while the terminal is too small."""
        if not self.screen_stack:  # the app is closing
            return
        covered = isinstance(self.screen, TooSmallScreen)
        if too_small(*self.size) and not covered:
            self.push_screen(TooSmallScreen())
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
