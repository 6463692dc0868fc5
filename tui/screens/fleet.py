"""The fleet: all targets in one table, the worst first; Enter opens one."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual.app import ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.events import Resize
from textual.message import Message
from textual.screen import Screen

from ...engine.text import formatting as f
from ..widgets.bindings import bindings
from ..widgets.fleet import FleetTable
from ..widgets.lines import KeyLine, Prompt, TextLine
from ..widgets.rows import Rows
from ..words import keys
from ..words.fleet import LAST, SORTS, FleetRow, about, headline, ordered
from ..words.keys import chosen_keys, hint
from ..words.lists import HOW_TO_FILTER, Appearance, Chosen, TableRecords, pattern_of
from ..words.spans import part
from .export_actions import ExportActions
from .help import HelpScreen

FILTER = "filter"


class FleetScreen(Screen[None]):
    """Draws what `rows` returns, every `every_s` seconds; says `Opened` with a target's name."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("Fleet")

    class Opened(Message):
        """A target was opened."""

        def __init__(self, target: str) -> None:
            self.target = target
            super().__init__()

    def __init__(self, rows: Callable[[], Sequence[FleetRow]], every_s: float, selected: str | None = None) -> None:
        super().__init__()
        self._rows = rows
        self._every_s = every_s
        self._selected = selected
        self._sort, self._reverse = next(iter(SORTS)), False
        self._pattern: re.Pattern[str] | None = None

    def compose(self) -> ComposeResult:
        yield TextLine(id="status")
        yield FleetTable(id="fleet")
        yield TextLine(id="about")
        yield KeyLine(id="keys")
        yield Prompt(id="prompt")

    def on_mount(self) -> None:
        self.query_one(FleetTable).focus()
        if self._selected is not None:
            self.query_one(FleetTable).select(self._selected)
        self.set_interval(self._every_s, self.show)
        self.show()

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.show)

    def show(self) -> None:
        """Draw the present rows."""
        rows = self._rows()
        shown = ordered(rows, self._sort, self._pattern, reverse=self._reverse)
        filtered = [] if self._pattern is None else [(f"  /{self._pattern.pattern}", "preview")]
        self.query_one("#status", TextLine).show([part((" wmtop ", "strong"), *headline(rows), *filtered)])
        empty = "No target matches the filter" if rows else "No targets yet: start one with wmtop demo"
        self.query_one(FleetTable).show(shown, self._sort, reverse=self._reverse, empty=empty)
        self._show_about()
        names = ("fleet-open", "fleet-sort", "fleet-filter", "theme", "help", "quit")
        self.query_one(KeyLine).show([hint(name) for name in names])

    def _show_about(self) -> None:
        """The line on the selected target."""
        row = self.query_one(FleetTable).selected_row
        self.query_one("#about", TextLine).show([] if row is None else about(row))

    def on_fleet_table_moved(self, event: FleetTable.Moved) -> None:
        self._show_about()

    def action_open(self) -> None:
        """Open the selected target."""
        row = self.query_one(FleetTable).selected_row
        if row is None:
            return
        if row.findings is None:
            self.notify(f"{row.target}: {row.reason}", severity="warning", markup=False)
        else:
            self.post_message(self.Opened(row.target))

    def action_sort(self, step: int = 1) -> None:
        """Sort by the next column."""
        titles = list(SORTS)
        self._sort, self._reverse = titles[(titles.index(self._sort) + step) % len(titles)], False
        self.show()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._reverse = not self._reverse
        self.show()

    def action_filter(self) -> None:
        """Ask for a filter."""
        text = "" if self._pattern is None else self._pattern.pattern
        self.query_one(Prompt).open(FILTER, "/", text, HOW_TO_FILTER)

    def action_clear(self) -> None:
        """Drop the filter."""
        prompt = self.query_one(Prompt)
        if prompt.purpose:
            prompt.close()
        self._pattern = None
        self.query_one(FleetTable).focus()
        self.show()

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        error = self._filter_by(event.text)
        self.query_one(Prompt).say(error or HOW_TO_FILTER, error=error is not None)

    def on_prompt_done(self, event: Prompt.Done) -> None:
        if (error := self._filter_by(event.text)) is not None:
            self.query_one(Prompt).say(error, error=True)
            return
        self.query_one(Prompt).close()
        self.query_one(FleetTable).focus()

    def _filter_by(self, text: str) -> str | None:
        """Filter by the typed text; for a wrong expression nothing changes, and the problem is returned in one line."""
        try:
            self._pattern = pattern_of(text)
        except ValueError as error:
            return str(error)
        self.show()
        return None

    def chosen(self) -> Chosen | None:
        """The selected target."""
        table = self.query_one(FleetTable)
        return None if table.selected is None else Chosen(f.clean(table.selected), table.line(table.selected))

    def records(self) -> TableRecords:
        """The targets as filtered and sorted."""
        return TableRecords("targets", self.query_one(FleetTable).rows)

    def on_rows_clicked(self, event: Rows.Clicked) -> None:
        table = self.query_one(FleetTable)
        if table.select_row(event.row):
            self.action_open()

    def on_rows_header_clicked(self, event: Rows.HeaderClicked) -> None:
        title = self.query_one(FleetTable).title_at(event.x)
        title = title if title in SORTS else LAST
        if title in SORTS:
            self._reverse = not self._reverse if title == self._sort else False
            self._sort = title
            self.show()


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
            yield SystemCommand(keys.SAVE_CSV, "The table of the targets, in this directory", self.action_save_csv)
            yield SystemCommand(keys.SAVE_JSON, "The same as JSON", self.action_save_json)
            yield SystemCommand("Sort the targets", "By the next column", self._fleet.action_sort)
            yield SystemCommand("Filter the targets", "By a regular expression", self._fleet.action_filter)
        yield SystemCommand(keys.THEME, "Dark, light or high contrast", self.action_other_theme)
        yield SystemCommand(keys.SAVE_SVG, "Save the screen as a picture in this directory", self.action_save_svg)
        yield SystemCommand(keys.HELP, "The keys", self.action_show_help)
        yield SystemCommand(keys.QUIT, "Leave wmtop", self.action_leave)

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
