"""What Spark says of the query, and rates by the wall clock."""

from collections import deque
from typing import Any

from ..core.snapshot import SparkProgress

RATE_OVER_S = 10.0


def progress_of(report: dict[str, Any] | None, watermark_ms: int | None = None) -> SparkProgress:
    """The parts of a `StreamingQueryProgress` (as its JSON) that a screen shows."""
    if not report:
        return SparkProgress(watermark_ms=watermark_ms)
    phases: dict[str, int] = {name: int(ms) for name, ms in report.get("durationMs", {}).items()}
    return SparkProgress(
        input_rows_per_second=report.get("inputRowsPerSecond"),
        processed_rows_per_second=report.get("processedRowsPerSecond"),
        batch_ms=phases.pop("triggerExecution", None),
        phases_ms=phases,
        watermark_ms=watermark_ms,
    )


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
