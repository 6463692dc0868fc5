"""Two-stage idleness timers of all channels (Flink's `WatermarksWithIdleness.IdlenessTimer`), for any timeout.

The first emit after activity only notes it, the next one without activity starts the inactivity clock, a later one at
which more than the timeout has elapsed finds the channel idle. None of this depends on the timeout, so each operator
clock compares the same inactivity with its own.
"""

from collections.abc import Iterable

from msgspec import Struct


class IdlenessTimers(Struct):
    """Channels by number; times are processing time (ms)."""

    active: set[int] = set()
    """Had a record since the last emit."""
    noted: set[int] = set()
    """Activity noted (or never any): the next emit starts their inactivity clock."""
    since: dict[int, int] = {}
    """When the inactivity clock of a channel started."""
    held: dict[int, int] = {}
    """Until when the time of a channel does not count whose inactivity clock has not started yet."""

    def add(self, channel: int) -> None:
        """Register a channel that has had no record yet."""
        self.noted.add(channel)

    def activity(self, channels: Iterable[int]) -> None:
        """Records of these channels have come."""
        self.active.update(channels)

    def forget(self, channel: int) -> None:
        """The channel has finished or was removed: it never becomes idle."""
        self.active.discard(channel)
        self.noted.discard(channel)
        self.since.pop(channel, None)
        self.held.pop(channel, None)

    def emit(self, now: int) -> list[int]:
        """One emit tick; the channels whose inactivity clock starts at `now`."""
        started = list(self.noted - self.active) if self.noted else []
        for channel in started:
            self.since[channel] = max(now, self.held.pop(channel, now)) if self.held else now
        for channel in self.active:
            self.since.pop(channel, None)
        self.noted = self.active
        self.active = set()
        return started

    def exclude(self, duration: int, until: int, channels: Iterable[int] | None = None) -> None:
        """Let the `duration` (ms) that ended at `until` not count towards any timeout (paused, stopped, held back,
        backlog).

        Emits that it owes follow: clocks that start in them start at its end.
        """
        for channel in self.since.keys() | self.noted | self.active if channels is None else channels:
            if channel in self.since:
                self.since[channel] += duration
            elif channel in self.noted or channel in self.active:
                self.held[channel] = until

    @property
    def pending(self) -> bool:
        """Whether the next emit changes something whatever its time."""
        return bool(self.active or self.noted)
