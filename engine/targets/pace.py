"""The pace at which a target is followed."""

import threading
import time
from collections.abc import Callable


class Pace:
    """How often a target is polled, and until when it is followed; belongs to one thread, except `stop`."""

    def __init__(self, every_s: float = 0.0, for_s: float | None = None) -> None:
        """Poll every `every_s` seconds, or less often if the target asks for it, for `for_s` (None: until `stop`)."""
        self._every_s = every_s
        self._until = None if for_s is None else time.monotonic() + for_s
        self._stopping = threading.Event()
        self._at_stop: Callable[[], object] = lambda: None

    def wait(self, every_s: float) -> bool:
        """Wait until the next poll of a target that wants one every `every_s`; False if there is none."""
        every_s = max(self._every_s, every_s)
        if self._until is None:
            return not self._stopping.wait(every_s)
        if time.monotonic() + every_s >= self._until:
            self._stopping.set()
        else:
            time.sleep(every_s)
        return not self._stopping.is_set()

    @property
    def left_s(self) -> float | None:
        """Seconds until the target is no longer followed; None: no limit."""
        return None if self._until is None else max(self._until - time.monotonic(), 0.0)

    @property
    def is_over(self) -> bool:
        """Whether the time is over, or `stop` was called."""
        return self._stopping.is_set() or self.left_s == 0

    def stop(self) -> None:
        """Follow no longer; from any thread."""
        self._stopping.set()
        self._at_stop()

    def at_stop(self, call: Callable[[], object]) -> None:
        """Call it at `stop`, on that thread; at once if `stop` was called."""
        self._at_stop = call
        if self._stopping.is_set():
            call()
