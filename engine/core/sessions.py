"""Session windows: a batch's records merge with each other and with the live sessions (Flink's merging windows)."""

from msgspec import Struct

from . import windows
from .settings import Session
from .times import saturate
from .windows import Added, TooManyWindowsError, Window, fire_all


class Cell(Struct, frozen=True, gc=False):
    """Records of one channel that lie within less than one gap of each other: from `min_ms` to `max_ms`."""

    channel: str
    min_ms: int
    max_ms: int
    records: int


class SessionWindows(Struct, tag="session"):
    """The live sessions, which neither overlap nor touch, by start."""

    spec: Session
    allowed_lateness_ms: int
    live: list[Window] = []

    def cleanup_ms(self, end: int) -> int:
        """The watermark (ms) from which on a session that ends at `end` is gone."""
        return saturate(end - 1 + self.allowed_lateness_ms)

    def add(self, cells: list[Cell], level: int) -> list[tuple[Added, dict[str, int]]]:
        """Merge a batch's cells. Returns for each of their sessions, latest first, the outcome and its new records.

        TooManyWindowsError beyond `MAX_COUNTERS`, before anything has changed.
        """
        outcomes, live = self._outcomes(cells, level)
        if sum(session.counters for session in live) > windows.MAX_COUNTERS:
            raise TooManyWindowsError(len(live))
        self.live = live
        return outcomes[::-1]

    def dropped(self, cells: list[Cell], level: int) -> list[tuple[int, int]]:
        """The sessions [start, end) of a batch's cells that `add` would drop as late; changes nothing."""
        outcomes, _ = self._outcomes(cells, level)
        return [added.late_from for added, _ in outcomes if added.late_from is not None]

    def _outcomes(self, cells: list[Cell], level: int) -> tuple[list[tuple[Added, dict[str, int]]], list[Window]]:
        """The result of `add`, by start, and the sessions that are live after it; changes nothing."""
        outcomes: list[tuple[Added, dict[str, int]]] = []
        live: list[Window] = []
        for pieces, sessions in self._touching(self._pieces(cells)):
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

    def _pieces(self, cells: list[Cell]) -> list[Window]:
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
