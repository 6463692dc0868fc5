"""All clocks of a run, driven by the same calls: the run's own, W0 (lateness 0), and those of the idle what-if."""

from collections.abc import Iterable

from .idleness import IdlenessTimers
from .operator_clock import Clock, OperatorClock
from .times import shift_all
from .valve import Round
from .whatif import IdleRung


class Clocks:
    """The clocks that the monitor keeps; every channel has the same number in each."""

    def __init__(self, own: Clock, shadow: Clock | None, rungs: list[IdleRung]) -> None:
        self._own, self._shadow, self._rungs = own, shadow, [rung.clock for rung in rungs]
        self._all = [own, *self._rungs] if shadow is None else [own, shadow, *self._rungs]

    def add_channel(self, now: int) -> None:
        """Register the next channel at processing time `now` (ms)."""
        for clock in self._all:
            clock.add_channel(now)

    def finish_channels(self, numbers: Iterable[int]) -> None:
        """Mark channels that send nothing more as finished (semantics 3.5)."""
        for clock in self._all:
            for number in numbers:
                clock.finish_channel(number)

    def remove_channels(self, numbers: Iterable[int]) -> None:
        """Remove channels that no longer exist (semantics 3.7)."""
        for clock in self._all:
            for number in numbers:
                clock.remove_channel(number)

    def wake(self, numbers: Iterable[int]) -> None:
        """Note that these channels have records."""
        idling = [clock for clock in self._all if clock.idle]
        heard = set(numbers) if idling else set[int]()
        for clock in idling:
            clock.wake(heard)

    def emit(
        self, now: int, watermarks: dict[int, int], started: list[tuple[int, int]], timers: IdlenessTimers
    ) -> set[int]:
        """Pass the channels' watermarks at lateness 0 to every clock, which applies its own lateness.

        `started` lists the inactivity clocks that start now: (time, channel). Returns the channels that turned idle in
        the run's own clock.
        """
        rounds: dict[int, Round] = {}
        idled: set[int] = set()
        channels = {channel for _, channel in started}
        for clock in self._all:
            clock.start_waiting(started, channels)
            lateness = clock.lateness_ms
            if lateness not in rounds:
                rounds[lateness] = Round(shift_all(watermarks, -lateness), now)
            turned_idle = clock.emit(now, rounds[lateness], timers)
            if clock is self._own:
                idled = turned_idle
        return idled

    def set_lateness(self, lateness_ms: int) -> None:
        """Set the lateness (ms) from the next emit on; W0 stays at 0."""
        for clock in (self._own, *self._rungs):
            clock.lateness_ms = lateness_ms

    def set_idle_after(self, idle_after_ms: int | None) -> None:
        """Set the idle timeout (ms) from the next emit on; the rungs of the idle what-if keep theirs."""
        for clock in (self._own, self._shadow):
            if isinstance(clock, OperatorClock):
                clock.idle_after_ms = idle_after_ms

    @property
    def outdated(self) -> bool:
        """Whether any clock has a source instance that must recombine at the next emit."""
        return any(clock.outdated for clock in self._all)

    def due_ms(self) -> list[int]:
        """When each clock next turns a channel idle (processing time, ms); clocks that never do are left out."""
        return [time for clock in self._all if (time := clock.next_due_ms()) is not None]

    def fingerprint(self) -> tuple[int, ...]:
        """A value that changes whenever a watermark or a status changes."""
        return tuple(number for clock in self._all for number in (clock.level, sum(clock.flaps.values())))
