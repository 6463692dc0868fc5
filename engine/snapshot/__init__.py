"""The snapshot: the frozen state that screens, recordings, `--json` and checks read.

It is a part that every kind of target has and, in `kinds`, one part a kind; `engine/feed/messages.py` has its JSON, the
contract of the command line. Times are epoch ms, durations ms; `None` is "no watermark yet" or "not known", never a
sentinel and never zero.
"""

from typing import Literal

from msgspec import Struct, field

from ..watermarks.channels import Folded
from ..watermarks.counts import TimePoint, Totals
from ..watermarks.explain import ExplainedColumn, ExplainedValue
from ..watermarks.lateness import RecentLateness, RecentRow, WhatIf
from ..watermarks.observation import MalformedRecord, Offender
from ..watermarks.settings import Settings, SettingsChange
from ..watermarks.whatif import ChannelLateness, WhatIfIdle
from ..watermarks.window_operator import FiredWindow
from .condition import NOTHING_KNOWN, Condition, LostDirectory, Uncommitted
from .kinds import PARTS, TargetKind, TargetPart
from .kinds.chain import Chain
from .kinds.flink_job import FlinkJob
from .kinds.group import ConsumerGroup
from .kinds.kafka_streams import Clock, KafkaStreams, Reprocessed, StreamsApplication, WaitingWindow
from .kinds.own_run import LateRecord, OwnRun
from .kinds.plugin import Other, OtherFact
from .kinds.spark_query import BarrelRule, SiblingQuery, SparkQuery
from .kinds.topic import KafkaTopic
from .notes import Note, NoteCode
from .source import SourcePosition, SourceView
from .spark_progress import (
    STATE_SCHEMA,
    OperatorKind,
    OutputMode,
    SparkProgress,
    StatefulOperator,
    UnmovedReason,
    WatermarkNode,
)
from .watermark import (
    UNCOUNTED,
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
    "PARTS",
    "STATE_SCHEMA",
    "UNCOUNTED",
    "Cause",
    "Chain",
    "ChannelRecords",
    "ChannelState",
    "Clock",
    "ConsumerGroup",
    "ExplainedColumn",
    "ExplainedValue",
    "FiredWindow",
    "Holder",
    "KafkaTopic",
    "LateRecord",
    "LostDirectory",
    "NoteCode",
    "OpenWindow",
    "OperatorKind",
    "Other",
    "OtherFact",
    "OutputMode",
    "Reason",
    "ReasonCode",
    "RecentRow",
    "Reprocessed",
    "SettingsChange",
    "StatefulOperator",
    "StreamsApplication",
    "TargetKind",
    "TargetPart",
    "Uncommitted",
    "UnmovedReason",
    "VerdictName",
    "WaitingWindow",
    "WatermarkNode",
    "WindowsUnknown",
    "WindowsUnknownCode",
]
"""What is exported besides what is defined or used here."""

SNAPSHOT_VERSION = 1

EngineState = Literal["starting", "live", "partial", "stale", "paused", "ended", "failed"]


class CommonPart(Struct, frozen=True, kw_only=True):
    """What is shown of any target, at one moment, as far as the JSON has it first; `Snapshot` has the rest."""

    version: int = SNAPSHOT_VERSION
    name: str
    state: EngineState
    batch: int | None = None
    now_ms: int | None = None
    """Processing time; in a replay, the replay clock."""
    wall_ms: int | None = None
    """Wall clock of the engine's host when this snapshot was taken."""
    ended: bool = False
    settings: Settings
    source: SourceView | None = None
    level: Level = Level()
    verdict: Verdict = Verdict()
    blockers: list[Blocker] | None = None
    """The channels that hold back the watermark, step by step; None: not known, or without a valve (Spark's rule)."""
    channels: list[ChannelView] = []
    folded: Folded | None = None
    """The channels that share one; None: every channel is separate."""
    instances: list[InstanceView] | None = None
    windows: Windows = Windows()
    totals: Totals = Totals()
    whatif: list[WhatIf] | None = None
    whatif_idle: list[WhatIfIdle] | None = None
    whatif_recent: list[RecentLateness] | None = None
    """The same for the last 15 min, 1 h, 24 h and since the start; None without a what-if."""
    whatif_upper_bound: bool = False
    """The what-if counts are upper bounds (session windows, an attached query): show `≤`."""
    whatif_bucket_ms: int | None = None
    """Width (ms) of the buckets of an attached query's counts, and so their possible error."""
    lateness_by_channel: list[ChannelLateness] = []
    """Lateness of the channels with most records behind the watermark."""
    last_future: Offender | None = None
    last_malformed: Offender | None = None
    malformed_example: MalformedRecord | None = None


class Step(Struct, frozen=True):
    """A step of the start: `seconds` is `None` while it runs."""

    name: str
    seconds: float | None = None


class Snapshot(CommonPart, frozen=True, kw_only=True):
    """Everything a screen shows, at one moment."""

    target: TargetPart = OwnRun()
    """What only its kind of target has."""
    origin: dict[str, str] | None = None
    """The tap that each part of an attached target's snapshot comes from; None: an engine of wmtop knows it itself."""
    condition: Condition = NOTHING_KNOWN
    """What the target reports of its own state."""
    points: list[TimePoint] = field(default_factory=list[TimePoint])
    """A sample of the records since the previous snapshot."""
    notes: list[Note] = field(default_factory=list[Note])
    """What happened to the source that its user should know, the oldest first; nothing else follows from them."""
    steps: list[Step] = field(default_factory=list[Step])
    """The steps of the start."""
    error: str | None = None
    log: str | None = None
    """The log file of a failed or starting engine."""

    @property
    def is_attached(self) -> bool:
        """Whether another program runs the target: its settings cannot be changed from here, and much is not known."""
        return not self.target.is_own

    @property
    def one_clock(self) -> bool:
        """Spark's rule: the fastest channel sets the watermark, so no channel holds it back."""
        return self.settings.one_clock and not self.spark.slowest_clock

    @property
    def late_watermark_ms(self) -> int | None:
        """The watermark (epoch ms) that late records are compared with: under Spark's rule that of the last batch."""
        reported = self.settings.one_clock and self.spark.watermark_ms is not None
        return self.spark.batch_watermark_ms if reported else self.level.watermark_ms

    @property
    def closed_by(self) -> int | None:
        """The batch that closed what has ended and is still open, which the next one emits; only under Spark's rule."""
        if not self.settings.one_clock or self.batch is None:
            return None
        return self.batch - 1 if self.spark.in_flight else self.batch

    @property
    def has_several_inputs(self) -> bool:
        """Whether a Spark query has several watermarks: not its fastest channel sets its own, but one of them."""
        return len(self.spark.nodes or ()) > 1

    @property
    def own(self) -> OwnRun:
        """What only an own run has; nothing of it for another kind of target."""
        return self.target if isinstance(self.target, OwnRun) else _NO_RUN

    @property
    def spark(self) -> SparkProgress:
        """What Spark reports; nothing of a target without Spark."""
        return self.target.spark if isinstance(self.target, OwnRun | SparkQuery) else _NO_SPARK

    @property
    def sources(self) -> list[SourcePosition] | None:
        """The positions in the sources, where the target reports them."""
        target = self.target
        return target.sources if isinstance(target, SparkQuery | KafkaTopic | ConsumerGroup | KafkaStreams) else None

    @property
    def barrel(self) -> BarrelRule | None:
        """The watermark of a Spark query by its slowest channel."""
        return self.target.barrel if isinstance(self.target, SparkQuery) else None

    @property
    def siblings(self) -> list[SiblingQuery] | None:
        """The other queries of a Spark query's application."""
        return self.target.siblings if isinstance(self.target, SparkQuery) else None

    @property
    def chain(self) -> Chain:
        """The chain; one without hops for another kind of target."""
        return self.target if isinstance(self.target, Chain) else _NO_CHAIN

    @property
    def clocks(self) -> list[Clock]:
        """The clocks of a Kafka Streams application; other targets have one watermark instead."""
        return self.target.clocks if isinstance(self.target, KafkaStreams) else []

    @property
    def job(self) -> FlinkJob:
        """The Flink job; one of which nothing is known for another kind of target."""
        return self.target if isinstance(self.target, FlinkJob) else _NO_JOB


_NO_RUN = OwnRun()
_NO_SPARK = SparkProgress()
_NO_CHAIN = Chain([], [])
_NO_JOB = FlinkJob("", "", "UNKNOWN", None, [])
