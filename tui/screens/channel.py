"""One channel: its watermark against the level, its quiet periods, its counts."""

from textual.app import ComposeResult

from ...engine.core.snapshot import Snapshot
from ..widgets.lines import TextLine
from .detail import DetailScreen


class ChannelScreen(DetailScreen):
    """The selected channel."""

    NAME = "Channel"

    def body(self) -> ComposeResult:
        yield TextLine(id="channel")

    def show(self, snapshot: Snapshot) -> None:
        self.query_one(TextLine)
