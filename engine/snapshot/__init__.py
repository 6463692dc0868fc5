"""The snapshot: the frozen state that screens, recordings, `--json` and checks read.

It is a part that every kind of target has and one struct a kind; `wire.py` is its JSON, the contract of the command
line. Times are epoch ms, durations ms; `None` is "no watermark yet" or "not known", never a sentinel and never zero.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from ..watermarks.channels import Folded
from ..watermarks.counts import TimePoint, Totals
from ..watermarks.explain import ExplainedColumn, ExplainedValue
from ..watermarks.lateness import RecentLateness, RecentRow, WhatIf
from ..watermarks.observation import MalformedRecord, Offender
from ..watermarks.settings import Settings, SettingsChange
from ..watermarks.whatif import ChannelLateness, WhatIfIdle
from ..watermarks.window_operator import FiredWindow
from .chain import Chain
from .flink_job import FlinkJob
from .kafka_streams import Clock, KafkaStreams, Reprocessed, StreamsApplication, WaitingWindow
from .spark_query import (
    STATE_SCHEMA,
    BarrelRule,
    OperatorKind,
    OutputMode,
    SiblingQuery,
    SourcePosition,
    SparkProgress,
    SparkQuery,
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

__all__ = [
    "STATE_SCHEMA",
    "UNCOUNTED",
    "Cause",
    "ChannelState",
    "Clock",
    "ExplainedValue",
    "Holder",
    "OperatorKind",
    "OutputMode",
    "Reason",
    "ReasonCode",
    "RecentRow",
    "Reprocessed",
    "StatefulOperator",
    "StreamsApplication",
    "UnmovedReason",
    "VerdictName",
    "WaitingWindow",
    "WatermarkNode",
]
"""What is exported besides what is defined or used here."""

SNAPSHOT_VERSION = 1

EngineState = Literal["starting", "live", "partial", "stale", "paused", "ended", "failed"]


class SourceView(Struct, frozen=True):
    """Where the records come from: `kind` is replay, files, rate or kafka; attached: checkpoint, topic or group."""

    kind: str
    description: str
    speed: float | None = None
    """Replay: seconds of arrival time per second; `None`: a live source, or as fast as possible."""
    reader: str | None = None
    rows: int | None = None
    """The total number of rows, if the source has an end."""
    rows_read: int | None = None
    time_column: str | None = None
    time_unit: str | None = None
    """The format of event times: `epoch ms`, `ISO 8601`; `(recognised)` if no option sets it."""
    max_drift_ms: int | None = None
    """Kafka: how far a partition may run ahead of the slowest (balanced reading)."""
    backlog: int | None = None
    """Unread records of all channels."""
    drift_ms: int | None = None
    """How far the fastest partition that is not idle is ahead of the slowest, by event time read."""
    drift_unbalanced_ms: int | None = None
    """The same if all available records had been read."""
    bootstrap: str | None = None
    """Kafka: the addresses of the cluster, as given."""
    cluster: str | UnsetType = UNSET
    """Kafka: the id that the cluster gives itself."""


NoteCode = Literal[
    # About a source that this wmtop reads.
    "topic_missing",  # topic, near: what the cluster has instead
    "topic_gone",  # topic, unread: records that were not read
    "topic_recreated",  # topic, from_start: 1, or 0 if its first records are skipped
    "partition_added",  # topic, partition
    "cluster_silent",  # why
    "cluster_answers",  # silent_ms
    "records_expired",  # topic, partition, records: deleted before they were read, offset: the first that is left
    "log_cut",  # topic, partition, offset: where it was cut, read_to, again: 1, or 0 if it is not read again from there
    "read_failed",  # why; reading is retried
    "time_not_found",  # why
    "file_unread",  # file, why: empty, growing, unfinished, other_format, gone or moved, format, more: other files
    "file_changed",  # file: after it was read, bytes, bytes_now, more: other files
    "directory_lost",  # directory, why
    "directory_back",  # directory, lost_ms
    "max_drift_ignored",  # Spark's connector does not balance partitions
    # About the engine itself.
    "jvm_silent",  # pid, silent_ms
    "engine_stopping",
    "start_stuck",  # step: the one that shows no progress, silent_ms
    "channels_folded",  # into, channels, at_least: 1 if there are more, records, limit
    "one_batch",  # source: its kind; the stream was a single batch, so no record could be late
    "snapshot_too_long",  # channels: left out, with the windows; bytes, limit
    "alert_failed",  # command: of --on-alert, why; only the first failure
    # About an attached query or consumer group, and what is unknown about it.
    "not_started",
    "stopped",
    "application_gone",  # silent_ms: since its last report
    "batch_unfinished",  # batch; alive: it runs
    "query_silent",  # alive: 1, or None where its application may have died
    "query_idle",
    "no_batch_ended",  # silent_ms: since the query started; alive: it runs
    "continuous",  # its trigger: no batches and no watermark are reported
    "pause_unknown",  # silent_ms: longer than usual, but the trigger's interval is not known; alive: it runs
    "waits_for_trigger",  # trigger_ms: its interval, silent_ms
    "no_batch",
    "no_new_batch",
    "unreadable",  # why
    "newer_format",  # version: of the checkpoint's offset log
    "broker_silent",  # why
    "time_needed",  # column: of the watermark, None if not known
    "channels_sampled",  # tap, kept, of
    "nodes_without_tap",  # columns
    "windows_unknown",  # code: a `WindowsUnknownCode`, and its arguments
    "driver_only",
    "driver_no_watermark",
    "no_watermark",  # sure: 1, or None if perhaps no record has reached it yet
    "watermark_pinned",  # columns, why: no_input or own_output
    "watermark_unmoved",  # nodes: how many watermarks are known, sources: those without data, why: `UnmovedReason`
    "watermark_frozen",  # frozen_ms: event time until it moves again
    "slowest_clock",  # the slowest partition drives the watermark
    "sibling_failed",  # name, why, more: number of other queries that failed
    "windows_untimed",  # operator: its windows are not known to wait for event time
    "ended_early",  # subtask: an input that has not ended below an operator with the last watermark, more: their number
    "partitions_unseen", "partitions_uncommitted", "no_member",  # partitions, partition: the first, records, …
]  # fmt: skip


class Note(Struct, frozen=True):
    """An event of the source that the user should know, by code; the screen has the words.

    `wall_ms` is when it happened or was found (wall clock, epoch ms); `args` are its numbers (ms, counts) and names.
    """

    wall_ms: int
    code: NoteCode
    args: dict[str, str | int | None] = {}


class ChannelRecords(Struct, frozen=True):
    """The records of a channel in a window."""

    channel: str
    records: int


class OpenWindow(Struct, frozen=True):
    """A window that has not fired; `short_ms` of event time are missing until it fires."""

    start_ms: int
    end_ms: int
    records: int | None
    waits_for: str | None
    short_ms: int | None
    operator: int | None = None
    """Its operator, if an attached query has several stateful ones."""
    channels: list[ChannelRecords] | None = None
    """The channels with most records in it; None: not known, or not among the windows that close next."""
    channel_count: int | None = None
    """How many channels have records in it."""
    blockers: list[str] | None = None
    """The aligned channels below the watermark it needs, in the holder's order, at most 32; None: not known."""
    blocker_count: int | None = None


WindowsUnknownCode = Literal[
    # About the state of a Spark query.
    "no_state",
    "state_not_read",
    "state_not_found",
    "state_elsewhere",
    "no_batch",
    "commits_unreadable",
    "settings_unreadable",
    "partitions_unknown",
    "nothing_read",
    "no_windows",  # kind: the operator keeps no windows; where Spark reads them, timers, first_ms
    "no_time_window",
    "several_time_windows",
    "time_window_form",
    "state_store",  # name: only Spark itself reads it
    "state_encoding",  # name: only Spark itself reads it
    "too_many_keys",  # limit
    "vanished",  # why: files that were deleted during the reading
    "unreadable",  # why
    "remote_state",  # partitions, limit: too many to fetch from a store
    "remote_state_size",  # bytes, limit: too much to fetch from a store
    "spark_starting",
    "spark_slow",  # seconds
    "spark_failed",  # why
    "spark_unreadable",  # why
    # About targets without windows to show.
    "not_in_broker",
    "not_in_rest",
    "sink_waits",
]


class WindowsUnknown(Struct, frozen=True):
    """Why windows (or newer ones) are unknown: a code and its arguments; the screen has the words."""

    code: WindowsUnknownCode
    args: dict[str, str | int | None] = {}


class Windows(Struct, frozen=True):
    """The windows by end; `open` lists the earliest, `open_count` is the number of all."""

    open: list[OpenWindow] = []
    open_count: int | None = 0
    open_records: int | None = None
    """The records in all open windows."""
    fired: int | None = 0
    late_firings: int | None = 0
    last_fired: list[FiredWindow] = []
    """The windows that fired last, by first firing, the oldest first."""
    kept: int | None = None
    """Windows in the state whose end has passed: complete mode keeps what it has emitted."""
    unknown: WindowsUnknownCode | None = None
    """Why windows (or newer ones) are unknown."""
    unknown_args: dict[str, str | int | None] = {}
    """The arguments of that code; `operator` if it is about one of several."""


class LateRecord(Struct, frozen=True):
    """A dropped record as in the late output: its batch, and the columns `wmtop_*` (ms).

    `watermark_ms` and `late_by_ms` are None after the end of the stream, `window_end_ms` between windows. `topic`,
    `partition` and `offset` are known only for a record from Kafka.
    """

    batch: int
    channel: str
    time_ms: int
    watermark_ms: int | None = None
    window_end_ms: int | None = None
    late_by_ms: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


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


class OwnRun(Struct, frozen=True):
    """An engine of wmtop: its records are counted, and its settings can be changed."""

    spark: SparkProgress = SparkProgress()
    steps: list[Step] = []
    """The steps of the start."""
    changes: list[SettingsChange] = []
    """The latest changes of settings while running, oldest first."""
    explain: list[ExplainedColumn] | None = None
    """Late records by the values of the `--explain` columns; None: not asked for, or not known."""
    late_output: str | None = None
    """The directory or URI of `--late-output`; None: late records are not kept, or not known."""
    late_sample: list[LateRecord] | None = None
    """At most 20 of the records in it, the newest batch first, in a batch the most late first; None: not known."""


class KafkaTopic(Struct, frozen=True):
    """A topic, watched up to the end of its partitions."""

    sources: list[SourcePosition] | None = None


class ConsumerGroup(Struct, frozen=True):
    """A topic, watched up to the positions of a consumer group."""

    sources: list[SourcePosition] | None = None


class OtherFact(Struct, frozen=True):
    """A fact of a plug-in's target: a word of the plug-in's, its value, and its unit; "ms" is shown as a duration."""

    name: str
    value: float | int | str | None
    """None: not known."""
    unit: str = ""


class Other(Struct, frozen=True):
    """What only a plug-in's kind of target has; `kind` is the scheme of its addresses."""

    kind: str
    facts: list[OtherFact] = []


TargetPart = OwnRun | SparkQuery | FlinkJob | KafkaTopic | ConsumerGroup | KafkaStreams | Other | Chain


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
        return self.settings.strategy == "spark" and not self.spark.slowest_clock

    @property
    def late_watermark_ms(self) -> int | None:
        """The watermark (epoch ms) that late records are compared with: under Spark's rule that of the last batch."""
        reported = self.settings.strategy == "spark" and self.spark.watermark_ms is not None
        return self.spark.batch_watermark_ms if reported else self.level.watermark_ms

    @property
    def closed_by(self) -> int | None:
        """The batch that closed what has ended and is still open, which the next one emits; only under Spark's rule."""
        if self.settings.strategy != "spark" or self.batch is None:
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
    def clocks(self) -> list[Clock]:
        """The clocks of a Kafka Streams application; other targets have one watermark instead."""
        return self.target.clocks if isinstance(self.target, KafkaStreams) else []

    @property
    def job(self) -> FlinkJob:
        """The Flink job; one of which nothing is known for another kind of target."""
        return self.target if isinstance(self.target, FlinkJob) else _NO_JOB


_NO_RUN = OwnRun()
_NO_SPARK = SparkProgress()
_NO_JOB = FlinkJob("", "", "UNKNOWN", None, [])
