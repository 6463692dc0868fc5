"""The counts of a run: by channel and in all."""

from collections.abc import Iterable

from msgspec import Struct

from .observation import Group
from .snapshot import Totals


class ChannelCounts(Struct):
    """Records of one channel since the start, counted as `Totals` counts them."""

    records: int = 0
    behind_watermark: int = 0
    late: int = 0
    malformed: int = 0
    future: int = 0
    no_window: int = 0

    def add(self, group: Group) -> None:
        """Count a group; `late` and `no_window` are the windows' to say."""
        if group.start_ms is None:
            self.malformed += group.records
            return
        self.records += group.records
        self.behind_watermark += group.behind
        self.future += group.future


def totals_of(rows: Iterable[ChannelCounts]) -> Totals:
    """The sums over all channels."""
    sums = ChannelCounts()
    for row in rows:
        for field in row.__struct_fields__:
            setattr(sums, field, getattr(sums, field) + getattr(row, field))
    return Totals(sums.records, sums.behind_watermark, sums.late, sums.malformed, sums.future, sums.no_window)
