"""The screen for terminals that are too small: the most important lines, and the size that is needed."""

from textual.app import ComposeResult
from textual.events import Resize
from textual.screen import ModalScreen

from ..present.line import part
from ..present.top import Top
from ..widgets.lines import TextLine
from ..widgets.top import TopLines
from .host import app_of

MIN_WIDTH, MIN_HEIGHT = 60, 15


def too_small(width: int, height: int) -> bool:
    """Whether a terminal of that many cells is too small for the screens."""
    return 0 < width < MIN_WIDTH or 0 < height < MIN_HEIGHT


class TooSmallScreen(ModalScreen[None]):
    """Covers all else until the terminal has grown."""

    def __init__(self, top: Top | None) -> None:
        super().__init__()
        self._top = top

    def compose(self) -> ComposeResult:
        yield TextLine(id="needed")
        yield TextLine(id="keys")
        yield TopLines()

    def on_mount(self) -> None:
        self.show(self._top)

    def on_resize(self, event: Resize) -> None:
        self._say()

    def show(self, top: Top | None) -> None:
        """Show the top lines of the covered screen; None: there are none yet."""
        self._top = top
        if self.is_mounted:
            if top is not None:
                self.query_one(TopLines).show(top)
            self._say()

    def _say(self) -> None:
        width, height = app_of(self).size
        needed = f" too small: {width}×{height}, needs {MIN_WIDTH}×{MIN_HEIGHT}"
        self.query_one("#needed", TextLine).show([part((needed, "stale"))])
        self.query_one("#keys", TextLine).show([part((" q", "key"), (" quit", "dim"))])
