"""The course of a query: a point for each batch, fewer the longer it runs, and its last batches each alone."""

from collections import deque

from .query_runs import ProgressPoint

MAX_POINTS = 600
MAX_RECENT = 120


class Course:
    """Points of a query's course; if there are too many, neighbours are joined."""

    def __init__(self) -> None:
        self._points: list[ProgressPoint] = []
        self.recent: deque[ProgressPoint] = deque(maxlen=MAX_RECENT)
        self._each = 1

    def add(self, point: ProgressPoint) -> None:
        self.recent.append(point)
        if self._points and self._points[-1].batches < self._each:
            self._points[-1] = _joined(self._points[-1], point)
        else:
            self._points.append(point)
        if len(self._points) > MAX_POINTS:
            self._each *= 2
            pairs = zip(self._points[:-1:2], self._points[1::2], strict=True)
            self._points = [*(_joined(*pair) for pair in pairs), *self._points[len(self._points) & ~1 :]]

    def points(self) -> tuple[ProgressPoint, ...]:
        return tuple(self._points)


def _joined(first: ProgressPoint, second: ProgressPoint) -> ProgressPoint:
    return ProgressPoint(
        timestamp_ms=second.timestamp_ms,
        batch=second.batch,
        watermark_ms=second.watermark_ms,
        rows=first.rows + second.rows,
        duration_ms=max(first.duration_ms, second.duration_ms),
        batches=first.batches + second.batches,
    )
