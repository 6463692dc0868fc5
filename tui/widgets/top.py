"""The lines at the top of every screen: how things stand, the level and its holder, the settings and their cost."""

from collections.abc import Sequence

from msgspec import Struct
from textual.app import ComposeResult
from textual.containers import Vertical

from ..formatting import clean
from .line import Part, part
from .lines import LevelLine, Story, TextLine


class Top(Struct, frozen=True):
    """What the lines say; `banner` (text and ink) and `log` are there only when they say something."""

    status: Sequence[Part] = ()
    story: Story = Story()
    tuning: Sequence[Part] = ()
    banner: tuple[str, str] | None = None
    log: str | None = None


class TopLines(Vertical):
    """Draws a `Top`."""

    def compose(self) -> ComposeResult:
        yield TextLine(id="status")
        yield LevelLine(id="level")
        yield TextLine(id="tuning")
        yield TextLine(id="banner")
        yield TextLine(id="log")

    def show(self, top: Top) -> None:
        """Draw `top`."""
        self.query_one("#status", TextLine).show(top.status)
        self.query_one(LevelLine).show(top.story)
        self.query_one("#tuning", TextLine).show(top.tuning)
        self._notice("#banner", top.banner)
        self._notice("#log", None if top.log is None else (f"log {top.log}", "text"))

    def _notice(self, selector: str, notice: tuple[str, str] | None) -> None:
        text, ink = notice or ("", "text")
        line = self.query_one(selector, TextLine)
        line.show([part((" " + clean(text), ink))])
        line.display = notice is not None
