"""Tumbling, sliding and session windows over panes, counts only (Flink's `WindowOperator`, `MergingWindowSet`)."""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from msgspec import Struct

from .observation import Group
from .settings import Session, Sliding, Tumbling, WindowSpec
from .times import saturate

Pane = tuple[int, bool, int | None]
"""(start in ms, head, late bucket), as in `Group`."""


def panes_of(groups: list[Group]) -> dict[Pane, dict[str, int]]:
    """The batch's well-formed records by pane and channel, both in the order of the groups."""
    panes: dict[Pane, dict[str, int]] = {}
    counts: dict[str, int] = {}
    last_start: int | None = None
    last_head: bool | None = None
    last_bucket: int | None = None
    for group in groups:
        start = group.start_ms
        if start is None:
            continue
        head, bucket = group.head, group.late_bucket
        if start != last_start or head != last_head or bucket != last_bucket:  # mostly, one pane follows itself
            last_start, last_head, last_bucket = start, head, bucket
            counts = panes.setdefault((start, head, bucket), {})
        channel = group.channel
        counts[channel] = counts.get(channel, 0) + group.records
    return panes


MAX_COUNTERS = 500_000
"""Counters (one per window and channel) of a run, at most; more would exceed memory, the saved state and the disk."""


class TooManyWindowsError(Exception):
    """The run's windows need more than `MAX_COUNTERS` counters."""

    def __init__(self, windows: int) -> None:
        super().__init__(
            f"{windows:,} windows that are not closed yet have more than {MAX_COUNTERS:,} counters (one for each "
            "window and channel): use a longer --window or --slide, fewer channels (--max-channels), a lower "
            "--lateness or --allowed-lateness, or a shorter --idle-after if a quiet channel holds back the watermark"
        )


def window_count(window: Tumbling | Sliding, head: bool) -> int:
    """How many windows hold a pane (`head` as in `Group`): 0 in a gap between windows."""
    return window.size_ms // window.slide_ms + head


def last_end(window: WindowSpec, start: int, head: bool) -> int | None:
    """The end (ms) of a pane's last window; None if the pane does not determine it (sessions, gaps)."""
    if isinstance(window, Session) or not window_count(window, head):
        return None
    return start + window.size_ms


class Window(Struct):
    """`[start, end)` in ms with the records of all channels, and of each."""

    start: int
    end: int
    records: int = 0
    channels: dict[str, int] = {}
    fired: bool = False

    def add(self, channels: Mapping[str, int]) -> None:
        """Add records, by channel."""
        known = self.channels
        if known:
            for channel, records in channels.items():
                known[channel] = known.get(channel, 0) + records
        else:
            known.update(channels)
        self.records += sum(channels.values())

    @property
    def counters(self) -> int:
        """The number of channels with records in the window."""
        return len(self.channels)


def fire_all(windows: list[Window]) -> list[Window]:
    """Mark all windows as fired; returns them."""
    for window in windows:
        window.fired = True
    return windows


class Added(Struct, frozen=True):
    """The outcome for some records: dropped late (`late_from` is the window), or late firings."""

    late: int = 0
    late_from: tuple[int, int] | None = None
    """The last window [start, end) of the dropped records."""
    late_fired: tuple[Window, ...] = ()
    """Windows that these records fired, `records` times each, in Flink's order."""
    first_fired: int = 0
    """How many of those windows fired for the first time."""


class TimeWindows(Struct, tag="time", dict=True):
    """The live windows by start; a window lives until `watermark >= max_timestamp + allowed_lateness`."""

    spec: Tumbling | Sliding
    allowed_lateness_ms: int
    live: dict[int, Window] = {}

    def __post_init__(self) -> None:
        self._counters = sum(window.counters for window in self.live.values())
        self._unfired = [window.start for window in self.live.values() if not window.fired]
        self._ends = list(self.live)
        heapify(self._unfired)
        heapify(self._ends)

    def cleanup_ms(self, end: int) -> int:
        """The watermark (ms) from which on a window that ends at `end` is gone: `max_timestamp + allowed_lateness`."""
        return saturate(end - 1 + self.allowed_lateness_ms)

    def is_late(self, start: int, level: int) -> bool:
        """Whether records whose last window starts at `start` are late at the watermark `level`."""
        return self.cleanup_ms(start + self.spec.size_ms) <= level

    def add(self, start: int, head: bool, channels: Mapping[str, int], level: int) -> Added:
        """Count a pane's records, by channel, into its windows, or drop them as late. The pane must not lie in a gap.

        TooManyWindowsError beyond `MAX_COUNTERS`, after some records were counted.
        """
        size, slide = self.spec.size_ms, self.spec.slide_ms
        if self.is_late(start, level):
            return Added(late=sum(channels.values()), late_from=(start, start + size))
        late_fired: list[Window] = []
        first_fired = 0
        for number in range(window_count(self.spec, head)):
            if self.is_late(start - number * slide, level):
                break
            window = self._window(start - number * slide)
            before = window.counters
            window.add(channels)
            self._counters += window.counters - before
            if self._counters > MAX_COUNTERS:
                raise TooManyWindowsError(len(self.live))
            if window.end - 1 <= level:
                first_fired += not window.fired
                window.fired = True
                late_fired.append(window)
        return Added(late_fired=tuple(late_fired), first_fired=first_fired)

    def advance(self, level: int) -> list[Window]:
        """Fire the windows that the watermark reaches; returns them by end, drops those past their allowed lateness."""
        fired: list[Window] = []
        size = self.spec.size_ms
        while self._unfired and self._unfired[0] + size - 1 <= level:
            window = self.live[heappop(self._unfired)]
            if not window.fired:
                window.fired = True
                fired.append(window)
        while self._ends and self.cleanup_ms(self._ends[0] + size) <= level:
            self._counters -= self.live.pop(heappop(self._ends)).counters
        return fired

    def finish(self) -> list[Window]:
        """End of stream: the windows that have not fired, by end; all fire."""
        return fire_all(self.unfired())

    def unfired(self) -> list[Window]:
        """The open windows: those that have not fired, by end."""
        return sorted((w for w in self.live.values() if not w.fired), key=lambda window: window.end)

    def _window(self, start: int) -> Window:
        window = self.live.get(start)
        if window is None:
            window = self.live[start] = Window(start, start + self.spec.size_ms)
            heappush(self._unfired, start)
            heappush(self._ends, start)
        return window


class SessionWindows(Struct, tag="session"):
    """The live sessions, which neither overlap nor touch, by start."""

    spec: Session
    allowed_lateness_ms: int
    live: list[Window] = []

    def cleanup_ms(self, end: int) -> int:
        """The watermark (ms) from which on a session that ends at `end` is gone."""
        return saturate(end - 1 + self.allowed_lateness_ms)

    def add(self, cells: list[Group], level: int) -> list[tuple[Added, dict[str, int]]]:
        """Merge a batch's cells. Returns for each of their sessions, latest first, the outcome and its new records.

        A cell is a group whose records lie within less than one gap of each other, from `min_ms` to `max_ms`.
        TooManyWindowsError beyond `MAX_COUNTERS`, before anything has changed.
        """
        outcomes, live = self._outcomes(cells, level)
        if sum(session.counters for session in live) > MAX_COUNTERS:
            raise TooManyWindowsError(len(live))
        self.live = live
        return outcomes[::-1]

    def dropped(self, cells: list[Group], level: int) -> list[tuple[int, int]]:
        """The sessions [start, end) of a batch's cells that `add` would drop as late; changes nothing."""
        outcomes, _ = self._outcomes(cells, level)
        return [added.late_from for added, _ in outcomes if added.late_from is not None]

    def _outcomes(self, cells: list[Group], level: int) -> tuple[list[tuple[Added, dict[str, int]]], list[Window]]:
        """The result of `add`, by start, and the sessions that are live after it; changes nothing."""
        outcomes: list[tuple[Added, dict[str, int]]] = []
        live: list[Window] = []
        for pieces, sessions in self._touching(self.pieces(cells)):
            if not pieces:
                live += sessions
                continue
            added, merged = self._merge(pieces, sessions, level)
            live += merged
            outcomes.append((added, _records_of(pieces)))
        return outcomes, live

    def advance(self, level: int) -> list[Window]:
        """The sessions that the watermark fires, by end; those past their allowed lateness are dropped."""
        fired = fire_all([window for window in self.live if not window.fired and window.end - 1 <= level])
        if self.live and self.cleanup_ms(self.live[0].end) <= level:
            self.live = [window for window in self.live if self.cleanup_ms(window.end) > level]
        return fired

    def finish(self) -> list[Window]:
        """End of stream: the sessions that have not fired, by end; all fire."""
        return fire_all(self.unfired())

    def unfired(self) -> list[Window]:
        """The open sessions: those that have not fired, by end."""
        return [window for window in self.live if not window.fired]

    def pieces(self, cells: list[Group]) -> list[Window]:
        """The batch's own sessions, by start; windows that touch merge."""
        pieces: list[Window] = []
        for cell in sorted(cells, key=lambda cell: cell.min_ms):
            end = cell.max_ms + self.spec.gap_ms
            if not pieces or cell.min_ms > pieces[-1].end:
                pieces.append(Window(cell.min_ms, end))
            pieces[-1].end = max(pieces[-1].end, end)
            pieces[-1].add({cell.channel: cell.records})
        return pieces

    def _touching(self, pieces: list[Window]) -> list[tuple[list[Window], list[Window]]]:
        """The batch's pieces and the live sessions in groups that touch one another, by start."""
        groups: list[tuple[list[Window], list[Window]]] = []
        reached: int | None = None
        both = [*((piece, True) for piece in pieces), *((session, False) for session in self.live)]
        for window, is_piece in sorted(both, key=lambda pair: pair[0].start):
            if reached is None or window.start > reached:
                groups.append(([], []))
                reached = window.end
            groups[-1][0 if is_piece else 1].append(window)
            reached = max(reached, window.end)
        return groups

    def _merge(self, pieces: list[Window], sessions: list[Window], level: int) -> tuple[Added, list[Window]]:
        """Merge touching sessions into one, dropped if it is late even so; returns its outcome and whether it lives."""
        merged = Window(min(w.start for w in pieces + sessions), max(w.end for w in pieces + sessions))
        records = sum(piece.records for piece in pieces)
        if self.cleanup_ms(merged.end) <= level:
            return Added(late=records, late_from=(merged.start, merged.end)), []
        for window in pieces + sessions:
            merged.add(window.channels)
        merged.fired = any(w.fired and (w.start, w.end) == (merged.start, merged.end) for w in sessions)
        if merged.end - 1 > level:
            return Added(), [merged]
        first = not merged.fired
        merged.fired = True
        return Added(late_fired=(merged,), first_fired=int(first)), [merged]


def _records_of(pieces: list[Window]) -> dict[str, int]:
    records: dict[str, int] = {}
    for piece in pieces:
        for channel, count in piece.channels.items():
            records[channel] = records.get(channel, 0) + count
    return records
