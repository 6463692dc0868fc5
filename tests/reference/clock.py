"""How event time moves: generators with idleness, source instances, the valve; one channel at a time."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from wmtop.engine.watermarks.times import MIN

from .generators import Generator, IdlenessTimer
from .valve import Emission, Multiplexer, Valve


@dataclass
class Channel:
    name: str
    came: tuple[int, int]
    """The batch of its first record; where the source knew of it before: the batch before, and which time it told."""
    generator: Generator
    timer: IdlenessTimer = field(default_factory=IdlenessTimer)
    joined: bool = False
    finished: bool = False
    idle: bool = False
    flaps: int = 0
    watermark: int = MIN
    since: int = 0
    touched: bool = False
    at_once: list[int] = field(default_factory=list[int])
    """What `on_event` sent in this batch."""


class Clock:
    """Generators, instances and valve of one run, at one lateness and one idle timeout."""

    def __init__(
        self,
        strategy: str,
        lateness: int,
        idle_after: int | None,
        *,
        smooth: int,
        subtasks: int | None,
        emit_every: int,
    ) -> None:
        self.strategy, self.lateness, self.idle_after = strategy, lateness, idle_after
        self.smooth, self.subtasks, self.periodic = smooth, subtasks, emit_every > 0
        self.channels: dict[str, Channel] = {}
        self.removed: list[Channel] = []
        """They keep their numbers, which decide the source instances."""
        self.valve = Valve()
        self.instances: dict[int, Multiplexer] = {}
        self.since: dict[Any, int] = {}
        """When each valve input's watermark last changed; before that, when it came."""
        self.spark_level = self.spark_before = MIN
        """Spark's clock now, and in the batch that ended last."""
        self.reported = 0

    @property
    def level(self) -> int:
        """The valve's output; with Spark's rule its one clock."""
        return self.spark_level if self.strategy == "spark" else self.valve.output

    @property
    def window_level(self) -> int:
        """What late records are compared with, and what has fired windows: Spark's is one batch behind its clock."""
        return self.spark_before if self.strategy == "spark" else self.valve.output

    def in_order(self) -> list[Channel]:
        return sorted(self.channels.values(), key=lambda c: (c.came, c.name))

    def input_of(self, channel: Channel) -> Any:
        """The valve's input that a channel belongs to: itself, or its source instance."""
        if self.subtasks is None:
            return channel.name
        everyone = sorted([*self.channels.values(), *self.removed], key=lambda c: (c.came, c.name))
        return [id(c) for c in everyone].index(id(channel)) % self.subtasks

    def _new(self, came: tuple[int, int], name: str) -> None:
        self.channels[name] = Channel(name, came, Generator(self.strategy, self.lateness, self.smooth))

    def know(self, batch: int, names: Iterable[str], now: int) -> None:
        """Channels that the source knows before their first record: never seen."""
        self.reported += 1
        for name in sorted(set(names) - self.channels.keys()):
            self._new((batch, self.reported), name)
            self._join(self.channels[name], now)

    def paused(self, duration: int, names: Iterable[str] | None = None) -> None:
        """A time that counts towards no idle timeout of these channels (None: of all)."""
        for channel in self.channels.values():
            if (
                not channel.finished
                and (names is None or channel.name in names)
                and channel.timer.quiet_from is not None
            ):
                channel.timer.quiet_from += duration

    def on_event(self, batch: int, name: str, ts: int, extra: int | bool | None) -> None:
        if name in self.channels and self.channels[name].finished:
            self.remove([name])
        if name not in self.channels:
            self._new((batch, 0), name)
        channel = self.channels[name]
        channel.touched = True
        channel.timer.activity()
        sent = channel.generator.on_event(ts, extra)
        if sent is not None:
            channel.at_once.append(sent)

    @property
    def unfinished(self) -> set[str]:
        return {name for name, channel in self.channels.items() if not channel.finished}

    def finish(self, names: Iterable[str]) -> None:
        """Section 3.5; inside a source instance its split is removed, and the instance finishes with its last one."""
        for channel in self.in_order():
            if channel.name in names and not channel.finished:
                channel.finished, channel.idle = True, False
                self._leave(channel, finished=True)

    def remove(self, names: Iterable[str]) -> None:
        """Section 3.7, likewise; the finished ones first: left alone they end the stream."""
        for channel in sorted(self.in_order(), key=lambda c: not c.finished):
            if channel.name in names:
                self._leave(channel, finished=False)
                self.removed.append(self.channels.pop(channel.name))

    def _leave(self, channel: Channel, *, finished: bool) -> None:
        target = self.input_of(channel)
        if self.strategy == "spark":
            if self.subtasks is not None:
                self.instances[target].splits.pop(channel.name, None)
            return
        if self.subtasks is not None:
            splits = self.instances[target].splits
            splits.pop(channel.name, None)
            if splits:
                return
            others = [c for c in self.channels.values() if c is not channel and self.input_of(c) == target]
            finished = finished or bool(others)
        if finished:
            self.valve.finish(target)
            return
        self.valve.remove(target)
        self.since.pop(target)
        self.instances.pop(target, None)

    def after_batch(self, now: int) -> None:
        """Channels with a record join or wake, in order, so that new ones come last; then everything emits once."""
        for channel in self.in_order():
            if channel.finished:
                continue
            if not channel.joined:
                self._join(channel, now)
            elif channel.touched and channel.idle:
                self._wake(channel)
            channel.touched = False
        self.emit(now)

    def emit(self, now: int) -> None:
        self.spark_before = self.spark_level
        for channel in self.in_order():
            if not channel.finished:
                self._emit_channel(channel, now)
        for number, instance in sorted(self.instances.items()):
            for call in instance.update():
                self._into_valve(number, call, now)

    def _join(self, channel: Channel, now: int) -> None:
        channel.joined, channel.since = True, now
        target = self.input_of(channel)
        if self.subtasks is not None:
            self.instances.setdefault(target, Multiplexer()).register(channel.name)
        if self.valve.status.get(target) == "finished":  # the other channels of the source instance have finished
            self.valve.remove(target)
            self.instances[target] = Multiplexer()
            self.instances[target].register(channel.name)
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
        """never_seen, active, catching_up, idle or finished."""
        channel = self.channels[name]
        if channel.finished:
            return "finished"
        if channel.generator.greatest is None:
            return "never_seen"
        if channel.idle:
            return "idle"
        if self.strategy == "spark":
            return "active"
        return "active" if self.valve.aligned[self.input_of(channel)] else "catching_up"
