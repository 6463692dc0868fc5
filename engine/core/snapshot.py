"""The frozen picture that every reader gets: screens, recordings, `--json`, checks.

Encoded with msgspec it *is* the JSON contract of the command line. Times are epoch ms, durations ms; `None` is "no
watermark yet" or "not known", never a sentinel and never zero.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from .flink_job import FlinkJob
from .settings import Settings

SNAPSHOT_VERSION = 1

EngineState = Literal["starting", "live", "partial", "stale", "paused", "ended", "failed"]
ChannelState = Literal["active", "catching_up", "idle", "never_seen", "finished"]
OutputMode = Literal["append", "update", "complete"]
OperatorKind = Literal[
    "aggregation",
    "session",
    "join",
    "dedup",
    "dedup_within_watermark",
    "limit",
    "map_groups_with_state",
    "transform_with_state",
    "other",
]
Cause = Literal[
    "quiet", "backlog", "never_seen", "behind", "future_elsewhere", "slow_clock", "held_back", "paused", "in_flight",
    "back_pressured", "slow_reader", "stuck",
]  # fmt: skip
"""`in_flight`: the inputs are past the watermark, records wait before a busy operator; no channel is to blame.
`back_pressured`: a busy operator keeps its source from reading; `slow_reader`: its source reads as fast as it can.
`stuck`: its watermark does not move, and whether records come is not known."""


STATE_SCHEMA = "state schema"
"""`Snapshot.origin` of a delay that only the state's schema has: as the query was first started."""

VerdictName = Literal["moving", "slow", "stalled", "waiting", "unknown", "ended"]
ReasonCode = Literal[
    "advancing", "losing_ground", "event_time_ahead", "unread_records", "no_records", "all_idle", "ended", "too_short",
    "starting", "source_silent", "failed", "engine_lost", "not_known", "not_judged",
]  # fmt: skip


class Reason(Struct, frozen=True):
    """Why the verdict is what it is: a code and its arguments.

    `ms` is how far the watermark advanced (`advancing`), how much event time was lost (`losing_ground`), how long no
    record has come (`no_records`, `all_idle`) or how long was observed (`too_short`); `records` are unread;
    `channels` hold the watermark back.
    """

    code: ReasonCode
    ms: int | None = None
    records: int | None = None
    channels: list[str] = []


class Verdict(Struct, frozen=True):
    """Whether event time moves, over the last `horizon_ms` of processing time (semantics 11.1).

    `since_ms` (processing time, epoch ms) is when its condition began; `speed` is event time per processing time.
    """

    verdict: VerdictName = "unknown"
    since_ms: int | None = None
    horizon_ms: int | None = None
    speed: float | None = None
    reason: Reason = Reason("not_judged")


class Holder(Struct, frozen=True):
    """The valve input with the smallest watermark, since when (epoch ms) it holds back the watermark, and why."""

    channel: str
    since_ms: int
    cause: Cause
    instance: int | None = None
    """Its source instance (`--subtasks`), which is what the valve sees."""


class Level(Struct, frozen=True):
    """The valve's output and its distances (ms)."""

    watermark_ms: int | None = None
    behind_fastest_ms: int | None = None
    behind_clock_ms: int | None = None
    holder: Holder | None = None
    idle: bool = False
    """Every input is idle: the valve itself is."""
    moved_ms: int | None = None
    """When (processing time, epoch ms) it last advanced, as far as that was seen."""
    at_zero_lateness_ms: int | None = None
    """Where the level would be with lateness 0 from the start; at lateness L it would be this minus L."""


class Blocker(Struct, frozen=True):
    """A step of the staircase below the fastest channel (semantics 11.2): channels with the same watermark.

    Were they and those of all steps before idle, the watermark would gain `gain_ms` at the next emit; None: there is
    no watermark to gain on. `channels` are at most 100 of `channel_count`; `cause` is the first one's.
    """

    channels: list[str]
    gain_ms: int | None
    watermark_ms: int | None
    cause: Cause
    channel_count: int = 0


class ChannelView(Struct, frozen=True):
    """One channel: a Kafka partition, a source split, a key of the data."""

    channel: str
    watermark_ms: int | None
    max_event_ms: int | None
    """Greatest event time that its generator has seen."""
    state: ChannelState
    records: int | None = 0
    behind_watermark: int | None = 0
    late: int | None = 0
    malformed: int | None = 0
    future: int | None = 0
    backlog: int | None = None
    """Records of it that are not read yet."""
    behind_end_ms: int | None = None
    """How far its greatest event time is behind that of what is not read yet."""
    held_back: bool = False
    """Balanced reading, or Flink's watermark alignment, keeps it waiting for slower ones."""
    quiet_ms: int | None = None
    longest_quiet_ms: int | None = None
    """The longest time between two of its records (processing time), the present one not counted."""
    flaps: int = 0
    round_ms: int | None = None
    """How long it has lately taken from one idleness to the next (processing time), while there was more than one."""
    rate: float | None = None
    """Records per second of wall-clock time."""
    since_ms: int | None = None
    """When (processing time, epoch ms) its watermark last changed."""
    instance: int | None = None
    """The source instance it belongs to (`--subtasks`)."""
    timer_ms: int | None = None
    """Time on its inactivity clock (processing time); None: the clock does not run."""
    aligned: bool | None = None
    """It takes part in the minimum (of an instance: the instance does, and it is not idle); None: without a valve."""
    idle: bool = False
    """Its status is IDLE, also where it was never seen."""
    at_zero_lateness_ms: int | None = None
    """What its generator would emit now at lateness 0; None before a record, or for a strategy without lateness."""


class Folded(Struct, frozen=True):
    """The channels beyond `--max-channels`, which share the channel `into`, and how many records they had."""

    into: str
    channels: int
    at_least: bool
    """There are more: only so many are counted."""
    records: int


class InstanceView(Struct, frozen=True):
    """One source instance (`--subtasks`): its channels combined, an input of the valve."""

    instance: int
    channel: str
    """What the barrel writes under its stave: `#0`."""
    watermark_ms: int | None
    state: ChannelState
    channels: int
    aligned: bool | None = None
    since_ms: int | None = None
    """When (processing time, epoch ms) its watermark last changed."""


class TimePoint(Struct, frozen=True, array_like=True, gc=False):
    """A real record: processing time of its batch, its event time (epoch ms), and whether its window had closed."""

    now_ms: int
    event_ms: int
    channel: str
    late: bool = False


class ChannelRecords(Struct, frozen=True):
    """How many records of a channel lie in a window."""

    channel: str
    records: int


class OpenWindow(Struct, frozen=True):
    """A window that has not fired; `short_ms` of event time are missing until it does."""

    start_ms: int
    end_ms: int
    records: int | None
    waits_for: str | None
    short_ms: int | None
    operator: int | None = None
    """The operator that has it, where an attached query has several stateful ones."""
    channels: list[ChannelRecords] | None = None
    """The channels with most records in it; None: not known, or not among the windows that close next."""
    channel_count: int | None = None
    """How many channels have records in it."""
    blockers: list[str] | None = None
    """The aligned channels below what it needs, in the holder's order, at most 32 of them; None: not known."""
    blocker_count: int | None = None


class FiredWindow(Struct, frozen=True):
    """A window that has fired, first at processing time `fired_ms`, with its records at its last firing."""

    start_ms: int
    end_ms: int
    records: int = 0
    fired_ms: int | None = None
    late_firings: int = 0
    late_drops: int = 0
    """Records dropped because it was closed, while it was among the last that fired."""
    ended: bool = False
    """The end of the stream fired it."""


WindowsUnknownCode = Literal[
    # Of the state of a Spark query.
    "no_state",
    "state_not_read",
    "state_not_found",
    "no_batch",
    "commits_unreadable",
    "settings_unreadable",
    "partitions_unknown",
    "nothing_read",
    "no_windows",  # kind: the operator keeps no windows
    "no_time_window",
    "several_time_windows",
    "time_window_form",
    "state_store",  # name: only Spark itself reads it
    "state_encoding",  # name: only Spark itself reads it
    "too_many_keys",  # limit
    "vanished",  # why: files that were purged meanwhile
    "unreadable",  # why
    "spark_starting",
    "spark_slow",  # seconds
    "spark_failed",  # why
    "spark_unreadable",  # why
    # Of what has no windows to show.
    "not_in_broker",
    "not_in_rest",
]


class WindowsUnknown(Struct, frozen=True):
    """Why nothing (or nothing newer) is known of windows: a code and its arguments; the screen has the words."""

    code: WindowsUnknownCode
    args: dict[str, str | int | None] = {}


class Windows(Struct, frozen=True):
    """The windows by end; `open` lists the earliest, `open_count` says how many there are."""

    open: list[OpenWindow] = []
    open_count: int | None = 0
    open_records: int | None = None
    """Records in all that are open."""
    fired: int | None = 0
    late_firings: int | None = 0
    last_fired: list[FiredWindow] = []
    """The windows that fired last, by first firing, the oldest first."""
    kept: int | None = None
    """Windows that are in the state although their end has passed: complete mode keeps what it has emitted."""
    unknown: str | None = None
    """Why nothing (or nothing newer) is known of them: a `WindowsUnknownCode`; in older recordings a line."""
    unknown_args: dict[str, str | int | None] = {}
    """The arguments of that code; `operator` where it is about one of several."""


class Totals(Struct, frozen=True):
    """Counts of records since the start; of an attached query, most are not known."""

    records: int | None = 0
    behind_watermark: int | None = 0
    late: int | None = 0
    malformed: int | None = 0
    future: int | None = 0
    no_window: int | None = 0


class WhatIf(Struct, frozen=True):
    """What lateness `lateness_ms` from the start would have cost; `delay_ms` is a mean over its closed windows."""

    lateness_ms: int
    late: int
    late_share: float | None
    delay_ms: float | None
    behind_watermark: int


class RecentRow(Struct, frozen=True):
    """What lateness `lateness_ms` from the start would have cost the records of a horizon.

    `low` and `high` are the Wilson 95 % interval of `late_share`; None without records.
    """

    lateness_ms: int
    late: int
    late_share: float | None
    low: float | None
    high: float | None
    behind_watermark: int | None = None
    """None: not known."""


class Recommended(Struct, frozen=True):
    """The smallest edge (ms) that would have kept the share `target` on time; None: there are no records, or none is.

    `few`: it rests on too few late records to recommend from.
    """

    target: float
    lateness_ms: int | None
    few: bool


class RecentLateness(Struct, frozen=True):
    """The what-if of the records that came in the last `horizon_ms` (processing time; None: since the start)."""

    horizon_ms: int | None
    records: int
    rows: list[RecentRow]
    recommended: list[Recommended]


class AutoView(Struct, frozen=True):
    """The autopilot, switched on; its next due time and until when it is suspended are processing time (epoch ms)."""

    target: float
    horizon_ms: int
    next_ms: int | None
    suspended_until_ms: int | None


class ChannelLateness(Struct, frozen=True):
    """How late the records of a channel were: `behind[i]` of them at least as long as the i-th what-if's lateness (ms)
    behind W0 and less than the next one's; trailing zeros are left out.
    """

    channel: str
    records: int
    behind: list[int]


class WhatIfIdle(Struct, frozen=True):
    """What another idle timeout (`None`: off) would have given.

    `late` is exact unless `late_error` is above 0; for another timeout than the run's own an upper bound in sessions.
    """

    idle_after_ms: int | None
    watermark_ms: int | None
    holder: str | None
    flaps: int
    late: int
    late_error: int = 0


class Offender(Struct, frozen=True):
    """The last record set aside: its channel, its position in the source, and the timestamp it claimed."""

    channel: str
    offset: int | None
    timestamp_ms: int | None
    part: str | None = None
    """The part of the source (`topic-partition`) that the offset belongs to, where the channel does not say it."""


class SettingsChange(Struct, frozen=True):
    """A change of settings while running: its version, the last batch before it, when (epoch ms) and by whom.

    `who` is "auto" where the autopilot did it; `share` is then the share of the horizon's records that would have been
    late with the new lateness.
    """

    version: int
    batch: int | None
    wall_ms: int | None
    """None: the autopilot's follow processing time alone."""
    who: str
    lateness_ms: int | UnsetType | None = UNSET
    idle_after_ms: int | UnsetType | None = UNSET
    auto_lateness: float | UnsetType | None = UNSET
    share: float | None = None
    now_ms: int | None = None
    """Processing time."""
    emitted_ms: int | None = None
    """Processing time of the first emit with it; None: not yet."""
    moved_ms: int | None = None
    """How far the watermark advanced at that emit; None: there was none before."""


class WatermarkNode(Struct, frozen=True):
    """One `withWatermark` of an attached query, as far as it is known."""

    column: str | None
    delay_ms: int | None
    watermark_ms: int | None = None
    """What it alone would make of Spark's clock."""
    holds: bool = False
    """Of several, the one that sets the query's level."""
    pinned: Literal["no_input", "own_output"] | None = None
    """It has never had a record and keeps the query at 1970: its source is empty, or it waits for rows that an
    operator below it emits only when this watermark moves."""
    after_state: bool = False
    """Its rows come out of a stateful operator: it is not on the source."""
    above: list[int] = []
    """The other watermarks (places in the list) that its rows have passed before."""
    sources: list[int] | None = None
    """The sources (places in `Snapshot.sources`) that feed it; None: not known."""


class StatefulOperator(Struct, frozen=True, kw_only=True):
    """A stateful operator of an attached query."""

    operator: int | None
    """The number of its state."""
    kind: OperatorKind
    output_mode: OutputMode | None = None
    windowed: bool | None = None
    """An aggregation by time windows; None: not known, or not an aggregation."""
    evicts: bool | None = None
    """The watermark makes it remove state; None: not known."""
    watermarks: list[int] | None = None
    """The watermarks (places in `SparkProgress.nodes`) that its rows have passed; None: not known."""
    rows: int | None = None
    dropped: int | None = None
    """Late rows that its last batch dropped, counted after partial aggregation."""


class SiblingQuery(Struct, frozen=True):
    """Another query of the same application."""

    name: str
    id: str
    state: Literal["running", "stopped", "failed"]
    error: str | None = None


class BarrelRule(Struct, frozen=True):
    """What the slowest channel would give of an attached query, where Spark's one clock goes by the fastest."""

    watermark_ms: int | None
    """The least event time that all channels have reached, minus the delay."""
    holder: str | None
    """The slowest channel."""
    below: list[str]
    """The channels whose event time lies at or below Spark's level, the most behind first: all that
    they send is late, and dropped once its window has closed."""
    whatif: list[WhatIf] | None = None
    """`Snapshot.whatif` by this rule; that one goes by Spark's rule."""


class SparkProgress(Struct, frozen=True):
    """What Spark says of the query (wall-clock rates and ms)."""

    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    batch_ms: int | None = None
    phases_ms: dict[str, int] = {}
    watermark_ms: int | None = None
    """Of an attached query: what its next batch will use."""
    dropped_at_least: int | None = None
    batch_watermark_ms: int | None = None
    """In force in the last batch."""
    batch_timestamp_ms: int | None = None
    """When the input of the last batch was fixed."""
    in_flight: bool | None = None
    """The last batch has begun and not ended: it runs, or the query died in it."""
    nodes: list[WatermarkNode] | None = None
    policy: Literal["min", "max"] | None = None
    """How the watermarks of several nodes become one."""
    state_rows: int | None = None
    """Rows and bytes of memory in the state of its stateful operators, of an attached query."""
    state_bytes: int | None = None
    output_mode: OutputMode | None = None
    """How an attached query emits; None: not known."""
    operators: list[StatefulOperator] | None = None
    """Of an attached query, from its sink to its sources; None: not known."""
    has_watermark: bool | None = None
    """Of an attached query: it has a `withWatermark`; None: not known."""
    never_moved: bool | None = None
    """Of an attached query: it has a watermark and has read rows, and the watermark is still at 1970."""
    frozen_ms: int | None = None
    """The watermark is above what its records give (after a restart with a longer delay): by so much event time."""
    query_id: str | None = None
    """Of an attached query, as the next one."""
    query_name: str | None = None


class SourcePosition(Struct, frozen=True):
    """A source of an attached query: its position, and how many records it has not read."""

    description: str
    offsets: dict[str, int] | int | str | None
    backlog: int | None = None


class SourceView(Struct, frozen=True):
    """Where the records come from: `kind` is replay, files, rate or kafka; attached: checkpoint, topic or group."""

    kind: str
    description: str
    speed: float | None = None
    """Replay: seconds of arrival time a second; `None` for a live source or as fast as it goes."""
    reader: str | None = None
    rows: int | None = None
    """How many rows there are in all, where the source has an end."""
    rows_read: int | None = None
    time_column: str | None = None
    time_unit: str | None = None
    """What its values are: `epoch ms`, `ISO 8601`; `(recognised)` where no option gives them."""
    max_drift_ms: int | None = None
    """Kafka: how far a partition may run ahead of the slowest (balanced reading)."""
    backlog: int | None = None
    """Records of all channels that are not read yet."""
    drift_ms: int | None = None
    """How far the fastest partition that is not idle is ahead of the slowest, as read."""
    drift_unbalanced_ms: int | None = None
    """The same had everything been read that is there."""


NoteCode = Literal[
    # What happened to a source that this wmtop reads.
    "topic_missing",  # topic, near: what the cluster has instead
    "topic_gone",  # topic, unread: records that were not read
    "topic_recreated",  # topic, from_start: 1, or 0 where its first records are skipped
    "partition_added",  # topic, partition
    "cluster_silent",  # why
    "cluster_answers",  # silent_ms
    "records_expired",  # topic, partition, records: deleted by retention before they were read
    "read_failed",  # why; it is tried again
    "time_not_found",  # why
    "max_drift_ignored",  # Spark's connector reads all partitions alike
    # What happened to the engine itself.
    "jvm_silent",  # pid, silent_ms
    "start_stuck",  # step: the one that shows no progress, silent_ms
    "channels_folded",  # into, channels, at_least: 1 where there are more, records, limit
    "snapshot_too_long",  # channels: left out, with the windows; bytes, limit
    "alert_failed",  # command: of --on-alert, why; only the first failure
    # How an attached query or consumer group is, and what of it is not known.
    "not_started",
    "stopped",
    "application_gone",
    "batch_unfinished",  # batch
    "query_silent",  # alive: 1, or None where its application may have died
    "query_idle",
    "no_batch",
    "no_new_batch",
    "unreadable",  # why
    "broker_silent",  # why
    "time_needed",  # column: of the watermark, None where it is not known
    "channels_sampled",  # tap, kept, of
    "nodes_without_tap",  # columns
    "windows_unknown",  # code: a `WindowsUnknownCode`, and its arguments; in older recordings why: a line
    "no_watermark",  # sure: 1, or None where no record may have reached it yet
    "watermark_pinned",  # columns, why: no_input or own_output
    "watermark_unmoved",  # nodes: how many watermarks are known, sources: those that have read nothing
    "watermark_frozen",  # frozen_ms: event time until it moves again
    "sibling_failed",  # name, why, more: how many others failed, too
    "partitions_unseen",  # partitions: how many, partition: the one
    # A line of a recording that an older wmtop wrote.
    "text",  # text
]


class Note(Struct, frozen=True):
    """Something the user should know about the source, by code; the screen has the words.

    `wall_ms` is when it happened or was found (wall clock, epoch ms); `args` are its numbers (ms, counts) and names.
    """

    wall_ms: int
    code: NoteCode
    args: dict[str, str | int | None] = {}


class Step(Struct, frozen=True):
    """A step of the start: `seconds` is `None` while it runs."""

    name: str
    seconds: float | None = None


class Snapshot(Struct, frozen=True, kw_only=True, tag_field="kind", tag="snapshot"):
    """Everything a screen shows, at one moment."""

    version: int = SNAPSHOT_VERSION
    name: str
    state: EngineState
    batch: int | None = None
    now_ms: int | None = None
    """Processing time: in a replay the replay clock."""
    wall_ms: int | None = None
    """Wall clock of the engine's host when this was taken."""
    ended: bool = False
    settings: Settings
    source: SourceView | None = None
    level: Level = Level()
    verdict: Verdict = Verdict()
    blockers: list[Blocker] | None = None
    """The channels that hold back the watermark, step by step; None: not known, or without a valve (Spark's rule)."""
    channels: list[ChannelView] = []
    folded: Folded | None = None
    """None: every channel is on its own."""
    instances: list[InstanceView] | None = None
    windows: Windows = Windows()
    totals: Totals = Totals()
    whatif: list[WhatIf] | None = None
    whatif_idle: list[WhatIfIdle] | None = None
    whatif_recent: list[RecentLateness] | None = None
    """The same for the last 15 min, 1 h, 24 h and since the start; None without a what-if."""
    auto: AutoView | None = None
    """None: off."""
    whatif_upper_bound: bool = False
    """The what-if counts are upper bounds (session windows, an attached query): show `≤`."""
    whatif_bucket_ms: int | None = None
    """Of an attached query: how wide the buckets were that were counted, and so how far the counts may be off."""
    lateness_by_channel: list[ChannelLateness] = []
    """Of the channels with most records behind the watermark."""
    last_future: Offender | None = None
    last_malformed: Offender | None = None
    changes: list[SettingsChange] = []
    """The latest changes of settings while running, oldest first."""
    spark: SparkProgress = SparkProgress()
    flink: FlinkJob | None = None
    """Of a Flink job."""
    sources: list[SourcePosition] | None = None
    """The sources of an attached query."""
    barrel: BarrelRule | None = None
    """Of an attached query whose channels are known."""
    siblings: list[SiblingQuery] | None = None
    """The other queries of the application, of an attached query; None: not known."""
    origin: dict[str, str] | None = None
    """Of an attached query: which tap each part comes from."""
    points: list[TimePoint] = []
    """A few of the records that came since the snapshot before."""
    notes: list[Note] = []
    """What happened to the source that its user should know, the oldest first."""
    steps: list[Step] = []
    error: str | None = None
    log: str | None = None
    """The log file of a failed or starting engine."""
