"""The snapshot: the frozen state that screens, recordings, `--json` and checks read.

It is a part that every kind of target has (`common.py`) and one struct a kind (`targets.py`); `wire.py` is its JSON,
the contract of the command line. Times are epoch ms, durations ms; `None` is "no watermark yet" or "not known", never
a sentinel and never zero.
"""

from msgspec import field

from ..watermarks.channels import Folded
from ..watermarks.counts import TimePoint, Totals
from ..watermarks.explain import ExplainedColumn, ExplainedValue
from ..watermarks.lateness import RecentLateness, RecentRow, Recommended, WhatIf
from ..watermarks.observation import Offender
from ..watermarks.settings import SettingsChange
from ..watermarks.window_operator import FiredWindow
from .common import SNAPSHOT_VERSION, CommonPart, EngineState
from .flink_job import FlinkJob, FlinkVertex
from .lateness import ChannelLateness, LateRecord, WhatIfIdle
from .source import Note, NoteCode, SourcePosition, SourceView, Step
from .spark_query import (
    STATE_SCHEMA,
    BarrelRule,
    OperatorKind,
    OutputMode,
    SiblingQuery,
    SparkProgress,
    SparkQuery,
    StatefulOperator,
    UnmovedReason,
    WatermarkNode,
)
from .targets import ConsumerGroup, KafkaTopic, Other, OtherFact, OwnRun, TargetPart
from .watermark import (
    Blocker,
    Cause,
    ChannelState,
    ChannelView,
    Holder,
    InstanceView,
    Level,
    Reason,
    ReasonCode,
    Verdict,
    VerdictName,
)
from .windows import ChannelRecords, OpenWindow, Windows, WindowsUnknown, WindowsUnknownCode

__all__ = [
    "SNAPSHOT_VERSION",
    "STATE_SCHEMA",
    "BarrelRule",
    "Blocker",
    "Cause",
    "ChannelLateness",
    "ChannelRecords",
    "ChannelState",
    "ChannelView",
    "CommonPart",
    "ConsumerGroup",
    "EngineState",
    "ExplainedColumn",
    "ExplainedValue",
    "FiredWindow",
    "FlinkJob",
    "FlinkVertex",
    "Folded",
    "Holder",
    "InstanceView",
    "KafkaTopic",
    "LateRecord",
    "Level",
    "Note",
    "NoteCode",
    "Offender",
    "OpenWindow",
    "OperatorKind",
    "Other",
    "OtherFact",
    "OutputMode",
    "OwnRun",
    "Reason",
    "ReasonCode",
    "RecentLateness",
    "RecentRow",
    "Recommended",
    "SettingsChange",
    "SiblingQuery",
    "Snapshot",
    "SourcePosition",
    "SourceView",
    "SparkProgress",
    "SparkQuery",
    "StatefulOperator",
    "Step",
    "TargetPart",
    "TimePoint",
    "Totals",
    "UnmovedReason",
    "Verdict",
    "VerdictName",
    "WatermarkNode",
    "WhatIf",
    "WhatIfIdle",
    "Windows",
    "WindowsUnknown",
    "WindowsUnknownCode",
]


class Snapshot(CommonPart, frozen=True, kw_only=True):
    """Everything a screen shows, at one moment."""

    target: TargetPart = OwnRun()
    """What only its kind of target has."""
    origin: dict[str, str] | None = None
    """The tap that each part of an attached target's snapshot comes from; None: an engine of wmtop knows it itself."""
    points: list[TimePoint] = field(default_factory=list[TimePoint])
    """A sample of the records since the previous snapshot."""
    notes: list[Note] = field(default_factory=list[Note])
    """What happened to the source that its user should know, the oldest first."""
    steps: list[Step] = field(default_factory=list[Step])
    error: str | None = None
    log: str | None = None
    """The log file of a failed or starting engine."""

    @property
    def is_attached(self) -> bool:
        """Whether another program runs the target: its settings cannot be changed from here, and much is not known."""
        return not isinstance(self.target, OwnRun)

    @property
    def one_clock(self) -> bool:
        """Spark's rule: the fastest channel sets the watermark, so no channel holds it back."""
        return self.settings.strategy == "spark"

    @property
    def has_several_inputs(self) -> bool:
        """Whether a Spark query has several watermarks: then their lowest or highest sets its own, not its fastest
        channel.
        """
        return len(self.spark.nodes or ()) > 1

    @property
    def spark(self) -> SparkProgress:
        """What Spark reports; nothing of a target without Spark."""
        return self.target.spark if isinstance(self.target, OwnRun | SparkQuery) else _NO_SPARK

    @property
    def sources(self) -> list[SourcePosition] | None:
        """The positions in the sources, where the target reports them."""
        return self.target.sources if isinstance(self.target, SparkQuery | KafkaTopic | ConsumerGroup) else None

    @property
    def barrel(self) -> BarrelRule | None:
        """The watermark of a Spark query by its slowest channel."""
        return self.target.barrel if isinstance(self.target, SparkQuery) else None

    @property
    def siblings(self) -> list[SiblingQuery] | None:
        """The other queries of a Spark query's application."""
        return self.target.siblings if isinstance(self.target, SparkQuery) else None

    @property
    def flink(self) -> FlinkJob | None:
        """The target, if it is a Flink job."""
        return self.target if isinstance(self.target, FlinkJob) else None

    @property
    def job(self) -> FlinkJob:
        """The Flink job; one of which nothing is known for another kind of target."""
        return self.target if isinstance(self.target, FlinkJob) else _NO_JOB


_NO_SPARK = SparkProgress()
_NO_JOB = FlinkJob("", "", "UNKNOWN", None, [])
