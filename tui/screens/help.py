"""The help: what the keys do, and how to read the picture."""

from textwrap import wrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import Static

from .detail import LINKS, DetailScreen, app_of
from .further import FURTHER

APPLY = ("Enter", "apply the preview to the running engine")
FREEZE = ("p", "freeze the picture; data keeps coming")
RECORD = ("R", "record what you see, to replay it; again to stop")
KEYS = (
    ("Tuning", (
        ("+ -", "preview a longer or shorter lateness"),
        ("=", "type a lateness: 45m, 1h30m, 90s"),
        ("[ ]", "preview a shorter or longer idle timeout"),
        APPLY,
        ("Esc", "drop it; go back; clear the filter"),
    )),
    ("Looking", (
        ("← →", "select a stave; the table follows"),
        ("↑ ↓", "select a row; the barrel follows"),
        ("Tab", "from one table to the other"),
        ("Enter", "open the channel's page, or the channels inside an instance"),
        ("s  /", "sort the channels; filter them (regular expression)"),
        ("x", "event time, or log distance behind the fastest"),
        FREEZE,
        ("T  c", "UTC or local time; dark or light"),
        ("S", "save the screen as SVG"),
        RECORD,
        ("ctrl+p", "all commands"),
        ("q", "quit"),
    )),
)  # fmt: skip
SCREENS = ("Further screens", tuple((link.key, f"{link.name}: {link.about}") for link in LINKS if link.name in FURTHER))
EVERYWHERE = (
    ("Everywhere", (
        ("Esc", "back to where it was opened; with a preview open, drop it"),
        ("+ - [ ]", "preview another lateness or idle timeout"),
        APPLY,
        FREEZE,
        ("T  c", "UTC or local time; dark or light"),
        ("S", "save the screen as SVG"),
        RECORD,
        ("q", "quit"),
    )),
)  # fmt: skip
REPLAY = (
    ("Replay", (
        ("Space p", "play or pause; at the end, from the start"),
        (", .", "one snapshot back or on"),
        ("< >", "slower or faster"),
        ("{ }", "back or on by a twentieth (shift+← →); click or drag on the timeline"),
        ("n N", "the next mark, the one before: ◆ new holder, ━ the level stands, ! many late"),
        ("G", "go to a time: 14:30, 02-08 14:30, +10m, -1h"),
    )),
)  # fmt: skip
_WIDEST, _KEYS = 100, 10
"""The box at its widest (wmtop.tcss), and what the keys take of a line."""
_BESIDE = _KEYS + 7
"""With the border, the padding and the scroll bar."""
NOT_IN_REPLAY = (APPLY, FREEZE, RECORD)
READING = (
    "Each channel is a stave, as high as its watermark. The water is the level: it can stand no higher than the lowest "
    "stave that takes part. Who that is holds event time back for all, and the second line says why.\n\n",
    "▓ holds the level   ░ idle: left out of the minimum   ╱ catching up: not yet aligned again   ║ finished   "
    "? never seen   ▼3d ends 3 d behind the level, below the picture   ▌ several channels folded into one cell\n\n",
    "The dotted line ┈ is the level had the previewed setting been in force from the start. A range (2.1–2.3 %) says "
    "that the value lies between two that were counted; ≤ an upper bound (session windows, a query of others); "
    "≈ not counted exactly.\n\n",
    "late: records that came when every window they belong to was closed, as a share of all; now: of the last minute.\n"
    "A window closes when the records of every channel that counts have reached the event time that it needs: its end "
    "plus the lateness.\n"
    "fired: windows that have fired; again: how often one fired once more, for a record within the allowed lateness.",
)  # fmt: skip


class HelpScreen(ModalScreen[None]):
    """Shown over the main screen, or over a further one, whose help it then is; any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "close", "close")]

    def __init__(self, *, replay: bool = False, about: DetailScreen | None = None) -> None:
        super().__init__()
        self._about = about
        own = ((about.NAME, tuple(about.ABOUT.keys)),) if about is not None and about.ABOUT.keys else ()
        always = (*KEYS, SCREENS) if about is None else (*EVERYWHERE, SCREENS)
        self._sections = (*own, *(REPLAY if replay else ()), *always)
        self._hidden = NOT_IN_REPLAY if replay else ()
        self._composed_for = 0

    def compose(self) -> ComposeResult:
        self._composed_for = self._words_cells
        with VerticalScroll(id="help") as box:
            box.border_title = "Help"
            box.border_subtitle = "Esc closes"
            if self._about is not None:
                yield Static(_reading(self._about.NAME, self._about.ABOUT.reading.rstrip() + "\n"))
            for title, rows in self._sections:
                keys = [row for row in rows if row not in self._hidden]
                lines = [_row(key, words, self._words_cells) for key, words in keys]
                yield Static(Content("").join([Content.styled(title + "\n", "bold $accent"), *lines]))
            if self._about is None:
                yield Static(_reading("the barrel", *READING))

    def on_resize(self, event: Resize) -> None:
        if self._words_cells != self._composed_for:
            self.refresh(recompose=True)

    @property
    def _words_cells(self) -> int:
        """How wide what a key does can be, beside the keys."""
        return max(min(_WIDEST, app_of(self).size.width * 96 // 100) - _BESIDE, 20)

    def action_close(self) -> None:
        """Back."""
        self.dismiss(None)


def _row(keys: str, words: str, cells: int) -> Content:
    """Keys and what they do, whose further lines stand below its first one."""
    lines = wrap(words, cells)
    return Content.assemble((f"  {keys:<8}", "bold"), (f"\n{' ' * _KEYS}".join(lines) + "\n", "$dim"))


def _reading(what: str, *text: str) -> Content:
    return Content.assemble((f"Reading {what}\n", "bold $accent"), *text)
