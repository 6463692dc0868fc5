"""The windows: open, firing, fired; how far from closing, who they wait for, and why."""

from textual.app import ComposeResult

from ...engine.core.snapshot import Snapshot
from ..widgets.windows import WindowTable
from . import picture
from .detail import DetailScreen


class WindowsScreen(DetailScreen):
    """All windows that the snapshot knows."""

    NAME = "Windows"

    def body(self) -> ComposeResult:
        yield WindowTable(id="windows")

    def show(self, snapshot: Snapshot) -> None:
        self.query_one(WindowTable).show(picture.open_windows(snapshot, self.seen.view))
