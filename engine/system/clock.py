"""The time of this process: the machine's clock, without the steps by which it is set.

A clock that is set back or ahead (NTP, an administrator, a restored virtual machine) changes no age here: the monotonic
clock runs beside it, where there is one the kind that also counts while the machine is suspended.
"""

import threading
import time
from collections.abc import Callable

STEP_MS = 1_000
"""Between two readings the wall clock may gain or lose this much (ms) and is followed; more is a step: it was set."""
_BOOT_TIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def _elapsed_ns() -> int:
    """Time that passes whatever the wall clock is set to, also while the machine is suspended, where that is known."""
    if _BOOT_TIME is None:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    suspended_ns = time.clock_gettime_ns(_BOOT_TIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return int(time.monotonic() * 1e9) + suspended_ns


class SteadyClock:
    """Milliseconds since the epoch that never go back and jump at no step of the wall clock; for any thread."""

    def __init__(
        self, wall_ns: Callable[[], int] = lambda: time.time_ns(), elapsed_ns: Callable[[], int] = _elapsed_ns
    ) -> None:
        """`wall_ns` is the clock of the machine, `elapsed_ns` counts from any moment and is never set."""
        self._wall_ns = wall_ns
        self._elapsed_ns = elapsed_ns
        self._lock = threading.Lock()
        self._ahead_ms: int | None = None
        """How far the wall clock was ahead of the other one at the last reading; None: there was none."""
        self._set_ms = 0
        self._now_ms = 0

    def now_ms(self) -> int:
        """The time (epoch ms)."""
        return self._read()[0]

    def set_by_ms(self) -> int:
        """By how much (ms) the machine's clock was set ahead since the first reading; back: negative."""
        return self._read()[1]

    def _read(self) -> tuple[int, int]:
        with self._lock:
            wall_ns = self._wall_ns()
            ahead_ms = (wall_ns - self._elapsed_ns()) // 1_000_000
            if self._ahead_ms is not None and abs(ahead_ms - self._ahead_ms) > STEP_MS:
                self._set_ms += ahead_ms - self._ahead_ms
            self._ahead_ms = ahead_ms
            self._now_ms = max(self._now_ms, wall_ns // 1_000_000 - self._set_ms)
            return self._now_ms, self._set_ms


_clock = SteadyClock()
now_ms = _clock.now_ms
set_by_ms = _clock.set_by_ms
