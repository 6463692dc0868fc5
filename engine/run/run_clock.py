"""The time of a run that follows the wall clock: it never goes back, and leaves out what the process slept."""

from ..system import clock
from ..watermarks.monitor import Monitor


class RunClock:
    """Counts on from the saved state of an earlier run, and jumps at no step of the machine's clock."""

    def __init__(self) -> None:
        self._ahead_ms = 0
        """How far the time of the saved state was ahead of this machine's."""
        self._suspended: list[int] = []
        """How long (ms) the process was suspended, not yet left out."""

    def resume(self, saved_ms: int) -> None:
        """Count on from `saved_ms` (epoch ms), where the machine's clock is behind it."""
        self._ahead_ms = max(0, saved_ms - clock.now_ms())

    @property
    def now_ms(self) -> int:
        """Now (epoch ms)."""
        return clock.now_ms() + self._ahead_ms

    @property
    def machine_ahead_ms(self) -> int:
        """How far (ms) the machine's clock is ahead of `now_ms`, since it was set or the state was saved."""
        return clock.set_by_ms() - self._ahead_ms

    def note_suspended(self, ms: int) -> None:
        """Note that the process did nothing for `ms`: a stop, for the idle timers and the verdict."""
        self._suspended.append(ms)

    def leave_out_suspended(self, monitor: Monitor) -> None:
        """The same, once the monitor is free."""
        while self._suspended and monitor.now_ms is not None:
            ms = self._suspended.pop()
            monitor.exclude(ms, self.now_ms)
            monitor.history.leave_out(ms)
