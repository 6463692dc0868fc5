"""What all presenters say alike. Pure."""

from ...engine.core.snapshot import Snapshot
from .preview import untunable


class SnapshotWords:
    """The words for a snapshot that do not depend on what is followed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def untunable(self) -> str | None:
        """Why there is no lateness to change; None: there is. Only some strategies have one."""
        settings = self._snapshot.settings
        return None if settings.tunable else untunable(settings.strategy)

    def no_steps(self) -> str:
        """A lateness can still be typed."""
        return "No what-if is known here: type a lateness with ="
