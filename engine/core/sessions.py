"""Session windows: a batch's records merge with one another and with the live ones (Flink's merging windows)."""

from msgspec import Struct

from .settings import Session
from .times import saturate
from .windows import Added, Window


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
        """The watermark (ms) from which on a session that ends there is gone."""
        return saturate(end - 1 + self.allowed_lateness_ms)

    def add(self, cells: list[Cell], level: int) -> list[tuple[Added, dict[str, int]]]:
        """Merge a batch's cells; for each merged piece, latest first, what became of it and its records by channel."""
        return [self._merge(piece, level) for piece in reversed(self._pieces(cells))]

    def advance(self, level: int) -> list[Window]:
        """The sessions that the level fires, by end; those past their allowed lateness are dropped."""
        fired = [window for window in self.live if not window.fired and window.end - 1 <= level]
        for window in fired:
            window.fired = True
        if self.live and self.cleanup_ms(self.live[0].end) <= level:
            self.live = [window for window in self.live if self.cleanup_ms(window.end) > level]
        return fired

    def finish(self) -> list[Window]:
        """End of stream: the sessions that have not fired, by end; all fire."""
        rest = self.unfired()
        for window in rest:
            window.fired = True
        return rest

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
            pieces[-1].add(cell.channel, cell.records)
        return pieces

    def _merge(self, piece: Window, level: int) -> tuple[Added, dict[str, int]]:
        records, channels = piece.records, dict(piece.channels)
        touched = [w for w in self.live if w.start <= piece.end and w.end >= piece.start]
        start = min([piece.start, *(w.start for w in touched)])
        end = max([piece.end, *(w.end for w in touched)])
        if self.cleanup_ms(end) <= level:
            return Added(late=records, late_from=(start, end)), channels
        merged = Window(start, end, piece.records, piece.channels)
        for window in touched:
            for channel, count in window.channels.items():
                merged.add(channel, count)
            merged.fired |= window.fired and (window.start, window.end) == (start, end)
        self.live = sorted([w for w in self.live if w not in touched] + [merged], key=lambda window: window.start)
        if end - 1 > level:
            return Added(), channels
        first = not merged.fired
        merged.fired = True
        return Added(late_fired=(merged,), first_fired=int(first)), channels
