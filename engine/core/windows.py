"""Tumbling and sliding windows over panes (Flink's `WindowOperator` with `EventTimeTrigger`), counts only.

A pane is the largest piece of event time whose records belong to the same windows, so that counts per pane are enough.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from msgspec import Struct

from .settings import Sliding, Tumbling
from .times import saturate

MAX_COUNTERS = 500_000
"""Counters (one per window and channel) that a run keeps, at most; more would exceed memory, the saved state and the
disk.
"""


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
        """Fire the windows that the watermark reaches; returns them by end and drops those past their allowed
        lateness.
        """
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
