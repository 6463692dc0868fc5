"""The frozen picture that every reader gets: screens, recordings, `--json`, checks.

Encoded with msgspec it *is* the JSON contract of the command line. Times are epoch ms, durations ms; `None` is "no
watermark yet" or "not known", never a sentinel and never zero.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from .settings import Settings

SNAPSHOT_VERSION = 1

EngineState = Literal["starting", "live", "partial", "stale", "paused", "ended", "failed"]
ChannelState = Literal["active", "catching_up", "idle", "never_seen", "finished"]
Cause = Literal["quiet", "backlog", "never_seen", "behind", "future_elsewhere", "slow_clock", "held_back", "paused"]


class Holder(Struct, frozen=True):
    """The valve input with the smallest watermark, since when (epoch ms) it holds the level, and why."""

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
    since_ms: int | None = None
    """When (processing time, epoch ms) it last moved, where no channel says so."""
    at_zero_lateness_ms: int | None = None
    """Where the level would be with lateness 0 from the start; at lateness L it would be this minus L."""


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
    """Balanced reading keeps it waiting for slower ones."""
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


class InstanceView(Struct, frozen=True):
    """One source instance (`--subtasks`): its channels combined, an input of the valve."""

    instance: int
    channel: str
    """What the barrel writes under its stave: `#0`."""
    watermark_ms: int | None
    state: ChannelState
    channels: int


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
    """Whose it is, where a query of others has several stateful operators."""
    channels: list[ChannelRecords] | None = None
    """The channels with most records in it; None: not known, or not among the windows that close next."""
    channel_count: int | None = None
    """How many channels have records in it."""


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
    unknown: str | None = None
    """Why nothing (or nothing newer) is known of them, in one line."""


class Totals(Struct, frozen=True):
    """Counts of records since the start; of a query that others run, most are not known."""

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
    """A change of settings while running: its version, the last batch before it, when (wall, epoch ms) and by whom."""

    version: int
    batch: int | None
    wall_ms: int
    who: str
    lateness_ms: int | UnsetType | None = UNSET
    idle_after_ms: int | UnsetType | None = UNSET


class WatermarkNode(Struct, frozen=True):
    """One `withWatermark` of a query that others run, as far as it is known."""

    column: str | None
    delay_ms: int | None
    watermark_ms: int | None = None
    """What it alone would make of Spark's clock."""
    holds: bool = False
    """Of several, the one that sets the query's level."""


class BarrelRule(Struct, frozen=True):
    """What the slowest channel would give of a query that others run, where Spark's one clock goes by the fastest."""

    watermark_ms: int | None
    """The least event time that all channels have reached, minus the delay."""
    holder: str | None
    """The slowest channel."""
    below: list[str]
    """The channels whose event time lies at or below Spark's level, the most behind first: all that
    they send is late, and dropped once its window has closed."""
    whatif: list[WhatIf] | None = None
    """`Snapshot.whatif` by this rule; those by Spark's rule stand there."""


class SparkProgress(Struct, frozen=True):
    """What Spark says of the query (wall-clock rates and ms)."""

    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    batch_ms: int | None = None
    phases_ms: dict[str, int] = {}
    watermark_ms: int | None = None
    """Of a query that others run: what its next batch will use."""
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
    """Rows and bytes of memory in the state of its stateful operators, of a query that others run."""
    state_bytes: int | None = None


class SourcePosition(Struct, frozen=True):
    """A source of a query that others run: where it stands, and how many records it has not read."""

    description: str
    offsets: dict[str, int] | int | str | None
    backlog: int | None = None


class SourceView(Struct, frozen=True):
    """Where the records come from: `kind` is replay, files, rate or kafka; of others' checkpoint, topic or group."""

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
    """What its values are: `epoch ms`, `ISO 8601`; `(recognised)` where nobody said so."""
    max_drift_ms: int | None = None
    """Kafka: how far a partition may run ahead of the slowest (balanced reading)."""
    backlog: int | None = None
    """Records of all channels that are not read yet."""
    drift_ms: int | None = None
    """How far the fastest partition that is not idle is ahead of the slowest, as read."""
    drift_unbalanced_ms: int | None = None
    """The same had everything been read that is there."""


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
    channels: list[ChannelView] = []
    instances: list[InstanceView] | None = None
    windows: Windows = Windows()
    totals: Totals = Totals()
    whatif: list[WhatIf] | None = None
    whatif_idle: list[WhatIfIdle] | None = None
    whatif_upper_bound: bool = False
    """The what-if counts are upper bounds (session windows, a query of others): show `≤`."""
    whatif_bucket_ms: int | None = None
    """Of a query that others run: how wide the buckets were that were counted, and so how far the counts may be off."""
    lateness_by_channel: list[ChannelLateness] = []
    """Of the channels with most records behind the watermark."""
    last_future: Offender | None = None
    last_malformed: Offender | None = None
    changes: list[SettingsChange] = []
    """The latest changes of settings while running, oldest first."""
    spark: SparkProgress = SparkProgress()
    sources: list[SourcePosition] | None = None
    """The sources of a query that others run."""
    barrel: BarrelRule | None = None
    """Of a query that others run whose channels are known."""
    origin: dict[str, str] | None = None
    """Of a query that others run: which tap each part comes from."""
    points: list[TimePoint] = []
    """A few of the records that came since the snapshot before."""
    notes: list[str] = []
    """What happened to the source that its user should know, a line each, the oldest first."""
    steps: list[Step] = []
    error: str | None = None
    log: str | None = None
    """The log file of a failed or starting engine."""
