"""Counts of records per channel and in total, and their rates."""

from collections import deque
from collections.abc import Iterable, Mapping

from msgspec import Struct

from .observation import Group

RATE_OVER_S = 10.0
"""Rates are means over this time (s)."""


class Totals(Struct, frozen=True):
    """Counts of records since the start; most are not known for an attached query."""

    records: int | None = 0
    behind_watermark: int | None = 0
    late: int | None = 0
    malformed: int | None = 0
    future: int | None = 0
    no_window: int | None = 0


class ChannelCounts(Struct, gc=False, omit_defaults=True):
    """Counts of one channel since the start, with the fields of `Totals`."""

    records: int = 0
    behind_watermark: int = 0
    late: int = 0
    malformed: int = 0
    future: int = 0
    no_window: int = 0


def count_groups(counts: dict[str, ChannelCounts], groups: Iterable[Group]) -> int:
    """Count the groups of a batch by channel; returns the number of rows, malformed ones included.

    The windows count `late` and `no_window`.
    """
    rows = 0
    for group in groups:
        records = group.records
        rows += records
        found = counts.get(group.channel) or _counts_of(counts, group.channel)
        if group.start_ms is None:
            found.malformed += records
            continue
        found.records += records
        if group.behind:
            found.behind_watermark += group.behind
        if group.future:
            found.future += group.future
    return rows


def count_dropped(counts: dict[str, ChannelCounts], late: Mapping[str, int], no_window: Mapping[str, int]) -> None:
    """Count, by channel, late records and records that are in no window."""
    for channel, records in late.items():
        _counts_of(counts, channel).late += records
    for channel, records in no_window.items():
        _counts_of(counts, channel).no_window += records


def _counts_of(counts: dict[str, ChannelCounts], channel: str) -> ChannelCounts:
    found = counts.get(channel)
    if found is None:
        found = counts[channel] = ChannelCounts()
    return found


def totals_of(rows: Iterable[ChannelCounts]) -> Totals:
    """The sums over all channels."""
    records = behind = late = malformed = future = no_window = 0
    for row in rows:
        records += row.records
        behind += row.behind_watermark
        late += row.late
        malformed += row.malformed
        future += row.future
        no_window += row.no_window
    return Totals(records, behind, late, malformed, future, no_window)


class RateMeter:
    """Records per wall-clock second of each channel, over the last `RATE_OVER_S` seconds."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, dict[str, int]]] = deque()

    def rates(self, at_s: float, records: dict[str, int]) -> dict[str, float]:
        """The rates since the oldest mark kept; adds a mark of the counts at a monotonic time (s)."""
        self._marks.append((at_s, records))
        while len(self._marks) > 2 and at_s - self._marks[1][0] >= RATE_OVER_S:
            self._marks.popleft()
        since, before = self._marks[0]
        passed = at_s - since
        if passed <= 0:
            return {}
        return {name: (count - before.get(name, 0)) / passed for name, count in records.items()}
