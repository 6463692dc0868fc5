"""The monitor: observations and ticks in; watermark, firings and snapshot out (semantics 6: micro-batches).

It is one msgspec record, so that its JSON is the saved state. It knows no clock: processing time (ms) is an argument.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from copy import copy

import msgspec
from msgspec import UNSET, Struct, UnsetType

from .channels import (
    OTHER,
    Channel,
    Departure,
    FoldedChannels,
    IdleCycles,
    IdlenessTimers,
    Registry,
    absorb_all,
    beyond_limit,
    emit_all,
)
from .counts import MAX_WAITING, ChannelCounts, TimePoint, count_dropped, count_groups, points_of
from .explain import Explain
from .generators import Generator, new_generator
from .observation import BatchObservation, MalformedRecord, Offender, greatest_times
from .operator_clock import Clock, OperatorClock, new_clock
from .settings import MAX_CHANGES, Settings, SettingsChange, changed, emitted
from .times import MIN
from .watermark_history import WatermarkHistory
from .whatif import Clocks, IdleRung, LatenessWhatIf, new_idle_rungs, new_lateness_whatif
from .window_operator import FiredWindows, Firing, WindowOperator, new_window_operator
from .windows import panes_of


class Monitor(Struct, kw_only=True, dict=True):
    """All state of a run; channels by number in the order of semantics section 6."""

    settings: Settings
    clock: Clock
    shadow: Clock | None
    """The clock at lateness 0, whose watermark is W0; None for a strategy without lateness."""
    rungs: list[IdleRung]
    operator: WindowOperator | None
    """None: no windows are computed, nor what-ifs about them; only the watermark."""
    whatif: LatenessWhatIf | None
    timers: IdlenessTimers = msgspec.field(default_factory=IdlenessTimers)
    idle_cycles: IdleCycles = msgspec.field(default_factory=IdleCycles, name="rounds")
    fired: FiredWindows = msgspec.field(default_factory=FiredWindows)
    folded: FoldedChannels = msgspec.field(default_factory=FoldedChannels)
    channels: list[Channel] = []
    counts: dict[str, ChannelCounts] = {}
    now_ms: int | None = None
    batch: int | None = None
    rows: int = 0
    """Rows read, malformed ones included."""
    holder: int | None = None
    holder_since_ms: int = 0
    history: WatermarkHistory = msgspec.field(default_factory=WatermarkHistory)
    last_future: Offender | None = None
    last_malformed: Offender | None = None
    malformed_example: MalformedRecord | None = None
    """The first one that was looked at."""
    changes: list[SettingsChange] = []
    explain: Explain | None = None
    """The counts of `--explain`; None: no columns were asked for."""
    resend: bool = False
    """Settings changed: every generator emits at the next emit."""
    ended: bool = False

    def __post_init__(self) -> None:
        for clock in (self.shadow, *(rung.clock for rung in self.rungs)):
            if isinstance(clock, OperatorClock) and isinstance(self.clock, OperatorClock):
                clock.restore(self.clock)
        self._registry = Registry(self.channels)
        self._clocks = Clocks(self.clock, self.shadow, self.rungs)
        self._points: deque[TimePoint] = deque(maxlen=MAX_WAITING)

    @property
    def level(self) -> int:
        """The watermark (ms)."""
        return self.clock.level

    @property
    def window_level(self) -> int:
        """The watermark (ms) that decides lateness now: under Spark's rule that of the batch before."""
        return self.clock.window_level

    @property
    def w0(self) -> int:
        """The watermark (ms) at lateness 0 from the start; `MIN` for a strategy without lateness."""
        return self.shadow.level if self.shadow else MIN

    @property
    def window_w0(self) -> int:
        """`window_level` at lateness 0 from the start; `MIN` for a strategy without lateness."""
        return self.shadow.window_level if self.shadow else MIN

    @property
    def edges(self) -> list[int]:
        """The bucket edges (ms) of the what-if; empty for a strategy without lateness."""
        return self.whatif.edges if self.whatif else []

    def shown(self, watermark: int) -> int | None:
        """A watermark (ms) as shown: None for `MIN`, and plus 1 under Spark's rule."""
        if watermark == MIN:
            return None
        return watermark + 1 if self.settings.strategy == "spark" else watermark

    def resume(self) -> None:
        """Note that the run continues after a stop."""
        self._clocks.resume()

    def add_channels(self, names: list[str], now: int) -> None:
        """Register channels that the source reports before their first record, at processing time `now` (ms)."""
        folded = beyond_limit(set(names), self.counts.keys(), self.settings.max_channels)
        for name in sorted({OTHER if name in folded else name for name in names}):
            if name in self._registry:
                continue
            now = self._pass_time(now)
            self.timers.add(self._new_channel(name, now))
            self.history.see_level(now, None if self.level == MIN else self.level, self.settings)
            self._note_holder(now)

    def finish_channels(self, names: Iterable[str], now: int | None) -> list[Firing]:
        """Finish channels that send nothing more (semantics 3.5); returns what the watermark made windows do.

        The stream ends with the last unfinished channel. Unknown and finished names change nothing.
        """
        leaving = self._registry.known(names)
        return self._retire_channels(
            {number for number in leaving if self.channels[number].left is None}, "finished", now
        )

    def remove_channels(self, names: Iterable[str], now: int | None) -> list[Firing]:
        """Remove channels that no longer exist (semantics 3.7); returns what the watermark made windows do. Their
        counts stay.

        If only finished channels remain, the stream ends. A record or `add_channels` makes a removed channel a new one.
        Unknown names change nothing.
        """
        return self._retire_channels(self._registry.known(names), "removed", now)

    def _retire_channels(self, leaving: set[int], left: Departure, now: int | None) -> list[Firing]:
        assert not self.ended
        if not leaving:
            return []
        now = self._pass_time(now)
        unfinished = self.unfinished
        in_order = self._finished_first(leaving)
        for number in in_order:
            self._note_left(number, left)
        if unfinished and not self.unfinished and any(channel.left == "finished" for channel in self.channels):
            return self.end(now)
        leave = self._clocks.finish_channels if left == "finished" else self._clocks.remove_channels
        leave(in_order)
        return self._noted(self._advance(now))

    def _finished_first(self, leaving: set[int]) -> list[int]:
        """The channels in the order in which they leave: a finished one that stays behind would end the stream."""
        return sorted(leaving, key=lambda number: (self.channels[number].left is None, number))

    def _note_left(self, number: int, left: Departure) -> None:
        self._registry.leave(number, left)
        self.timers.forget(number)
        if left == "removed":
            self.idle_cycles.forget(number)

    @property
    def unfinished(self) -> list[int]:
        """The numbers of the channels that may still send records."""
        return list(self._registry.unfinished.values())

    def progress_of_active(self) -> dict[str, int | None]:
        """The greatest event time (ms) of each channel that is neither idle nor finished; None: no record."""
        return {
            channel.name: channel.max_event_ms
            for number, channel in enumerate(self.channels)
            if channel.left is None and number not in self.clock.idle
        }

    def generators(self) -> dict[str, Generator]:
        """The generators of the channels that may still send records."""
        return {channel.name: channel.generator for channel in self.channels if channel.left is None}

    def heard_at(self, last_record_ms: Mapping[str, int], now: int) -> None:
        """Set when known channels had their last record (processing time, ms), which a tap reports.

        The holder counts as holder since `now`.
        """
        for name, time_ms in last_record_ms.items():
            channel = self.channels[self._registry.number(name)]
            channel.added_ms = channel.last_record_ms = time_ms
        self.holder_since_ms = now

    def apply(self, observation: BatchObservation) -> list[Firing]:
        """Apply one micro-batch; returns what its records, and then the watermark, made windows do."""
        assert not self.ended
        now = self._pass_time(observation.now_ms)
        names = {group.channel for group in observation.groups}
        folded = beyond_limit(names, self.counts.keys(), self.settings.max_channels)
        observation = self.folded.fold(observation, folded)
        self.batch = observation.batch
        self.last_future = observation.last_future or self.last_future
        self.last_malformed = observation.last_malformed or self.last_malformed
        self.malformed_example = self.malformed_example or observation.malformed_example
        firings = self._count(observation)
        if self.explain is not None and observation.values is not None:
            usable = sum(group.records for group in observation.groups if group.start_ms is not None)
            self.explain.add(observation.values, usable, observation.late)
        watermarks = self._absorb(observation, now)
        self.history.see_beat(now)
        return self._noted(firings + self._emit(now, watermarks))

    def take_points(self) -> list[TimePoint]:
        """Take a sample of the records since the last call."""
        points = list(self._points)
        self._points.clear()
        return points

    def tick(self, now: int) -> list[Firing]:
        """Do one emit between batches; returns what it made windows do."""
        assert not self.ended
        now = self._pass_time(now)
        return self._noted(self._emit(now, {}))

    def tick_until(self, limit_ms: int) -> list[Firing]:
        """Do all emits owed since the last one, one per emit interval, up to `limit_ms` (processing time, inclusive).

        Emits that can change nothing are skipped, but their time passes.
        """
        firings: list[Firing] = []
        every = self.settings.emit_every_ms
        if self.now_ms is None or not every:
            return firings
        while (due := self.next_tick_ms()) is not None:
            steps = 1 if due == MIN else max(1, -(-(due - self.now_ms) // every))
            tick = self.now_ms + steps * every
            if tick > limit_ms:
                break
            firings += self.tick(tick)
        self.now_ms += max(0, limit_ms - self.now_ms) // every * every
        return firings

    def next_tick_ms(self) -> int | None:
        """The first time at which an emit may change something: `MIN`: any time; None: only after a record."""
        if not self.settings.emit_every_ms:
            return None
        if self.timers.pending or self.resend or self.settings.strategy == "custom":
            return MIN
        if self._clocks.outdated:
            return MIN
        return min(self._clocks.due_ms(), default=None)

    def change(
        self,
        *,
        lateness_ms: int | UnsetType = UNSET,
        idle_after_ms: int | UnsetType | None = UNSET,
        who: str,
        wall_ms: int,
        now: int | None = None,
    ) -> list[Firing]:
        """Change settings, in force from the next emit after processing time `now` (ms).

        The emits owed until then come first, with the old settings; returns what they made windows do. `now` None: no
        emits are owed. ValueError if the strategy has no such setting or the value is out of range.
        """
        change = SettingsChange(self.settings.version + 1, self.batch, wall_ms, who, lateness_ms, idle_after_ms)
        settings = changed(self.settings, change)
        firings = [] if now is None else self.tick_until(now)
        if isinstance(lateness_ms, int):
            self._clocks.set_lateness(lateness_ms)
        if idle_after_ms is not UNSET:
            self._clocks.set_idle_after(idle_after_ms)
        self.settings = msgspec.structs.replace(settings, version=change.version)
        self.resend = True
        self.changes = [*self.changes, msgspec.structs.replace(change, now_ms=self.now_ms)][-MAX_CHANGES:]
        return firings

    def exclude(self, duration_ms: int, until: int, channels: list[str] | None = None) -> None:
        """Exclude the time (ms) that ended at `until` from idleness: all channels while paused or stopped, some while
        held back or unread.
        """
        if channels is not None and not all(name in self._registry for name in channels):
            channels = [*channels, OTHER]  # some channels may be folded into it
        self.timers.exclude(duration_ms, until, None if channels is None else self._registry.known(channels))

    def end(self, now: int | None = None) -> list[Firing]:
        """End of stream: the watermark passes everything, and all open windows fire."""
        self._pass_time(now)
        self.ended = True
        return self._noted([] if self.operator is None else self.operator.finish(self.batch))

    def durable_fingerprint(self) -> tuple[int, ...]:
        """A value that changes whenever an emit changed something that must be saved: a watermark or a status."""
        return (*self._clocks.fingerprint(), len(self.unfinished), self.ended)

    def _noted(self, firings: list[Firing]) -> list[Firing]:
        self.fired.take(firings, self.now_ms)
        return firings

    def _pass_time(self, now: int | None) -> int:
        """Advance processing time to `now` (ms), never back; returns it, 0 before the first channel."""
        if now is not None:
            self.now_ms = now if self.now_ms is None else max(now, self.now_ms)
        return self.now_ms or 0

    def _new_channel(self, name: str, now: int) -> int:
        if name in self._registry:
            # It had finished and has a record again: it is a new channel.
            finished = self._registry.number(name)
            self._note_left(finished, "removed")
            self._clocks.remove_channels([finished])
        number = self._registry.add(Channel(name, new_generator(self.settings), added_ms=now))
        self.counts.setdefault(name, ChannelCounts())
        self._clocks.add_channel(now)
        return number

    def _count(self, observation: BatchObservation) -> list[Firing]:
        """Count the batch at the watermarks that it started with, and fill the windows."""
        self.rows += count_groups(self.counts, observation.groups)
        by_channel = panes_of(observation.groups)
        if by_channel:
            self.history.record_ms = self.now_ms
        if self.operator is None:
            return []
        self._points.extend(points_of(observation, self.settings, self.window_level, self.now_ms or 0))
        panes = {pane: sum(records.values()) for pane, records in by_channel.items()}
        if self.whatif:
            self.whatif.count(observation.behind, panes, self.settings, self.window_w0, self.now_ms or 0)
        level = self.window_level
        filled = self.operator.fill(observation.groups, by_channel, level, self.shown(level), observation.batch)
        late = filled.late
        late_in_all = sum(late.values())
        for rung in self.rungs:
            if not rung.count_as_run(self.level, late_in_all):
                rung.count(panes, self.settings, self.w0, self.edges)
        count_dropped(self.counts, late, filled.no_window)
        return filled.firings

    def _absorb(self, observation: BatchObservation, now: int) -> dict[int, int]:
        """Pass records to the generators and wake the channels; returns what `on_event` emitted, by channel."""
        events, emitted_at_once = greatest_times(observation.groups)
        sequences = {sequence.channel: sequence for sequence in observation.sequences}
        numbers = self._registry.unfinished
        new = sorted(events.keys() - numbers.keys())
        self._clocks.wake(numbers[name] for name in events if name in numbers)
        for name in new:
            self._new_channel(name, now)
        heard = absorb_all(self.channels, numbers, events, emitted_at_once, sequences, now)
        self.timers.activity(heard)
        return heard

    def _emit(self, now: int, heard: dict[int, int]) -> list[Firing]:
        """Do one emit round; `heard`: the channels with records and what they emitted at once (`MIN`: nothing)."""
        speaking, started = heard, list[tuple[int, int]]()
        before, resent = self.level, self.resend and self.settings.emit_every_ms > 0
        if self.settings.emit_every_ms:
            everyone = self.resend or self.settings.strategy == "custom"
            speaking = {number: heard.get(number, MIN) for number in self.unfinished} if everyone else heard
            self.resend = False
            started = [(now, number) for number in self.timers.emit(now)]
        watermarks = emit_all(self.channels, speaking, periodic=self.settings.emit_every_ms > 0)
        self.idle_cycles.turned_idle(self._clocks.emit(now, watermarks, started, self.timers), now)
        if resent:
            self.changes = emitted(self.changes, now, None if before == MIN else self.level - before)
        return self._advance(now)

    def _advance(self, now: int) -> list[Firing]:
        """Let the windows follow the watermark; returns what it made them do."""
        if self.whatif:
            self.whatif.delays.advance(self.window_w0, now)
        self._note_holder(now)
        self.history.see_level(now, None if self.level == MIN else self.level, self.settings)
        level = self.window_level
        return [] if self.operator is None else self.operator.advance(level, self.shown(level), self.batch)

    def _note_holder(self, now: int) -> None:
        holder = self.clock.holder()
        if holder != self.holder:
            self.holder, self.holder_since_ms = holder, now


def new_monitor(settings: Settings) -> Monitor:
    """A monitor without records."""
    lateness = settings.lateness_ms if settings.tunable and settings.lateness_ms is not None else 0
    return Monitor(
        settings=settings,
        clock=new_clock(settings.strategy, lateness, settings.idle_after_ms, settings.subtasks),
        shadow=new_clock(settings.strategy, 0, settings.idle_after_ms, settings.subtasks) if settings.tunable else None,
        rungs=new_idle_rungs(settings),
        operator=new_window_operator(settings),
        whatif=new_lateness_whatif(settings),
    )


def to_save(monitor: Monitor) -> Monitor:
    """A copy to be encoded, nothing else: the clocks of the what-if that are like the run's own are only marked."""
    own = monitor.clock
    if not isinstance(own, OperatorClock):
        return monitor
    saved = copy(monitor)
    if isinstance(monitor.shadow, OperatorClock):
        saved.shadow = monitor.shadow.marked_as_own(own)
    saved.rungs = []
    for rung in monitor.rungs:
        marked = copy(rung)
        if isinstance(rung.clock, OperatorClock):
            marked.clock = rung.clock.marked_as_own(own)
        saved.rungs.append(marked)
    return saved


def encode_monitor(monitor: Monitor) -> bytes:
    """The monitor as JSON."""
    return msgspec.json.encode(to_save(monitor))


def decode_monitor(data: bytes) -> Monitor:
    """The monitor that `encode_monitor` wrote; `msgspec.DecodeError` for anything else."""
    return msgspec.json.decode(data, type=Monitor)
