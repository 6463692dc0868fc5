"""Rates by the wall clock."""

from collections import deque

RATE_OVER_S = 10.0


class RateMeter:
    """Records per wall-clock second of each channel, over the last seconds."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, dict[str, int]]] = deque()

    def rates(self, at_s: float, records: dict[str, int]) -> dict[str, float]:
        """Take the counts at a monotonic time (s); the rates since the oldest mark kept."""
        self._marks.append((at_s, records))
        while len(self._marks) > 2 and at_s - self._marks[1][0] >= RATE_OVER_S:
            self._marks.popleft()
        since, before = self._marks[0]
        passed = at_s - since
        if passed <= 0:
            return {}
        return {name: (count - before.get(name, 0)) / passed for name, count in records.items()}
