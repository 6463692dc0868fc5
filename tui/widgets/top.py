"""The lines at the top of every screen: the state of the run, the watermark and its holder, the settings and their
cost.
"""

from textual.app import ComposeResult
from textual.containers import Vertical

from ..present.formatting import clean
from ..present.line import part
from ..present.top import Top
from .lines import LevelLine, TextLine


class TopLines(Vertical):
    """Draws a `Top`."""

    def compose(self) -> ComposeResult:
        yield TextLine(id="status")
        yield TextLine(id="verdict")
        yield LevelLine(id="level")
        yield TextLine(id="tuning")
        yield TextLine(id="now")
        yield TextLine(id="from-start")
        yield TextLine(id="banner")
        yield TextLine(id="log")

    def show(self, top: Top) -> None:
        """Draw `top`."""
        self.query_one("#status", TextLine).show(top.status)
        self.query_one("#verdict", TextLine).show(top.verdict)
        self.query_one(LevelLine).show(top.story)
        self.query_one("#tuning", TextLine).show(top.tuning)
        for selector, parts in (("#now", top.now), ("#from-start", top.from_start)):
            line = self.query_one(selector, TextLine)
            line.show(parts)
            line.display = bool(parts)
        self._notice("#banner", top.banner)
        self._notice("#log", None if top.log is None else (f"log {top.log}", "text"))

    def _notice(self, selector: str, notice: tuple[str, str] | None) -> None:
        text, ink = notice or ("", "text")
        line = self.query_one(selector, TextLine)
        line.show([part((" " + clean(text), ink))])
        line.display = notice is not None
