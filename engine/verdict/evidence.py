"""What one look shows, beside the snapshot, of whether a watermark moves: a plain record, made where the facts are.

Each kind of target makes its own (`engine/targets`); an own run makes it of its source. Times are epoch ms.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ..snapshot import Snapshot
from ..snapshot.condition import Pause
from ..watermarks.watermark_history import Beat

Lost = Literal["starting", "source_silent", "failed", "engine_lost", "not_known"]
Inconclusive = Pause | Literal["continuous"]
Offsets = dict[str, int] | int | str | None


class Evidence(Struct, frozen=True, kw_only=True):
    """What a verdict needs beside the snapshot and the history; what has a default is not known unless it is given."""

    unread: int | None
    """Unread records; None: not known."""
    unread_since_ms: int | UnsetType | None = UNSET
    """Since when something has been unread without a break; None or `UNSET`: as long as the history remembers."""
    record_ms: int | UnsetType | None = UNSET
    """When a record last came, as the target shows it; None: none ever; `UNSET`: it does not show it."""
    last_read_ms: int | UnsetType | None = UNSET
    """When a record last came, at the latest, by a target that reports to have nothing to read: it counts where nothing
    else shows one. None: none ever; `UNSET`: it does not report that.
    """
    records_wait: bool = False
    """Records are known to wait inside the target: they have come, also if no other is read."""
    counted: int | None = None
    """Records that the target has counted since any moment: more of them than at the last look have come since."""
    reached: dict[str, int] = {}
    """How far each channel, task or input has come, by name: if one advances, records came."""
    bounded_backlog: bool = False
    """The source is read up to a fixed end: its remaining event time never grows."""
    lost: Lost | None = None
    """Why no newer state is known."""
    inconclusive: Inconclusive | None = None
    """Why unread records say nothing: they may only wait for the query's next trigger."""
    settled: bool = False
    """Another look would show no more, also if the verdict is not known."""
    beat: Beat | None = None
    """What happens again and again while all is well; None: the history sees beats itself. It is shown by `batch` or
    `offsets`, whichever is given; a sample by each look.
    """
    batch: int | None = None
    """The number of the last beat, where beats have numbers."""
    offsets: list[Offsets] | None = None
    """Positions of which each change is a beat."""
    identity: str | None = None
    """Another one than at the last look: what is seen under this name is another query or job."""
    restarted_ms: int | None = None
    """When it last began to run."""
    keeps_watermark: bool = True
    """It resumes its last watermark after a restart; else it has none until records come."""
    frozen_by_lateness_ms: int | None = None
    """How far (event time) a raised lateness alone holds the watermark back, by the target's own numbers."""


class Task(Struct, frozen=True):
    """A task with a time of its own, as if it were the target."""

    channels: list[str]
    """What it reads, by which it is known again at the next look."""
    snapshot: Snapshot
    evidence: Evidence


class Picture(Struct, frozen=True):
    """One look at a target, to be judged."""

    snapshot: Snapshot
    evidence: Evidence | None
    """None: it has a verdict of its own, as a chain, whose hops are judged each by its own target."""
    tasks: tuple[Task, ...] | None = None
    """The tasks, of which the worst is the target's verdict; None: the target has one watermark."""

    def as_stale(self) -> "Picture":
        """The same where nothing newer has come."""
        tasks = self.tasks and tuple(
            Task(task.channels, replace(task.snapshot, state="stale"), _without_news(task.evidence))
            for task in self.tasks
        )
        evidence = None if self.evidence is None else _without_news(self.evidence)
        return Picture(replace(self.snapshot, state="stale"), evidence, tasks)


def _without_news(evidence: Evidence) -> Evidence:
    return replace(evidence, lost=evidence.lost or "source_silent", restarted_ms=None)
