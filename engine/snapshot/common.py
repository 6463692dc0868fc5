"""The part of a snapshot that every kind of target has (times in epoch ms, durations in ms)."""

from typing import Literal

from msgspec import Struct

from ..watermarks.channels import Folded
from ..watermarks.counts import Totals
from ..watermarks.explain import ExplainedColumn
from ..watermarks.lateness import RecentLateness, WhatIf
from ..watermarks.observation import Offender
from ..watermarks.settings import Settings, SettingsChange
from .lateness import ChannelLateness, LateRecord, WhatIfIdle
from .source import SourceView
from .watermark import Blocker, ChannelView, InstanceView, Level, Verdict
from .windows import Windows

SNAPSHOT_VERSION = 1

EngineState = Literal["starting", "live", "partial", "stale", "paused", "ended", "failed"]


class CommonPart(Struct, frozen=True, kw_only=True):
    """What is shown of any target, at one moment; `Snapshot` has the rest."""

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
    """Width (ms) of the buckets in which an attached query's records were counted, and so the possible error of the
    counts.
    """
    lateness_by_channel: list[ChannelLateness] = []
    """Lateness of the channels with most records behind the watermark."""
    last_future: Offender | None = None
    last_malformed: Offender | None = None
    changes: list[SettingsChange] = []
    """The latest changes of settings while running, oldest first."""
    explain: list[ExplainedColumn] | None = None
    """Late records by the values of the `--explain` columns; None: not asked for, or not known."""
    late_output: str | None = None
    """The directory or URI of `--late-output`; None: late records are not kept, or not known."""
    late_sample: list[LateRecord] | None = None
    """At most 20 of the records in it, the newest batch first, in a batch the most late first; None: not known."""
