"""What a rule of the doctor looks at, and what it says: numbers only, words are the reader's business."""

from collections.abc import Sequence
from functools import cached_property
from statistics import median
from typing import Literal

from msgspec import Struct

from ..history import HistoryPoint
from ..settings import Session, Sliding, Tumbling
from ..snapshot import ChannelView, Snapshot, WhatIf, WhatIfIdle

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000

Harm = Literal["stops", "loses", "delays", "burdens"]
"""What it does to the results: they do not come at all, lack records, come later, or are dear. The worst first."""


class Finding(Struct, frozen=True, kw_only=True, tag_field="finding"):
    """Something that is wrong: its harm, and how much of it (a share where records are lost, else ms or a count)."""

    harm: Harm
    size: float


class Case:
    """The newest snapshot and the history before it, with what several rules want to know of them; durations in ms."""

    def __init__(self, snapshot: Snapshot, past: Sequence[HistoryPoint]) -> None:
        self.snapshot = snapshot
        self.past = past
        self.settings = snapshot.settings
        self.channels = snapshot.channels
        self.now_ms = snapshot.now_ms

    @property
    def ended(self) -> bool:
        """Nothing more will come."""
        return self.snapshot.ended

    @property
    def others(self) -> bool:
        """It is a query that others run."""
        return self.snapshot.origin is not None

    @property
    def by_wall_clock(self) -> bool:
        """Processing time is the wall clock's: not a replay."""
        now, wall = self.now_ms, self.snapshot.wall_ms
        return now is not None and wall is not None and abs(now - wall) < MINUTE

    @property
    def unbounded(self) -> bool:
        """The source has no end, as far as is known: what is open at its end would fire there."""
        source = self.snapshot.source
        return source is None or (source.kind != "replay" and source.rows is None)

    @property
    def window_ms(self) -> int:
        """The size of the windows, or the gap of sessions; a minute where it is not known."""
        spec = self.settings.window
        if spec is None:
            return MINUTE
        return spec.gap_ms if isinstance(spec, Session) else spec.size_ms

    @property
    def slide_ms(self) -> int | None:
        """The distance between the starts of windows; None of sessions, and where it is not known."""
        spec = self.settings.window
        return spec.slide_ms if isinstance(spec, Tumbling | Sliding) else None

    @property
    def scale_ms(self) -> int:
        """How late a result comes when nothing is wrong: the size of its window and the lateness."""
        return self.window_ms + (self.settings.lateness_ms or 0)

    @cached_property
    def active(self) -> list[tuple[ChannelView, int]]:
        """The channels that take part in the minimum, with their watermarks (epoch ms)."""
        views = [view for view in self.channels if view.state == "active"]
        return [(view, view.watermark_ms) for view in views if view.watermark_ms is not None]

    def channel(self, name: str) -> ChannelView | None:
        """A channel by its name."""
        return next((view for view in self.channels if view.channel == name), None)

    def last(self, wall_ms: int) -> Sequence[HistoryPoint]:
        """The points of the last `wall_ms` of the wall clock, the oldest first."""
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


def share(part: int | None, whole: int | None) -> float | None:
    """`part` of `whole`; None where there is nothing to share, or it is not known."""
    return None if part is None or not whole else part / whole


def thirds(values: Sequence[float]) -> tuple[float, float, float]:
    """The medians of the first, the second and the last third (there are three values at least)."""
    third = len(values) // 3
    return median(values[:third]), median(values[third:-third]), median(values[-third:])
