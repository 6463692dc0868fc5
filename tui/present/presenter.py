"""The words that differ between own runs and attached targets, chosen once, here. Pure.

To support another kind, add it to `target_of` and write a presenter for it; screens use `presenter_of` and never test
the kind.
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
    """The words for one snapshot that depend on the kind of target."""

    can_apply: bool
    """Whether a previewed setting can be applied from here; else Enter gives the line to change in the job."""
    how_to_type: str
    """The hint beside the prompt for a lateness."""

    def __init__(self, snapshot: Snapshot) -> None: ...

    def untunable(self) -> str | None:
        """Why there is no lateness to change; None: there is."""
        ...

    def no_steps(self) -> str:
        """The words instead of a step of the preview if there is no what-if."""
        ...

    def state_override(self) -> tuple[str, str | None] | None:
        """The word for a state that is not simply live, with a line on it; None: the state is normal."""
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
        """The barrel's text without channels, its most important line first."""
        ...

    def no_channels(self) -> str:
        """The channel table's text without channels."""
        ...

    def no_windows(self) -> str:
        """The window table's text without windows."""
        ...

    def no_holders(self) -> str:
        """The history's text if no channel ever held back the watermark."""
        ...

    def no_lateness(self) -> str:
        """The lateness screen's text without a curve."""
        ...

    def no_idle_ladder(self) -> str:
        """The lateness screen's text without idle timeouts to compare."""
        ...

    def no_records(self) -> str:
        """The time screen's text without records."""
        ...

    def charts(self, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
        """The figures of the progress screen, in the order in which they are drawn."""
        ...

    def not_judged(self) -> str | None:
        """What the doctor cannot judge from here; None: it can judge everything."""
        ...


def presenter_of(snapshot: Snapshot) -> Presenter:
    """The presenter for the snapshot's target."""
    return _PRESENTERS[target_of(snapshot).kind](snapshot)


_PRESENTERS: dict[TargetKind, type[Presenter]] = {
    "run": OwnRun, "spark": SparkQuery, "broker": BrokerWatch, "flink": FlinkJob,
}  # fmt: skip
