"""Interesting places of a recording, found in its points: new holders, stalls, bursts of late records. Pure."""

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Literal

from msgspec import Struct

from ...engine.core.alerts import is_burst
from ...engine.core.history import HistoryPoint
from ..present import formatting as f

Kind = Literal["late", "holder", "stall"]
Points = Sequence[HistoryPoint | None]

PARTS = 100
"""The number of parts that a recording is divided into."""
MIN_HELD = 3
"""A holder counts if it held back the watermark for this many snapshots, and for a part of the recording."""
STALL_MS, STALL_TIMES = 60_000, 2
"""A stall: the watermark was frozen for at least this long (ms of processing time), and this many times the median."""


class TimelineMark(Struct, frozen=True):
    """Something that began with snapshot `start` and lasted until `end` (equal for a moment)."""

    kind: Kind
    start: int
    end: int
    words: str


class TimelinePart(Struct, frozen=True):
    """Consecutive snapshots, with the number of records and of late ones among them."""

    start: int
    end: int
    records: int
    late: int

    def with_next(self, other: "TimelinePart") -> "TimelinePart":
        """Both parts as one."""
        return TimelinePart(self.start, other.end, self.records + other.records, self.late + other.late)


def marks_of(points: Points, play_ms: Sequence[int]) -> list[TimelineMark]:
    """All marks of a recording, by start; `play_ms` says when each snapshot is shown."""
    return sorted([*holders(points, play_ms), *stalls(points), *bursts(points, play_ms)], key=lambda mark: mark.start)


def holders(points: Points, play_ms: Sequence[int]) -> Iterator[TimelineMark]:
    """The places where another channel began to hold back the watermark, for a while."""
    least = play_ms[-1] / PARTS if play_ms else 0
    before: str | None = None
    for start, end in _runs(points, lambda a, b: a.holder == b.holder):
        point = points[start]
        until = play_ms[min(end + 1, len(play_ms) - 1)]
        brief = end + 1 - start < MIN_HELD or until - play_ms[start] < least
        if brief or point is None or point.holder is None or point.holder == before:
            continue
        if before is not None:
            yield TimelineMark("holder", start, start, f"{f.label(point.holder, 24)} takes over")
        before = point.holder


def stalls(points: Points) -> Iterator[TimelineMark]:
    """The stretches with records in which the watermark was frozen for long."""
    frozen: list[tuple[int, int, int]] = []
    for start, end in _runs(points, lambda a, b: a.watermark_ms == b.watermark_ms):
        first, last = points[start], _after(points, end)
        if first is not None and last is not None and last.records > first.records:
            frozen.append((start, end, last.now_ms - first.now_ms))
    usual = median(length for _, _, length in frozen) if len(frozen) > 1 else 0
    for start, end, length in frozen:
        if length >= max(STALL_MS, STALL_TIMES * usual):
            yield TimelineMark("stall", start, end, f"watermark frozen for {f.duration(length)}")


def bursts(points: Points, play_ms: Sequence[int]) -> Iterator[TimelineMark]:
    """The stretches in which far more records than usual were late; neighbouring parts are one burst.

    A part is judged as an alert judges a minute (semantics 11.7), but against the whole recording: it has hindsight.
    """
    parts = list(_parts(points, play_ms))
    records = sum(part.records for part in parts)
    usual = sum(part.late for part in parts) / records if records else 0.0
    found: list[TimelinePart] = []
    for part in parts:
        if is_burst(part.late, part.records, usual):
            joined = found and found[-1].end + 1 == part.start
            found.append(found.pop().with_next(part) if joined else part)
    for part in found:
        yield TimelineMark("late", part.start, part.end, f"{f.share(part.late / part.records)} of the records late")


def _parts(points: Points, play_ms: Sequence[int]) -> Iterator[TimelinePart]:
    """The parts with records."""
    length = max(play_ms[-1] / PARTS, 1) if play_ms else 1
    base: HistoryPoint | None = None
    start = 0
    for number, point in enumerate(points):
        if point is None:
            continue
        if base is None or point.records < base.records or point.late < base.late:  # another engine starts here
            base, start = point, number
            continue
        last = number + 1 == len(points)
        if last or play_ms[number + 1] // length != play_ms[start] // length:
            if point.records > base.records:
                yield TimelinePart(start, number, point.records - base.records, point.late - base.late)
            base, start = point, number + 1


def _runs(points: Points, same: Callable[[HistoryPoint, HistoryPoint], bool]) -> Iterator[tuple[int, int]]:
    """First and last number of each stretch of equal points."""
    start = 0
    for number in range(1, len(points) + 1):
        before, point = points[number - 1], points[number] if number < len(points) else None
        if before is None:
            start = number
        elif point is None or not same(before, point) or _restarted(before, point):
            yield start, number - 1
            start = number


def _after(points: Points, number: int) -> HistoryPoint | None:
    """The point after a run of points, if the same engine continues there; else its last."""
    here, after = points[number], points[number + 1] if number + 1 < len(points) else None
    return here if here is None or after is None or _restarted(here, after) else after


def _restarted(before: HistoryPoint, point: HistoryPoint) -> bool:
    return point.now_ms < before.now_ms or point.records < before.records
