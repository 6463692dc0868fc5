"""Two-stage idleness timers of all channels (Flink's `WatermarksWithIdleness.IdlenessTimer`), for any timeout.

The first emit after activity only notes it. The next emit without activity starts the inactivity clock. The channel is
idle at a later emit, once more than the timeout has elapsed. None of this depends on the timeout, so each operator
clock compares the same inactivity with its own.
"""

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
