"""The last setting that a screen changed: its effect, and the value before. Pure."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...engine.core.snapshot import SettingsChange, Snapshot
from .line import Part
from .preview_words import applied_parts
from .wish import ProposedSetting

SHOWN_MS = 120_000
"""How long (ms of wall clock) it is shown."""


class Applied(Struct, frozen=True):
    """A change sent to the engine; it is shown from the first snapshot after the emit that applied it."""

    proposed: ProposedSetting
    before: ProposedSetting
    version: int
    """The version of the settings in force when it was sent."""
    moved_ms: int | None = None
    """How far the watermark advanced at the emit that applied it; None: there was no watermark before."""
    undoes: bool = False
    """The change takes back the one before."""
    since_ms: int | None = None
    """When (wall clock, epoch ms) that snapshot was taken."""

    def in_force(self, snapshot: Snapshot) -> bool:
        """Whether the engine has the setting now."""
        settings = snapshot.settings
        return self.proposed.value_ms == (settings.idle_after_ms if self.proposed.idle else settings.lateness_ms)

    def seen(self, snapshot: Snapshot) -> "Applied":
        """The change with its effect, once a snapshot has it."""
        if self.since_ms is not None or not self.in_force(snapshot):
            return self
        made = next((change for change in reversed(snapshot.changes) if self._is(change)), None)
        if made is None or made.emitted_ms is None:
            return self
        return replace(self, moved_ms=made.moved_ms, since_ms=snapshot.wall_ms)

    def _is(self, change: SettingsChange) -> bool:
        value = change.idle_after_ms if self.proposed.idle else change.lateness_ms
        return change.version > self.version and value == self.proposed.value_ms

    def parts(self, snapshot: Snapshot) -> Sequence[Part]:
        """Its effect, for a line, as long as it is recent; else nothing."""
        if self.since_ms is None or not self.in_force(snapshot) or snapshot.wall_ms is None:
            return ()
        recent = snapshot.wall_ms - self.since_ms < SHOWN_MS
        return applied_parts(self.proposed.words(), self.moved_ms, undoes=self.undoes) if recent else ()
