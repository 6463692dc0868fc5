"""The help: what the keys do, and how to read the picture."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

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
        ("Enter", "with source instances: open the channels inside"),
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
NOT_IN_REPLAY = (APPLY, FREEZE, RECORD)
READING = (
    "Each channel is a stave, as high as its watermark. The water is the level: it can stand no higher than the lowest "
    "stave that takes part. Who that is holds event time back for all, and the second line says why.\n\n",
    "▓ holds the level   ░ idle: left out of the minimum   ╱ catching up: not yet aligned again   ║ finished   "
    "? never seen   ▼3d ends 3 d behind the level, below the picture   ▌ several channels folded into one cell\n\n",
    "The dotted line ┈ is the level had the previewed setting been in force from the start. A range (2.1–2.3 %) says "
    "that the value lies between two that were counted; ≤ an upper bound (session windows); ≈ not counted exactly.\n\n",
    "late: records that came when every window they belong to was closed, as a share of all; now: of the last minute.\n"
    "A window closes when a channel's records have reached its end plus the lateness: closes at says when that is.",
)  # fmt: skip


class HelpScreen(ModalScreen[None]):
    """Shown over the main screen; any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "close", "close")]

    def __init__(self, *, replay: bool = False) -> None:
        super().__init__()
        self._sections = (*REPLAY, *KEYS) if replay else KEYS
        self._hidden = NOT_IN_REPLAY if replay else ()

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help") as box:
            box.border_title = "Help"
            box.border_subtitle = "Esc closes"
            for title, rows in self._sections:
                lines = [Content.styled(title + "\n", "bold $accent")]
                keys = [row for row in rows if row not in self._hidden]
                lines += [Content.assemble((f"  {key:<8}", "bold"), (f"{words}\n", "$dim")) for key, words in keys]
                yield Static(Content("").join(lines))
            yield Static(Content.assemble(("Reading the barrel\n", "bold $accent"), *READING))

    def action_close(self) -> None:
        """Back."""
        self.dismiss(None)
