"""Section 5 as Flink's window operator does it: one record, one watermark at a time; keyed, so that vectors fit."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from wmtop.engine.watermarks.settings import Session, Sliding, Tumbling, WindowSpec
from wmtop.engine.watermarks.times import MIN

from .generators import clamp


@dataclass
class Window:
    key: Any
    start: int
    end: int
    total: int = 0
    """Sum of the records' values."""
    by_channel: Counter[str] = field(default_factory=Counter[str])

    @property
    def max_timestamp(self) -> int:
        return clamp(self.end - 1)

    @property
    def count(self) -> int:
        return sum(self.by_channel.values())


@dataclass(frozen=True)
class Placed:
    """What one record did: the windows that it fired (late firings), or why it is in none."""

    fired: tuple[Window, ...] = ()
    late: bool = False
    no_window: bool = False


def assign(spec: WindowSpec, ts: int) -> list[tuple[int, int]]:
    """The windows of a record on its own, latest start first; none in a gap."""
    if isinstance(spec, Session):
        return [(ts, clamp(ts + spec.gap_ms))]
    start = ts - (ts - spec.offset_ms + spec.slide_ms) % spec.slide_ms
    found: list[tuple[int, int]] = []
    while start > ts - spec.size_ms:
        found.append((start, clamp(start + spec.size_ms)))
        start -= spec.slide_ms
    return found


def last_window(spec: WindowSpec, ts: int) -> tuple[int, int]:
    """The last window of a record; a record in none has `[ts, ts + 1)`."""
    found = assign(spec, ts)
    return found[0] if found else (ts, clamp(ts + 1))


class WindowOperator:
    """All windows that are kept, and the watermark that they know."""

    def __init__(self, spec: WindowSpec, allowed_lateness: int, *, alone: bool = False) -> None:
        self.alone = alone
        """Spark: a record is late by its own session, whatever it could merge into."""
        self.spec: Tumbling | Sliding | Session = spec
        self.allowed = allowed_lateness
        self.watermark = MIN
        self.live: dict[tuple[Any, int, int], Window] = {}

    def _expired(self, time: int) -> bool:
        return clamp(time + self.allowed) <= self.watermark

    def _passed(self, window: Window) -> bool:
        return window.max_timestamp <= self.watermark

    def record(self, ts: int, channel: str = "all", key: Any = None, value: int = 0) -> Placed:
        if isinstance(self.spec, Session):
            return self._session_record(ts, channel, key, value)
        fired: list[Window] = []
        windows = [Window(key, start, end) for start, end in assign(self.spec, ts)]
        kept = [w for w in windows if not self._expired(w.max_timestamp)]
        if not kept:
            late = bool(windows) or self._expired(ts)
            return Placed(late=late, no_window=not late)
        for new in kept:
            window = self.live.setdefault((key, new.start, new.end), new)
            window.by_channel[channel] += 1
            window.total += value
            if self._passed(window):
                fired.append(window)
        return Placed(fired=tuple(fired))

    def _session_record(self, ts: int, channel: str, key: Any, value: int) -> Placed:
        ((start, end),) = assign(self.spec, ts)
        if self.alone and self._expired(clamp(end - 1)):
            return Placed(late=True)
        touching = [w for w in self.live.values() if w.key == key and w.start <= end and start <= w.end]
        merged = Window(key, min([start, *(w.start for w in touching)]), max([end, *(w.end for w in touching)]))
        if self._expired(merged.max_timestamp):
            return Placed(late=True)
        for window in touching:
            merged.by_channel.update(window.by_channel)
            merged.total += window.total
            del self.live[key, window.start, window.end]
        merged.by_channel[channel] += 1
        merged.total += value
        self.live[key, merged.start, merged.end] = merged
        return Placed(fired=(merged,) if self._passed(merged) else ())

    def advance(self, watermark: int) -> list[Window]:
        """The windows that this watermark fires, by end; then what is past its allowed lateness is forgotten."""
        if watermark <= self.watermark:
            return []
        due = [w for w in self.live.values() if self.watermark < w.max_timestamp <= watermark]
        self.watermark = watermark
        self.live = {k: w for k, w in self.live.items() if not self._expired(w.max_timestamp)}
        return sorted(due, key=lambda w: (w.end, w.key is not None and w.key, w.start))

    def open(self) -> list[Window]:
        """Kept windows that have not fired, by end."""
        return sorted((w for w in self.live.values() if not self._passed(w)), key=lambda w: (w.end, w.start))
