"""The fleet: all targets in one table, the worst first; the chain in which they pass on event time, hop by hop."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import Screen

from ...engine.snapshot import Chain
from ...engine.text import formatting as f
from ..widgets.canvas import Picked, bindings
from ..widgets.lines import KeyLine, Prompt, TextLine
from ..widgets.rows import Item, Sheet, SortedBy, heading, paragraph, wrapped
from ..words import chain as chain_words
from ..words import fleet as words
from ..words.fleet import FleetRow
from ..words.keys import hint
from ..words.main_screen import Shown
from ..words.spans import Column, Span, clip, part, row_line, title_at, titles_line
from ..words.stations import NOT_SET
from ..words.texts import Appearance, TableRecords
from ..words.user_commands import command_hints
from .app import run_user_command, use_appearance
from .base_app import BaseApp, PromptScreen, app_of
from .help import Commands, HelpScreen, commands
from .target_screen import TargetScreen


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

    def action_sort(self) -> None:
        """Sort by the next column."""
        titles = list(words.SORTS)
        self._sort, self._reverse = titles[(titles.index(self._sort) + 1) % len(titles)], False
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
        if event.title in words.SORTS:
            self._reverse = event.title == self._sort and not self._reverse
            self._sort = event.title
            self.show()


class Holds(Protocol):
    """The hops of a pipeline that a key can hold, and let go again."""

    def toggle(self, name: str) -> str:
        """Hold a hop, or let it go; returns what to say."""
        ...

    def status(self) -> str:
        """What the pipeline does, and what is held, in one line."""
        ...


class ChainScreen(PromptScreen):
    """Draws what `chain` returns, each refresh; the app ends with the name of an opened target.

    `holds`: the pipeline is a demo's.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("Chain")

    def __init__(self, chain: Callable[[], Chain], appearance: Appearance, holds: Holds | None = None) -> None:
        super().__init__()
        self._chain = chain
        self._holds = holds
        self._every_s = appearance.refresh_ms / 1_000
        self._zone = None if appearance.zone == "local" else UTC
        self._shown = Chain([], [])

    def compose(self) -> ComposeResult:
        yield TextLine(id="status")
        yield Sheet(id="chain")
        yield KeyLine(id="keys")
        yield Prompt(id="prompt")

    def on_mount(self) -> None:
        self.query_one(Sheet).focus()
        self.set_interval(self._every_s, self.show)
        self.show()

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.show)

    def show(self) -> None:
        """Draw the present chain."""
        chain = self._shown = self._chain()
        demo = [] if self._holds is None else [(f"  {self._holds.status()}", "preview")]
        self.query_one("#status", TextLine).show([part((" wmtop ", "strong"), ("fleet › chain", "dim"), *demo)])
        sheet = self.query_one(Sheet)
        headline = chain_words.headline(chain)
        lines = len(wrapped(headline, sheet.row_cells))
        room = sheet.size.height - len(chain.hops) - _LINES_BETWEEN - lines
        stairs = chain_words.staircase(chain, max(sheet.row_cells - 1, 1), min(room, chain_words.MAX_STAIRS))
        items = [paragraph(headline, "text", lines), *(heading(*spans) for spans in stairs)]
        items += [heading()] * bool(stairs) + [self._item(number) for number in chain.way]
        if others := chain_words.beside(chain):
            items += [heading((f" {chain_words.BESIDE}", "dim")), *map(self._item, others)]
        nothing = chain_words.NO_CHAIN if self._holds is None else f"The demo's pipeline: {self._holds.status()}"
        sheet.show(items if chain.hops else [paragraph(nothing)])
        held = () if self._holds is None else ("chain-hold", "chain-lateness")
        names = ("chain-open", *held, "chain-back", "theme", "help", "quit")
        self.query_one(KeyLine).show([hint(name) for name in names])

    def _item(self, number: int) -> Item:
        name = self._shown.hops[number].name
        return Item((partial(chain_words.hop_line, self._shown, number, self._zone),), str(number), name=name)

    def on_picked(self, event: Picked) -> None:
        if event.again:
            self.action_open()

    def action_open(self) -> None:
        """Open the target of the selected hop."""
        number = self.query_one(Sheet).cursor
        if number is None:
            return
        hop = self._shown.hops[int(number)]
        if hop.target is None or hop.trouble not in (None, NOT_SET):
            self.notify(f"{f.name(hop.name)}: {chain_words.why(hop)}", severity="warning", markup=False)
        else:
            app_of(self).exit(hop.target)

    def action_hold(self) -> None:
        """Hold the selected hop of a demo, or let it go."""
        number = self.query_one(Sheet).cursor
        if number is not None:
            self._toggle(self._shown.hops[int(number)].name)

    def action_raise_lateness(self) -> None:
        """Raise the lateness of a demo's job tenfold, or restore it."""
        self._toggle("lateness")

    def _toggle(self, name: str) -> None:
        said = "only the hops of 'wmtop demo --chain' can be held" if self._holds is None else self._holds.toggle(name)
        self.notify(said, markup=False)
        self.show()

    def action_back(self) -> None:
        """Back to the fleet."""
        self.dismiss()

    def records(self) -> TableRecords:
        """All hops."""
        return TableRecords("chain", self._shown.hops)


_LINES_BETWEEN = 5
"""Names, losses, and the lines between the parts."""


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
        use_appearance(self, appearance)
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


class TargetChainScreen(ChainScreen):
    """The chain as one target shows it, a recording or an engine that follows it: its hops are not opened from here."""

    BINDINGS: ClassVar[list[BindingType]] = [
        one for one in bindings("main") if isinstance(one, Binding) and one.id == "doctor"
    ]

    def __init__(self, shown: Shown) -> None:
        super().__init__(self._chain_now, Appearance(refresh_ms=_LOOK_MS))
        self._target = shown

    def _chain_now(self) -> Chain:
        return self._target.snapshot.chain

    def compose(self) -> ComposeResult:
        status, sheet, *below = super().compose()
        yield from (status, TextLine(id="verdict"), sheet, *app_of(self).bars(), *below)

    def show(self) -> None:
        self._zone = self._target.view.zone
        super().show()
        self.query_one("#status", TextLine).show(self._target.top.status)
        self.query_one("#verdict", TextLine).show(self._target.top.verdict)
        names = ("doctor", "theme", "help", "quit")
        self.query_one("#keys", KeyLine).show([hint(name) for name in names])

    def action_back(self) -> None:
        """Leave the target, as on the main screen, whose place this one takes."""
        app_of(self).leave_target()

    def action_detail(self, name: str) -> None:
        """Show a further screen of the target instead of the chain."""
        app = app_of(self)
        app.pop_screen()
        if isinstance(app.screen, TargetScreen):
            app.screen.action_detail(name)

    def action_open(self) -> None:
        """Say why nothing is opened."""
        self.notify("a hop's target opens from the fleet's chain: wmtop chain", markup=False)


_LOOK_MS = 250
"""How often (ms) the shown snapshot is looked at: a step in a recording shows at once."""
