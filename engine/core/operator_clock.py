"""An operator's clock: channels with idleness, multiplexed into source instances where asked, behind one valve.

One such clock runs the query; others with lateness 0 or another idle timeout run beside it on the same records and
ticks, for the what-if. Channels come as numbers in the order of semantics section 6; watermarks come with the clock's
own lateness taken off.
"""

from heapq import heapify, heappop, heappush

from msgspec import Struct

from .idleness import IdlenessTimers
from .multiplexer import Multiplexer, WatermarkOutput
from .times import MIN
from .valve import Valve


class Instance(Struct):
    """A source instance: its channels' multiplexer and the filter behind it."""

    multiplexer: Multiplexer
    output: WatermarkOutput


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
    """Changes between active and idle, by channel."""
    waiting: list[tuple[int, int]] = []
    """Heap of (start of inactivity, channel): who may become idle next."""

    def __post_init__(self) -> None:
        heapify(self.waiting)

    @property
    def level(self) -> int:
        """The valve's output (ms)."""
        return self.valve.last_output

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
        self.instances[number].multiplexer.register(channel)
        self._wake_instance(number)

    def wake(self, channels: set[int]) -> None:
        """Records of these channels have come: the idle ones become ACTIVE at once, in order."""
        for channel in sorted(self.idle & channels):
            self.idle.discard(channel)
            self._flap(channel)
            if self.subtasks is None:
                self.valve.mark_active(channel)
            else:
                number = channel % self.subtasks
                self.instances[number].multiplexer.defer_status(channel, idle=False)
                self._wake_instance(number)

    def start_waiting(self, started: list[tuple[int, int]]) -> None:
        """The inactivity clocks of these channels, (start, channel), have started now."""
        # Nothing in the heap is later than now, so appending keeps it a heap.
        self.waiting.extend(started)

    def emit(self, now: int, watermarks: dict[int, int], timers: IdlenessTimers) -> set[int]:
        """One emit round over the channels in order: each turns idle or sends its watermark; who turned idle."""
        due = self._due(now, timers)
        if self.subtasks is not None:
            self._emit_instances(now, watermarks, due)
        elif not due:
            self.valve.input_watermarks(watermarks, now)
        else:
            for channel in sorted(watermarks.keys() | due):
                if channel in due:
                    self._set_idle(channel)
                    self.valve.mark_idle(channel)
                else:
                    self.valve.input_watermark(channel, watermarks[channel], now)
        return due

    def _emit_instances(self, now: int, watermarks: dict[int, int], due: set[int]) -> None:
        """The same with source instances, each of which recombines once, after all its channels."""
        touched: set[int] = set()
        for channel in sorted(watermarks.keys() | due):
            if channel in due:
                self._set_idle(channel)
                self._split(channel, touched).defer_status(channel, idle=True)
            elif channel not in self.idle:
                self._split(channel, touched).defer_watermark(channel, watermarks[channel])
        for number in sorted(touched):
            self._recombine(number, now)

    def watermark(self, channel: int) -> int:
        """The channel's own watermark (ms), `MIN` for none yet."""
        if self.subtasks is None:
            return self.valve.watermarks[channel]
        return self._splits(channel)[channel].watermark

    def holder(self) -> int | None:
        """The channel that holds the level (of an instance: the slowest that is not idle in it)."""
        held = self.valve.holder()
        if held is None or self.subtasks is None:
            return held
        splits = self.instances[held].multiplexer.splits
        active = [(split.watermark, channel) for channel, split in splits.items() if not split.idle]
        return min(active)[1] if active else None

    def catching_up(self, channel: int) -> bool:
        """Active, but behind the level since it woke (of an instance: all of it is)."""
        number = channel if self.subtasks is None else channel % self.subtasks
        return channel not in self.idle and not self.valve.aligned[number]

    def next_due_ms(self) -> int | None:
        """The first time at which an emit may find a channel idle; None: never without a record."""
        if self.idle_after_ms is None or not self.waiting:
            return None
        return self.waiting[0][0] + self.idle_after_ms + 1

    def _due(self, now: int, timers: IdlenessTimers) -> set[int]:
        due: set[int] = set()
        if self.idle_after_ms is None:
            self._compact(timers)
            return due
        waiting = self.waiting
        while waiting and now - waiting[0][0] > self.idle_after_ms:
            since, channel = heappop(waiting)
            current = timers.since.get(channel)
            if current is None or channel in self.idle:
                continue
            if now - current > self.idle_after_ms:
                due.add(channel)
            elif current != since:
                heappush(waiting, (current, channel))
        return due

    def _compact(self, timers: IdlenessTimers) -> None:
        """With idleness off nothing is ever popped: keep the heap from growing."""
        if len(self.waiting) > 2 * self.channels + 64:
            self.waiting = sorted((timers.since[c], c) for c in timers.since if c not in self.idle)

    def _set_idle(self, channel: int) -> None:
        self.idle.add(channel)
        self._flap(channel)

    def _flap(self, channel: int) -> None:
        self.flaps[channel] = self.flaps.get(channel, 0) + 1

    def _splits(self, channel: int):
        assert self.subtasks is not None
        return self.instances[channel % self.subtasks].multiplexer.splits

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

    def add_channel(self, now: int) -> None:
        """Register the next channel."""
        self.watermarks.append(MIN)
        self.since.append(now)

    def wake(self, channels: set[int]) -> None:
        """Nothing: no channel is ever idle."""

    def start_waiting(self, started: list[tuple[int, int]]) -> None:
        """Nothing: no channel is ever idle."""

    def emit(self, now: int, watermarks: dict[int, int], timers: IdlenessTimers) -> set[int]:
        """Take the channels' watermarks; the greatest raises the level; nobody turns idle."""
        for channel, watermark in watermarks.items():
            if watermark > self.watermarks[channel]:
                self.watermarks[channel] = watermark
                self.since[channel] = now
                self.level = max(self.level, watermark)
        return set()

    def watermark(self, channel: int) -> int:
        """What the channel alone would have made of the level (ms)."""
        return self.watermarks[channel]

    def holder(self) -> int | None:
        """Nobody holds Spark's level."""
        return None

    def catching_up(self, channel: int) -> bool:
        """Never: there is no valve to align with."""
        return False

    def next_due_ms(self) -> int | None:
        """Never."""
        return None


Clock = OperatorClock | FastestClock


def new_clock(strategy: str, lateness_ms: int, idle_after_ms: int | None, subtasks: int | None) -> Clock:
    """The clock that the strategy asks for."""
    if strategy == "spark":
        return FastestClock(lateness_ms)
    return OperatorClock(lateness_ms, idle_after_ms, subtasks, Valve())
