"""Tumbling and sliding windows over panes (Flink's `WindowOperator` with `EventTimeTrigger`), counts only."""

from heapq import heapify, heappop, heappush

from msgspec import Struct

from .panes import window_count
from .settings import Sliding, Tumbling
from .times import saturate


class Window(Struct):
    """`[start, end)` in ms with the records of all channels, and of each."""

    start: int
    end: int
    records: int = 0
    channels: dict[str, int] = {}
    fired: bool = False

    def add(self, channel: str, records: int) -> None:
        """Count records of a channel into it."""
        self.records += records
        self.channels[channel] = self.channels.get(channel, 0) + records


def fire_all(windows: list[Window]) -> list[Window]:
    """The same windows, fired."""
    for window in windows:
        window.fired = True
    return windows


class Added(Struct, frozen=True):
    """What became of some records of one channel: dropped late (`window` says from which), and the late firings."""

    late: int = 0
    late_from: tuple[int, int] | None = None
    """The last window [start, end) of the dropped ones."""
    late_fired: tuple[Window, ...] = ()
    """Windows that these records made fire, `records` times each, in Flink's order."""
    first_fired: int = 0
    """How many of those fired for the first time."""


class TimeWindows(Struct, tag="time", dict=True):
    """The live windows by start; a window lives until `watermark >= max_timestamp + allowed_lateness`."""

    spec: Tumbling | Sliding
    allowed_lateness_ms: int
    live: dict[int, Window] = {}

    def __post_init__(self) -> None:
        self._unfired = [window.start for window in self.live.values() if not window.fired]
        self._ends = list(self.live)
        heapify(self._unfired)
        heapify(self._ends)

    def cleanup_ms(self, end: int) -> int:
        """The watermark (ms) from which on a window that ends there is gone: `max_timestamp + allowed_lateness`."""
        return saturate(end - 1 + self.allowed_lateness_ms)

    def is_late(self, start: int, level: int) -> bool:
        """Whether records whose last window starts there are late at that level."""
        return self.cleanup_ms(start + self.spec.size_ms) <= level

    def add(self, start: int, head: bool, channel: str, records: int, level: int) -> Added:
        """Count a pane's records into its windows, or drop them as late. The pane must not lie in a gap."""
        size, slide = self.spec.size_ms, self.spec.slide_ms
        if self.is_late(start, level):
            return Added(late=records, late_from=(start, start + size))
        late_fired: list[Window] = []
        first_fired = 0
        for number in range(window_count(self.spec, head)):
            if self.is_late(start - number * slide, level):
                break
            window = self._window(start - number * slide)
            window.add(channel, records)
            if window.end - 1 <= level:
                first_fired += not window.fired
                window.fired = True
                late_fired.append(window)
        return Added(late_fired=tuple(late_fired), first_fired=first_fired)

    def advance(self, level: int) -> list[Window]:
        """The windows that the level fires, by end; those past their allowed lateness are dropped."""
        fired: list[Window] = []
        size = self.spec.size_ms
        while self._unfired and self._unfired[0] + size - 1 <= level:
            window = self.live[heappop(self._unfired)]
            if not window.fired:
                window.fired = True
                fired.append(window)
        while self._ends and self.cleanup_ms(self._ends[0] + size) <= level:
            del self.live[heappop(self._ends)]
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
