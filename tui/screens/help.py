"""The help, and the command palette."""

from collections.abc import Iterator
from functools import partial
from heapq import nsmallest
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import ModalScreen, Screen
from textual.system_commands import SystemCommandsProvider
from textual.widgets import Static

from ...engine.text.formatting import clean
from ..words import keys
from ..words.keys import LISTS, links, rows
from ..words.user_commands import command_rows
from .base_app import BaseApp, app_of

if TYPE_CHECKING:  # imported by the first search: the first paint needs neither
    from .main import MainScreen
    from .target_screen import TargetScreen


_WIDEST, _KEYS = 100, 11
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
        Binding("escape,question_mark,q,enter", "dismiss", "close"),
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
            ("Replay", rows("replay", "timeline") if replay else []),
            ("Everywhere" if name else "Keys", [row for row in here if row.shown not in screens]),
            ("Yours", [] if "user_command" in denied else command_rows()),
            ("Screens (also 1 to 9)", [row for row in here if row.shown in screens]),
        ]
        if alone:
            sections = [(name, rows(name)), ("Everywhere", rows("app", denied=denied)), ("Yours", command_rows())]
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


def _row(keys: str, words: str, cells: int) -> Content:
    """Keys and their effects, whose further lines are below the first one."""
    lines = wrap(words, cells)
    return Content.assemble((f"  {keys:<{_KEYS - 2}}", "bold"), (f"\n{' ' * _KEYS}".join(lines) + "\n", "$dim"))


def _reading(what: str, *text: str) -> Content:
    return Content.assemble((f"Reading {what}\n", "bold $accent"), *text)


_MAX_CHANNELS = 50
_WHOLE = 1_000.0
"""The score of a channel whose whole name was typed: above all commands that have the same letters."""


def target_commands(app: BaseApp[Any], screen: "TargetScreen | None") -> Iterator[SystemCommand]:
    """What the palette of a target's app offers; `screen` is the one on top, None while the engine starts."""
    from .target_screen import DetailScreen

    if screen is not None:
        name = screen.NAME if isinstance(screen, DetailScreen) else "main"
        places = ("main",) if name == "main" else ("detail", name)
        offered = commands(app, *places, owner=screen, replay=screen.shown.is_replay)
        yield from (command for command in offered if command.title != name)
    yield from commands(app, "app")


def commands(
    app: BaseApp[Any], *places: str, owner: Screen[Any] | None = None, replay: bool = False
) -> Iterator[SystemCommand]:
    """The commands at the places, actions of `owner`, else of the app, that the app does not deny."""
    for title, words, action in keys.palette(*places, replay=replay):
        if app.check_action(action, ()):
            yield SystemCommand(title, words, partial(app.run_command, title, owner, action))


class Commands(SystemCommandsProvider):
    """Offers the app's commands, those that the user has run most first."""

    async def discover(self) -> Hits:
        app = app_of(self.screen)
        used, offered = app.preferences.used, app.get_system_commands(self.screen)  # pyright: ignore[reportUnknownMemberType]
        for command in sorted(offered, key=lambda command: -used.get(command.title, 0)):
            yield DiscoveryHit(Content(command.title), command.callback, help=command.help)


class ChannelCommands(Provider):
    """Offers the page of each channel whose name contains what was typed, also as `Channel NAME`."""

    async def search(self, query: str) -> Hits:
        main, wanted = self._main, query.casefold()
        if main is None or not wanted:
            return
        names = (view.channel for view in main.shown.snapshot.channels)
        parts = (wanted, wanted.removeprefix("channel "))  # as the label has it
        matching = [name for name in names if any(part in name.casefold() for part in parts)]
        matcher = self.matcher(query)
        for name in nsmallest(_MAX_CHANNELS, matching, key=len):  # the fewer other letters, the nearer
            label = f"Channel {clean(name)}"
            yield Hit(
                _WHOLE if name.casefold() in parts else matcher.match(label),
                label.replace("[", "\\["),
                lambda name=name: main.open_channel(name),
                text=label,
                help="Its page",
            )

    @property
    def _main(self) -> "MainScreen | None":
        """The main screen that the palette was opened over, or below that screen."""
        from .main import MainScreen
        from .target_screen import TargetScreen

        stack: list[Screen[Any]] = self.app.screen_stack  # pyright: ignore[reportUnknownMemberType]
        over = isinstance(self.screen, TargetScreen)
        return next((screen for screen in stack if over and isinstance(screen, MainScreen)), None)
