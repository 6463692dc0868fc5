"""The chain: where the topics and jobs of the fleet lose event time, as a staircase and hop by hop."""

from collections.abc import Callable
from datetime import UTC
from functools import partial
from typing import ClassVar, Protocol

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize

from ...engine.snapshot import Chain
from ...engine.text import formatting as f
from ..widgets.canvas import Picked, bindings
from ..widgets.lines import KeyLine, Prompt, TextLine
from ..widgets.rows import Item, Sheet, heading, paragraph, wrapped
from ..words import chain as words
from ..words.keys import hint
from ..words.main_screen import Shown
from ..words.spans import part
from ..words.texts import Appearance, TableRecords
from .base_app import PromptScreen, app_of
from .target_screen import TargetScreen


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
        headline = words.headline(chain)
        lines = len(wrapped(headline, sheet.row_cells))
        room = sheet.size.height - len(chain.hops) - _LINES_BETWEEN - lines
        stairs = words.staircase(chain, max(sheet.row_cells - 1, 1), min(room, words.MAX_STAIRS))
        items = [paragraph(headline, "text", lines), *(heading(*spans) for spans in stairs)]
        items += [heading()] * bool(stairs) + [self._item(number) for number in chain.way]
        if others := words.beside(chain):
            items += [heading((f" {words.BESIDE}", "dim")), *map(self._item, others)]
        nothing = words.NO_CHAIN if self._holds is None else f"The demo's pipeline: {self._holds.status()}"
        sheet.show(items if chain.hops else [paragraph(nothing)])
        held = () if self._holds is None else ("chain-hold", "chain-lateness")
        names = ("chain-open", *held, "chain-back", "theme", "help", "quit")
        self.query_one(KeyLine).show([hint(name) for name in names])

    def _item(self, number: int) -> Item:
        name = self._shown.hops[number].name
        return Item((partial(words.hop_line, self._shown, number, self._zone),), str(number), name=name)

    def on_picked(self, event: Picked) -> None:
        if event.again:
            self.action_open()

    def action_open(self) -> None:
        """Open the target of the selected hop."""
        number = self.query_one(Sheet).cursor
        if number is None:
            return
        hop = self._shown.hops[int(number)]
        if hop.target is None or hop.trouble not in (None, words.NOT_SET):
            self.notify(f"{f.name(hop.name)}: {words.why(hop)}", severity="warning", markup=False)
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


class TargetChainScreen(ChainScreen):
    """The chain as one target shows it, a recording or an engine that follows it: its hops are not opened from here."""

    BINDINGS: ClassVar[list[BindingType]] = [
        one for one in bindings("main") if isinstance(one, Binding) and one.id == "doctor"
    ]

    def __init__(self, shown: Shown) -> None:
        super().__init__(self._chain_now, Appearance(refresh_ms=_LOOK_MS))
        self._target = shown

    def _chain_now(self) -> Chain:
        target = self._target.snapshot.target
        return target if isinstance(target, Chain) else Chain([], [])

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
