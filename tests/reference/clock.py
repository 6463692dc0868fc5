"""How event time moves: generators with idleness, the splits of an instance, the valve; one channel at a time."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from wmtop.engine.core.times import MAX, MIN

Emission = tuple[Any, ...]
"""`("w", ts)`, `("idle",)` or `("active",)`."""


def clamp(value: int) -> int:
    return max(MIN, min(MAX, value))


class Valve:
    """Section 3, point by point. Every method returns what the valve emitted."""

    def __init__(self) -> None:
        self.watermark: dict[Any, int] = {}
        self.status: dict[Any, str] = {}
        self.aligned: dict[Any, bool] = {}
        self.output = MIN
        self.idle = False

    def _emit(self, watermark: int) -> list[Emission]:
        if watermark <= self.output:
            return []
        self.output = watermark
        return [("w", watermark)]

    def _derive(self) -> list[Emission]:
        unfinished = [c for c in self.status if self.status[c] != "finished"]
        if self.status and not unfinished:
            return self._emit(MAX)
        aligned = [self.watermark[c] for c in unfinished if self.aligned[c]]
        return self._emit(min(aligned)) if aligned else []

    def _settle(self) -> list[Emission]:
        """Point 3's second half: nobody active is the flush, else the minimum."""
        unfinished = [c for c in self.status if self.status[c] != "finished"]
        if any(self.status[c] == "active" for c in unfinished) or not unfinished:
            return self._derive()
        emitted = self._emit(max(self.watermark[c] for c in unfinished))
        if not self.idle:
            self.idle = True
            emitted.append(("idle",))
        return emitted

    def _wake(self) -> list[Emission]:
        was, self.idle = self.idle, False
        return [("active",)] if was else []

    def add(self, channel: Any) -> list[Emission]:
        assert channel not in self.status
        self.watermark[channel], self.status[channel], self.aligned[channel] = MIN, "active", True
        return [*self._wake(), *self._derive()]

    def remove(self, channel: Any) -> list[Emission]:
        del self.watermark[channel], self.status[channel], self.aligned[channel]
        return self._settle() if self.status else []

    def input(self, channel: Any, watermark: int) -> list[Emission]:
        if self.idle or self.status[channel] != "active" or watermark <= self.watermark[channel]:
            return []
        self.watermark[channel] = watermark
        if not self.aligned[channel] and watermark >= self.output:
            self.aligned[channel] = True
        return self._derive()

    def mark_idle(self, channel: Any) -> list[Emission]:
        if self.status[channel] != "active":
            return []
        self.status[channel], self.aligned[channel] = "idle", False
        return self._settle()

    def mark_active(self, channel: Any) -> list[Emission]:
        if self.status[channel] != "idle":
            return []
        self.status[channel] = "active"
        self.aligned[channel] = self.watermark[channel] >= self.output
        return [*self._wake(), *self._derive()]

    def finish(self, channel: Any) -> list[Emission]:
        self.status[channel], self.aligned[channel] = "finished", False
        return self._settle()


@dataclass
class Split:
    watermark: int = MIN
    idle: bool = False

    def send(self, watermark: int) -> bool:
        self.idle = False
        grew = watermark > self.watermark
        self.watermark = max(self.watermark, watermark)
        return grew


class Multiplexer:
    """Section 4: the splits of one source instance. `update` recombines and returns the calls on its output."""

    def __init__(self) -> None:
        self.splits: dict[Any, Split] = {}
        self.combined = MIN

    def register(self, split: Any) -> None:
        if split in self.splits:
            raise ValueError(split)
        self.splits[split] = Split()

    def update(self) -> list[Emission]:
        if not self.splits:
            return []
        active = [s.watermark for s in self.splits.values() if not s.idle]
        combined = min(active) if active else max(s.watermark for s in self.splits.values())
        calls: list[Emission] = []
        if combined > self.combined:
            self.combined = combined
            calls.append(("w", combined))
        if not active:
            calls.append(("idle",))
        return calls

    def send_now(self, split: Any, watermark: int) -> list[Emission]:
        grew = self.splits[split].send(watermark)
        return self.update() if grew and watermark > self.combined else []

    def status_now(self, split: Any, idle: bool) -> list[Emission]:
        self.splits[split].idle = idle
        return self.update()


@dataclass
class GrowthFilter:
    """What a vector's `expect_downstream` sees: no repeats, and awake again only with a watermark that grows."""

    watermark: int = MIN
    idle: bool = False

    def through(self, calls: list[Emission]) -> list[Emission]:
        out: list[Emission] = []
        for call in calls:
            if call[0] == "w" and call[1] > self.watermark:
                self.watermark = call[1]
                if self.idle:
                    out.append(("active",))
                self.idle = False
                out.append(call)
            elif call == ("idle",) and not self.idle:
                self.idle = True
                out.append(call)
        return out


class Generator:
    """Section 1: one channel's strategy; both methods return the watermark that they send, or None."""

    def __init__(self, strategy: str, lateness: int, smooth: int = 100) -> None:
        self.strategy = strategy
        self.lateness = lateness
        self.greatest: int | None = None
        self.last: deque[int] = deque(maxlen=smooth)

    def on_event(self, ts: int, extra: int | bool | None = None) -> int | None:
        self.greatest = ts if self.greatest is None else max(self.greatest, ts)
        self.last.append(ts)
        if self.strategy == "punctuated" and extra is True:
            return clamp(ts - 1)
        if self.strategy == "source" and extra is not None:
            return int(extra)
        return None

    def on_periodic_emit(self) -> int | None:
        if self.greatest is None:
            return None
        if self.strategy in ("bounded", "spark"):
            return clamp(self.greatest - self.lateness - 1)
        if self.strategy == "monotonous":
            return clamp(self.greatest - 1)
        if self.strategy == "bounded-legacy":
            return clamp(self.greatest - self.lateness)
        if self.strategy == "smoothed":
            return clamp(sum(self.last) // len(self.last) - self.lateness - 1)
        return None


class IdlenessTimer:
    """Section 2: the two-stage timer; `now` and `timeout` in one unit, whatever it is."""

    def __init__(self) -> None:
        self.active_since_tick = False
        self.quiet_from: int | None = None

    def activity(self) -> None:
        self.active_since_tick = True

    def tick(self, now: int, timeout: int | None) -> bool:
        """Whether the channel is idle from now on."""
        if self.active_since_tick:
            self.active_since_tick, self.quiet_from = False, None
            return False
        if self.quiet_from is None:
            self.quiet_from = now
            return False
        return timeout is not None and now - self.quiet_from > timeout


@dataclass
class Channel:
    name: str
    came: tuple[int, int]
    """The batch of its first record; where the source knew of it before: the batch before, and which time it told."""
    generator: Generator
    timer: IdlenessTimer = field(default_factory=IdlenessTimer)
    joined: bool = False
    idle: bool = False
    flaps: int = 0
    watermark: int = MIN
    since: int = 0
    touched: bool = False
    at_once: list[int] = field(default_factory=list)
    """What `on_event` sent in this batch."""


class Clock:
    """Generators, instances and valve of one run, at one lateness and one idle timeout; `level` is the valve's output."""

    def __init__(
        self, strategy: str, lateness: int, idle_after: int | None, *, smooth: int, subtasks: int | None, emit_every: int
    ) -> None:
        self.strategy, self.lateness, self.idle_after = strategy, lateness, idle_after
        self.smooth, self.subtasks, self.periodic = smooth, subtasks, emit_every > 0
        self.channels: dict[str, Channel] = {}
        self.valve = Valve()
        self.instances: dict[int, Multiplexer] = {}
        self.since: dict[Any, int] = {}
        """When each valve input's watermark last changed; before that, when it came."""
        self.spark_level = MIN
        self.told = 0

    @property
    def level(self) -> int:
        return self.spark_level if self.strategy == "spark" else self.valve.output

    def in_order(self) -> list[Channel]:
        return sorted(self.channels.values(), key=lambda c: (c.came, c.name))

    def input_of(self, channel: Channel) -> Any:
        """The valve's input that a channel belongs to: itself, or its source instance."""
        return channel.name if self.subtasks is None else self.in_order().index(channel) % self.subtasks

    def _new(self, came: tuple[int, int], name: str) -> None:
        self.channels[name] = Channel(name, came, Generator(self.strategy, self.lateness, self.smooth))

    def know(self, batch: int, names: Iterable[str], now: int) -> None:
        """Channels that the source knows before their first record: never seen."""
        self.told += 1
        for name in sorted(set(names) - self.channels.keys()):
            self._new((batch, self.told), name)
            self._join(self.channels[name], now)

    def paused(self, duration: int) -> None:
        """A time that counts towards no idle timeout."""
        for channel in self.channels.values():
            if channel.timer.quiet_from is not None:
                channel.timer.quiet_from += duration

    def on_event(self, batch: int, name: str, ts: int, extra: int | bool | None) -> None:
        if name not in self.channels:
            self._new((batch, 0), name)
        channel = self.channels[name]
        channel.touched = True
        channel.timer.activity()
        sent = channel.generator.on_event(ts, extra)
        if sent is not None:
            channel.at_once.append(sent)

    def after_batch(self, now: int) -> None:
        """Channels with a record join or wake, then everything emits once.

        A channel exists from its first record on, so new ones have joined before the first idle one wakes.
        """
        for channel in self.in_order():
            if not channel.joined:
                self._join(channel, now)
        for channel in self.in_order():
            if channel.touched and channel.idle:
                self._wake(channel)
            channel.touched = False
        self.emit(now)

    def emit(self, now: int) -> None:
        for channel in self.in_order():
            self._emit_channel(channel, now)
        for number, instance in sorted(self.instances.items()):
            for call in instance.update():
                self._into_valve(number, call, now)

    def _join(self, channel: Channel, now: int) -> None:
        channel.joined, channel.since = True, now
        target = self.input_of(channel)
        if self.subtasks is not None:
            self.instances.setdefault(target, Multiplexer()).register(channel.name)
        if target not in self.valve.status:
            self.valve.add(target)
            self.since[target] = now
        else:
            self.valve.mark_active(target)

    def _wake(self, channel: Channel) -> None:
        channel.idle = False
        channel.flaps += 1
        target = self.input_of(channel)
        if self.subtasks is not None:
            self.instances[target].splits[channel.name].idle = False
        self.valve.mark_active(target)

    def _emit_channel(self, channel: Channel, now: int) -> None:
        if channel.at_once:
            self._send(channel, max(channel.at_once), now)
            channel.at_once.clear()
        if not self.periodic:
            return
        quiet = channel.timer.tick(now, None if self.strategy == "spark" else self.idle_after)
        if quiet and not channel.idle:
            channel.idle = True
            channel.flaps += 1
            if self.subtasks is None:
                self._into_valve(channel.name, ("idle",), now)
            else:
                self.instances[self.input_of(channel)].splits[channel.name].idle = True
        if channel.idle:
            return
        channel.generator.lateness = self.lateness
        sent = channel.generator.on_periodic_emit()
        if sent is not None:
            self._send(channel, sent, now)

    def _send(self, channel: Channel, watermark: int, now: int) -> None:
        if watermark <= channel.watermark:
            return
        channel.watermark, channel.since = watermark, now
        if self.strategy == "spark":
            self.spark_level = max(self.spark_level, watermark)
        elif self.subtasks is None:
            self._into_valve(channel.name, ("w", watermark), now)
        else:
            self.instances[self.input_of(channel)].splits[channel.name].send(watermark)

    def _into_valve(self, target: Any, call: Emission, now: int) -> None:
        if call[0] == "w":
            if call[1] > self.valve.watermark[target]:
                self.since[target] = now
            self.valve.input(target, call[1])
        else:
            self.valve.mark_idle(target)

    def holder(self) -> Any:
        """The aligned input with the smallest watermark, then the one that has stood longest, then the order."""
        aligned = [c for c in self.valve.status if self.valve.aligned[c]]
        if self.strategy == "spark" or not aligned:
            return None
        order = [c.name for c in self.in_order()] if self.subtasks is None else sorted(self.instances)
        return min(aligned, key=lambda c: (self.valve.watermark[c], self.since[c], order.index(c)))

    def state(self, name: str) -> str:
        """never_seen, active, catching_up or idle."""
        channel = self.channels[name]
        if channel.generator.greatest is None:
            return "never_seen"
        if channel.idle:
            return "idle"
        if self.strategy == "spark":
            return "active"
        return "active" if self.valve.aligned[self.input_of(channel)] else "catching_up"
