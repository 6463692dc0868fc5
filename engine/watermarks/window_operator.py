"""The windows of a run: fills them with a batch's panes, fires them, and reports late records and what was fired."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from .observation import Group
from .settings import Session, Settings
from .times import saturate
from .windows import Added, Pane, SessionWindows, TimeWindows, Window, window_count

MAX_FIRED = 20


class FiredWindow(Struct, frozen=True):
    """A window that has fired, first at processing time `fired_ms`, with its records at its last firing."""

    start_ms: int
    end_ms: int
    records: int = 0
    fired_ms: int | None = None
    late_firings: int = 0
    late_drops: int = 0
    """Records dropped for it after it closed, while it was among the windows that fired last."""
    ended: bool = False
    """It fired at the end of the stream."""


class Firing(Struct, frozen=True):
    """A firing by the watermark or the end (`fire`), by late records (`late_fire`), or records dropped (`late`).

    `watermark_ms` is the watermark that caused it, None at the end of stream; `firings` is one per record for a
    `late_fire`, 0 for a `late`.
    """

    kind: Literal["fire", "late_fire", "late"]
    batch: int | None
    channel: str | None
    start_ms: int | None
    end_ms: int | None
    records: int
    firings: int
    watermark_ms: int | None
    ended: bool = False


class FiredWindows(Struct):
    """The windows that fired last, by first firing, oldest first; `last` is never changed in place, only replaced."""

    last: list[FiredWindow] = []

    def take(self, firings: list[Firing], now: int | None) -> None:
        """Add what windows did at processing time `now` (ms)."""
        if not firings:
            return
        windows = {(window.start_ms, window.end_ms): window for window in self.last}
        drops: dict[tuple[int, int], int] = {}
        for line in firings:
            if line.start_ms is None or line.end_ms is None:
                continue
            key = (line.start_ms, line.end_ms)
            if line.kind == "late":
                drops[key] = drops.get(key, 0) + line.records
                continue
            known = windows.get(key) or FiredWindow(*key, fired_ms=now, ended=line.ended)
            late = line.firings if line.kind == "late_fire" else 0
            windows[key] = replace(known, records=line.records, late_firings=known.late_firings + late)
        for key in drops.keys() & windows.keys():
            windows[key] = replace(windows[key], late_drops=windows[key].late_drops + drops[key])
        self.last = list(windows.values())[-MAX_FIRED:]


class Filled:
    """What a batch's records did: late drops, windows that fired, and the records that are in no window."""

    def __init__(self) -> None:
        self.firings: list[Firing] = []
        """The late drops, then the late firings, last start first."""
        self.no_window: dict[str, int] = {}
        self.drops: dict[tuple[str, tuple[int, int] | None], int] = {}
        """Late records by channel and window [start, end); None: they are in no window."""
        self.fired: dict[tuple[int, int], int] = {}
        """Late firings by window [start, end)."""
        self.first_fired = 0

    def drop(self, channel: str, window: tuple[int, int] | None, records: int) -> None:
        """Count late records of a channel."""
        if records:
            self.drops[channel, window] = self.drops.get((channel, window), 0) + records

    def fire(self, added: Added, records: int) -> None:
        """Count the windows that these records fired."""
        self.first_fired += added.first_fired
        for window in added.late_fired:
            key = (window.start, window.end)
            self.fired[key] = self.fired.get(key, 0) + records

    @property
    def late(self) -> dict[str, int]:
        """The late records by channel."""
        late: dict[str, int] = {}
        for (channel, _), records in self.drops.items():
            late[channel] = late.get(channel, 0) + records
        return late


class WindowOperator(Struct):
    """The windows and their counts since the start; watermarks in ms, `shown` is the one to report."""

    windows: TimeWindows | SessionWindows
    fired: int = 0
    """Windows that have fired at least once, in any way."""
    late_firings: int = 0
    """Late firings: one per record and window."""

    def fill(
        self, groups: list[Group], panes: Mapping[Pane, Mapping[str, int]], level: int, shown: int | None, batch: int
    ) -> Filled:
        """Count a batch's groups, also given by pane, at the watermark it started with; returns late drops, then late
        firings, last start first.
        """
        filled = Filled()
        if isinstance(self.windows, SessionWindows):
            self._fill_sessions(self.windows, groups, level, filled)
        else:
            self._fill_time_windows(self.windows, groups, panes, level, filled)
        self.fired += filled.first_fired
        self.late_firings += sum(filled.fired.values())
        filled.firings = self._lines(filled, shown, batch)
        return filled

    def advance(self, level: int, shown: int | None, batch: int | None) -> list[Firing]:
        """Fire the windows that the grown watermark reaches; returns the firings, by end."""
        fired = self.windows.advance(level)
        self.fired += len(fired)
        return [_fire(window, batch, shown) for window in fired]

    def finish(self, batch: int | None) -> list[Firing]:
        """End the stream: all open windows fire."""
        fired = self.windows.finish()
        self.fired += len(fired)
        return [_fire(window, batch, None, ended=True) for window in fired]

    def _fill_time_windows(
        self,
        windows: TimeWindows,
        groups: list[Group],
        panes: Mapping[Pane, Mapping[str, int]],
        level: int,
        filled: Filled,
    ) -> None:
        holds = {head: window_count(windows.spec, head) > 0 for head in (False, True)}
        if not all(holds[head] for _, head, _ in panes):
            for group in groups:
                if group.start_ms is not None and not holds[group.head]:
                    filled.drop(group.channel, None, group.late_in_gap)
                    on_time = group.records - group.late_in_gap
                    filled.no_window[group.channel] = filled.no_window.get(group.channel, 0) + on_time
        for (start, head, _), channels in panes.items():
            if not holds[head]:
                continue
            added = windows.add(start, head, channels, level)
            if added.late:
                for channel, records in channels.items():
                    filled.drop(channel, added.late_from, records)
            filled.fire(added, sum(channels.values()))

    def _fill_sessions(self, windows: SessionWindows, groups: list[Group], level: int, filled: Filled) -> None:
        for session in windows.pieces(_cells(groups, late_alone=True)):
            for channel, records in session.channels.items():
                filled.drop(channel, (session.start, session.end), records)
        for added, channels in windows.add(_cells(groups, late_alone=False), level):
            for channel, records in channels.items():
                filled.drop(channel, added.late_from, records if added.late else 0)
            filled.fire(added, sum(channels.values()))

    def _lines(self, filled: Filled, shown: int | None, batch: int) -> list[Firing]:
        late = [
            Firing("late", batch, channel, *(window or (None, None)), records, 0, shown)
            for (channel, window), records in filled.drops.items()
        ]
        late.sort(key=lambda line: (line.channel or "", line.end_ms is None, line.end_ms or 0))
        live = self.windows.live
        by_range = {(w.start, w.end): w for w in (live.values() if isinstance(live, dict) else live)}
        fired = sorted(filled.fired.items(), reverse=True)
        return late + [
            Firing("late_fire", batch, None, start, end, by_range[start, end].records, firings, shown)
            for (start, end), firings in fired
        ]


def _cells(groups: Sequence[Group], *, late_alone: bool) -> list[Group]:
    """The groups of records in sessions that are late by themselves, or the others."""
    return [group for group in groups if group.start_ms is not None and group.head == late_alone]


def _fire(window: Window, batch: int | None, shown: int | None, *, ended: bool = False) -> Firing:
    return Firing("fire", batch, None, window.start, window.end, window.records, 1, shown, ended)


def new_window_operator(settings: Settings) -> WindowOperator | None:
    """An operator without windows yet; None: the settings have no windows."""
    if settings.window is None:
        return None
    if isinstance(settings.spec, Session):
        return WindowOperator(SessionWindows(settings.spec, settings.allowed_lateness_ms))
    return WindowOperator(TimeWindows(settings.spec, settings.allowed_lateness_ms))


class LateRecords(Struct, frozen=True):
    """The dropped records of one batch: how many, the watermark (ms) that dropped them, and for sessions which.

    `sessions`: by the start of a cell of one gap, the end of the dropped session that its records form (all ms). All
    records of a batch in one cell are in the same session; under Spark's rule all that are late by themselves. None:
    the windows are not sessions.
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
    if late_alone := _cells(groups, late_alone=True):
        pieces = windows.pieces(late_alone)
        return _dropped_groups(late_alone, [(session.start, session.end) for session in pieces], level)
    if not any(windows.cleanup_ms(saturate(group.max_ms + windows.spec.gap_ms)) <= level for group in groups):
        return LateRecords(0, level, {})  # a session is late only if each of its records alone would be late
    return _dropped_groups(groups, sorted(windows.dropped(groups, level)), level)


def _dropped_groups(groups: list[Group], dropped: list[tuple[int, int]], level: int) -> LateRecords:
    """The records of the groups that lie in the dropped sessions, which are in order."""
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
