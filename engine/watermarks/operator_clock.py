"""An operator's clock: channels with idleness, combined into source instances (`--subtasks`), behind one valve.

One such clock runs the query; others with lateness 0 or another idle timeout run beside it on the same records and
emits, for the what-if. Channels are numbers in the order of semantics section 6; a channel's watermark already has the
clock's lateness subtracted.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from heapq import heapify, heappop, heappush

from msgspec import Struct

from .idleness import IdlenessTimers
from .multiplexer import Multiplexer, WatermarkOutput
from .times import MIN
from .valve import Round, Valve


class InstanceFacts(Struct, frozen=True):
    """A source instance as an input of the valve; times in ms."""

    number: int
    watermark: int
    since_ms: int
    """When its watermark last changed (processing time)."""
    channels: int
    finished: bool
    idle: bool
    aligned: bool


class Instance(Struct):
    """A source instance: its channels' multiplexer and the filter behind it."""

    multiplexer: Multiplexer
    output: WatermarkOutput
    finished: dict[int, int] = {}
    """Finished channels, with their last watermarks (ms)."""


class OperatorClock(Struct, tag="valve", dict=True):
    """Flink's rule: the minimum over channels that are not idle (ms)."""

    lateness_ms: int
    idle_after_ms: int | None
    subtasks: int | None
    valve: Valve
    channels: int = 0
    instances: list[Instance] = []
    idle: set[int] = set()
    flaps: dict[int, int] = {}
    """Number of changes between active and idle, by channel."""
    waiting: list[tuple[int, int]] = []
    """Heap of (start of inactivity, channel): the channels that may become idle next, each once. An outdated start is
    corrected when it reaches the top: it is never later than the true one.
    """
    outdated: set[int] = set()
    """Source instances that a channel has left: they recombine at the next emit."""
    like_own: bool = False
    """Only in the saved state: the valve and the waiting channels are those of the run's own clock."""

    def __post_init__(self) -> None:
        first: dict[int, int] = {}
        for since, channel in self.waiting:
            known = first.get(channel)
            if known is None or since < known:
                first[channel] = since
        self.waiting = [(since, channel) for channel, since in first.items()]
        heapify(self.waiting)
        self._waits = set(first)

    def marked_as_own(self, own: "OperatorClock") -> "OperatorClock":
        """For the saved state: a copy without what `own` has as well, or this clock if they differ."""
        if self.subtasks is not None or self.waiting != own.waiting or not self.valve.is_like(own.valve):
            return self
        marked = copy(self)
        marked.valve, marked.waiting, marked.like_own = Valve(), [], True
        return marked

    def restore(self, own: "OperatorClock") -> None:
        """Undo `marked_as_own` after the state was read."""
        if self.like_own:
            self.valve.become(own.valve)
            self.waiting, self._waits, self.like_own = own.waiting.copy(), own._waits.copy(), False

    @property
    def level(self) -> int:
        """The valve's output (ms)."""
        return self.valve.last_output

    @property
    def has_valve(self) -> bool:
        """Whether the watermark is the minimum over inputs."""
        return True

    @property
    def all_idle(self) -> bool:
        """Whether every input of the valve is idle, so that the watermark is frozen."""
        return self.valve.idle

    def add_channel(self, now: int) -> None:
        """Register the next channel, ACTIVE."""
        channel = self.channels
        self.channels += 1
        if self.subtasks is None:
            self.valve.add_channel(now)
            return
        number = channel % self.subtasks
        if number == len(self.instances):
            self.instances.append(Instance(Multiplexer(), WatermarkOutput()))
            self.valve.add_channel(now)
        elif not self.instances[number].multiplexer.splits:
            self.instances[number] = Instance(Multiplexer(), WatermarkOutput(), self.instances[number].finished)
            self.valve.add_again(number, now)
        self.instances[number].multiplexer.register(channel, now)
        self._wake_instance(number)

    def finish_channel(self, channel: int) -> None:
        """Finish a channel (semantics 3.5); its last watermark stays known.

        A source instance recombines at the next emit, and finishes with the last of its channels.
        """
        self.idle.discard(channel)
        if self.subtasks is None:
            self.valve.finish(channel)
            return
        number = channel % self.subtasks
        instance = self.instances[number]
        instance.finished[channel] = instance.multiplexer.splits[channel].watermark
        self._leave_instance(channel, number)

    def remove_channel(self, channel: int) -> None:
        """Remove a channel, also a finished one, from the minimum for good (semantics 3.7).

        A source instance recombines at the next emit, and leaves the minimum with the last of its channels.
        """
        self.idle.discard(channel)
        if self.subtasks is None:
            self.valve.remove(channel)
            return
        number = channel % self.subtasks
        self.instances[number].finished.pop(channel, None)
        self._leave_instance(channel, number)

    def _leave_instance(self, channel: int, number: int) -> None:
        instance = self.instances[number]
        instance.multiplexer.unregister(channel)
        if instance.multiplexer.splits:
            self.outdated.add(number)
            return
        self.outdated.discard(number)
        if instance.finished:
            self.valve.finish(number)
        else:
            self.valve.remove(number)

    def wake(self, channels: set[int]) -> None:
        """Note records of these channels: idle ones become ACTIVE at once, in order."""
        for channel in sorted(self.idle & channels):
            self.idle.discard(channel)
            self._flap(channel)
            if self.subtasks is None:
                self.valve.mark_active(channel)
            else:
                number = channel % self.subtasks
                self.instances[number].multiplexer.defer_status(channel, idle=False)
                self._wake_instance(number)

    def start_waiting(self, started: list[tuple[int, int]], channels: set[int]) -> None:
        """Note that the inactivity clocks, (start, channel), of these channels have started now."""
        # No entry is later than now, so appending keeps the heap valid.
        waits = self._waits
        self.waiting += started if waits.isdisjoint(channels) else [entry for entry in started if entry[1] not in waits]
        waits |= channels

    def emit(self, now: int, round_: Round, timers: IdlenessTimers) -> set[int]:
        """Do one emit round: each channel, in order, turns idle or sends its watermark; returns those that
        turned idle.
        """
        due, watermarks = self._due(now, timers), round_.watermarks
        if self.subtasks is not None:
            self._emit_instances(now, watermarks, due)
        elif not due:
            round_.send(self.valve)
        else:
            for channel in sorted(watermarks.keys() | due):
                if channel in due:
                    self._set_idle(channel)
                    self.valve.mark_idle(channel)
                else:
                    self.valve.input_watermark(channel, watermarks[channel], now)
        return due

    def _emit_instances(self, now: int, watermarks: Mapping[int, int], due: set[int]) -> None:
        """The same with source instances: each recombines once, after all its channels."""
        touched, self.outdated = self.outdated, set()
        for channel in sorted(watermarks.keys() | due):
            if channel in due:
                self._set_idle(channel)
                self._split(channel, touched).defer_status(channel, idle=True)
            elif channel not in self.idle:
                self._split(channel, touched).defer_watermark(channel, watermarks[channel], now)
        for number in sorted(touched):
            self._recombine(number, now)

    def watermark(self, channel: int) -> int:
        """The channel's own watermark (ms), `MIN`: none yet."""
        if self.subtasks is None:
            return self.valve.watermarks[channel]
        instance = self.instances[channel % self.subtasks]
        split = instance.multiplexer.splits.get(channel)
        return instance.finished.get(channel, MIN) if split is None else split.watermark

    def holder(self) -> int | None:
        """The channel that holds back the watermark; in a source instance, its slowest channel that is not idle."""
        held = self.valve.holder()
        if held is None or self.subtasks is None:
            return held
        return self.instances[held].multiplexer.holder()

    def input_of(self, channel: int) -> int:
        """The input of the valve that the channel belongs to: its own or its source instance's."""
        return channel if self.subtasks is None else channel % self.subtasks

    def takes_part(self, channel: int) -> bool | None:
        """Whether the channel takes part in the minimum: it is not idle, and its input is aligned."""
        return channel not in self.idle and self.valve.aligned[self.input_of(channel)]

    def since_ms(self, channel: int) -> int | None:
        """When the channel's watermark last changed (processing time, ms); None after it has left its instance."""
        if self.subtasks is None:
            return self.valve.since[channel]
        split = self.instances[channel % self.subtasks].multiplexer.splits.get(channel)
        return None if split is None else split.since

    def instance_facts(self) -> list[InstanceFacts] | None:
        """The source instances that have or had a channel; None without source instances."""
        if self.subtasks is None:
            return None
        valve = self.valve
        return [
            InstanceFacts(
                number=number,
                watermark=valve.watermarks[number],
                since_ms=valve.since[number],
                channels=len(instance.multiplexer.splits) + len(instance.finished),
                finished=not instance.multiplexer.splits,
                idle=instance.output.idle,
                aligned=valve.aligned[number],
            )
            for number, instance in enumerate(self.instances)
            if instance.multiplexer.splits or instance.finished
        ]

    def aligned_channels(self) -> Iterator[tuple[int, ...]]:
        """A sort key for each channel in the minimum, in the holder's order: its watermark first, its number last.

        In a source instance a channel counts with the instance's watermark where its own is lower: the combined
        watermark never goes back.
        """
        valve = self.valve
        for place, aligned in enumerate(valve.aligned):
            if not aligned:
                continue
            combined, since = valve.watermarks[place], valve.since[place]
            if self.subtasks is None:
                yield combined, since, place
                continue
            for number, split in self.instances[place].multiplexer.splits.items():
                if not split.idle:
                    yield max(split.watermark, combined), since, place, split.watermark, number

    def all_idle_watermark(self) -> int | None:
        """The watermark (ms) after all aligned channels have turned idle; None while an unaligned one is active."""
        if not self.valve.all_active_aligned():
            return None
        inputs = self.valve.unfinished
        if self.subtasks is None:
            return max((self.valve.watermarks[place] for place in inputs), default=None)
        splits = (split for place in inputs for split in self.instances[place].multiplexer.splits.values())
        return max((split.watermark for split in splits), default=None)

    def next_due_ms(self) -> int | None:
        """The first time at which an emit may find a channel idle; None: not before another record."""
        if self.idle_after_ms is None or not self.waiting:
            return None
        return self.waiting[0][0] + self.idle_after_ms + 1

    def _due(self, now: int, timers: IdlenessTimers) -> set[int]:
        due: set[int] = set()
        if self.idle_after_ms is None:
            return due
        waiting = self.waiting
        while waiting and now - waiting[0][0] > self.idle_after_ms:
            _, channel = heappop(waiting)
            current = timers.since.get(channel)
            if current is not None and channel not in self.idle and now - current <= self.idle_after_ms:
                heappush(waiting, (current, channel))
                continue
            self._waits.discard(channel)
            if current is not None and channel not in self.idle:
                due.add(channel)
        return due

    def _set_idle(self, channel: int) -> None:
        self.idle.add(channel)
        self._flap(channel)

    def _flap(self, channel: int) -> None:
        self.flaps[channel] = self.flaps.get(channel, 0) + 1

    def _split(self, channel: int, touched: set[int]) -> Multiplexer:
        assert self.subtasks is not None
        touched.add(channel % self.subtasks)
        return self.instances[channel % self.subtasks].multiplexer

    def _wake_instance(self, number: int) -> None:
        if self.instances[number].output.mark_active():
            self.valve.mark_active(number)

    def _recombine(self, number: int, now: int) -> None:
        instance = self.instances[number]
        combined = instance.multiplexer.update()
        if combined.watermark is not None and instance.output.watermark(combined.watermark):
            self.valve.input_watermark(number, combined.watermark, now)
        if combined.idle and instance.output.mark_idle():
            self.valve.mark_idle(number)


class FastestClock(Struct, tag="fastest"):
    """Spark's rule: the maximum over all channels drives one clock; no valve, no idleness, no holder."""

    lateness_ms: int
    level: int = MIN
    watermarks: list[int] = []
    since: list[int] = []
    flaps: dict[int, int] = {}
    idle: set[int] = set()
    outdated: set[int] = set()

    @property
    def has_valve(self) -> bool:
        """False: the watermark is a maximum."""
        return False

    @property
    def all_idle(self) -> bool:
        """False: no channel is ever idle."""
        return False

    def add_channel(self, now: int) -> None:
        """Register the next channel."""
        self.watermarks.append(MIN)
        self.since.append(now)

    def finish_channel(self, channel: int) -> None:
        """Nothing: what the channel has sent stays in the maximum."""

    def remove_channel(self, channel: int) -> None:
        """Nothing: what the channel has sent stays in the maximum."""

    def wake(self, channels: set[int]) -> None:
        """Nothing: no channel is ever idle."""

    def start_waiting(self, started: list[tuple[int, int]], channels: set[int]) -> None:
        """Nothing: no channel is ever idle."""

    def emit(self, now: int, round_: Round, timers: IdlenessTimers) -> set[int]:
        """Take the channels' watermarks: the greatest raises the combined one. No channel turns idle."""
        for channel, watermark in round_.watermarks.items():
            if watermark > self.watermarks[channel]:
                self.watermarks[channel] = watermark
                self.since[channel] = now
                self.level = max(self.level, watermark)
        return set()

    def watermark(self, channel: int) -> int:
        """What the watermark would be with this channel alone (ms)."""
        return self.watermarks[channel]

    def holder(self) -> int | None:
        """None: no channel holds back Spark's watermark."""
        return None

    def takes_part(self, channel: int) -> bool | None:
        """Does not apply: without a valve there is no minimum."""
        return None

    def since_ms(self, channel: int) -> int | None:
        """When the channel's watermark last changed (processing time, ms)."""
        return self.since[channel]

    def instance_facts(self) -> list[InstanceFacts] | None:
        """None: Spark's rule has no source instances."""
        return None

    def next_due_ms(self) -> int | None:
        """None: no channel ever turns idle."""
        return None


Clock = OperatorClock | FastestClock


def new_clock(strategy: str, lateness_ms: int, idle_after_ms: int | None, subtasks: int | None) -> Clock:
    """The clock for the strategy."""
    if strategy == "spark":
        return FastestClock(lateness_ms)
    return OperatorClock(lateness_ms, idle_after_ms, subtasks, Valve())
