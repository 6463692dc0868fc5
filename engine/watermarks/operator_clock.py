"""An operator's clock: channels with idleness, combined into source instances (`--subtasks`), behind one valve; and
the channels that hold it back, step by step (semantics 11.2).

One such clock runs the query; others with lateness 0 or another idle timeout run beside it on the same records and
emits, for the what-if. Channels are numbers in the order of semantics section 6; a channel's watermark already has the
clock's lateness subtracted.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from heapq import heapify, heappop, heappush
from itertools import groupby, islice
from operator import itemgetter

from msgspec import Struct

from .channels import IdlenessTimers
from .multiplexer import Multiplexer, WatermarkOutput
from .times import MIN
from .valve import Round, Valve


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
    def window_level(self) -> int:
        """The watermark (ms) of the windows: late records are compared with it, and it has fired them."""
        return self.level

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
        """Do one emit round: each channel, in order, idles or sends its watermark; returns those that turned idle."""
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

    def takes_part(self, channel: int) -> bool | None:
        """Whether the channel takes part in the minimum: it is not idle, and its input is aligned."""
        return (
            channel not in self.idle
            and self.valve.aligned[channel if self.subtasks is None else channel % self.subtasks]
        )

    def since_ms(self, channel: int) -> int | None:
        """When the channel's watermark last changed (processing time, ms); None after it has left its instance."""
        if self.subtasks is None:
            return self.valve.since[channel]
        split = self.instances[channel % self.subtasks].multiplexer.splits.get(channel)
        return None if split is None else split.since

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


class FastestClock(Struct, tag="fastest", dict=True):
    """Spark's rule: the maximum over all channels, also ended ones, drives one clock; no valve, no idleness, no holder.

    An emit is the end of a batch; one without records is Spark's batch without data, after a watermark that advanced.
    """

    lateness_ms: int
    level: int = MIN
    window_level: int = MIN
    """The watermark (ms) in force in the last batch; the next batch compares late records with it."""
    watermarks: list[int] = []
    since: list[int] = []
    flaps: dict[int, int] = {}
    idle: set[int] = set()
    all_idle = False  # no channel is ever idle

    def __post_init__(self) -> None:
        self.resumed = False
        """A run continues: Spark runs no batch without data before the first one with data."""

    @property
    def outdated(self) -> bool:
        """Whether a batch without data would change the windows."""
        return not self.resumed and self.window_level != self.level

    def add_channel(self, now: int) -> None:
        """Register the next channel."""
        self.watermarks.append(MIN)
        self.since.append(now)

    def emit(self, now: int, round_: Round, timers: IdlenessTimers) -> set[int]:
        """Take the channels' watermarks: the greatest raises the combined one. No channel turns idle."""
        if self.resumed and not round_.watermarks:
            return set()
        self.resumed, self.window_level = False, self.level
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


Clock = OperatorClock | FastestClock


def new_clock(strategy: str, lateness_ms: int, idle_after_ms: int | None, subtasks: int | None) -> Clock:
    """The clock for the strategy."""
    if strategy == "spark":
        return FastestClock(lateness_ms)
    return OperatorClock(lateness_ms, idle_after_ms, subtasks, Valve())


MAX_STEPS = 10


class BlockerStep(Struct, frozen=True):
    """Channels (by number) with the same watermark (ms, `MIN`: none), and the gain (ms) from idling all channels up to
    here.
    """

    channels: list[int]
    watermark: int
    gain_ms: int | None
    """The gain; None: there is no watermark to gain on."""


def steps_below(lowest_first: Iterable[tuple[int, int]], level: int, flushed: int | None) -> list[BlockerStep]:
    """At most `MAX_STEPS` steps, the first of which holds the watermark back; empty: no channel is below the fastest.

    `lowest_first` has the watermark and the number of each channel in the minimum, `level` is the combined watermark
    (`MIN`: none) and `flushed` the one after all channels have turned idle (None: not known).
    """
    by_watermark = groupby(lowest_first, key=itemgetter(0))
    groups = [(watermark, [pair[1] for pair in pairs]) for watermark, pairs in islice(by_watermark, MAX_STEPS + 1)]
    steps: list[BlockerStep] = []
    for place, (watermark, channels) in enumerate(groups[:MAX_STEPS]):
        freed = groups[place + 1][0] if place + 1 < len(groups) else flushed
        if freed is None or freed <= watermark:
            break
        steps.append(BlockerStep(channels, watermark, None if level == MIN else max(0, freed - level)))
    return steps


class Staircase:
    """The aligned channels of a clock in the holder's order: watermark, longest unchanged, semantics section 6.

    A channel in a source instance (`--subtasks`) counts with the instance's watermark where its own is lower: the
    combined watermark never goes back.
    """

    def __init__(self, clock: OperatorClock) -> None:
        self._level = clock.level
        self._ordered = sorted(clock.aligned_channels())
        self._watermarks = [key[0] for key in self._ordered]
        self._flushed = clock.all_idle_watermark()

    def steps(self) -> list[BlockerStep]:
        """The steps, as `steps_below` has them."""
        return steps_below(((key[0], key[-1]) for key in self._ordered), self._level, self._flushed)

    def below(self, needed: int) -> int:
        """How many aligned channels have a watermark below `needed` (ms)."""
        return bisect_left(self._watermarks, needed)

    def first(self, count: int) -> Iterable[int]:
        """The first `count` channels in the holder's order, by number."""
        return (key[-1] for key in self._ordered[:count])


def staircase(clock: Clock) -> Staircase | None:
    """The staircase of a clock; None for Spark's rule, which has no valve."""
    return Staircase(clock) if isinstance(clock, OperatorClock) else None
