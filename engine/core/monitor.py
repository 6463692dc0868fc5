"""The monitor: observations and ticks in; watermark, firings and snapshot out (semantics 6: micro-batches).

It is one msgspec record, so that its JSON is the saved state. It knows no clock: processing time (ms) is an argument.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from .counts import ChannelCounts
from .firing import FiredWindows, Firing
from .folding import OTHER, FoldedChannels
from .idle_cycles import IdleCycles
from .idleness import IdlenessTimers
from .judgement.autopilot import AUTO, Autopilot, with_target
from .judgement.verdict import Judge
from .observation import BatchObservation
from .operator_clock import Clock, FastestClock, OperatorClock, new_clock
from .points import points_of
from .settings import AutoLateness, Settings
from .snapshot import Offender, SettingsChange, TimePoint
from .times import MIN, shift
from .watermarks import Generator, SilentWatermarks, absorb, new_generator
from .whatif import IdleRung, LatenessWhatIf, new_idle_rungs, new_lateness_whatif, panes_of
from .window_operator import WindowOperator, new_window_operator

MOST_CHANGES = 50
MOST_POINTS = 120
"""How many records of the sample wait for the next snapshot."""


class Channel(Struct):
    """A channel: its generator, and when it last had a record (processing time, ms)."""

    name: str
    generator: Generator
    max_event_ms: int | None = None
    last_record_ms: int | None = None
    added_ms: int = 0
    longest_quiet_ms: int | None = None
    left: Literal["finished", "removed"] | None = None
    """It sends nothing more; a removed one only keeps its number."""


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
    noted_level: int = MIN
    moved_ms: int | None = None
    """When (processing time) the level last advanced."""
    advanced_ms: int | None = None
    """When a channel's greatest event time last did."""
    record_ms: int | None = None
    """When a record with a usable time last came."""
    judge: Judge = msgspec.field(default_factory=Judge)
    autopilot: Autopilot = msgspec.field(default_factory=Autopilot)
    last_future: Offender | None = None
    last_malformed: Offender | None = None
    changes: list[SettingsChange] = []
    resend: bool = False
    """Settings changed: at the next emit every generator emits."""
    ended: bool = False

    def __post_init__(self) -> None:
        self._numbers = {c.name: number for number, c in enumerate(self.channels) if c.left != "removed"}
        self._points: list[TimePoint] = []

    @property
    def level(self) -> int:
        """The watermark (ms) that decides lateness now."""
        return self.clock.level

    @property
    def w0(self) -> int:
        """The watermark (ms) at lateness 0 from the start; `MIN` for a strategy without lateness."""
        return self.shadow.level if self.shadow else MIN

    @property
    def edges(self) -> list[int]:
        """The bucket edges (ms) of the what-if; empty for a strategy without lateness."""
        return self.whatif.edges if self.whatif else []

    def shown(self, watermark: int) -> int | None:
        """A watermark (ms) as it is shown: None for none yet, and plus 1 under Spark's rule."""
        if watermark == MIN:
            return None
        return watermark + 1 if self.settings.strategy == "spark" else watermark

    def add_channels(self, names: list[str], now: int) -> None:
        """Register channels that the source knows before their first record (processing time, ms)."""
        folded = self._beyond_limit(set(names))
        names = [OTHER if name in folded else name for name in names]
        for name in sorted(set(names) - self._numbers.keys()):
            now = self._pass_time(now)
            self.timers.add(self._new_channel(name, now))
            self._note_level(now)

    def finish_channels(self, names: Iterable[str], now: int | None) -> list[Firing]:
        """These channels send nothing more (semantics 3.5); what the watermark made windows do.

        With the last unfinished channel the stream ends. Names that are not known or have finished change nothing.
        """
        leaving = {self._numbers[name] for name in names if name in self._numbers}
        return self._let_go({number for number in leaving if self.channels[number].left is None}, "finished", now)

    def remove_channels(self, names: Iterable[str], now: int | None) -> list[Firing]:
        """These channels no longer exist (semantics 3.7); what the watermark made windows do. Their counts stay.

        Where only finished channels remain, the stream ends. A record or `add_channels` makes a removed channel a new
        one. Names that are not known change nothing.
        """
        return self._let_go({self._numbers[name] for name in names if name in self._numbers}, "removed", now)

    def _let_go(self, leaving: set[int], left: Literal["finished", "removed"], now: int | None) -> list[Firing]:
        assert not self.ended
        if not leaving:
            return []
        now = self._pass_time(now)
        unfinished = self.unfinished
        for number in sorted(leaving):
            self._note_left(number, left)
        if unfinished and not self.unfinished and any(channel.left == "finished" for channel in self.channels):
            return self.end(now)
        for clock in self._clocks():
            for number in sorted(leaving):
                clock.finish_channel(number) if left == "finished" else clock.remove_channel(number)
        return self._noted(self._advance(now))

    def _note_left(self, number: int, left: Literal["finished", "removed"]) -> None:
        channel = self.channels[number]
        channel.left = left
        self.timers.forget(number)
        if left == "removed":
            del self._numbers[channel.name]
            channel.generator = SilentWatermarks()
            self.idle_cycles.forget(number)

    @property
    def unfinished(self) -> list[int]:
        """The numbers of the channels that may still send something."""
        return [number for number, channel in enumerate(self.channels) if channel.left is None]

    def progress_of_active(self) -> dict[str, int | None]:
        """The greatest event time (ms) of each channel that is neither idle nor finished; None: no record."""
        return {
            channel.name: channel.max_event_ms
            for number, channel in enumerate(self.channels)
            if channel.left is None and number not in self.clock.idle
        }

    def generators(self) -> dict[str, Generator]:
        """The generators of the channels that may still send something."""
        return {channel.name: channel.generator for channel in self.channels if channel.left is None}

    def heard_at(self, last_record_ms: Mapping[str, int], now: int) -> None:
        """Take when known channels had their last record (processing time, ms), which a tap knows from elsewhere.

        The holder counts as one since `now`.
        """
        for name, time_ms in last_record_ms.items():
            channel = self.channels[self._numbers[name]]
            channel.added_ms = channel.last_record_ms = time_ms
        self.holder_since_ms = now

    def apply(self, observation: BatchObservation) -> list[Firing]:
        """Apply one micro-batch; what its records, and then the watermark, made windows do."""
        assert not self.ended
        now = self._pass_time(observation.now_ms)
        folded = self._beyond_limit({group.channel for group in observation.groups})
        observation = self.folded.fold(observation, folded)
        self.batch = observation.batch
        self.last_future = observation.last_future or self.last_future
        self.last_malformed = observation.last_malformed or self.last_malformed
        self._points += points_of(observation, self.settings, self.level, now)
        del self._points[:-MOST_POINTS]
        firings = self._count(observation)
        watermarks = self._absorb(observation, now)
        self.judge.see_batch(now)
        firings += self._emit(now, watermarks)
        self._steer(now)
        return self._noted(firings)

    def take_points(self) -> list[TimePoint]:
        """A few of the records since the last call."""
        points, self._points = self._points, []
        return points

    def tick(self, now: int) -> list[Firing]:
        """One emit between batches; what it made windows do."""
        assert not self.ended
        now = self._pass_time(now)
        firings = self._emit(now, {})
        self._steer(now)
        return self._noted(firings)

    def tick_until(self, limit_ms: int) -> list[Firing]:
        """All ticks owed since the last emit, one an emit interval, up to `limit_ms` (processing time, inclusive).

        Ticks that can change nothing are skipped, but their time passes.
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
        """The first time at which a tick may change something: any (`MIN`), later, or None: not before a record."""
        if not self.settings.emit_every_ms:
            return None
        if self.timers.pending or self.resend or self.settings.strategy == "custom":
            return MIN
        if any(clock.outdated for clock in self._clocks()):
            return MIN
        due = [time for clock in self._clocks() if (time := clock.next_due_ms()) is not None]
        if self._steers() is not None and self.autopilot.next_ms is not None:
            due.append(self.autopilot.next_ms)
        return min(due, default=None)

    def change(
        self,
        *,
        lateness_ms: int | UnsetType = UNSET,
        idle_after_ms: int | UnsetType | None = UNSET,
        auto_lateness: float | UnsetType | None = UNSET,
        who: str,
        wall_ms: int,
        now: int | None = None,
    ) -> list[Firing]:
        """Change settings; they are in force from the next emit after processing time `now` (ms) on.

        `auto_lateness` is the autopilot's target (None: off); a lateness suspends it for one horizon.

        The ticks owed until then come first, with the old settings: returns what they made windows do. `now` None: no
        ticks are owed. ValueError where the strategy has no such setting or the value is not possible.
        """
        settings = self.settings
        if any(isinstance(value, int) and value < 0 for value in (lateness_ms, idle_after_ms)):
            raise ValueError("a duration cannot be negative")
        if idle_after_ms == 0:
            raise ValueError("an idle timeout must be longer than 0; 'off' means no idle timeout")
        if lateness_ms is not UNSET:
            if not settings.tunable:
                raise ValueError(f"the strategy '{settings.strategy}' has no lateness")
            settings = msgspec.structs.replace(settings, lateness_ms=lateness_ms)
        if idle_after_ms is not UNSET:
            if isinstance(self.clock, FastestClock):
                raise ValueError("Spark's clock knows no idleness")
            settings = msgspec.structs.replace(settings, idle_after_ms=idle_after_ms)
        if auto_lateness is not UNSET:
            settings = with_target(settings, auto_lateness)
        firings = [] if now is None else self.tick_until(now)
        if lateness_ms is UNSET:  # those ticks may have changed it
            settings = msgspec.structs.replace(settings, lateness_ms=self.settings.lateness_ms)
        change = SettingsChange(
            self.settings.version + 1, self.batch, wall_ms, who, lateness_ms, idle_after_ms, auto_lateness
        )
        if auto_lateness is not UNSET:
            self.autopilot = Autopilot()
        if lateness_ms is not UNSET and settings.auto is not None:
            self.autopilot.suspend(self.now_ms, settings.auto.horizon_ms)
        self._take(settings, change)
        return firings

    def _take(self, settings: Settings, change: SettingsChange) -> None:
        """These settings are in force from the next emit on."""
        self._set_clocks(change.lateness_ms, change.idle_after_ms)
        self.settings = msgspec.structs.replace(settings, version=change.version)
        self.resend = True
        self.changes = [*self.changes, msgspec.structs.replace(change, now_ms=self.now_ms)][-MOST_CHANGES:]

    def _steers(self) -> AutoLateness | None:
        """The autopilot's settings; None where it is off."""
        auto = self.settings.auto
        return None if self.whatif is None or auto is None or auto.target is None else auto

    def _steer(self, now: int) -> None:
        """Let the autopilot set the lateness, where an evaluation is due."""
        auto = self._steers()
        if auto is None or self.whatif is None or self.now_ms is None or not self.autopilot.is_due(now, auto):
            return
        sample = self.whatif.recent_sample(auto.horizon_ms, now)
        decision = self.autopilot.evaluate(now, auto, self.edges, sample, self.settings.lateness_ms or 0)
        if decision is not None:
            settings = msgspec.structs.replace(self.settings, lateness_ms=decision.lateness_ms)
            version = self.settings.version + 1
            change = SettingsChange(
                version, self.batch, None, AUTO, lateness_ms=decision.lateness_ms, share=decision.share
            )
            self._take(settings, change)

    def _set_clocks(self, lateness_ms: int | UnsetType | None, idle_after_ms: int | UnsetType | None) -> None:
        if isinstance(lateness_ms, int):
            for clock in (self.clock, *(rung.clock for rung in self.rungs)):
                clock.lateness_ms = lateness_ms
        if idle_after_ms is not UNSET:
            for clock in (self.clock, self.shadow):
                if isinstance(clock, OperatorClock):
                    clock.idle_after_ms = idle_after_ms

    def exclude(self, duration_ms: int, channels: list[str] | None = None) -> None:
        """Exclude a time from idleness (paused, stopped; of some channels: held back, unread records)."""
        if channels is not None and not self._numbers.keys() >= set(channels):
            channels = [*channels, OTHER]  # some may be folded
        known = None if channels is None else [self._numbers[name] for name in channels if name in self._numbers]
        self.timers.exclude(duration_ms, known)

    def end(self, now: int | None = None) -> list[Firing]:
        """End of stream: the watermark passes everything, and all open windows fire."""
        self._pass_time(now)
        self.ended = True
        return self._noted(self.operator.finish(self.batch))

    def durable_fingerprint(self) -> tuple[int, ...]:
        """Differs whenever an emit changed something that must be saved: a watermark, a status."""
        numbers = [number for clock in self._clocks() for number in (clock.level, sum(clock.flaps.values()))]
        due = self.autopilot.next_ms or 0
        return (*numbers, len(self.unfinished), self.ended, due)

    def _noted(self, firings: list[Firing]) -> list[Firing]:
        self.fired.take(firings, self.now_ms)
        return firings

    def _clocks(self) -> list[Clock]:
        rungs = [rung.clock for rung in self.rungs]
        return [self.clock, *rungs] if self.shadow is None else [self.clock, self.shadow, *rungs]

    def _pass_time(self, now: int | None) -> int:
        """Advance processing time, never back; 0 while it is not known (before the first channel)."""
        if now is not None:
            self.now_ms = now if self.now_ms is None else max(now, self.now_ms)
        return self.now_ms or 0

    def _beyond_limit(self, names: set[str]) -> set[str]:
        """Those of the channels that are beyond `max_channels`: new ones in the order of their names."""
        new = names - self.counts.keys() - {OTHER}
        room = max(0, self.settings.max_channels - len(self.counts) + (OTHER in self.counts))
        return set() if len(new) <= room else set(sorted(new)[room:])

    def _has_left(self, name: str) -> bool:
        """Whether no channel of that name takes part: it is unknown, or has finished."""
        number = self._numbers.get(name)
        return number is None or self.channels[number].left is not None

    def _new_channel(self, name: str, now: int) -> int:
        if name in self._numbers:
            # It had finished, and has a record again: that makes it a new channel.
            finished = self._numbers[name]
            self._note_left(finished, "removed")
            for clock in self._clocks():
                clock.remove_channel(finished)
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
        if records:
            self.record_ms = self.now_ms
        panes = panes_of(records)
        if self.whatif:
            self.whatif.count(records, panes, self.settings, self.w0, self.now_ms or 0)
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
        known = {self._numbers[name] for name in greatest if not self._has_left(name)}
        for clock in self._clocks():
            clock.wake(known)
        for name in sorted(name for name in greatest if self._has_left(name)):
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
                self.advanced_ms = now
        return heard

    def _emit(self, now: int, heard: dict[int, int]) -> list[Firing]:
        """One emit round: `heard` are the channels with records, and what they emitted at once (`MIN`: nothing)."""
        watermarks = heard
        before, changed = self.level, self.resend and self.settings.emit_every_ms > 0
        if self.settings.emit_every_ms:
            everyone = self.resend or self.settings.strategy == "custom"
            speaking = self.unfinished if everyone else heard
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
                self.idle_cycles.turned_idle(idled, now)
        if changed:
            moved = None if before == MIN else self.level - before
            self.changes = [
                change
                if change.emitted_ms is not None
                else msgspec.structs.replace(change, emitted_ms=now, moved_ms=moved)
                for change in self.changes
            ]
        return self._advance(now)

    def _advance(self, now: int) -> list[Firing]:
        """What the level, where it is now, makes windows do."""
        if self.whatif:
            self.whatif.delays.advance(self.w0, now)
        self._note_holder(now)
        self._note_level(now)
        return self.operator.advance(self.level, self.shown(self.level), self.batch)

    def _periodic(self, number: int) -> int:
        watermark = self.channels[number].generator.on_periodic_emit()
        return MIN if watermark is None else watermark

    def _note_level(self, now: int) -> None:
        if self.level != self.noted_level:
            self.noted_level, self.moved_ms = self.level, now
        self.judge.see_level(now, None if self.level == MIN else self.level)

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
