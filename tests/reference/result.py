"""What a run gave, and its lines compared."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Firing = dict[str, Any]
"""One line of `--firings`."""


@dataclass
class Counts:
    records: int = 0
    behind_watermark: int = 0
    late: int = 0
    malformed: int = 0
    future: int = 0
    no_window: int = 0


@dataclass(frozen=True)
class ChannelResult:
    watermark: int
    max_event: int | None
    state: str
    flaps: int


@dataclass
class Result:
    """What a run gave; times in ms, `MIN` for no watermark yet; the watermark and channels are from before the end."""

    totals: Counts
    by_channel: dict[str, Counts]
    channels: dict[str, ChannelResult]
    level: int
    levels: list[int]
    """After each op; `MAX` after the end."""
    holder: Any
    flaps: int
    """Of all channels, the removed ones too."""
    firings: list[list[Firing]]
    """For each op, in order."""
    fired: int
    late_firings: int
    open: list[tuple[int, int, int]]
    """Start, end, records of the windows that have not fired."""
    w0: list[tuple[int, int]]
    """Processing time and watermark at lateness 0, each time it grew."""
    own_late: Counter[int]
    """How often each lateness at which a record is, by its own unmerged window, just late (section 7)."""
    closings: list[tuple[int, int]]
    """Processing time of the firing and end, of each window that the watermark closed."""

    @property
    def lines(self) -> list[Firing]:
        return [line for op in self.firings for line in op]

    def delay(self) -> float | None:
        """Section 7: the mean of processing time of the firing - end over the windows that the watermark closed."""
        return sum(at - end for at, end in self.closings) / len(self.closings) if self.closings else None


def same_lines(left: Iterable[Firing], right: Iterable[Firing]) -> bool:
    """Whether both hold the same lines, in whatever order."""
    return _sorted(left) == _sorted(right)


def _sorted(lines: Iterable[Firing]) -> list[list[tuple[str, str]]]:
    return sorted(sorted((k, repr(v)) for k, v in line.items()) for line in lines)


def order_is_defined(op_lines: Sequence[Firing]) -> bool:
    """Within one op: what records caused comes before what the watermark fires, and that is by window end."""
    kinds = [line["kind"] == "fire" for line in op_lines]
    ends = [line["end_ms"] for line in op_lines if line["kind"] == "fire"]
    return kinds == sorted(kinds) and ends == sorted(ends)
