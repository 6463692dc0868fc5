"""Which records of a batch are dropped as late, before the batch is applied (semantics 5 and 11.6)."""

from collections.abc import Sequence

from msgspec import Struct

from .observation import Group
from .sessions import Cell, SessionWindows
from .times import saturate
from .windows import TimeWindows, window_count


class LateRecords(Struct, frozen=True):
    """The dropped records of one batch: how many, the watermark (ms) that dropped them, and for sessions which.

    `sessions`: by the start of a cell of one gap, the end of the dropped session that its records form (all ms). All
    records of a batch in one cell are in the same session. None: the windows are not sessions.
    """

    records: int
    level: int
    sessions: dict[int, int] | None = None


def late_records(windows: TimeWindows | SessionWindows, groups: Sequence[Group], level: int) -> LateRecords:
    """What `windows` will drop of a batch's groups at the watermark `level` (ms); changes nothing."""
    groups = [group for group in groups if group.start_ms is not None]
    if isinstance(windows, SessionWindows):
        return _late_in_sessions(windows, groups, level)
    return LateRecords(sum(_late_in_group(windows, group, level) for group in groups), level)


def _late_in_group(windows: TimeWindows, group: Group, level: int) -> int:
    if not window_count(windows.spec, group.head):
        return group.late_in_gap
    assert group.start_ms is not None
    return group.records if windows.is_late(group.start_ms, level) else 0


def _late_in_sessions(windows: SessionWindows, groups: list[Group], level: int) -> LateRecords:
    cells = [Cell(group.channel, group.min_ms, group.max_ms, group.records) for group in groups]
    if not any(windows.cleanup_ms(saturate(cell.max_ms + windows.spec.gap_ms)) <= level for cell in cells):
        return LateRecords(0, level, {})  # a session is late only if each of its records alone would be late
    dropped = sorted(windows.dropped(cells, level))
    sessions: dict[int, int] = {}
    records, number = 0, 0
    for group in sorted(groups, key=lambda group: group.min_ms):
        while number < len(dropped) and dropped[number][1] <= group.min_ms:
            number += 1
        if number < len(dropped) and dropped[number][0] <= group.min_ms:
            assert group.start_ms is not None
            sessions[group.start_ms] = dropped[number][1]
            records += group.records
    return LateRecords(records, level, sessions)
