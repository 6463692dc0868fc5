"""The what-if of a run (semantics 7): every lateness from one pass, and a ladder of idle timeouts run beside it.

Its clocks are driven by the same calls as the run's own.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from .channels import IdlenessTimers
from .lateness import (
    HORIZONS_MS,
    IDLE_LADDER_MS,
    DelayLedger,
    Histogram,
    RecentLateness,
    RecentSlices,
    SlicedLateness,
    WhatIf,
    bucket_edges,
    bucket_of,
    recent_lateness,
)
from .operator_clock import Clock, FastestClock, OperatorClock, new_clock
from .settings import Session, Settings
from .times import MIN, shift_all
from .valve import Round
from .windows import Pane, last_end, window_count

Panes = Mapping[Pane, int]
"""Records of a batch by pane, over all channels."""


class LatenessWhatIf(Struct):
    """Both histograms and the delays of a run, by edge; distances are from W0 when the batch started (ms)."""

    edges: list[int]
    behind: Histogram
    late: Histogram
    delays: DelayLedger
    recent: RecentSlices
    behind_by_channel: dict[str, Histogram] = {}

    def count(
        self, behind_by_channel: Mapping[str, Mapping[int, int]], panes: Panes, settings: Settings, w0: int, now: int
    ) -> None:
        """Count a batch at processing time `now` (ms); `behind_by_channel` as in `BatchObservation`."""
        behind: dict[int, int] = {}
        for channel, buckets in behind_by_channel.items():
            histogram = self.behind_by_channel.get(channel)
            if histogram is None:
                histogram = self.behind_by_channel[channel] = Histogram([0] * len(self.edges))
            histogram.add_all(buckets)
            for bucket, records in buckets.items():
                behind[bucket] = behind.get(bucket, 0) + records
        late: dict[int, int] = {}
        for (start, head, late_bucket), records in panes.items():
            end, bucket = last_end(settings.spec, start, head), late_bucket
            if end is not None:
                distance = w0 - (end - 1) - settings.allowed_lateness_ms
                bucket = None if w0 == MIN else bucket_of(self.edges, distance)
            if bucket is not None:
                late[bucket] = late.get(bucket, 0) + records
            if not isinstance(settings.spec, Session):
                for number in range(window_count(settings.spec, head)):
                    self.delays.window(start + settings.spec.size_ms - number * settings.spec.slide_ms)
        self.behind.add_all(behind)
        self.late.add_all(late)
        self.recent.add(now, sum(panes.values()), late, behind)

    def recent_view(self, records: int, now: int) -> list[RecentLateness]:
        """What each edge would have cost recently, at processing time `now` (ms), and of all `records` so far."""
        recent = [horizon.view(now, self.edges) for horizon in self.recent.horizons]
        return [*recent, recent_lateness(None, self.edges, records, self.late, self.behind)]

    def view(self, records: int) -> list[WhatIf]:
        """What each edge would have cost; shares are of `records`."""
        rows = zip(self.edges, self.late.at_least(), self.behind.at_least(), strict=True)
        return [
            WhatIf(edge, late, late / records if records else None, self.delays.mean_delay_ms(index), behind)
            for index, (edge, late, behind) in enumerate(rows)
        ]


def new_lateness_whatif(settings: Settings) -> LatenessWhatIf | None:
    """Empty counts, or None without windows or for a strategy without lateness."""
    if not settings.tunable or settings.lateness_ms is None or settings.window is None:
        return None
    edges = bucket_edges(settings.lateness_ms)
    behind, late, closed, delays = ([0] * len(edges) for _ in range(4))
    recent = RecentSlices([SlicedLateness(horizon) for horizon in HORIZONS_MS])
    return LatenessWhatIf(edges, Histogram(behind), Histogram(late), DelayLedger(edges, closed, delays), recent)


class IdleRung(Struct):
    """The run with another idle timeout from the start (ms; None: off)."""

    idle_after_ms: int | None
    clock: Clock
    late: int = 0
    late_error: int = 0
    """Further records that may be late, since their bucket does not decide it."""
    as_run: bool = True
    """Its watermark has equalled the run's so far: the same records are late."""

    def count_as_run(self, level: int, late: int) -> bool:
        """Count the run's `late` records if the watermark here equals the run's `level` at the batch's start; returns
        whether it does.
        """
        self.as_run = self.as_run and self.clock.level == level
        self.late += late if self.as_run else 0
        return self.as_run

    def count(self, panes: Panes, settings: Settings, w0: int, edges: list[int]) -> None:
        """Count a batch's late records at this rung's watermark."""
        level = self.clock.level
        if level == MIN:
            return
        for (start, head, late_bucket), records in panes.items():
            end = last_end(settings.spec, start, head)
            if end is not None:
                self.late += records if end - 1 + settings.allowed_lateness_ms <= level else 0
                continue
            sure = _late_in_bucket(late_bucket, edges, level - w0 if w0 != MIN else None)
            self.late += records if sure else 0
            self.late_error += records if sure is None else 0


def _late_in_bucket(bucket: int | None, edges: list[int], ahead: int | None) -> bool | None:
    """Whether records of a bucket of distances from W0 are late at a watermark `ahead` ms ahead of W0; None:
    not known.
    """
    if ahead is None:
        return None
    if bucket is None:
        return False if ahead <= 0 else None
    if not edges:
        return None
    if edges[bucket] + ahead >= 0:
        return True
    upper = edges[bucket + 1] if bucket + 1 < len(edges) else None
    return False if upper is not None and upper + ahead <= 0 else None


def new_idle_rungs(settings: Settings) -> list[IdleRung]:
    """The rungs: off, a ladder, the run's own timeout; none without windows, or for Spark's clock (no idleness)."""
    if settings.strategy == "spark" or settings.window is None:
        return []
    own = () if settings.idle_after_ms is None else (settings.idle_after_ms,)
    timeouts = sorted({*IDLE_LADDER_MS, *own})
    return [
        IdleRung(timeout, new_clock(settings.strategy, settings.lateness_ms or 0, timeout, settings.subtasks))
        for timeout in (None, *timeouts)
    ]


class Clocks:
    """The clocks that the monitor keeps; every channel has the same number in each."""

    def __init__(self, own: Clock, shadow: Clock | None, rungs: list[IdleRung]) -> None:
        self._own, self._shadow, self._rungs = own, shadow, [rung.clock for rung in rungs]
        self._all = [own, *self._rungs] if shadow is None else [own, shadow, *self._rungs]
        self._valves = [clock for clock in self._all if isinstance(clock, OperatorClock)]

    def resume(self) -> None:
        """Note that the run continues after a stop."""
        for clock in self._all:
            if isinstance(clock, FastestClock):
                clock.resumed = True

    def add_channel(self, now: int) -> None:
        """Register the next channel at processing time `now` (ms)."""
        for clock in self._all:
            clock.add_channel(now)

    def finish_channels(self, numbers: Iterable[int]) -> None:
        """Mark channels that send nothing more as finished (semantics 3.5)."""
        for clock in self._valves:
            for number in numbers:
                clock.finish_channel(number)

    def remove_channels(self, numbers: Iterable[int]) -> None:
        """Remove channels that no longer exist (semantics 3.7)."""
        for clock in self._valves:
            for number in numbers:
                clock.remove_channel(number)

    def wake(self, numbers: Iterable[int]) -> None:
        """Note that these channels have records."""
        idling = [clock for clock in self._valves if clock.idle]
        heard = set(numbers) if idling else set[int]()
        for clock in idling:
            clock.wake(heard)

    def emit(
        self, now: int, watermarks: dict[int, int], started: list[tuple[int, int]], timers: IdlenessTimers
    ) -> set[int]:
        """Pass the channels' watermarks at lateness 0 to every clock, which applies its own lateness.

        `started` lists the inactivity clocks that start now: (time, channel). Returns the channels that turned idle in
        the run's own clock.
        """
        rounds: dict[int, Round] = {}
        idled: set[int] = set()
        channels = {channel for _, channel in started}
        for clock in self._valves:
            clock.start_waiting(started, channels)
        for clock in self._all:
            lateness = clock.lateness_ms
            if lateness not in rounds:
                rounds[lateness] = Round(shift_all(watermarks, -lateness), now)
            turned_idle = clock.emit(now, rounds[lateness], timers)
            if clock is self._own:
                idled = turned_idle
        return idled

    def set_lateness(self, lateness_ms: int) -> None:
        """Set the lateness (ms) from the next emit on; W0 stays at 0."""
        for clock in (self._own, *self._rungs):
            clock.lateness_ms = lateness_ms

    def set_idle_after(self, idle_after_ms: int | None) -> None:
        """Set the idle timeout (ms) from the next emit on; the rungs of the idle what-if keep theirs."""
        for clock in (self._own, self._shadow):
            if isinstance(clock, OperatorClock):
                clock.idle_after_ms = idle_after_ms

    @property
    def outdated(self) -> bool:
        """Whether any clock has a source instance that must recombine at the next emit."""
        return any(clock.outdated for clock in self._all)

    def due_ms(self) -> list[int]:
        """When each clock next turns a channel idle (processing time, ms); clocks that never do are left out."""
        return [time for clock in self._valves if (time := clock.next_due_ms()) is not None]

    def fingerprint(self) -> tuple[int, ...]:
        """A value that changes whenever a watermark or a status changes."""
        return tuple(
            number for clock in self._all for number in (clock.level, clock.window_level, sum(clock.flaps.values()))
        )


class ChannelLateness(Struct, frozen=True):
    """The lateness of a channel's records: `behind[i]` of them were at least as far behind W0 as the i-th what-if's
    lateness (ms) and less than the next one's; trailing zeros are left out.
    """

    channel: str
    records: int
    behind: list[int]


class WhatIfIdle(Struct, frozen=True):
    """The result of another idle timeout (`None`: off).

    `late` is exact unless `late_error` is above 0; for sessions with another timeout than the run's own it is an upper
    bound.
    """

    idle_after_ms: int | None
    watermark_ms: int | None
    holder: str | None
    flaps: int
    late: int
    late_error: int = 0
