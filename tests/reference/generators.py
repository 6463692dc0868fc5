"""Sections 1 and 2: what one channel sends, and when it is idle."""

from collections import deque

from wmtop.engine.watermarks.times import MAX, MIN


def clamp(value: int) -> int:
    return max(MIN, min(MAX, value))


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
