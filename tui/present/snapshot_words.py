"""The words that all presenters share. Pure."""

from collections.abc import Sequence

from ...engine.core.history import HistoryPoint
from ...engine.core.snapshot import Snapshot
from .preview import untunable
from .progress import Cells, Chart, charts


class SnapshotWords:
    """The words for a snapshot that do not depend on the kind of target."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def untunable(self) -> str | None:
        """Why there is no lateness to change; None: there is. Only some strategies have one."""
        settings = self._snapshot.settings
        return None if settings.tunable else untunable(settings.strategy)

    def no_steps(self) -> str:
        """None: a lateness can still be typed."""
        return "No what-if is known here: type a lateness with ="

    def charts(self, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
        """Rows, results, batches, backlog and state."""
        return charts(self._snapshot, points, cells)
