"""Two-stage idleness timers (Flink's `WatermarksWithIdleness.IdlenessTimer`), and how often channels turn idle."""

from collections.abc import Iterable

from msgspec import Struct


class IdlenessTimers(Struct):
    """Channels by number; times are processing time (ms)."""

    active: set[int] = set()
    """Channels that had a record since the last emit."""
    noted: set[int] = set()
    """Channels whose activity is noted, or that never had any: the next emit starts their inactivity clock."""
    since: dict[int, int] = {}
    """When each channel's inactivity clock started."""
    held: dict[int, int] = {}
    """For channels whose inactivity clock has not started: time up to this moment does not count."""

    def add(self, channel: int) -> None:
        """Register a channel that has had no record yet."""
        self.noted.add(channel)

    def activity(self, channels: Iterable[int]) -> None:
        """Note that records of these channels have come."""
        self.active.update(channels)

    def forget(self, channel: int) -> None:
        """Forget a channel that has finished or was removed: it never becomes idle."""
        self.active.discard(channel)
        self.noted.discard(channel)
        self.since.pop(channel, None)
        self.held.pop(channel, None)

    def emit(self, now: int) -> list[int]:
        """Take one emit tick; returns the channels whose inactivity clock starts at `now`."""
        started = list(self.noted - self.active) if self.noted else []
        for channel in started:
            self.since[channel] = max(now, self.held.pop(channel, now)) if self.held else now
        for channel in self.active:
            self.since.pop(channel, None)
        self.noted = self.active
        self.active = set()
        return started

    def exclude(self, duration: int, until: int, channels: Iterable[int] | None = None) -> None:
        """Exclude the `duration` (ms) that ended at `until` from all timeouts (paused, stopped, held back, backlog).

        Owed emits follow: a clock that starts in one of them starts at the end of that time.
        """
        for channel in self.since.keys() | self.noted | self.active if channels is None else channels:
            if channel in self.since:
                self.since[channel] += duration
            elif channel in self.noted or channel in self.active:
                self.held[channel] = until

    @property
    def pending(self) -> bool:
        """Whether the next emit changes something, whatever its time."""
        return bool(self.active or self.noted)


class IdleCycle(Struct):
    """When a channel last turned idle, and a running mean of its cycles (ms) in which the last one counts half."""

    began_ms: int
    length_ms: int | None = None


class IdleCycles(Struct):
    """The cycles of all channels that have ever been idle, by channel number."""

    of: dict[int, IdleCycle] = {}

    def turned_idle(self, channels: set[int], now: int) -> None:
        """These channels turn idle at processing time `now` (ms)."""
        for channel in channels:
            last = self.of.get(channel)
            if last is None:
                self.of[channel] = IdleCycle(now)
            else:
                took = now - last.began_ms
                mean = took if last.length_ms is None else (last.length_ms + took) // 2
                self.of[channel] = IdleCycle(now, mean)

    def length_ms(self, channel: int, now: int) -> int | None:
        """The mean cycle (ms), or the current one if that is longer already; None before the second cycle."""
        last = self.of.get(channel)
        if last is None or last.length_ms is None:
            return None
        return max(last.length_ms, now - last.began_ms)

    def forget(self, channel: int) -> None:
        """The channel was removed."""
        self.of.pop(channel, None)
