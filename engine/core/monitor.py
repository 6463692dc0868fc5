"""The monitor: observations and ticks in; level, firings and snapshot out (semantics 6: micro-batches).

It is one msgspec record, so that its JSON is the saved state. It knows no clock: processing time (ms) is an argument.
"""

import msgspec
from msgspec import UNSET, Struct, UnsetType

from .counts import ChannelCounts
from .fired import FiredWindows
from .firing import Firing
from .idleness import IdlenessTimers
from .observation import BatchObservation
from .operator_clock import Clock, FastestClock, OperatorClock, new_clock
from .points import points_of
from .rounds import Rounds
from .settings import Settings
from .snapshot import Offender, SettingsChange, TimePoint
from .times import MIN, shift
from .watermarks import Generator, absorb, new_generator
from .whatif import IdleRung, LatenessWhatIf, new_idle_rungs, new_lateness_whatif, panes_of
from .window_operator import WindowOperator, new_window_operator

MOST_CHANGES = 50
MOST_POINTS = 120
"""How many records of the sample wait for the next snapshot."""


class Channel(Struct):
    """A channel of the valve: its generator, and when it was last heard of (processing time, ms)."""

    name: str
    generator: Generator
    max_event_ms: int | None = None
    last_record_ms: int | None = None
    added_ms: int = 0
    longest_quiet_ms: int | None = None


class Monitor(Struct, kw_only=True, dict=True):
    """All state of a run; channels by number in the order of semantics section 6."""

    settings: Settings
    clock: Clock
    shadow: Clock | None
    """The same at lateness 0: its level is W0; None for a strategy without lateness."""
    rungs: list[IdleRung]
    operator: WindowOperator
    whatif: LatenessWhatIf | None
    timers: IdlenessTimers = msgspec.field(default_factory=IdlenessTimers)
    rounds: Rounds = msgspec.field(default_factory=Rounds)
    fired: FiredWindows = msgspec.field(default_factory=FiredWindows)
    channels: list[Channel] = []
    counts: dict[str, ChannelCounts] = {}
    now_ms: int | None = None
    batch: int | None = None
    rows: int = 0
    """Rows read, malformed ones included."""
    holder: int | None = None
    holder_since_ms: int = 0
    last_future: Offender | None = None
    last_malformed: Offender | None = None
    changes: list[SettingsChange] = []
    resend: bool = False
    """Settings changed: at the next emit every generator speaks."""
    ended: bool = False

    def __post_init__(self) -> None:
        self._numbers = {channel.name: number for number, channel in enumerate(self.channels)}
        self._points: list[TimePoint] = []

    @property
    def level(self) -> int:
        """The level (ms) that decides lateness now."""
        return self.clock.level

    @property
    def w0(self) -> int:
        """The level (ms) had lateness been 0 from the start; `MIN` for a strategy without lateness."""
        return self.shadow.level if self.shadow else MIN

    @property
    def edges(self) -> list[int]:
        """The bucket edges (ms) of the what-if; empty for a strategy without lateness."""
        return self.whatif.edges if self.whatif else []

    def shown(self, watermark: int) -> int | None:
        """A watermark (ms) as it is written down: None for none yet, and plus 1 where Spark's rule rules."""
        if watermark == MIN:
            return None
        return watermark + 1 if self.settings.strategy == "spark" else watermark

    def add_channels(self, names: list[str], now: int) -> None:
        """Register channels that the source knows before their first record (processing time, ms)."""
        for name in sorted(set(names) - self._numbers.keys()):
            now = self._pass_time(now)
            self.timers.add(self._new_channel(name, now))

    def apply(self, observation: BatchObservation) -> list[Firing]:
        """Apply one micro-batch; what its records, and then the level, made windows do."""
        assert not self.ended
        now = self._pass_time(observation.now_ms)
        self.batch = observation.batch
        self.last_future = observation.last_future or self.last_future
        self.last_malformed = observation.last_malformed or self.last_malformed
        self._points += points_of(observation, self.settings, self.level, now)
        del self._points[:-MOST_POINTS]
        firings = self._count(observation)
        watermarks = self._absorb(observation, now)
        return self._noted(firings + self._emit(now, watermarks))

    def take_points(self) -> list[TimePoint]:
        """A few of the records that came since this was last asked."""
        points, self._points = self._points, []
        return points

    def tick(self, now: int) -> list[Firing]:
        """One emit between batches; what it made windows do."""
        assert not self.ended
        return self._noted(self._emit(self._pass_time(now), {}))

    def next_tick_ms(self) -> int | None:
        """The first time at which a tick may change something: any (`MIN`), later, or None: not before a record."""
        if not self.settings.emit_every_ms:
            return None
        if self.timers.pending or self.resend or self.settings.strategy == "custom":
            return MIN
        due = [time for clock in self._clocks() if (time := clock.next_due_ms()) is not None]
        return min(due, default=None)

    def change(
        self,
        *,
        lateness_ms: int | UnsetType = UNSET,
        idle_after_ms: int | UnsetType | None = UNSET,
        who: str,
        wall_ms: int,
    ) -> None:
        """Change settings; they take effect at the next emit. ValueError where the strategy has no such thing."""
        settings = self.settings
        if any(isinstance(value, int) and value < 0 for value in (lateness_ms, idle_after_ms)):
            raise ValueError("a duration cannot be negative")
        if lateness_ms is not UNSET:
            if not settings.tunable:
                raise ValueError(f"the strategy '{settings.strategy}' has no lateness")
            settings = msgspec.structs.replace(settings, lateness_ms=lateness_ms)
        if idle_after_ms is not UNSET:
            if isinstance(self.clock, FastestClock):
                raise ValueError("Spark's clock knows no idleness")
            settings = msgspec.structs.replace(settings, idle_after_ms=idle_after_ms)
        self._set_clocks(lateness_ms, idle_after_ms)
        self.settings = msgspec.structs.replace(settings, version=settings.version + 1)
        self.resend = True
        change = SettingsChange(self.settings.version, self.batch, wall_ms, who, lateness_ms, idle_after_ms)
        self.changes = [*self.changes, change][-MOST_CHANGES:]

    def _set_clocks(self, lateness_ms: int | UnsetType, idle_after_ms: int | UnsetType | None) -> None:
        if lateness_ms is not UNSET:
            for clock in (self.clock, *(rung.clock for rung in self.rungs)):
                clock.lateness_ms = lateness_ms
        if idle_after_ms is not UNSET:
            for clock in (self.clock, self.shadow):
                if isinstance(clock, OperatorClock):
                    clock.idle_after_ms = idle_after_ms

    def exclude(self, duration_ms: int, channels: list[str] | None = None) -> None:
        """Let a time not count towards idleness (paused, stopped; of some channels: held back, unread backlog)."""
        known = None if channels is None else [self._numbers[name] for name in channels if name in self._numbers]
        self.timers.exclude(duration_ms, known)

    def end(self, now: int | None = None) -> list[Firing]:
        """End of stream: the level goes past everything, and all that is open fires."""
        self._pass_time(now)
        self.ended = True
        return self._noted(self.operator.finish(self.batch))

    def standing(self) -> tuple[int, ...]:
        """Changes whenever an emit changed something that must not be lost: a level, a status."""
        return tuple(number for clock in self._clocks() for number in (clock.level, sum(clock.flaps.values())))

    def _noted(self, firings: list[Firing]) -> list[Firing]:
        self.fired.take(firings, self.now_ms)
        return firings

    def _clocks(self) -> list[Clock]:
        rungs = [rung.clock for rung in self.rungs]
        return [self.clock, *rungs] if self.shadow is None else [self.clock, self.shadow, *rungs]

    def _pass_time(self, now: int | None) -> int:
        """Move processing time on, never back; 0 while none is known (then there is no channel either)."""
        if now is not None:
            self.now_ms = now if self.now_ms is None else max(now, self.now_ms)
        return self.now_ms or 0

    def _new_channel(self, name: str, now: int) -> int:
        number = self._numbers[name] = len(self.channels)
        self.channels.append(Channel(name, new_generator(self.settings), added_ms=now))
        self.counts.setdefault(name, ChannelCounts())
        for clock in self._clocks():
            clock.add_channel(now)
        return number

    def _count(self, observation: BatchObservation) -> list[Firing]:
        """Count the batch at the levels it started with, and fill the windows."""
        for group in observation.groups:
            self.rows += group.records
            self._counts_of(group.channel).add(group)
        records = [group for group in observation.groups if group.start_ms is not None]
        panes = panes_of(records)
        if self.whatif:
            self.whatif.count(records, panes, self.settings, self.w0)
        filled = self.operator.fill(records, self.level, self.shown(self.level), observation.batch)
        late_in_all = sum(filled.late.values())
        for rung in self.rungs:
            if not rung.count_as_run(self.level, late_in_all):
                rung.count(panes, self.settings, self.w0, self.edges)
        for channel, late in filled.late.items():
            self._counts_of(channel).late += late
        for channel, without in filled.no_window.items():
            self._counts_of(channel).no_window += without
        return filled.firings

    def _counts_of(self, channel: str) -> ChannelCounts:
        counts = self.counts.get(channel)
        if counts is None:
            counts = self.counts[channel] = ChannelCounts()
        return counts

    def _absorb(self, observation: BatchObservation, now: int) -> dict[int, int]:
        """Let the generators see their records, wake the channels; what `on_event` emitted, by channel."""
        greatest: dict[str, tuple[int, int | None]] = {}
        for group in observation.groups:
            if group.max_event_ms is not None:
                seen, emitted = greatest.get(group.channel, (MIN, None))
                sent = group.emitted_ms
                emitted = sent if emitted is None or (sent is not None and sent > emitted) else emitted
                greatest[group.channel] = (max(seen, group.max_event_ms), emitted)
        sequences = {sequence.channel: sequence for sequence in observation.sequences}
        known = {self._numbers[name] for name in greatest.keys() & self._numbers.keys()}
        for clock in self._clocks():
            clock.wake(known)
        for name in sorted(greatest.keys() - self._numbers.keys()):
            self._new_channel(name, now)
        heard: dict[int, int] = {}
        for name, (max_event_ms, emitted_ms) in greatest.items():
            number = self._numbers[name]
            channel = self.channels[number]
            emitted = absorb(channel.generator, max_event_ms, emitted_ms, sequences.get(name))
            heard[number] = MIN if emitted is None else emitted
            self.timers.activity(number)
            if channel.last_record_ms is not None:
                channel.longest_quiet_ms = max(channel.longest_quiet_ms or 0, now - channel.last_record_ms)
            channel.last_record_ms = now
            if channel.max_event_ms is None or max_event_ms > channel.max_event_ms:
                channel.max_event_ms = max_event_ms
        return heard

    def _emit(self, now: int, heard: dict[int, int]) -> list[Firing]:
        """One emit round: `heard` are the channels with records, and what they emitted at once (`MIN`: nothing)."""
        watermarks = heard
        if self.settings.emit_every_ms:
            everyone = self.resend or self.settings.strategy == "custom"
            speaking = range(len(self.channels)) if everyone else heard
            self.resend = False
            watermarks = {number: max(heard.get(number, MIN), self._periodic(number)) for number in speaking}
            started = [(now, number) for number in self.timers.emit(now)]
            for clock in self._clocks():
                clock.start_waiting(started)
        watermarks = {number: watermarks[number] for number in sorted(watermarks) if watermarks[number] != MIN}
        lagged: dict[int, dict[int, int]] = {}
        for clock in self._clocks():
            lateness = clock.lateness_ms
            if lateness not in lagged:
                lagged[lateness] = {number: shift(watermark, -lateness) for number, watermark in watermarks.items()}
            idled = clock.emit(now, lagged[lateness], self.timers)
            if clock is self.clock:
                self.rounds.turned_idle(idled, now)
        if self.whatif:
            self.whatif.delays.advance(self.w0, now)
        self._note_holder(now)
        return self.operator.advance(self.level, self.shown(self.level), self.batch)

    def _periodic(self, number: int) -> int:
        watermark = self.channels[number].generator.on_periodic_emit()
        return MIN if watermark is None else watermark

    def _note_holder(self, now: int) -> None:
        holder = self.clock.holder()
        if holder != self.holder:
            self.holder, self.holder_since_ms = holder, now


def new_monitor(settings: Settings) -> Monitor:
    """A monitor that has seen nothing yet."""
    lateness = settings.lateness_ms if settings.tunable and settings.lateness_ms is not None else 0
    return Monitor(
        settings=settings,
        clock=new_clock(settings.strategy, lateness, settings.idle_after_ms, settings.subtasks),
        shadow=new_clock(settings.strategy, 0, settings.idle_after_ms, settings.subtasks) if settings.tunable else None,
        rungs=new_idle_rungs(settings),
        operator=new_window_operator(settings),
        whatif=new_lateness_whatif(settings),
    )


def encode_monitor(monitor: Monitor) -> bytes:
    """The monitor as JSON."""
    return msgspec.json.encode(monitor)


def decode_monitor(data: bytes) -> Monitor:
    """The monitor that `encode_monitor` wrote; raises `msgspec.DecodeError`."""
    return msgspec.json.decode(data, type=Monitor)
