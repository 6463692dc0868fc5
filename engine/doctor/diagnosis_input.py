"""The input of the doctor's rules: the newest snapshot, the history, and whether the engine still sends."""

from collections.abc import Sequence
from functools import cached_property
from statistics import median

from ..snapshot import ChannelView, Snapshot, VerdictName, WhatIf, WhatIfIdle
from ..snapshot.flink_job import FlinkJob
from ..verdict import verdict as judgement
from ..verdict.history import HistoryPoint
from ..watermarks.settings import Session, Sliding, Tumbling
from .finding import Severity

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


class DiagnosisInput:
    """The newest snapshot and the history before it, with values that several rules derive from them; durations in ms.

    `lost`: why no further snapshot will come; `silent_ms`: how long none has come. Both come from the reader.
    """

    def __init__(
        self, snapshot: Snapshot, past: Sequence[HistoryPoint], *, lost: str | None = None, silent_ms: int | None = None
    ) -> None:
        self.snapshot = snapshot
        self.past = past
        self.lost = lost
        self.silent_ms = silent_ms
        self.settings = snapshot.settings
        self.channels = snapshot.channels
        self.now_ms = snapshot.now_ms
        self.watermark_ms = snapshot.level.watermark_ms

    @property
    def ended(self) -> bool:
        """Whether no further record will come."""
        return self.snapshot.ended or self.snapshot.state == "ended"

    @property
    def over(self) -> bool:
        """Whether an own run has ended; findings about an attached query are shown also after its end."""
        return self.ended and not self.is_attached

    @property
    def is_attached(self) -> bool:
        """The query belongs to another program."""
        return self.snapshot.is_attached

    @property
    def has_valve(self) -> bool:
        """Whether the watermark is the minimum over the channels, so that a channel can hold it back."""
        return self.settings.strategy not in ("spark", "none")

    @property
    def running_job(self) -> FlinkJob | None:
        """The job, where it runs and its metrics are new enough to be judged."""
        job = self.snapshot.flink
        return (
            job if job is not None and job.state == "RUNNING" and self.snapshot.state in ("live", "partial") else None
        )

    @property
    def by_wall_clock(self) -> bool:
        """Whether processing time is the wall clock: not in a replay."""
        now, wall = self.now_ms, self.snapshot.wall_ms
        return now is not None and wall is not None and abs(now - wall) < MINUTE

    @property
    def unbounded(self) -> bool:
        """Whether the source has no known end: open windows would fire at its end."""
        source = self.snapshot.source
        return source is None or (source.kind != "replay" and source.rows is None)

    @property
    def window_ms(self) -> int:
        """The size of the windows, or the gap of sessions; one minute if not known."""
        spec = self.settings.window
        if spec is None:
            return MINUTE
        return spec.gap_ms if isinstance(spec, Session) else spec.size_ms

    @property
    def slide_ms(self) -> int | None:
        """The distance between the starts of windows; None for sessions or if not known."""
        spec = self.settings.window
        return spec.slide_ms if isinstance(spec, Tumbling | Sliding) else None

    @property
    def scale_ms(self) -> int:
        """The normal delay of a result: the size of its window plus the lateness."""
        return self.window_ms + (self.settings.lateness_ms or 0)

    @property
    def patience_ms(self) -> int:
        """How long a channel may have no data, or the watermark be frozen, before that becomes a finding."""
        return max(MINUTE, self.scale_ms * (1 if self.settings.idle_after_ms is None else 2))

    @cached_property
    def active(self) -> list[tuple[ChannelView, int]]:
        """The channels that take part in the minimum, with their watermarks (epoch ms), the slowest first."""
        views = [view for view in self.channels if view.state == "active"]
        known = [(view, view.watermark_ms) for view in views if view.watermark_ms is not None]
        return sorted(known, key=lambda pair: pair[1])

    @cached_property
    def fastest_ms(self) -> int | None:
        """The greatest channel watermark (epoch ms)."""
        return max((view.watermark_ms for view in self.channels if view.watermark_ms is not None), default=None)

    @cached_property
    def frozen_ms(self) -> int | None:
        """How long (processing time) the watermark has had its value; None: the history does not show it."""
        if self.now_ms is None:
            return None
        since = self.snapshot.level.moved_ms
        for point in reversed(self.past):
            if point.watermark_ms != self.watermark_ms:
                break
            since = point.now_ms if since is None else min(since, point.now_ms)
        return None if since is None else max(self.now_ms - since, 0)

    @cached_property
    def verdict(self) -> VerdictName:
        """The snapshot's verdict; unknown once its engine is lost."""
        return judgement.verdict_of(self.snapshot, lost=None if self.lost is None else "engine_lost").verdict

    def channel(self, name: str) -> ChannelView | None:
        """The channel with that name."""
        return next((view for view in self.channels if view.channel == name), None)

    @property
    def horizon_ms(self) -> int:
        """The processing time that the verdict covers; without a verdict, the last minute of wall clock."""
        horizon = self.snapshot.verdict.horizon_ms
        if horizon is not None:
            return horizon
        points = self.last(MINUTE)
        return points[-1].now_ms - points[0].now_ms if points else 0

    def last(self, wall_ms: int) -> Sequence[HistoryPoint]:
        """The points of the last `wall_ms` of wall clock, the oldest first."""
        if not self.past:
            return ()
        since = self.past[-1].wall_ms - wall_ms
        return [point for point in self.past if point.wall_ms >= since]

    @property
    def own_lateness(self) -> WhatIf | None:
        """What the lateness in force would have cost from the start."""
        lateness = self.settings.lateness_ms
        return next((row for row in self.snapshot.whatif or () if row.lateness_ms == lateness), None)

    @property
    def own_idle(self) -> WhatIfIdle | None:
        """What the idle timeout in force would have given from the start."""
        idle = self.settings.idle_after_ms
        return next((row for row in self.snapshot.whatif_idle or () if row.idle_after_ms == idle), None)


def verdict_at(snapshot: Snapshot, past: Sequence[HistoryPoint], *, lost: str | None = None) -> VerdictName:
    """The verdict behind the findings for the same arguments."""
    return DiagnosisInput(snapshot, past, lost=lost).verdict


def share(part: int | None, whole: int | None) -> float | None:
    """`part` of `whole`; None if one of them is not known or `whole` is 0."""
    return None if part is None or not whole else part / whole


def loss_severity(lost: float | None) -> Severity:
    """The severity of losing that share of the records: from a tenth on the results are wrong."""
    return "critical" if lost is not None and lost >= 0.1 else "warning"


def thirds(values: Sequence[float]) -> tuple[float, float, float]:
    """The medians of the first, second and last third of at least three values."""
    third = len(values) // 3
    return median(values[:third]), median(values[third:-third]), median(values[-third:])
