"""The help: the effects of the keys, and how to read the picture."""

from textwrap import wrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import Static

from ..words.keys import LISTS, links, rows
from .base_app import app_of

_WIDEST, _KEYS = 100, 10
"""The box's greatest width (wmtop.tcss), and the width of the keys in a line."""
_BESIDE = _KEYS + 7
"""With the border, the padding and the scroll bar."""
READING = (
    "A barrel holds no more water than its shortest stave lets it. Each channel is a stave, as high as its watermark; "
    "the water is the watermark of the query: the minimum of the channels that are not idle. The lowest of them holds "
    "back the watermark for all; the second line says which one, and why.\n\n",
    "▓ holds back the watermark   ░ idle: left out of the minimum   ╱ realigning: back from idle, still behind the "
    "watermark   ║ finished   ? never seen   ▼3d ends 3 d behind the watermark, below the picture   ▌ several channels "
    "folded into one cell\n\n",
    "The dotted line ┈ is the watermark with the previewed setting from the start. A range (2.1–2.3 %): the value is "
    "between two that were counted; ≤: an upper bound (session windows, an attached query); ≈: not counted "
    "exactly.\n\n",
    "late: records that arrived when all of their windows were closed, as a share of all records. A window fires when "
    "the watermark reaches its end; for that, every channel that counts has to send records up to its end plus the "
    "lateness. late firings: how often a window fired again for a record within the allowed lateness.",
)  # fmt: skip


class HelpScreen(ModalScreen[None]):
    """Shown over the main screen, or as the help of another one; any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "close", "close"),
        Binding("S", "app.save_svg", "save SVG"),
    ]

    def __init__(
        self,
        name: str = "",
        reading: str = "",
        *,
        replay: bool = False,
        denied: frozenset[str] = frozenset(),
        alone: bool = False,
    ) -> None:
        """`name` and `reading`: the screen's own; empty: the main screen. `alone`: an app without further screens."""
        super().__init__()
        self._about, self._reading = name, reading
        around = "detail" if name else "main"
        lists = not name or name in LISTS
        here = rows(around, *(("list",) if lists else ()), "app", denied=denied, replay=replay)
        screens = {link.key for link in links()}
        sections = [
            (name, rows(name) if name else []),
            ("Replay", rows("replay") if replay else []),
            ("Everywhere" if name else "Keys", [row for row in here if row.shown not in screens]),
            ("Screens", [row for row in here if row.shown in screens]),
        ]
        if alone:
            sections = [(name, rows(name)), ("Everywhere", rows("app", denied=denied))]
        self._sections = [(title, keys) for title, keys in sections if keys]
        self._composed_for = 0

    def compose(self) -> ComposeResult:
        self._composed_for = self._words_cells
        with VerticalScroll(id="help") as box:
            box.border_title = "Help"
            box.border_subtitle = "Esc closes"
            if self._reading:
                yield Static(_reading(self._about, self._reading.rstrip() + "\n"))
            for title, keys in self._sections:
                lines = [_row(row.shown, row.help, self._words_cells) for row in keys]
                yield Static(Content("").join([Content.styled(title + "\n", "bold $accent"), *lines]))
            if not self._about:
                yield Static(_reading("the barrel", *READING))

    def on_resize(self, event: Resize) -> None:
        if self._words_cells != self._composed_for:
            self.refresh(recompose=True)

    @property
    def _words_cells(self) -> int:
        """The width of a key's description, next to the keys."""
        return max(min(_WIDEST, app_of(self).size.width * 96 // 100) - _BESIDE, 20)

    def action_close(self) -> None:
        """Back."""
        self.dismiss(None)


def _row(keys: str, words: str, cells: int) -> Content:
    """Keys and their effects, whose further lines are below the first one."""
    lines = wrap(words, cells)
    return Content.assemble((f"  {keys:<8}", "bold"), (f"\n{' ' * _KEYS}".join(lines) + "\n", "$dim"))


def _reading(what: str, *text: str) -> Content:
    return Content.assemble((f"Reading {what}\n", "bold $accent"), *text)
