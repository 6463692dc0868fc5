"""The fleet: all targets in one table, the worst first; Enter opens one."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

from textual.app import ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.events import Resize
from textual.screen import Screen

from ...engine.verdict.chain import Chain
from ..widgets.canvas import Picked, bindings
from ..widgets.lines import KeyLine, Prompt, TextLine
from ..widgets.rows import Item, Sheet, SortedBy, heading
from ..words import fleet as words
from ..words.columns import Column, row_line, title_at, titles_line
from ..words.fleet import FleetRow
from ..words.keys import chosen_keys, hint
from ..words.spans import Span, clip, part
from ..words.texts import Appearance, TableRecords
from ..words.user_commands import command_hints
from .app import bind_user_commands, run_user_command
from .base_app import BaseApp, PromptScreen, app_of
from .chain import ChainScreen, Holds
from .help import Commands, HelpScreen, commands


class FleetTable(Sheet):
    """Draws rows of the fleet below their titles."""

    HEADER = 1
    rows: Sequence[FleetRow] = ()
    """The rows in their order."""
    _order = ("", False)
    _layout: Callable[[int], Sequence[Column[FleetRow]]] = partial(words.layout, ())

    def show_rows(self, rows: Sequence[FleetRow], sort: str, *, reverse: bool, empty: str) -> None:
        """Draw the rows; the cursor is on the first until it is moved."""
        self.rows, self._order = rows, (sort, reverse)
        self._layout = cache(partial(words.layout, rows))
        items = [Item((lambda width, row=row: row_line(self._layout(width), row),), row.target) for row in rows]
        self.show(items or [heading((f" {empty}", "dim"))])

    @property
    def chosen(self) -> FleetRow | None:
        """The row that the cursor is on."""
        return next((row for row in self.rows if row.target == self.cursor), None)

    def title_at(self, x: int) -> str:
        return title_at(self._layout(self.size.width), x)

    def header(self, width: int) -> Sequence[Span]:
        sort, reverse = self._order
        return clip(titles_line(self._layout(width), sort, reverse=reverse), width)


class FleetScreen(PromptScreen):
    """Draws what `rows` returns, every `every_s` seconds; the app ends with the name of an opened target."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("Fleet")

    def __init__(self, rows: Callable[[], Sequence[FleetRow]], every_s: float, selected: str | None = None) -> None:
        super().__init__()
        self._rows = rows
        self._every_s = every_s
        self._selected = selected
        self._sort, self._reverse = next(iter(words.SORTS)), False

    def compose(self) -> ComposeResult:
        yield TextLine(id="status")
        yield FleetTable(id="fleet")
        yield TextLine(id="about")
        yield KeyLine(id="keys")
        yield Prompt(id="prompt")

    def on_mount(self) -> None:
        self.query_one(FleetTable).focus()
        self.set_interval(self._every_s, self.show)
        self.show()
        if self._selected is not None:
            self.query_one(FleetTable).go_to(self._selected)

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.show)

    def show(self) -> None:
        """Draw the present rows."""
        rows = self._rows()
        shown = words.ordered(rows, self._sort, self.pattern, reverse=self._reverse)
        filtered = [] if self.pattern is None else [(f"  /{self.pattern.text}", "preview")]
        self.query_one("#status", TextLine).show([part((" wmtop ", "strong"), *words.headline(rows), *filtered)])
        empty = "No target matches the filter" if rows else "No targets yet: start one with wmtop demo"
        self.query_one(FleetTable).show_rows(shown, self._sort, reverse=self._reverse, empty=empty)
        self._show_about()
        names = ("fleet-open", "fleet-chain", "fleet-sort", "fleet-filter", "theme", "help", "quit")
        self.query_one(KeyLine).show([*map(hint, names), *command_hints()])

    def _show_about(self) -> None:
        """The line on the selected target."""
        row = self.query_one(FleetTable).chosen
        self.query_one("#about", TextLine).show([] if row is None else words.about(row, self.size.width))

    def on_picked(self, event: Picked) -> None:
        self._show_about()
        if event.again:
            self.action_open()

    def action_open(self) -> None:
        """Open the selected target, or say why it is lost."""
        row = self.query_one(FleetTable).chosen
        if row is not None and row.findings is None:
            self.notify(row.reason or "", severity="warning", markup=False)
        elif row is not None:
            app_of(self).exit(row.target)

    def action_sort(self, step: int = 1) -> None:
        """Sort by the next column."""
        titles = list(words.SORTS)
        self._sort, self._reverse = titles[(titles.index(self._sort) + step) % len(titles)], False
        self.show()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._reverse = not self._reverse
        self.show()

    def action_clear(self) -> None:
        """Drop the filter."""
        if self.asked:
            self.close_prompt()
        self.pattern = None
        self.query_one(FleetTable).focus()
        self.show()

    def use_pattern(self) -> None:
        self.show()

    def records(self) -> TableRecords:
        """The targets as filtered and sorted."""
        return TableRecords("targets", self.query_one(FleetTable).rows)

    def on_sorted_by(self, event: SortedBy) -> None:
        title = event.title if event.title in words.SORTS else words.LAST
        if title in words.SORTS:
            self._reverse = not self._reverse if title == self._sort else False
            self._sort = title
            self.show()


_DENIED = frozenset({"record", "export_incident"})
"""Actions that work on a target only."""


class FleetApp(BaseApp[str]):
    """Shows what `rows` returns, and what `chain` returns, with `on_chain` first; `selected` is the target that the
    cursor begins on.
    """

    COMMANDS = {lambda: Commands}  # noqa: RUF012

    def __init__(
        self,
        rows: Callable[[], Sequence[FleetRow]],
        appearance: Appearance,
        selected: str | None = None,
        *,
        chain: Callable[[], Chain] = lambda: Chain([], []),
        on_chain: bool = False,
        holds: Holds | None = None,
        preferences_file: Path | None = None,
    ) -> None:
        super().__init__(preferences_file)
        self._engine_name = "fleet"
        if appearance.theme is not None:
            self.theme = f"wmtop-{appearance.theme}"
        self.set_keymap(chosen_keys())
        bind_user_commands(self)
        self._fleet = FleetScreen(rows, appearance.refresh_ms / 1_000, selected)
        self._chain = partial(ChainScreen, chain, appearance, holds)
        self._on_chain = on_chain

    def on_mount(self) -> None:
        if self._on_chain:
            self.push_screen(self._chain())

    def get_default_screen(self) -> Screen[Any]:
        return self._fleet

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        if screen is self._fleet:
            yield from commands(self, "Fleet", owner=self._fleet)
        yield from commands(self, "app")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return False if action in _DENIED else super().check_action(action, parameters)

    def action_show_help(self) -> None:
        """Open the keys of the fleet."""
        if not isinstance(self.screen, HelpScreen):
            name = "Chain" if isinstance(self.screen, ChainScreen) else "Fleet"
            self.push_screen(HelpScreen(name, denied=_DENIED, alone=True))

    def action_chain(self) -> None:
        """Open the chain of the topics and jobs."""
        if self.screen is self._fleet:
            self.push_screen(self._chain())

    def action_user_command(self, name: str) -> None:
        """Run a program of the configuration on the selected target."""
        run_user_command(self, self._engine_name, name)

    def action_leave(self) -> None:
        """Quit."""
        self.exit(None)
