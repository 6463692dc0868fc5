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
from ..widgets.lines import KeyLine, Prompt, TextLine, bindings
from ..widgets.rows import Rows, marked, text_of
from ..words import fleet as words
from ..words import keys
from ..words.fleet import FleetRow
from ..words.keys import chosen_keys, hint
from ..words.spans import Span, part
from ..words.texts import Appearance, Chosen, TableRecords, pattern_of
from .base_app import BaseApp, PromptScreen
from .help import HelpScreen
from .palette import AT_THE_END, EVERYWHERE, HERE, commands


class FleetTable(Rows):
    """Draws rows of the fleet; the cursor stays with its target."""

    HEADER = 1

    class Moved(Message):
        """The cursor is on another target."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Sequence[FleetRow] = ()
        self._sort = ""
        self._reverse = False
        self._empty = ""
        self._selected: str | None = None
        self._chosen = False

    @property
    def selected(self) -> str | None:
        """The target that the cursor is on."""
        return self._selected

    @property
    def selected_row(self) -> FleetRow | None:
        """Its row."""
        return next((row for row in self._rows if row.target == self._selected), None)

    @property
    def rows(self) -> Sequence[FleetRow]:
        """The rows in their order."""
        return self._rows

    def line(self, target: str) -> str:
        """The row of a target as text."""
        width = self.row_cells
        columns = words.layout(self._rows, width)
        return "\n".join(text_of(words.row_line(row, columns, width)) for row in self._rows if row.target == target)

    def select(self, target: str) -> None:
        """Put the cursor on a target."""
        self._selected, self._chosen = target, True

    def select_row(self, index: int) -> bool:
        """Put the cursor on a row; returns whether it was there already."""
        before = self._selected
        self.select(self._rows[index].target)
        self.redraw()
        self.post_message(self.Moved())
        return self._selected == before

    def title_at(self, x: int) -> str:
        """The title of the column at cell `x`."""
        return words.title_at(words.layout(self._rows, self.size.width), x)

    def show(self, rows: Sequence[FleetRow], sort: str, *, reverse: bool, empty: str) -> None:
        """Draw the rows; the cursor is on the first until it is moved."""
        self._rows, self._sort, self._reverse, self._empty = rows, sort, reverse, empty
        targets = [row.target for row in rows]
        if not self._chosen or self._selected not in targets:
            self._selected = targets[0] if targets else None
        self.redraw()

    def move(self, by: int) -> None:
        targets = [row.target for row in self._rows]
        if not targets:
            return
        here = targets.index(self._selected) if self._selected in targets else 0
        there = max(min(here + by, len(targets) - 1), 0)
        self.select_row(there)
        self.show_row(there)

    def row_count(self) -> int:
        return max(len(self._rows), 1)

    def header(self, width: int) -> Sequence[Span]:
        return words.header_line(words.layout(self._rows, width), self._sort, width, reverse=self._reverse)

    def row(self, index: int, width: int) -> Sequence[Span]:
        if not self._rows:
            return [(f" {self._empty}", "dim")]
        row = self._rows[index]
        spans = words.row_line(row, words.layout(self._rows, width), width)
        if row.target != self._selected:
            return spans
        return marked(spans, width)


class FleetScreen(PromptScreen):
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
        self._sort, self._reverse = next(iter(words.SORTS)), False
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
        shown = words.ordered(rows, self._sort, self._pattern, reverse=self._reverse)
        filtered = [] if self._pattern is None else [(f"  /{self._pattern.pattern}", "preview")]
        self.query_one("#status", TextLine).show([part((" wmtop ", "strong"), *words.headline(rows), *filtered)])
        empty = "No target matches the filter" if rows else "No targets yet: start one with wmtop demo"
        self.query_one(FleetTable).show(shown, self._sort, reverse=self._reverse, empty=empty)
        self._show_about()
        names = ("fleet-open", "fleet-sort", "fleet-filter", "theme", "help", "quit")
        self.query_one(KeyLine).show([hint(name) for name in names])

    def _show_about(self) -> None:
        """The line on the selected target."""
        row = self.query_one(FleetTable).selected_row
        self.query_one("#about", TextLine).show([] if row is None else words.about(row))

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
        titles = list(words.SORTS)
        self._sort, self._reverse = titles[(titles.index(self._sort) + step) % len(titles)], False
        self.show()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._reverse = not self._reverse
        self.show()

    def action_filter(self) -> None:
        """Ask for a filter."""
        text = "" if self._pattern is None else self._pattern.pattern
        self.ask("filter", "/", text)

    def action_clear(self) -> None:
        """Drop the filter."""
        if self.asked:
            self.close_prompt()
        self._pattern = None
        self.query_one(FleetTable).focus()
        self.show()

    def take_typed(self, purpose: str, text: str, *, done: bool) -> str | None:
        """Filter by the typed text; for a wrong expression nothing changes."""
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

    filtered = False

    def records(self) -> TableRecords:
        """The targets as filtered and sorted."""
        return TableRecords("targets", self.query_one(FleetTable).rows)

    def on_rows_clicked(self, event: Rows.Clicked) -> None:
        table = self.query_one(FleetTable)
        if table.select_row(event.row):
            self.action_open()

    def on_rows_header_clicked(self, event: Rows.HeaderClicked) -> None:
        title = self.query_one(FleetTable).title_at(event.x)
        title = title if title in words.SORTS else words.LAST
        if title in words.SORTS:
            self._reverse = not self._reverse if title == self._sort else False
            self._sort = title
            self.show()


_DENIED = frozenset({"record", "export_incident"})
"""Actions that work on a target only."""


class FleetApp(BaseApp[str]):
    """Shows what `rows` returns; `selected` is the target that the cursor begins on."""

    def __init__(
        self,
        rows: Callable[[], Sequence[FleetRow]],
        appearance: Appearance,
        selected: str | None = None,
        *,
        preferences_file: Path | None = None,
    ) -> None:
        super().__init__(preferences_file)
        self._engine_name = "fleet"
        if appearance.theme is not None:
            self.theme = f"wmtop-{appearance.theme}"
        self.set_keymap(chosen_keys())
        self._fleet = FleetScreen(rows, appearance.refresh_ms / 1_000, selected)

    def get_default_screen(self) -> Screen[Any]:
        return self._fleet

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        rows = (
            ("Copy the name", "Of the selected target, to the clipboard", "copy_name"),
            ("Copy the row", "The selected target's, to the clipboard", "copy_row"),
            (keys.SAVE_CSV, f"The table of the targets, {HERE}", "save_csv"),
            (keys.SAVE_JSON, "The same as JSON", "save_json"),
        )
        if screen is self._fleet:
            yield from commands(self, *rows)
            yield SystemCommand("Sort the targets", "By the next column", self._fleet.action_sort)
            yield SystemCommand("Filter the targets", "By a regular expression", self._fleet.action_filter)
        yield from commands(self, *EVERYWHERE, (keys.HELP, "The keys", "show_help"), *AT_THE_END)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return False if action in _DENIED else super().check_action(action, parameters)

    def on_fleet_screen_opened(self, event: FleetScreen.Opened) -> None:
        self.exit(event.target)

    def action_show_help(self) -> None:
        """Open the keys of the fleet."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen("Fleet", denied=_DENIED, alone=True))

    def action_leave(self) -> None:
        """Quit."""
        self.exit(None)
