"""What is said differently of an own run and of something attached: chosen once, here. Pure.

To follow another kind, add it to `target_of` and write a presenter for it; screens ask `presenter_of` and never what is
followed.
"""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Protocol

from ...engine.core.history import HistoryPoint
from ...engine.core.snapshot import Snapshot
from .attached import BrokerWatch, SparkQuery
from .chain import Stage
from .flink_job import FlinkJob
from .line import Part
from .own_run import OwnRun
from .preview import Preview
from .progress import Cells, Chart
from .target import TargetKind, target_of


class Presenter(Protocol):
    """The words for one snapshot, as far as they depend on what is followed."""

    can_apply: bool
    """Whether a previewed setting can be applied from here; else Enter gives the line to change in the job."""
    how_to_type: str
    """The hint beside the prompt for a lateness."""

    def __init__(self, snapshot: Snapshot) -> None: ...

    def untunable(self) -> str | None:
        """Why there is no lateness to change; None: there is."""
        ...

    def no_steps(self) -> str:
        """What is said instead of a step of the preview where no what-if is known."""
        ...

    def standing(self) -> tuple[str, str | None] | None:
        """The word for a state that is not simply live, and a line on it; None: nothing special."""
        ...

    def tuning(self, preview: Preview | None, recent_late: float | None) -> list[Part]:
        """The settings in force, what they cost, and what the preview would give."""
        ...

    def holder(self, zone: tzinfo | None) -> list[Part]:
        """Which channel holds back the watermark, how long and why; else why none does."""
        ...

    def stages(self, zone: tzinfo | None) -> list[Stage]:
        """The operators in the order in which records pass them."""
        ...

    def empty_barrel(self) -> str:
        """What the barrel says without channels, its most important line first."""
        ...

    def no_channels(self) -> str:
        """What the channel table says without channels."""
        ...

    def no_windows(self) -> str:
        """What the window table says without windows."""
        ...

    def no_holders(self) -> str:
        """What the history says where no channel ever held back the watermark."""
        ...

    def no_lateness(self) -> str:
        """What the lateness screen says without a curve."""
        ...

    def no_idle_ladder(self) -> str:
        """What the lateness screen says without idle timeouts to compare."""
        ...

    def no_records(self) -> str:
        """What the time screen says without records."""
        ...

    def charts(self, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
        """The figures of the progress screen, in the order in which they are drawn."""
        ...

    def not_judged(self) -> str | None:
        """What the doctor cannot judge from here; None: it can judge all of it."""
        ...


def presenter_of(snapshot: Snapshot) -> Presenter:
    """The presenter for what the snapshot is of."""
    return _PRESENTERS[target_of(snapshot).kind](snapshot)


_PRESENTERS: dict[TargetKind, type[Presenter]] = {
    "run": OwnRun, "spark": SparkQuery, "broker": BrokerWatch, "flink": FlinkJob,
}  # fmt: skip
